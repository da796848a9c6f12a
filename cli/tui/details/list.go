package details

import (
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/paint"
)

// list is rows with a cursor, of panes that have few of them.
type list struct {
	grid        paint.Grid
	cursor, top int
	// fits is how many rows had room at the last drawing, of rows, and above how many lines stood over them.
	fits, rows, above int
}

func listKeys() []key.Binding {
	m := movesOf()
	return []key.Binding{m.down, m.up, m.pageDown, m.pageUp, m.half, m.halfUp, m.first, m.last, m.left, m.right}
}

// update moves the cursor over n rows, and says whether the message was about that.
func (l *list) update(msg tea.Msg, n int) bool {
	by, page := 0, max(l.fits-1, 1)
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

// Click puts the cursor on a row.
func (l *list) Click(_, y int) tea.Cmd {
	if at := l.top + y - l.above - 1; y > l.above && at < l.rows {
		l.cursor = at
	}
	return nil
}

// rowed is a page whose answer is rows: the cursor is on one of them.
type rowed[T any] struct {
	*page[T]
	list
	// count says how many rows an answer has, cells fills one in. none is said where there are none.
	count func(T) int
	cells func(answer T, i int, now time.Time, cells []paint.Cell)
	none  string
}

// length is how many there are; nothing was answered: none.
func (r *rowed[T]) length() int {
	if r.at.IsZero() {
		return 0
	}
	return r.count(r.value)
}

// Update moves the cursor, or is the page's.
func (r *rowed[T]) Update(msg tea.Msg) tea.Cmd {
	if r.list.update(msg, r.length()) {
		return nil
	}
	return r.page.Update(msg)
}

// Draw is what the page says, and the rows around the cursor.
func (r *rowed[T]) Draw(width, height int) []string {
	head := r.page.Draw(width, height)
	n := r.length()
	if n == 0 {
		if !r.at.IsZero() && r.err == nil {
			head = append(head, painted(r.w.Look, say(paint.Faint, r.none), width))
		}
		return head
	}
	now := r.w.Now()
	r.above = len(head)
	return append(head, r.list.draw(r.w.Look, width, height-len(head), n, func(i int, cells []paint.Cell) {
		r.cells(r.value, i, now, cells)
	})...)
}

func (l *list) draw(look *paint.Look, width, height, n int, cells func(int, []paint.Cell)) []string {
	l.fits, l.rows = max(height-1, 1), n // one is the header
	l.cursor = max(0, min(l.cursor, n-1))
	l.top = max(0, min(l.top, l.cursor, n-l.fits))
	l.top = max(l.top, l.cursor-l.fits+1)
	return l.grid.Draw(look, width, height, paint.Rows{N: n, Top: l.top, Cursor: l.cursor, Cells: cells})
}
