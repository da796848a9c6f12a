// Package guide owns the console's help.
//
// It refuses to know what any key does: it is given the keys that do something now, in groups, with what they say of themselves.
//
// The person types to narrow the list; enter takes the help away and presses the key under the cursor.
package guide

import (
	"charm.land/bubbles/v2/key"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// Group are keys that belong together.
type Group struct {
	Title string
	Keys  []key.Binding
}

// Press asks the console to do what the key does, as if it had been pressed. The help is off the stack by then.
type Press struct{ Key string }

// New is a pane that shows the groups.
func New(look *paint.Look, groups []Group) pane.Pane { return nil }
