package tables

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// wheelRows is how far one notch of a mouse's wheel goes.
const wheelRows = 3

// cursor is the row that keys act on.
type cursor struct {
	// at is where it is, top the first row in sight, page how many there are in sight.
	at, top, page int
	// id is that of the row. It is empty until a person moves the cursor: it stands at the first row until then, whichever that is.
	id string
}

// reach brings the cursor among n rows, and into sight.
func (c *cursor) reach(n, page int) {
	c.page = max(page, 1)
	c.at = max(min(c.at, n-1), 0)
	c.top = max(min(c.top, c.at, n-c.page), c.at-c.page+1, 0)
}

// find is where the cursor's row is now, or -1.
func (t *table[T]) find() int {
	if t.cursor.id == "" {
		return -1
	}
	return t.view.Find(t.cursor.id)
}

// follow brings the cursor to where its row went, on the same line of the screen. Where it is gone, the next one takes its place.
func (t *table[T]) follow() {
	if t.cursor.id == "" {
		return
	}
	at := t.find()
	if at < 0 {
		t.to(t.cursor.at)
		return
	}
	t.cursor.top = max(t.cursor.top+at-t.cursor.at, 0)
	t.cursor.at = at
}

// to puts the cursor on a row.
func (t *table[T]) to(at int) {
	n := t.view.Len()
	t.cursor.at = max(min(at, n-1), 0)
	t.cursor.id = ""
	if n > 0 {
		t.cursor.id = t.view.ID(t.cursor.at)
	}
}

// moved takes a key that moves the cursor.
func (t *table[T]) moved(k tea.KeyPressMsg) {
	at, page := t.cursor.at, max(t.cursor.page, 1)
	switch {
	case key.Matches(k, t.keys.up):
		at--
	case key.Matches(k, t.keys.down):
		at++
	case key.Matches(k, t.keys.top):
		at = 0
	case key.Matches(k, t.keys.bottom):
		at = t.view.Len() - 1
	case key.Matches(k, t.keys.halfUp):
		at -= max(page/2, 1)
	case key.Matches(k, t.keys.halfDown):
		at += max(page/2, 1)
	case key.Matches(k, t.keys.pageUp):
		at -= page
	case key.Matches(k, t.keys.pageDown):
		at += page
	default:
		return
	}
	t.to(at)
}

// Click puts the cursor on a row, or sorts by the column whose name was clicked.
func (t *table[T]) Click(x, y int) tea.Cmd {
	t.settle()
	if y > 0 {
		if at := t.cursor.top + y - 1; at < t.view.Len() {
			t.to(at)
		}
		return nil
	}
	c := t.grid.ColumnAt(x)
	if c < 0 || t.columns[c].by == "" {
		return nil
	}
	return t.sortBy(&t.columns[c])
}

func (t *table[T]) wheel(button tea.MouseButton) {
	switch button {
	case tea.MouseWheelUp:
		t.to(t.cursor.at - wheelRows)
	case tea.MouseWheelDown:
		t.to(t.cursor.at + wheelRows)
	case tea.MouseWheelLeft:
		t.grid.Scroll(-1)
	case tea.MouseWheelRight:
		t.grid.Scroll(1)
	}
}
