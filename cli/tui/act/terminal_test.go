package act_test

import (
	"bytes"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// screen is a console that presses one key, and ends when the action has given the terminal back.
type screen struct {
	*console
	key string
}

func (s screen) Init() tea.Cmd {
	cmd, _ := s.desk.Key(pressed(s.key), &s.list)
	return cmd
}

func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case pane.Told:
		s.told = append(s.told, msg)
		return s, tea.Quit
	default:
		cmd, ok := s.desk.Update(msg)
		if ok && cmd == nil {
			return s, tea.Quit
		}
		return s, cmd
	}
}

func (screen) View() tea.View { return tea.NewView("") }

// hand runs a console in which a key is pressed that gives the terminal away.
func hand(t *testing.T, key, typed string, subject pane.Subject) (*console, string) {
	t.Helper()
	c := newConsole(t)
	c.list.subjects = []pane.Subject{subject}
	var out bytes.Buffer
	program := tea.NewProgram(screen{c, key},
		tea.WithInput(strings.NewReader(typed)), tea.WithOutput(&out), tea.WithContext(t.Context()))
	if _, err := program.Run(); err != nil {
		t.Fatal(err)
	}
	return c, out.String()
}

func TestAnEditorHasTheTerminalAndMayAsk(t *testing.T) {
	c, _ := hand(t, "e", "", service("web"))
	if diff := cmp.Diff([]string{"service edit web --ask --wait=false"}, c.commands()); diff != "" {
		t.Error(diff)
	}
	if e := c.desk.Log().At(0); e.Ending != act.Done || e.Line != "plural service edit web --ask --wait=false" {
		t.Errorf("remembered %+v", e)
	}
	if len(c.told) != 0 {
		t.Errorf("told %v", c.told)
	}
}

func TestAnErrorOnTheTerminalStaysUntilItIsSeen(t *testing.T) {
	c, out := hand(t, "e", "\n", service("broken"))
	if e := c.desk.Log().At(0); e.Ending != act.Failed {
		t.Errorf("remembered %+v", e)
	}
	if !strings.Contains(out, "exit status 1. Press enter to go back to the console.") {
		t.Errorf("shown %q", out)
	}
}
