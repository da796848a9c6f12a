package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// View is rows of a list in an order, of which some are picked. It follows the list's changes by itself.
//
// The slots of all rows stand in order, and those of the picked ones beside them. Rows that changed are noted, and when somebody
// looks they are taken out and merged in again at their new places: the others are where they were.
type View[T any] struct {
	list *List[T]
	// bare views have no picked rows: all are.
	bare        bool
	all, picked []int32

	column     string
	descending bool
	by         value[T]

	text   string
	fits   func(*T) bool // nil: all
	faults bool
	keep   func(*T) bool // nil: all

	// dirty has a bit for each slot that is among pending.
	dirty   []uint64
	pending []int32
}

// ColumnError says that there is no such column.
type ColumnError struct {
	Column string
	// Columns are those that there are.
	Columns []string
}

// Error names the columns.
func (e *ColumnError) Error() string {
	return fmt.Sprintf("there is no column %q: the columns are %s", e.Column, strings.Join(e.Columns, ", "))
}

// Sort puts the rows in the order of a column, and of its equals in the list's own; an empty column is the list's own order. The
// error is a *ColumnError.
func (v *View[T]) Sort(column string, descending bool) error {
	by, ok := v.list.table.columns[column]
	if !ok && column != "" {
		return &ColumnError{column, v.list.Columns()}
	}
	if column == v.column && descending == v.descending {
		return nil
	}
	v.settle()
	v.column, v.descending, v.by = column, descending, by
	v.list.base.settle()
	v.all = append(v.all[:0], v.list.base.all...)
	if column != "" {
		v.arrange()
	}
	v.pick()
	return nil
}

// arrange sorts rows that are in the list's own order by the column. Columns have few values or short ones: each row is given the
// place of its value among all, and rows are then counted into their places, which keeps equals in order.
func (v *View[T]) arrange() {
	ranks := make([]int32, len(v.all))
	var distinct int
	if v.by.Text != nil {
		distinct = rank(v.all, ranks, func(slot int32) string { return v.by.Text(v.list.at(slot)) })
	} else {
		distinct = rank(v.all, ranks, func(slot int32) int64 { return v.by.Number(v.list.at(slot)) })
	}
	starts := make([]int32, distinct+1)
	for i, r := range ranks {
		if v.descending {
			r = int32(distinct) - 1 - r
			ranks[i] = r
		}
		starts[r+1]++
	}
	for i := range distinct {
		starts[i+1] += starts[i]
	}
	out := make([]int32, len(v.all))
	for i, r := range ranks {
		out[starts[r]] = v.all[i]
		starts[r]++
	}
	v.all = out
}

// rank numbers the values of slots in order, and gives how many different ones there are.
func rank[K cmp.Ordered](slots, ranks []int32, value func(int32) K) int {
	numbers := map[K]int32{}
	for i, slot := range slots {
		k := value(slot)
		number, ok := numbers[k]
		if !ok {
			number = int32(len(numbers))
			numbers[k] = number
		}
		ranks[i] = number
	}
	places := make([]int32, len(numbers))
	for place, k := range slices.Sorted(maps.Keys(numbers)) {
		places[numbers[k]] = int32(place)
	}
	for i, number := range ranks {
		ranks[i] = places[number]
	}
	return len(numbers)
}

// Sorted is the order.
func (v *View[T]) Sorted() (column string, descending bool) { return v.column, v.descending }

// Filter picks rows by the words of package filter. After an error, a *filter.Error, all is as before.
func (v *View[T]) Filter(text string) error {
	if text == v.text {
		return nil
	}
	fits, err := v.list.table.matcher(v.list, text)
	if err != nil {
		return err
	}
	v.text, v.fits = text, fits
	v.repick()
	return nil
}

// Filtered is the filter's text.
func (v *View[T]) Filtered() string { return v.text }

// Faults picks the rows alone that are not healthy.
func (v *View[T]) Faults(on bool) {
	if on != v.faults {
		v.faults = on
		v.repick()
	}
}

