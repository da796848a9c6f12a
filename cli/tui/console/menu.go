package console

import (
	"slices"

	"charm.land/bubbles/v2/key"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

const (
	// menuRows is how many lines the menu of keys has, where the screen has these cells and lines at least.
	menuRows   = 3
	menuWidth  = 100
	menuHeight = 24
	// menuCell is how wide a key with what it does is at most.
	menuCell = 24
)

// menuLines is how many lines the menu takes now.
func (m *Model) menuLines() int {
	if m.bare || m.width < menuWidth || m.height < menuHeight {
		return 0
	}
	if t, ok := m.top().(pane.Typing); ok && t.Typing() {
		return 0 // the footer has the keys of a question
	}
	return menuRows
}

// menu is what can be done here, in columns: the keys that the footer has no room for too.
func (m *Model) menu() []string {
	rows := m.menuLines()
	if rows == 0 {
		return nil
	}
	keys := slices.DeleteFunc(m.useful(), func(b key.Binding) bool { return !b.Enabled() })
	look, columns := m.World.Look, m.width/menuCell
	keys = append(keys[:min(len(keys), columns*rows-1)], keysOf().menu)
	lines := make([]string, rows)
	for i := range rows {
		w := m.row()
		for c := range columns {
			at := c*rows + i
			if at >= len(keys) {
				break
			}
			h := keys[at].Help()
			name := look.Pad(look.Cut(h.Key, 10), 6)
			w.add(0, paint.Key, name)
			w.add(1, paint.Hint, look.Pad(look.Cut(h.Desc, menuCell-paint.Width(name)-3), menuCell-paint.Width(name)-1))
		}
		lines[i] = w.b.String()
	}
	return lines
}
