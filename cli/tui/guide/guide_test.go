package guide_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/cli/tui/guide"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

var update = flag.Bool("update", false, "write the golden files anew")

func bind(k, text string) key.Binding { return key.NewBinding(key.WithKeys(k), key.WithHelp(k, text)) }

func groups() []guide.Group {
	off := bind("x", "what cannot be done now")
	off.SetEnabled(false)
	return []guide.Group{
		{Title: "services", Keys: []key.Binding{bind("enter", "its deployments"), bind("o", "sort"), off}},
		{Title: "What the cursor is on", Keys: []key.Binding{
			bind("d", "describe"), bind("S", "sync now"), bind("u", "suspend"), bind("K", "k9s"),
		}},
		{Title: "Everywhere", Keys: []key.Binding{bind("?", "help"), bind("/", "filter"), bind("ctrl+c", "quit")}},
	}
}

func mono() *paint.Look { return paint.NewLook(paint.Options{}) }

// press gives what the keys ask the console for.
func press(g *guide.Guide, keys ...tea.KeyPressMsg) []tea.Msg {
	var out []tea.Msg
	for _, k := range keys {
		out = append(out, messages(g.Update(k))...)
	}
	return out
}

func messages(cmd tea.Cmd) []tea.Msg {
	if cmd == nil {
		return nil
	}
	msg := cmd()
	all := reflect.ValueOf(msg)
	if all.Kind() != reflect.Slice {
		return []tea.Msg{msg}
	}
	var out []tea.Msg
	for i := range all.Len() { // tea.Sequence
		out = append(out, messages(all.Index(i).Interface().(tea.Cmd))...)
	}
	return out
}

func typed(text string) []tea.KeyPressMsg {
	var out []tea.KeyPressMsg
	for _, r := range text {
		out = append(out, tea.KeyPressMsg{Code: r, Text: string(r)})
	}
	return out
}

var (
	enter     = tea.KeyPressMsg{Code: tea.KeyEnter}
	down      = tea.KeyPressMsg{Code: tea.KeyDown}
	up        = tea.KeyPressMsg{Code: tea.KeyUp}
	end       = tea.KeyPressMsg{Code: tea.KeyEnd}
	backspace = tea.KeyPressMsg{Code: tea.KeyBackspace}
	esc       = tea.KeyPressMsg{Code: tea.KeyEscape}
)

func TestEnterPressesTheKeyUnderTheCursor(t *testing.T) {
	for name, tt := range map[string]struct {
		keys []tea.KeyPressMsg
		want []tea.Msg
	}{
		"the first":            {[]tea.KeyPressMsg{enter}, []tea.Msg{pane.Back{}, guide.Press{Key: "enter"}}},
		"over a title":         {[]tea.KeyPressMsg{down, down, enter}, []tea.Msg{pane.Back{}, guide.Press{Key: "d"}}},
		"and back":             {[]tea.KeyPressMsg{down, down, up, enter}, []tea.Msg{pane.Back{}, guide.Press{Key: "o"}}},
		"the last":             {[]tea.KeyPressMsg{end, down, enter}, []tea.Msg{pane.Back{}, guide.Press{Key: "ctrl+c"}}},
		"what is typed":        {append(typed("SUSP"), enter), []tea.Msg{pane.Back{}, guide.Press{Key: "u"}}},
		"a key that is typed":  {append(typed("K"), enter), []tea.Msg{pane.Back{}, guide.Press{Key: "K"}}},
		"typed less":           {append(typed("syncx"), backspace, enter), []tea.Msg{pane.Back{}, guide.Press{Key: "S"}}},
		"nothing":              {append(typed("nothing like it"), enter), nil},
		"what cannot be done":  {append(typed("what cannot"), enter), nil},
		"esc goes back":        {[]tea.KeyPressMsg{esc}, []tea.Msg{pane.Back{}}},
		"a question is a word": {append(typed("?"), enter), []tea.Msg{pane.Back{}, guide.Press{Key: "?"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, press(guide.New(mono(), groups()), tt.keys...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheCursorIsAlwaysSeen(t *testing.T) {
	var many []key.Binding
	for i := range 100 {
		many = append(many, bind(string(rune('!'+i)), fmt.Sprintf("number %d", i)))
	}
	g := guide.New(mono(), []guide.Group{{Title: "many", Keys: many}})
	for i := range 100 {
		shown := strings.Join(g.Draw(80, 10), "\n")
		if !strings.Contains(shown, fmt.Sprintf("  number %d ", i)) || !strings.Contains(shown, "▸ ") ||
			strings.Count(shown, "\n") > 9 {
			t.Fatalf("at %d:\n%s", i, shown)
		}
		press(g, down)
	}
}

func TestScreens(t *testing.T) {
	looks := map[string]*paint.Look{
		"mono": mono(), "dark": paint.NewLook(paint.Options{Color: true, Dark: true}),
		"ascii": paint.NewLook(paint.Options{ASCII: true}),
	}
	for name, look := range looks {
		for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}} {
			g := guide.New(look, groups())
			press(g, down)
			all := strings.Join(g.Draw(size[0], size[1]), "\n")
			press(g, typed("s")...)
			golden(t, fmt.Sprintf("help-%dx%d.%s", size[0], size[1], name), all+"\n\n"+strings.Join(g.Draw(size[0], size[1]), "\n")+"\n")
		}
	}
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
		t.Errorf("%s: %s", name, diff)
	}
}