// Within picks, of what the filter picks, the rows that keep wants; nil: all. It is for panes about one cluster or service.
func (v *View[T]) Within(keep func(*T) bool) {
	v.keep = keep
	v.repick()
}

func (v *View[T]) repick() {
	v.settle()
	v.pick()
}

func (v *View[T]) pick() {
	v.picked = v.picked[:0]
	for _, slot := range v.all {
		if v.picks(slot) {
			v.picked = append(v.picked, slot)
		}
	}
}

func (v *View[T]) picks(slot int32) bool {
	row := v.list.at(slot)
	return (!v.faults || v.list.table.faulty(row)) && (v.keep == nil || v.keep(row)) && (v.fits == nil || v.fits(row))
}

// Len is how many rows are picked.
func (v *View[T]) Len() int {
	v.settle()
	return len(v.picked)
}

// At is a row, from 0. It may be looked at until the next Apply.
func (v *View[T]) At(i int) *T {
	v.settle()
	return v.list.at(v.picked[i])
}

// ID is that of a row.
func (v *View[T]) ID(i int) string { return v.list.table.id(v.At(i)) }

// Find is where the row of an id is, or -1.
func (v *View[T]) Find(id string) int {
	v.settle()
	slot := v.list.ids.slot(id)
	if slot < 0 {
		return -1
	}
	at := v.place(v.picked, slot)
	if at < len(v.picked) && v.picked[at] == slot {
		return at
	}
	return -1
}

// Total is how many rows of the list are known, and how many there are.
func (v *View[T]) Total() (known, all int) { return v.list.Len(), v.list.Total() }

// Close ends the view: it follows no changes any more.
func (v *View[T]) Close() {
	v.list.views = slices.DeleteFunc(v.list.views, func(other *View[T]) bool { return other == v })
}

// touch notes that what is in a slot is, or may be, another.
func (v *View[T]) touch(slot int32) {
	word, bit := slot/64, uint64(1)<<(slot%64)
	for int(word) >= len(v.dirty) {
		v.dirty = append(v.dirty, 0)
	}
	if v.dirty[word]&bit == 0 {
		v.dirty[word] |= bit
		v.pending = append(v.pending, slot)
	}
}

func (v *View[T]) isDirty(slot int32) bool {
	word := int(slot / 64)
	return word < len(v.dirty) && v.dirty[word]&(1<<(slot%64)) != 0
}

// settle takes in what changed.
func (v *View[T]) settle() {
	if len(v.pending) == 0 {
		return
	}
	live := v.pending[:0:len(v.pending)]
	v.all = slices.DeleteFunc(v.all, v.isDirty)
	v.picked = slices.DeleteFunc(v.picked, v.isDirty)
	for _, slot := range v.pending {
		v.dirty[slot/64] = 0 // the others of the word come here as well
		if v.list.marks[slot] != 0 {
			live = append(live, slot)
		}
	}
	slices.SortFunc(live, v.compare)
	v.all = v.merge(v.all, live)
	if !v.bare {
		v.picked = v.merge(v.picked, slices.DeleteFunc(live, func(slot int32) bool { return !v.picks(slot) }))
	}
	v.pending = v.pending[:0]
}

// merge puts slots, which are in order, among others that are.
func (v *View[T]) merge(into, slots []int32) []int32 {
	end, gap := len(into), len(slots)
	into = slices.Grow(into, gap)[:end+gap]
	for gap > 0 {
		slot := slots[gap-1]
		at := v.place(into[:end], slot)
		copy(into[at+gap:end+gap], into[at:end])
		gap--
		into[at+gap] = slot
		end = at
	}
	return into
}

// place is where a slot is in an order, or would be.
func (v *View[T]) place(order []int32, slot int32) int {
	return sort.Search(len(order), func(i int) bool { return v.compare(order[i], slot) >= 0 })
}

func (v *View[T]) compare(a, b int32) int {
	if a == b {
		return 0
	}
	x, y := v.list.at(a), v.list.at(b)
	c := 0
	if v.column != "" {
		c = v.by.compare(x, y)
		if v.descending {
			c = -c
		}
	}
	if c == 0 {
		c = v.list.table.order(x, y)
	}
	return c
}
