package tables

import (
	"cmp"
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/internal/filter"
)

// table is a pane that shows rows of one kind.
type table[T any] struct {
	*pane.World
	kind[T]
	about pane.Subject
	view  *model.View[T]
	keys  keymap
	grid  paint.Grid

	filter string
	faulty bool
	// sorting says that the next key chooses the column.
	sorting bool

	cursor cursor
	marks  marks
	// anchor is the id of the row that was marked last.
	anchor string
	// pointed are the subjects of the marked rows; nil: not made since marks or rows changed.
	pointed []pane.Subject
	// seen is the generation of the list at which cursor and marks were right.
	seen uint64
	// link and whole are those that columns are as wide for: ages are told by other words, and other rows are in sight, with others.
	link  model.Link
	whole bool
}

func newTable[T any](w *pane.World, k kind[T], about pane.Subject, text string) (pane.Pane, error) {
	t := &table[T]{World: w, kind: k, about: about, keys: keysOf(k.leads), marks: marks{}, seen: ^uint64(0)}
	t.view = k.list.View()
	if within := k.within[about.Kind]; within != nil {
		name := t.scope()
		t.view.Within(func(row *T) bool { return within(row, name) })
	}
	t.show()
	if err := t.view.Sort(k.sorted, t.falls(k.sorted)); err != nil {
		t.view.Close()
		return nil, err
	}
	t.sortMark()
	if err := t.SetFilter(text); err != nil {
		t.view.Close()
		return nil, err
	}
	return t, nil
}

// show gives the grid the columns that say something here.
func (t *table[T]) show() {
	pinned := 0
	var kept []column[T]
	for i, c := range t.columns {
		if c.but != "" && c.but == t.about.Kind {
			continue
		}
		if i < t.pinned {
			pinned++
		}
		kept = append(kept, c)
		t.grid.Columns = append(t.grid.Columns, c.Column)
	}
	t.columns, t.grid.Pinned = kept, pinned
}

// scope is the name that the pane's rows are narrowed to; empty: it shows all.
func (t *table[T]) scope() string {
	if t.within[t.about.Kind] == nil {
		return ""
	}
	return cmp.Or(t.about.Name, t.about.Cluster, t.about.Service)
}

// Init asks for what is shown first.
func (t *table[T]) Init() tea.Cmd { return nil }

// Close ends the view.
func (t *table[T]) Close() { t.view.Close() }

// Title is what the rows are narrowed to, or the table's name.
func (t *table[T]) Title() string { return cmp.Or(t.scope(), t.title) }

// Note says how many rows there are, and how they are picked and sorted.
func (t *table[T]) Note() string {
	between := " " + t.Look.Glyph(paint.Between) + " "
	known, all := t.view.Total()
	note := paint.Figure(t.view.Len())
	if t.scope() == "" {
		note += " of " + paint.Figure(all)
		if t.view.Len() == all {
			note = paint.Figure(all)
		}
	}
	if !t.list.Whole() && known < all {
		note += between + fmt.Sprintf("%s loaded", paint.Figure(known))
	}
	if t.faulty {
		note += between + "faults"
	}
	if c := t.sortedBy(); c != nil {
		note += between + "by " + strings.ToLower(c.Name)
	}
	return note
}

// Filter is the text as it was set last.
func (t *table[T]) Filter() string { return t.filter }

// SetFilter picks rows. After an error, a *filter.Error, the rows are those of before.
func (t *table[T]) SetFilter(text string) error {
	if err := t.view.Filter(text); err != nil {
		return err
	}
	t.filter = text
	t.seek()
	t.picked()
	return nil
}

