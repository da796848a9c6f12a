package tables

import (
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// Typing says that the next key chooses a column.
func (t *table[T]) Typing() bool { return t.sorting }

// chosen sorts by the column that a key stands for: its letter, or its number. The column that it is sorted by already is turned
// round.
func (t *table[T]) chosen(k tea.KeyPressMsg) tea.Cmd {
	number := 0
	for i := range t.columns {
		c := &t.columns[i]
		if c.by == "" {
			continue
		}
		number++
		if pressed := k.String(); pressed != c.key && pressed != strconv.Itoa(number) {
			continue
		}
		return t.sortBy(c)
	}
	return nil
}

// sortBy sorts by a column, or turns its order round.
func (t *table[T]) sortBy(c *column[T]) tea.Cmd {
	if by, descending := t.view.Sorted(); by == c.by {
		return t.sort(by, !descending)
	}
	return t.sort(c.by, c.down)
}

func (t *table[T]) sort(by string, descending bool) tea.Cmd {
	if err := t.view.Sort(by, descending); err != nil {
		return pane.Ask(pane.Told{Text: err.Error(), Bad: true})
	}
	t.sortMark()
	t.picked()
	return nil
}

// sortMark shows the order in the header.
func (t *table[T]) sortMark() {
	by, descending := t.view.Sorted()
	t.grid.Sorted, t.grid.Descending = -1, descending
	for i := range t.columns {
		if by != "" && t.columns[i].by == by {
			t.grid.Sorted = i
		}
	}
}

// falls says whether a column's largest value comes first.
func (t *table[T]) falls(by string) bool {
	for i := range t.columns {
		if t.columns[i].by == by {
			return t.columns[i].down
		}
	}
	return false
}

// sortedBy is the column of the order; nil: it is the list's own.
func (t *table[T]) sortedBy() *column[T] {
	if t.grid.Sorted < 0 {
		return nil
	}
	return &t.columns[t.grid.Sorted]
}

// choices are the lines that say which key sorts by which column.
func (t *table[T]) choices(width int) []string {
	lines := []string{t.Look.Paint(paint.Bold, "Sort by")}
	used := len("Sort by")
	number := 0
	for i := range t.columns {
		c := &t.columns[i]
		if c.by == "" {
			continue
		}
		number++
		hint := t.Look.KeyHint(strconv.Itoa(number)+" "+c.key, strings.ToLower(c.Name))
		taken := paint.Width(hint)
		if used+2+taken > width && used > 0 {
			lines, used = append(lines, ""), 0
		}
		if used > 0 {
			hint, taken = "  "+hint, taken+2
		}
		lines[len(lines)-1] += hint
		used += taken
	}
	for i := range lines {
		lines[i] = t.Look.Fit(lines[i], width)
	}
	return lines
}
