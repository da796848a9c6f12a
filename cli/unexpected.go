package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/adrg/xdg"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/buildinfo"
)

// Bounds of what is kept of errors that nothing explains, and of what of them goes into an address, in bytes.
const (
	maxErrorLog = 1 << 20
	maxTitle    = 120
)

// unexpected gives an error that nothing explains what people need to tell of it: where it is kept whole, and an address that
// begins a report. An error that is explained stays as it is.
func unexpected(f *cmdutil.Factory, err error) error {
	var told *ui.Err
	if err == nil || errors.As(err, &told) {
		return err
	}
	told = &ui.Err{Msg: err.Error(), Fix: "if this looks like a mistake of the program, tell of it: " + report(f.Version, err), Doc: ui.DocUnexpected, Err: err}
	if name := keep(f, err); name != "" {
		told.See = name
	}
	return told
}

// keep adds the error and those behind it to a file, and returns the file's name; nothing where there can be none.
func keep(f *cmdutil.Factory, err error) string {
	dir := filepath.Join(cmp.Or(f.Getenv("XDG_STATE_HOME"), xdg.StateHome), "plural")
	name := filepath.Join(dir, "errors.log")
	if os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	if info, err := os.Stat(name); err == nil && info.Size() > maxErrorLog {
		_ = os.Rename(name, name+".old")
	}
	file, openErr := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if openErr != nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s plural %s\n", f.Now().UTC().Format("2006-01-02T15:04:05Z"), f.Version)
	for depth, each := 0, err; each != nil; depth, each = depth+1, errors.Unwrap(each) {
		fmt.Fprintf(&b, "%s%T: %s\n", strings.Repeat("  ", depth), each, ui.Clean(each.Error()))
	}
	_, writeErr := file.WriteString(b.String())
	if errors.Join(writeErr, file.Close()) != nil {
		return ""
	}
	return name
}

// particular is what belongs to a person and not to the mistake: quoted names, addresses, paths, long words without a meaning.
var particular = regexp.MustCompile(`"[^"]*"|[a-z+]+://\S+|\S*[/\\@]\S*|[0-9A-Za-z_-]{24,}|\d{1,3}(\.\d{1,3}){3}\S*`)

// report is the address that begins a report of the error. It holds the version and the message, without names of the person's.
func report(version string, err error) string {
	title := particular.ReplaceAllString(strings.Join(strings.Fields(ui.Clean(err.Error())), " "), "…")
	if runes := []rune(title); len(runes) > maxTitle {
		title = string(runes[:maxTitle])
	}
	query := url.Values{"title": {title}, "body": {"plural " + version}}
	return buildinfo.Project + "/issues/new?" + query.Encode()
}
