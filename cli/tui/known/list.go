package known

import (
	"errors"

	"github.com/pluralsh/plural/internal/filter"
)

// List is all rows of one kind that are known.
type List[T any] struct{}

// View is a new view of all rows, in the list's own order. It follows the list until it is closed.
func (l *List[T]) View() *View[T] { return &View[T]{} }

// Len is how many rows are known.
func (l *List[T]) Len() int { return 0 }

// Get is the row of an id, or nil. It may be looked at until the next Apply.
func (l *List[T]) Get(id string) *T { return nil }

// Whole says that all rows there are are known.
func (l *List[T]) Whole() bool { return false }

// Schema is what rows can be picked by.
func (l *List[T]) Schema() filter.Schema[*T] { return filter.Schema[*T]{} }

// Columns are what views can be sorted by.
func (l *List[T]) Columns() []string { return nil }

// Generation grows with every change.
func (l *List[T]) Generation() uint64 { return 0 }

// View is rows of a list in an order, of which some are picked. It follows the list's changes by itself.
type View[T any] struct{}

// Sort puts the rows in the order of a column.
func (v *View[T]) Sort(column string, descending bool) error { return errors.New("not written yet") }

// Sorted is the order.
func (v *View[T]) Sorted() (column string, descending bool) { return "", false }

// Filter picks rows by the words of package filter. After an error, a *filter.Error, all is as before.
func (v *View[T]) Filter(text string) error { return errors.New("not written yet") }

// Faults picks the rows that are not healthy alone.
func (v *View[T]) Faults(on bool) {}

// Within picks, of what the filter picks, the rows that keep wants; nil: all. It is for panes about one cluster or service.
func (v *View[T]) Within(keep func(*T) bool) {}

// Len is how many rows are picked.
func (v *View[T]) Len() int { return 0 }

// At is a row, from 0. It may be looked at until the next Apply.
func (v *View[T]) At(i int) *T { return nil }

// ID is that of a row.
func (v *View[T]) ID(i int) string { return "" }

// Find is where the row of an id is, or -1.
func (v *View[T]) Find(id string) int { return -1 }

// Total is how many rows of the list are known, and how many there are.
func (v *View[T]) Total() (known, all int) { return 0, 0 }

// Close ends the view: it follows no changes any more.
func (v *View[T]) Close() {}
