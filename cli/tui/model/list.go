package model

import (
	"iter"
	"maps"
	"slices"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
)

// pageRows are how many rows lie together. Pages do not move, so a list grows without copying itself, and whoever writes it down
// shares all of them.
const pageRows = 512

// List is all rows of one kind that are known. Each row has a slot, which it keeps; slots of rows that are gone are used again.
type List[T any] struct {
	table *table[T]
	pages []*[pageRows]T
	// shared pages are somebody else's too, and are copied before they are written.
	shared []bool
	// marks say, by slot, in which listing a row came last; zero: the slot is free.
	marks []uint32
	free  []int32
	ids   ids[T]
	count int

	// listing counts the listings that have begun. After a whole one, all rows that there are are known.
	listing uint32
	whole   bool
	total   int

	generation uint64
	base       *View[T] // in the list's own order, with nothing picked
	views      []*View[T]
}

// ids finds rows.
type ids[T any] interface {
	// slot is that of an id, or -1.
	slot(id string) int32
	// took says that a row is in a slot now, left that it is not any more.
	took(slot int32, row *T)
	left(slot int32, row *T)
}

// named finds rows by one text.
type named[T any] struct {
	id    func(*T) string
	slots map[string]int32
}

func (n *named[T]) slot(id string) int32 {
	if slot, ok := n.slots[id]; ok {
		return slot
	}
	return -1
}

func (n *named[T]) took(slot int32, row *T) { n.slots[n.id(row)] = slot }

func (n *named[T]) left(_ int32, row *T) { delete(n.slots, n.id(row)) }

func newList[T any](t *table[T], found ids[T]) *List[T] {
	l := &List[T]{table: t, ids: found, listing: 1}
	l.base = &View[T]{list: l, bare: true}
	l.views = []*View[T]{l.base}
	return l
}

func newNamed[T any](t *table[T]) *List[T] {
	return newList(t, &named[T]{id: t.id, slots: map[string]int32{}})
}

// View is a new view of all rows, in the list's own order. It follows the list until it is closed.
func (l *List[T]) View() *View[T] {
	l.base.settle()
	v := &View[T]{list: l, all: slices.Clone(l.base.all)}
	v.picked = slices.Clone(v.all)
	l.views = append(l.views, v)
	return v
}

// All are the rows in the list's own order. They may be looked at until the next Apply.
func (l *List[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		l.base.settle()
		for _, slot := range l.base.all {
			if !yield(l.at(slot)) {
				return
			}
		}
	}
}

// Len is how many rows are known.
func (l *List[T]) Len() int { return l.count }

// Get is the row of an id, or nil. It may be looked at until the next Apply.
func (l *List[T]) Get(id string) *T {
	slot := l.ids.slot(id)
	if slot < 0 {
		return nil
	}
	return l.at(slot)
}

// Whole says that all rows that there are are known.
func (l *List[T]) Whole() bool { return l.whole }

// Total is how many rows there are, known or not.
func (l *List[T]) Total() int {
	if l.whole {
		return l.count
	}
	return max(l.count, l.total)
}

// Schema is what rows can be picked by.
func (l *List[T]) Schema() filter.Schema[*T] { return l.table.schema }

// Columns are what views can be sorted by.
func (l *List[T]) Columns() []string { return slices.Sorted(maps.Keys(l.table.columns)) }

// Generation grows with every change.
func (l *List[T]) Generation() uint64 { return l.generation }

func (l *List[T]) at(slot int32) *T { return &l.pages[slot/pageRows][slot%pageRows] }

// edit is a row to be written.
func (l *List[T]) edit(slot int32) *T {
	if page := slot / pageRows; l.shared[page] {
		own := *l.pages[page]
		l.pages[page], l.shared[page] = &own, false
	}
	return l.at(slot)
}

// put makes a row what there is in a slot, or in a new one when that is -1.
func (l *List[T]) put(slot int32, row T) int32 {
	isNew := slot < 0
	if isNew {
		slot = l.take()
		l.count++
	}
	*l.edit(slot) = row
	l.marks[slot] = l.listing
	if isNew {
		l.ids.took(slot, l.at(slot))
	}
	l.changed(slot)
	return slot
}

// seen says that a row, which did not change, came in this listing.
func (l *List[T]) seen(slot int32) { l.marks[slot] = l.listing }

func (l *List[T]) take() int32 {
	if last := len(l.free) - 1; last >= 0 {
		slot := l.free[last]
		l.free = l.free[:last]
		return slot
	}
	slot := int32(len(l.marks))
	if slot%pageRows == 0 {
		l.pages, l.shared = append(l.pages, new([pageRows]T)), append(l.shared, false)
	}
	l.marks = append(l.marks, 0)
	return slot
}

func (l *List[T]) drop(slot int32) {
	if slot < 0 {
		return
	}
	l.ids.left(slot, l.at(slot))
	var none T
	*l.edit(slot) = none
	l.marks[slot] = 0
	l.free = append(l.free, slot)
	l.count--
	l.changed(slot)
}

func (l *List[T]) changed(slot int32) {
	l.generation++
	for _, v := range l.views {
		v.touch(slot)
	}
}

// mark goes on with a listing.
func (l *List[T]) mark(m Mark) {
	if m.Begin {
		l.listing++
		l.whole = false
	}
	if m.Total > 0 || m.End {
		l.total = m.Total
	}
	if !m.End {
		return
	}
	if l.whole = !m.Cut; l.whole {
		for slot, mark := range l.marks {
			if mark != 0 && mark != l.listing {
				l.drop(int32(slot))
			}
		}
	}
	l.generation++
}

// counted takes in how many rows there are.
func (l *List[T]) counted(c v1.Counts) {
	if n := c.Total(); n > 0 {
		l.total = n
	}
}

// sight is all rows at one moment, in the list's own order. Any goroutine may use it.
type sight[T any] struct {
	pages []*[pageRows]T
	order []int32
}

// share is what the list is now. Nothing is copied until it changes.
func (l *List[T]) share() sight[T] {
	l.base.settle()
	for i := range l.shared {
		l.shared[i] = true
	}
	return sight[T]{slices.Clone(l.pages), slices.Clone(l.base.all)}
}

func (s sight[T]) at(i int) *T { return &s.pages[s.order[i]/pageRows][s.order[i]%pageRows] }
