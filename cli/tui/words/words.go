// Package words owns the console's command line.
//
// It refuses to know what any pane shows. A line is a pane's name or alias, and what it is to show: a scope "@prod-*", names, a
// filter. What is typed is completed from what is known of the fleet, and read into a message for the console.
package words

import (
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// Words complete the last word of a line, the nearest first.
func Words(line string, w *pane.World) []string { return nil }

// Parse reads a line: a pane.Open, or tea.Quit's message. The error, a *Error, names the nearest word.
func Parse(line string, w *pane.World) (tea.Msg, error) { return nil, &Error{} }

// Error is a line that says nothing the console can do.
type Error struct {
	// Message says what is wrong; Fix is the line that was perhaps meant.
	Message, Fix string
}

// Error is the message.
func (e *Error) Error() string { return e.Message }
