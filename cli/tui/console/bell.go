package console

import (
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// longestNotice is how much of a text a desktop shows.
const longestNotice = 200

// ring tells a person who looks elsewhere that something ended: by the terminal's bell and, where the terminal passes them on (OSC 9),
// by a notice on the desktop.
func (m *Model) ring(e pane.Ended) tea.Cmd {
	if !m.elsewhere {
		return nil
	}
	return tea.Raw("\x1b]9;" + "plural: " + m.World.Look.Cut(e.Text, longestNotice) + "\x1b\\\a")
}
