// Package details owns the panes that show one subject: what is known of it, its text, its differences, its logs, its history.
package details

import (
	"errors"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// Panes are the panes by the names that they are opened by.
func Panes() map[string]pane.Maker {
	panes := map[string]pane.Maker{}
	for _, name := range []string{"describe", "yaml", "diff", "logs", "tree", "history", "happened"} {
		panes[name] = func(*pane.World, pane.Subject, string) (pane.Pane, error) {
			return nil, errors.New(name + ": not there yet")
		}
	}
	return panes
}
