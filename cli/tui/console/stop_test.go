package console

import (
	"testing"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// atWork are actions of which one is under way until it is stopped.
type atWork struct{ stopped int }

func (*atWork) Offered([]pane.Subject) []key.Binding               { return nil }
func (*atWork) Key(tea.KeyPressMsg, pane.Pointing) (tea.Cmd, bool) { return nil, false }
func (*atWork) Update(tea.Msg) (tea.Cmd, bool)                     { return nil, false }
func (*atWork) Busy() string                                       { return "" }
func (a *atWork) Stop() (told string, stopped bool) {
	a.stopped++
	return "it goes on there", a.stopped == 1
}

// blank is a pane without anything to leave.
type blank struct{}

func (blank) Init() tea.Cmd          { return nil }
func (blank) Update(tea.Msg) tea.Cmd { return nil }
func (blank) Draw(int, int) []string { return nil }
func (blank) Title() string          { return "" }
func (blank) Keys() []key.Binding    { return nil }

func TestEscAndInterruptTellWhatGoesOnRegardlessOfWhatTheyStop(t *testing.T) {
	for name, k := range map[string]tea.KeyPressMsg{"esc": {Code: tea.KeyEscape}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}} {
		m := New(Options{World: &pane.World{Now: time.Now}, Actions: &atWork{}})
		m.stack = []level{{Pane: blank{}}}
		if cmd := m.key(k); cmd != nil || m.told.Text != "it goes on there" {
			t.Errorf("%s: told %q", name, m.told.Text)
		}
		m.key(k) // nothing is under way now
		if m.told.Text != "" {
			t.Errorf("%s again: told %q", name, m.told.Text)
		}
	}
}

func TestWhatIsTypedTakesThePlaceOfAProposal(t *testing.T) {
	five, end, back := tea.KeyPressMsg{Code: '5', Text: "5"}, tea.KeyPressMsg{Code: tea.KeyEnd}, tea.KeyPressMsg{Code: tea.KeyBackspace}
	for name, test := range map[string]struct {
		keys []tea.Msg
		want string
	}{
		"typed":           {[]tea.Msg{five, five}, "55"},
		"pasted":          {[]tea.Msg{tea.PasteMsg{Content: "7"}, five}, "75"},
		"changed":         {[]tea.Msg{end, five}, "125"},
		"taken back from": {[]tea.Msg{back, five}, "15"},
		"taken as it is":  {nil, "12"},
	} {
		m, got := New(Options{World: &pane.World{Now: time.Now}, Actions: &atWork{}}), ""
		m.stack = []level{{Pane: blank{}}}
		m.question(pane.Question{Mark: "replicas: ", Value: "12", Then: func(said string) tea.Cmd { got = said; return nil }})
		for _, k := range append(test.keys, tea.KeyPressMsg{Code: tea.KeyEnter}) {
			m.typed(k)
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
