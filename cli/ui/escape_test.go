package ui_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/ui"
)

// hostile is a status message of a cluster, whose words are a stranger's.
const hostile = "\x1b]52;c;cm0gLXJmIH4K\x07\x1b[2J \u009b2J \u007f \u202e fine"

func printed(t *testing.T, tty bool, output, query string) string {
	t.Helper()
	var out bytes.Buffer
	p, err := ui.NewPrinter(&ui.Streams{Out: &out, ErrOut: &out, OutTTY: tty, Width: 200}, output, query)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Print(ui.View{Value: map[string]any{"message": hostile, "key\u009b": []any{hostile}}}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestNoFormatSendsATerminalWhatAStrangerWrote(t *testing.T) {
	for _, c := range []struct{ output, query string }{
		{"json", ""},
		{"yaml", ""},
		{"", ".message"},
		{"", "."},
		{"", ".message | @base64 | @base64d"},
		{"jsonpath={.message}", ""},
		{"template={{.message}}", ""},
		{"template={{range .}}{{.}}{{end}}", ""},
		{"template={{range $key, $value := .}}{{$key}}{{$value}}{{end}}", ""},
	} {
		got := printed(t, true, c.output, c.query)
		if strings.ContainsAny(got, "\x1b\x07\u009b\u007f\u202e") || !strings.Contains(got, "fine") {
			t.Errorf("%s%s: %q", c.output, c.query, got)
		}
	}
}

func TestAProgramGetsTheTextAsItIs(t *testing.T) {
	for _, c := range []struct{ output, query string }{{"", ".message"}, {"jsonpath={.message}", ""}, {"template={{.message}}", ""}} {
		if got := strings.TrimSuffix(printed(t, false, c.output, c.query), "\n"); got != hostile {
			t.Errorf("%s%s: %q", c.output, c.query, got)
		}
	}
	for _, tty := range []bool{true, false} {
		var read map[string]any
		if err := json.Unmarshal([]byte(printed(t, tty, "json", "")), &read); err != nil || read["message"] != hostile {
			t.Errorf("JSON gives %q, %v", read["message"], err)
		}
	}
}

func TestCleanTextStaysOnItsLineWithoutEscapesThatNobodyReads(t *testing.T) {
	if got, want := ui.Clean("two mistakes:\n\tthe first\x1b[2J"), `two mistakes:  the first\x1b[2J`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
