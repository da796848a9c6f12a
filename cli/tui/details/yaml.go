package details

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/offline"
)

// document is a text with where it is from.
type document struct {
	// from is "services/web.yaml:1", or who said it.
	from  string
	notes []string
	text  string
	// line is where the subject begins, from 1.
	line int
}

func newYAML(w *pane.World, about pane.Subject) (pane.Pane, error) {
	p := newPage[*document](w, about, "yaml")
	p.wraps = true
	a := askerOf(w)
	if about.Kind == pane.KindObject {
		p.from = "cluster " + about.Cluster
	}
	p.question = func(ctx context.Context) (*document, error) { return a.document(ctx, about) }
	p.write = func(d *document) []line {
		lines := []line{say(paint.Note, "# "+d.from)}
		for _, note := range d.notes {
			lines = append(lines, say(paint.Note, "# "+note))
		}
		return append(lines, colored(d.text)...)
	}
	p.arrived = func(d *document) {
		if d.line > 1 {
			p.jump(d.line - 1 + 1 + len(d.notes))
		}
	}
	return &searched[*document]{p}, nil
}

// document is the text of a subject: as people wrote it where they did, as its cluster has it where it is live, and else as the
// hub says it.
func (a asker) document(ctx context.Context, about pane.Subject) (*document, error) {
	if about.Kind == pane.KindObject {
		return a.manifest(ctx, about)
	}
	if a.repo != nil {
		switch found, err := a.file(about); {
		case err == nil && found != nil:
			return found, nil
		case err != nil && a.hub == nil:
			return nil, err
		}
	}
	if a.hub == nil {
		return nil, errNoHub()
	}
	d := &described{}
	if err := a.ask(ctx, about, d); err != nil {
		return nil, err
	}
	for _, said := range []any{d.deployment, d.cluster, d.service, d.source, d.upgrade, d.revision, d.status} {
		if text, err := json.Marshal(said); err == nil && string(text) != "null" {
			return document{from: "as the hub " + a.hub.Address() + " says it"}.of(said)
		}
	}
	return nil, fmt.Errorf("there is no YAML of a %s", about.Kind)
}

func (d document) of(value any) (*document, error) {
	text, err := yaml.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	d.text = string(text)
	return &d, nil
}

func (a asker) manifest(ctx context.Context, about pane.Subject) (*document, error) {
	if about.Object == nil {
		return nil, errors.New("which object is meant is not known")
	}
	live, err := a.live(ctx, about)
	if err != nil {
		return nil, err
	}
	return document{from: "live on cluster " + about.Cluster + ", " + a.now().Format(time.TimeOnly), notes: hide(live)}.of(live)
}

// file is what the clone has of a subject; nil where it has nothing.
func (a asker) file(about pane.Subject) (*document, error) {
	state, err := offline.Open(a.repo, "")
	if err != nil {
		return nil, err
	}
	position, _ := place(state, about)
	if position.File == "" {
		return nil, nil
	}
	content, err := fs.ReadFile(state.Taken().FS(), position.File)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", position.File, err)
	}
	d := &document{from: position.String(), text: string(content), line: position.Line}
	secret, err := mustSeal(a.repo, position.File, content)
	if err != nil {
		return nil, err
	}
	if secret {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // it never fails
		d.text = string(values.Mask(position.File, content, key))
		d.notes = append(d.notes, "it is sealed in git: its values are masked")
	}
	return d, nil
}

// mustSeal says whether a file's values are nobody's to see.
func mustSeal(repo *workspace.Repo, name string, content []byte) (bool, error) {
	if seal.IsSealed(content) {
		return true, nil
	}
	vault, err := repo.Vault(nil)
	if errors.Is(err, policy.ErrNone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return vault.Must(name)
}

// colored is YAML in colours: keys, values and comments. It reads a line at a time and never refuses one.
func colored(text string) []line {
	var lines []line
	block := -1 // how far in the key of a block of text stands, below which all is its value
	for raw := range strings.Lines(strings.TrimRight(text, "\n")) {
		raw = strings.TrimRight(raw, "\r\n")
		body := strings.TrimLeft(raw, " ")
		indent := len(raw) - len(body)
		if block >= 0 && (body == "" || indent > block) {
			lines = append(lines, say(paint.Value, raw))
			continue
		}
		block = -1
		l := coloredLine(raw)
		lines = append(lines, l)
		if value := strings.TrimSpace(l[len(l)-1].text); l[len(l)-1].style == paint.Value && isBlock(value) {
			block = indent
		}
	}
	return lines
}

// isBlock says that a value is the head of a text on several lines: |, >- and the like.
func isBlock(value string) bool {
	return value != "" && (value[0] == '|' || value[0] == '>') && strings.Trim(value[1:], "+-0123456789") == ""
}

// coloredLine cuts one line into "- ", a key, its value and a comment.
func coloredLine(raw string) line {
	body := strings.TrimLeft(raw, " ")
	if strings.HasPrefix(body, "#") {
		return say(paint.Note, raw)
	}
	for strings.HasPrefix(body, "- ") {
		body = strings.TrimLeft(body[2:], " ")
	}
	lead := raw[:len(raw)-len(body)]
	key, value := "", body
	if at := keyEnd(body); at > 0 {
		key, value = body[:at], body[at:]
	}
	value, comment := uncomment(value)
	l := line{}
	for _, s := range []span{{paint.Plain, lead}, {paint.Name, key}, {paint.Value, value}, {paint.Note, comment}} {
		if s.text != "" {
			l = append(l, s)
		}
	}
	if len(l) == 0 {
		return say(paint.Plain, "")
	}
	return l
}

// keyEnd is where a key ends, its colon with it; 0: there is none.
func keyEnd(text string) int {
	if text == "" || strings.ContainsRune("[{|>&*!%@`", rune(text[0])) {
		return 0
	}
	if quote := text[0]; quote == '"' || quote == '\'' {
		end := strings.IndexByte(text[1:], quote)
		if end >= 0 && strings.HasPrefix(text[end+2:], ":") {
			return end + 3
		}
		return 0
	}
	if strings.HasSuffix(text, ":") && !strings.Contains(text, ": ") {
		return len(text)
	}
	if at := strings.Index(text, ": "); at > 0 && !strings.Contains(text[:at], " #") {
		return at + 1
	}
	return 0
}

// uncomment cuts a comment off a value, which may be in quotes.
func uncomment(value string) (rest, comment string) {
	trimmed := strings.TrimLeft(value, " ")
	from := 0
	if trimmed != "" && (trimmed[0] == '"' || trimmed[0] == '\'') {
		if end := strings.LastIndexByte(value, trimmed[0]); end > len(value)-len(trimmed) {
			from = end
		}
	}
	if at := strings.Index(value[from:], " #"); at >= 0 {
		return value[:from+at], value[from+at:]
	}
	return value, ""
}
