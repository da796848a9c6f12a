package tables

import (
	"maps"
	"slices"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// marks are the ids of rows that a person marked.
type marks map[string]bool

// keep drops the marks of what is there no more.
func (m marks) keep(there func(id string) bool) {
	maps.DeleteFunc(m, func(id string, _ bool) bool { return !there(id) })
}

// mark marks the row under the cursor, or takes its mark away.
func (t *table[T]) mark() {
	if t.view.Len() == 0 {
		return
	}
	t.to(t.cursor.at)
	t.pointed = nil
	id := t.cursor.id
	if t.marks[id] {
		delete(t.marks, id)
		return
	}
	t.marks[id] = true
	t.anchor = id
}

// markSpan marks all rows from the one that was marked last to the one under the cursor.
func (t *table[T]) markSpan() {
	if t.view.Len() == 0 {
		return
	}
	t.to(t.cursor.at)
	t.pointed = nil
	from, to := t.cursor.at, t.cursor.at
	if at := t.anchored(); at >= 0 {
		from, to = min(at, to), max(at, to)
	}
	for i := from; i <= to; i++ {
		t.marks[t.view.ID(i)] = true
	}
	t.anchor = t.cursor.id
}

func (t *table[T]) anchored() int {
	if t.anchor == "" {
		return -1
	}
	return t.view.Find(t.anchor)
}

// markAll marks all rows that are picked or, where they are all marked, takes all marks away.
func (t *table[T]) markAll() {
	n := t.view.Len()
	t.pointed = nil
	added := false
	for i := range n {
		if id := t.view.ID(i); !t.marks[id] {
			t.marks[id], added = true, true
		}
	}
	if !added {
		t.Unmark()
	}
}

// Marked counts the marked rows.
func (t *table[T]) Marked() int {
	t.settle()
	return len(t.marks)
}

// Unmark takes all marks away.
func (t *table[T]) Unmark() {
	clear(t.marks)
	t.anchor, t.pointed = "", nil
}

// Subjects are what the marked rows are about, in the order in which they stand, those that the filter hides last; or it is the
// row under the cursor. The caller does not change them.
func (t *table[T]) Subjects() []pane.Subject {
	t.settle()
	if len(t.marks) == 0 {
		if at := t.cursor.at; at < t.view.Len() {
			return []pane.Subject{t.subject(t.view.At(at))}
		}
		return nil
	}
	if t.pointed == nil {
		t.pointed = t.pointedAt()
	}
	return t.pointed
}

func (t *table[T]) pointedAt() []pane.Subject {
	out := make([]pane.Subject, 0, len(t.marks))
	met := map[pane.Subject]bool{}
	add := func(row *T) {
		s := t.subject(row)
		if t.repeats {
			if met[s] {
				return
			}
			met[s] = true
		}
		out = append(out, s)
	}
	hidden := maps.Clone(t.marks)
	for i := range t.view.Len() {
		if id := t.view.ID(i); hidden[id] {
			delete(hidden, id)
			add(t.view.At(i))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(hidden)) {
		add(t.list.Get(id))
	}
	return out
}
