// Package tables owns the panes that list clusters, services and objects.
//
// It refuses to know where rows come from, how they are kept in order, and what can be done to them.
//
// Each list is declared: its columns, what of a row stands in them, what a row is about and where enter leads. One pane shows
// any of them, from a view that follows what is known of the fleet. It holds a cursor, marks and a scroll position, never rows:
// of those, the ones in sight are read for each frame. The cursor and the marks are on rows' ids, so they stay where they are
// while rows move.
package tables

import (
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// Panes are the makers of all tables, by the names that they are opened with.
func Panes() map[string]pane.Maker {
	return map[string]pane.Maker{
		"fleet":    maker(fleet),
		"clusters": maker(clusters),
		"services": maker(services),
		"sources":  maker(sources),
		"packages": maker(packages),
		"events":   maker(events),
		"objects":  newObjects,
	}
}

// kind is what there is to know of one kind of table.
type kind[T any] struct {
	title string
	// noun is the word for several rows.
	noun string
	// stream is how the hub calls the list.
	stream  v1.ChangeKind
	list    *model.List[T]
	columns []column[T]
	// pinned counts the columns at the left that are not scrolled away.
	pinned int
	// sorted is the column of the order at the start; none: the list's own.
	sorted string
	// faults is the filter of what f shows.
	faults  string
	subject func(*T) pane.Subject
	// repeats says that several rows may be about one thing.
	repeats bool
	// enter says where the key leads from a row, leads what that is in a word.
	enter func(*T) (pane.Open, bool)
	leads string
	// within narrows the list to what a pane is about, term is the same as a filter's term.
	within map[pane.Kind]func(*T, string) bool
	term   map[pane.Kind]string
	// start says how a fleet comes to have the first row.
	start string
}

// column is one column of a table.
type column[T any] struct {
	paint.Column
	// by is what the list calls the column, where rows can be sorted by it; key chooses it after o.
	by, key string
	// down says that the largest comes first, unless it is turned round.
	down bool
	// but is the kind of subject for which the column says nothing new.
	but  pane.Kind
	cell func(*T) paint.Cell
}

// spare is the width of the screen below which what is as it should be makes room for reasons.
const spare = 100

func maker[T any](declare func(*cells) kind[T]) pane.Maker {
	return func(w *pane.World, about pane.Subject, filter string) (pane.Pane, error) {
		return newTable(w, declare(&cells{w}), about, filter)
	}
}
