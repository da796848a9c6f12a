// Package paging owns the order and the pages of long lists.
//
// It refuses to know what the items are: a [Table] says by which columns they can be sorted. A page ends where a reader
// asked, or sooner where it would become too large; the token that continues a list holds the place in the order where the page
// ended, not a number of items, so it stays good while items come and go.
package paging

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Bounds of one page.
const (
	DefaultLimit = 200
	MaxLimit     = 500
	MaxOffset    = 10_000_000
	// MaxBytes is for the items' JSON: with what stands around them a page stays below 100,000.
	MaxBytes = 96_000
	maxSort  = 8
)

// Query is which page of which list.
type Query struct {
	// Filter is in the words of package filter.
	Filter string
	// Sort is columns with commas between them; a leading "-" turns one round. Empty is the list's own order.
	Sort string
	// Continue is Next of the page before; empty for the first.
	Continue string
	// Limit is from 1 to MaxLimit; zero means DefaultLimit.
	Limit int
	// Offset leaves out so many of the first items, up to MaxOffset. Unlike Continue it costs as much as all that is left out, and what
	// comes or goes before it moves the page: it is for those who jump.
	Offset int
}

// Error is a query that is wrong.
type Error struct{ Message, Fix string }

// Error is the message.
func (e *Error) Error() string { return e.Message }

// FromURL reads filter, sort, continue and limit. The error is an *Error.
func FromURL(values url.Values) (Query, error) {
	q := Query{Filter: values.Get("filter"), Sort: values.Get("sort"), Continue: values.Get("continue")}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > MaxLimit {
			return q, &Error{
				"limit " + strconv.Quote(text) + " is not a number from 1 to " + strconv.Itoa(MaxLimit), "leave it out for " + strconv.Itoa(DefaultLimit),
			}
		}
		q.Limit = n
	}
	if text := values.Get("offset"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > MaxOffset || q.Continue != "" {
			return q, &Error{
				"offset " + strconv.Quote(text) + " is not a number from 0 to " + strconv.Itoa(MaxOffset) + ", or stands beside continue",
				"leave it out for the first page",
			}
		}
		q.Offset = n
	}
	return q, nil
}

// Values is the opposite of FromURL.
func (q Query) Values() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"filter": q.Filter, "sort": q.Sort, "continue": q.Continue} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if q.Limit != 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Offset != 0 {
		values.Set("offset", strconv.Itoa(q.Offset))
	}
	return values
}

// Table says how items are sorted.
type Table[T any] struct {
	Columns map[string]Column[T]
	// ID are the columns that no two items have the same values of. Every order ends with them, the list's own is by them
	// alone.
	ID []string
	// Ordered promises that items are added in the list's own order: then a page of it needs no comparing.
	Ordered bool
}

// Column is what items are sorted by: exactly one of the two is set.
type Column[T any] struct {
	Text   func(T) string
	Number func(T) int64
}

// key is one column of an order.
type key[T any] struct {
	name string
	Column[T]
	down bool
}

func (k *key[T]) compare(a, b T) int {
	var c int
	if k.Text != nil {
		c = strings.Compare(clip(k.Text(a)), clip(k.Text(b)))
	} else {
		c = cmp.Compare(k.Number(a), k.Number(b))
	}
	if k.down {
		return -c
	}
	return c
}

// order reads a query's sort. The first keys, as many as asked, are those that it names.
func (t Table[T]) order(sort string) (keys []key[T], asked int, err error) {
	add := func(name string, down bool) bool {
		column, ok := t.Columns[name]
		if ok && !slices.ContainsFunc(keys, func(k key[T]) bool { return k.name == name }) {
			keys = append(keys, key[T]{name, column, down})
		}
		return ok
	}
	for _, part := range strings.Split(sort, ",") {
		if sort == "" {
			break
		}
		name, down := strings.CutPrefix(strings.TrimSpace(part), "-")
		if !add(name, down) || len(keys) > maxSort {
			return nil, 0, &Error{
				fmt.Sprintf("sort %.40q: there is no column %.40q", sort, name),
				"the columns are " + strings.Join(slices.Sorted(maps.Keys(t.Columns)), ", "),
			}
		}
	}
	asked = len(keys)
	for _, name := range t.ID {
		add(name, false)
	}
	return keys, asked, nil
}
