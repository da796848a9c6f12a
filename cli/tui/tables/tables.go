// Package tables owns the console's panes that are lists of what is in the fleet.
package tables

import (
	"errors"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// Panes are the makers of all tables, by the names that they are opened with.
func Panes() map[string]pane.Maker {
	makers := map[string]pane.Maker{}
	for _, name := range []string{"fleet", "clusters", "services", "sources", "packages", "events"} {
		makers[name] = func(*pane.World, pane.Subject, string) (pane.Pane, error) { return nil, errors.New(name + " is not drawn yet") }
	}
	return makers
}
