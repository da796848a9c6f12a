package progress

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"charm.land/bubbles/v2/spinner"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/cli/ui"
)

var update = flag.Bool("update", false, "write the golden files anew")

// clock ticks half a second each time it is read.
func clock() func() time.Time {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time {
		at = at.Add(500 * time.Millisecond)
		return at
	}
}

// story is what up tells: steps that overlap, repeat themselves, fail.
func story(r Reporter) {
	r.Start("preflight")
	r.Done("preflight", "git version 2.39.5, localkube found")
	r.Start("control planes")
	r.Start("repo")
	r.Detail("control planes", "0 of 3 ready")
	r.Detail("repo", "pushing")
	r.Detail("control planes", "0 of 3 ready")
	r.Detail("repo", "pushing")
	r.Detail("control planes", "1 of 3 ready")
	r.Done("repo", "/home/ada/a/very/long/path/that/does/not/fit/into/the/eighty/columns/of/a/terminal/fleet")
	r.Start("hub")
	r.Fail("hub", errors.New("listen:\n\x1b[31maddress in use\u202e"))
	r.Close()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestLines(t *testing.T) {
	for file, format := range map[string]string{"plain.txt": "text", "lines.json": "json"} {
		var out bytes.Buffer
		story(New(&ui.Streams{ErrOut: &out, Width: 80}, format, clock()))
		golden(t, file, out.String())
	}
}

func TestAStepsNameSendsNothingToATerminal(t *testing.T) {
	const name = "x\x1b]52;c;aGk=\x07\u009b2J\n::warning::forged/step"
	var out bytes.Buffer
	New(&ui.Streams{ErrOut: &out}, "text", clock()).Start(name)
	d := &drawn{model{streams: &ui.Streams{Width: 200}, now: clock(), spinner: spinner.New()}}
	d.Start(name)
	var programs bytes.Buffer
	New(&ui.Streams{ErrOut: &programs}, "json", clock()).Start(name)
	for _, shown := range []string{out.String(), d.model.View().Content, programs.String()} {
		if strings.ContainsAny(shown, "\x1b\x07\u009b") || strings.Count(shown, "\n") != 1 {
			t.Errorf("%q", shown)
		}
	}
}

// drawn feeds the screen's model, without a terminal.
type drawn struct{ model tea.Model }

func (d *drawn) send(e event)             { d.model, _ = d.model.Update(e) }
func (d *drawn) Start(step string)        { d.send(event{Step: step, State: "started"}) }
func (d *drawn) Detail(step, text string) { d.send(event{Step: step, State: "waiting", Text: text}) }
func (d *drawn) Done(step, text string)   { d.send(event{Step: step, State: "done", Text: text}) }
func (d *drawn) Fail(step string, err error) {
	d.send(event{Step: step, State: "failed", Text: err.Error()})
}
func (d *drawn) Close() {}

func TestScreen(t *testing.T) {
	d := &drawn{model{streams: &ui.Streams{Width: 100}, now: clock(), spinner: spinner.New(spinner.WithSpinner(spinner.Line))}}
	d.model, _ = d.model.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	story(d)
	view := d.model.View().Content
	golden(t, "screen.txt", view)
	for _, line := range bytes.Split([]byte(view), []byte("\n")) {
		if width := ansi.StringWidth(string(line)); width > 80 {
			t.Errorf("%d columns: %s", width, line)
		}
	}
}

func TestScreenOnATerminalThatIsTooNarrowDoesNotPanic(t *testing.T) {
	d := &drawn{model{streams: &ui.Streams{}, now: clock(), spinner: spinner.New()}}
	story(d)
	if d.model.View().Content == "" {
		t.Error("nothing is drawn")
	}
}

func TestNewChoosesByTerminal(t *testing.T) {
	for _, s := range []*ui.Streams{{}, {ErrTTY: true, Plain: true}} {
		if _, ok := New(s, "text", time.Now).(*lines); !ok {
			t.Errorf("%+v gets a screen", s)
		}
	}
}