// seek asks for the rows that are to be shown, where not all are known.
func (t *table[T]) seek() {
	if t.list.Whole() || t.Source == nil {
		return
	}
	var terms []string
	if name := t.scope(); name != "" {
		terms = append(terms, filter.OneOf(t.term[t.about.Kind], []string{name}))
	}
	if t.faulty {
		terms = append(terms, t.faults)
	}
	if t.filter != "" {
		terms = append(terms, t.filter)
	}
	if len(terms) > 0 {
		t.Source.Seek(t.stream, strings.Join(terms, " "))
	}
}

// picked says that other rows are picked now.
func (t *table[T]) picked() {
	t.grid.Reset()
	t.seen = t.list.Generation()
	if at := t.find(); at >= 0 {
		t.cursor.at = at
		return
	}
	t.cursor = cursor{page: t.cursor.page}
}

// settle takes in what changed in the list since.
func (t *table[T]) settle() {
	if link, whole := t.Fleet.State.Link, t.list.Whole(); link != t.link || whole != t.whole {
		t.link, t.whole = link, whole
		t.grid.Reset()
	}
	generation := t.list.Generation()
	if generation == t.seen {
		return
	}
	t.seen, t.pointed = generation, nil
	t.follow()
	t.marks.keep(func(id string) bool { return t.list.Get(id) != nil })
}

// Update takes a key.
func (t *table[T]) Update(msg tea.Msg) tea.Cmd {
	t.settle()
	switch msg := msg.(type) {
	case tea.MouseWheelMsg:
		t.wheel(msg.Button)
	case tea.KeyPressMsg:
		if t.sorting {
			t.sorting = false
			return t.chosen(msg)
		}
		return t.pressed(msg)
	}
	return nil
}

func (t *table[T]) pressed(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case key.Matches(k, t.keys.enter):
		return t.drill()
	case key.Matches(k, t.keys.faults):
		t.faulty = !t.faulty
		t.view.Faults(t.faulty)
		t.seek()
		t.picked()
	case key.Matches(k, t.keys.sort):
		t.sorting = true
	case key.Matches(k, t.keys.reverse):
		column, descending := t.view.Sorted()
		return t.sort(column, !descending)
	case key.Matches(k, t.keys.mark):
		t.mark()
	case key.Matches(k, t.keys.span):
		t.markSpan()
	case key.Matches(k, t.keys.all):
		t.markAll()
	case key.Matches(k, t.keys.left):
		t.grid.Scroll(-1)
	case key.Matches(k, t.keys.right):
		t.grid.Scroll(1)
	default:
		t.moved(k)
	}
	return nil
}

func (t *table[T]) drill() tea.Cmd {
	if t.view.Len() == 0 {
		return nil
	}
	if open, ok := t.enter(t.view.At(t.cursor.at)); ok {
		return pane.Ask(open)
	}
	return pane.Ask(pane.Told{Text: "there is nothing below this row"})
}

// Draw is the rows in sight, under the names of their columns.
func (t *table[T]) Draw(width, height int) []string {
	t.settle()
	var below []string
	if t.sorting {
		below = t.choices(width)
		below = below[:min(len(below), max(height-1, 0))]
		height -= len(below)
	}
	n := t.view.Len()
	t.cursor.reach(n, height-1)
	lines := t.grid.Draw(t.Look, width, height, paint.Rows{
		N: n, Top: t.cursor.top, Cursor: t.cursor.at,
		Cells: func(i int, cells []paint.Cell) {
			row := t.view.At(i)
			for c := range t.columns {
				cells[c] = t.columns[c].cell(row)
			}
		},
		Marked: t.marked(),
	})
	if n == 0 {
		lines = append(lines, t.nothing(width)...)
		lines = lines[:min(len(lines), max(height, 0))]
	}
	if len(below) > 0 {
		for len(lines) < height {
			lines = append(lines, "")
		}
		lines = append(lines, below...)
	}
	return lines
}

// marked is whether a row is marked; nil: none is.
func (t *table[T]) marked() func(int) bool {
	if len(t.marks) == 0 {
		return nil
	}
	return func(i int) bool { return t.marks[t.view.ID(i)] }
}
