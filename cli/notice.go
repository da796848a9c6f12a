package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/adrg/xdg"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/update"
	"github.com/pluralsh/plural/internal/buildinfo"
)

// checker knows of newer releases of this program.
func checker(f *cmdutil.Factory) *update.Checker {
	return &update.Checker{
		Feed: buildinfo.Releases(), Version: f.Version, Dir: filepath.Join(xdg.StateHome, "plural"), Now: f.Now,
	}
}

// notice begins to look for a newer release beside a command, if the person may be told of one. What it returns tells of it, on
// stderr, once the command is done.
func notice(ctx context.Context, f *cmdutil.Factory, c *update.Checker) (tell func()) {
	if c.Feed == "" || !wantsNotice(f) {
		return func() {}
	}
	known := c.Watch(ctx)
	return func() {
		if r := known(); c.Newer(r) && !brewIsBehind(r, program(), f.Now()) {
			f.Say("\n%s", newerText(f, r))
		}
	}
}

// wantsNotice says whether somebody looks, who did not ask to be left alone.
func wantsNotice(f *cmdutil.Factory) bool {
	for _, name := range []string{"CI", "BUILD_NUMBER", "RUN_ID", "CODESPACES"} {
		if f.Getenv(name) != "" {
			return false
		}
	}
	return f.IO.OutTTY && f.IO.ErrTTY && !f.Quiet && f.Setting(settings.NoUpdateNotifier) == ""
}

func newerText(f *cmdutil.Factory, r *update.Release) string {
	text := fmt.Sprintf("plural %s is there; this is %s", ui.Clean(r.Version), f.Version)
	if isBrewed(program()) {
		text += "\n  brew upgrade --cask plural"
	}
	if r.URL != "" {
		text += "\n  " + ui.Clean(r.URL)
	}
	return text
}

// program is where this program lies, or nothing.
func program() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return self
}

func isBrewed(path string) bool {
	return strings.Contains(path, "/Caskroom/") || strings.Contains(path, "/Cellar/")
}

// brewIsBehind says that the program came from Homebrew, which has a release some hours later.
func brewIsBehind(r *update.Release, path string, now time.Time) bool {
	return isBrewed(path) && now.Sub(r.Published) < 24*time.Hour
}
