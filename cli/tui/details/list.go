package details

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/paint"
)

// list is rows with a cursor, of panes that have few of them.
type list struct {
	grid        paint.Grid
	cursor, top int
	rows        int // that fit, at the last drawing
}

func listKeys() []key.Binding {
	m := movesOf()
	return []key.Binding{m.down, m.up, m.pageDown, m.pageUp, m.half, m.halfUp, m.first, m.last, m.left, m.right}
}

// update moves the cursor over n rows, and says whether the message was about that.
func (l *list) update(msg tea.Msg, n int) bool {
	by, page := 0, max(l.rows-1, 1)
	switch msg := msg.(type) {
	case tea.MouseWheelMsg:
		by = map[tea.MouseButton]int{tea.MouseWheelUp: -3, tea.MouseWheelDown: 3}[msg.Button]
	case tea.KeyPressMsg:
		switch m := movesOf(); {
		case key.Matches(msg, m.down):
			by = 1
		case key.Matches(msg, m.up):
			by = -1
		case key.Matches(msg, m.pageDown):
			by = page
		case key.Matches(msg, m.pageUp):
			by = -page
		case key.Matches(msg, m.half):
			by = max(page/2, 1)
		case key.Matches(msg, m.halfUp):
			by = -max(page/2, 1)
		case key.Matches(msg, m.first):
			by = -l.cursor
		case key.Matches(msg, m.last):
			by = n
		case key.Matches(msg, m.left):
			l.grid.Scroll(-1)
		case key.Matches(msg, m.right):
			l.grid.Scroll(1)
		default:
			return false
		}
	default:
		return false
	}
	l.cursor = max(0, min(l.cursor+by, n-1))
	return true
}

func (l *list) draw(look *paint.Look, width, height, n int, cells func(int, []paint.Cell)) []string {
	l.rows = max(height-1, 1) // one is the header
	l.cursor = max(0, min(l.cursor, n-1))
	l.top = max(0, min(l.top, l.cursor, n-l.rows))
	l.top = max(l.top, l.cursor-l.rows+1)
	return l.grid.Draw(look, width, height, paint.Rows{N: n, Top: l.top, Cursor: l.cursor, Cells: cells})
}
