package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestErrorsForProgramsAreWhole(t *testing.T) {
	var b bytes.Buffer
	RenderJSON(&b, &Err{
		Msg: "m", Cause: "c", Problems: []Problem{
			{Where: "a", Message: "p", Fix: "f"},
			{Where: "b", Message: "p", Fix: "f"},
			{Where: "c", Message: "p", Fix: "f"},
			{Where: "d", Message: "p", Fix: "f"},
		},
		Fix: "f", Doc: DocUsage, Code: ExitPending,
	})
	if strings.Count(b.String(), `"where"`) != 4 || !strings.Contains(b.String(), `docs/errors.md#usage"`) || !strings.Contains(b.String(), `"code": 8`) {
		t.Error(b.String())
	}
}

func TestRender(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"everything", fmt.Errorf("deploy: %w", &Err{Msg: "cluster prod-eu has not reported", Cause: "no route", Fix: "plural status", See: "plural logs agent/prod-eu", Doc: DocAgentStale}), `error: cluster prod-eu has not reported
  cause: no route
  fix:   plural status
  more:  plural logs agent/prod-eu  ·  https://github.com/pluralsh/plural/blob/HEAD/docs/errors.md#agent-stale
`},
		{"several mistakes", &Err{Msg: "the repo has 2 errors", Problems: []Problem{{Where: "a.yaml:1", Message: "bad", Fix: "good"}, {Where: "", Message: "worse", Fix: ""}}}, `error: the repo has 2 errors
  a.yaml:1: bad
    fix: good
  worse
`},
		{"equal mistakes", &Err{Msg: "it has not converged", Problems: []Problem{
			{Where: "edge-1", Message: "no disk", Fix: "make room"},
			{Where: "edge-2", Message: "no disk", Fix: "make room"},
			{Where: "web", Message: "bad", Fix: ""},
			{Where: "edge-3", Message: "no disk", Fix: "make room"},
			{Where: "edge-4", Message: "no disk", Fix: "make room"},
			{Where: "edge-5", Message: "no disk", Fix: "make room"},
		}}, `error: it has not converged
  edge-1, edge-2, edge-3 and 2 more: no disk
    fix: make room
  web: bad
`},
		{"an unknown error", errors.New("open x: no such file"), "error: open x: no such file\n"},
		{"several lines", errors.New("one\ntwo\n"), "error: one\n       two\n"},
		{"control characters", errors.New("a\x1b[31m\u202eb"), "error: a\\x1b[31m\\u202eb\n"},
		{"a code alone", Silent(ExitDiffers), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			Render(&b, tt.err)
			if diff := cmp.Diff(tt.want, b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCodeOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Code
	}{
		{nil, ExitOK},
		{errors.New("x"), ExitFailed},
		{&Err{Msg: "x"}, ExitFailed},
		{fmt.Errorf("x: %w", &Err{Code: ExitLogin}), ExitLogin},
		{Silent(ExitDiffers), ExitDiffers},
	} {
		if got := CodeOf(tt.err); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestAskWithoutTerminalNamesTheFlags(t *testing.T) {
	var name, branch string
	questions := []Question{{Flag: "name", Value: &name}, {Flag: "branch", Value: &branch, Optional: true}}
	err := NewPrompter(&Streams{}, false).Ask(context.Background(), questions)
	if err == nil || !strings.Contains(err.Error(), "--name") || strings.Contains(err.Error(), "--branch") {
		t.Errorf("got %v", err)
	}
	name = "given"
	if err := NewPrompter(&Streams{InTTY: true, ErrTTY: true}, true).Ask(context.Background(), questions); err != nil {
		t.Errorf("with a default: %v", err)
	}
}

func TestAskLineByLineOnAPlainTerminal(t *testing.T) {
	var out bytes.Buffer
	name := "old"
	s := &Streams{In: strings.NewReader("new\n"), ErrOut: &out, InTTY: true, ErrTTY: true, Plain: true}
	if err := NewPrompter(s, false).Ask(context.Background(), []Question{{Flag: "name", Title: "Name", Value: &name}}); err != nil {
		t.Fatal(err)
	}
	if name != "new" || !strings.Contains(out.String(), "Name") {
		t.Errorf("got %q after %q", name, out.String())
	}
}

func TestPrinterRefusesWhatItCannotDo(t *testing.T) {
	for _, tt := range [][2]string{{"xml", ""}, {"jsonpath", ""}, {"json=", ""}, {"yaml", "."}} {
		if _, err := NewPrinter(&Streams{}, tt[0], tt[1]); err == nil {
			t.Errorf("%v was taken", tt)
		}
	}
}

func TestPrintWritesNothingOnFailure(t *testing.T) {
	for _, output := range []string{"jsonpath={.a.b}", "jsonpath={", "template={{", "template={{.a.b.c}}"} {
		var out bytes.Buffer
		p, err := NewPrinter(&Streams{Out: &out}, output, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Print(View{Value: map[string]any{"a": 1}}); err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, printed %q", output, err, out.String())
		}
	}
}

func TestTableOnATerminalFitsItsWidth(t *testing.T) {
	var out bytes.Buffer
	s := &Streams{Out: &out, OutTTY: true, Width: 30}
	rows := [][]string{{"name", strings.Repeat("long ", 20)}, {"two\nlines", "tab\there"}}
	if err := s.Table(&out, []Column{{Name: "A"}, {Name: "B"}}, rows); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Errorf("%d lines: %q", len(lines), out.String())
	}
	for _, line := range lines {
		if len([]rune(line)) > 30 {
			t.Errorf("%d columns: %q", len([]rune(line)), line)
		}
	}
}

func FuzzCleanLeavesNothingToActOn(f *testing.F) {
	f.Add("plain")
	f.Add("\x1b[2J\u202e\x9b\xff")
	f.Add("one\r\n\ttwo\rthree\x00\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		text := CleanText(s)
		if flat := strings.NewReplacer("\n", "", "\t", "").Replace(text); CleanText(text) != text || Clean(flat) != flat {
			t.Errorf("%q became %q as lines", s, text)
		}
		if strings.IndexFunc(got, unprintable) >= 0 {
			t.Errorf("%q became %q", s, got)
		}
		if Clean(got) != got {
			t.Errorf("%q is not stable", got)
		}
	})
}
