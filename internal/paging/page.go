package paging

import "slices"

// Page collects one page out of items that come in any order. It keeps no more of them than the page can have.
type Page[T any] struct {
	keys  []key[T]
	after *cursor[T]
	limit int
	// skip is how many of the first items are left out. Then all are kept, in no order: those who jump are few.
	skip int
	// kept are the first items seen so far, the last of them on top of the heap.
	kept []T
	// seen counts all that come after the page before.
	seen int
}

// Start begins a page. The error is an *Error.
func (t Table[T]) Start(q Query) (*Page[T], error) {
	keys, err := t.order(q.Sort)
	if err != nil {
		return nil, err
	}
	p := &Page[T]{keys: keys, limit: q.Limit, skip: q.Offset}
	if p.limit == 0 {
		p.limit = DefaultLimit
	}
	if q.Continue != "" {
		if p.after, err = parse(q.Continue, keys); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Add gives the page one of the list's items.
func (p *Page[T]) Add(item T) {
	if p.after != nil && p.after.compare(item) <= 0 {
		return
	}
	p.seen++
	if p.skip > 0 {
		p.kept = append(p.kept, item)
		return
	}
	if len(p.kept) < p.limit {
		p.kept = append(p.kept, item)
		p.up(len(p.kept) - 1)
		return
	}
	if p.compare(item, p.kept[0]) < 0 {
		p.kept[0] = item
		p.down()
	}
}

// Items are the page's, in order, with the token that continues the list, which is empty on the last page. size is the length
// of an item's JSON; a page has at least one item, if there is one. The page is used up.
func (p *Page[T]) Items(size func(T) int) (items []T, next string) {
	slices.SortFunc(p.kept, p.compare)
	skipped := min(p.skip, len(p.kept))
	window := p.kept[skipped:min(skipped+p.limit, len(p.kept))]
	items = window
	bytes := 0
	for i, item := range window {
		bytes += size(item) + len(",")
		if bytes > MaxBytes && i > 0 {
			items = window[:i]
			break
		}
	}
	if len(items) > 0 && skipped+len(items) < p.seen {
		next = tokenOf(items[len(items)-1], p.keys)
	}
	return items, next
}

func (p *Page[T]) compare(a, b T) int {
	for i := range p.keys {
		if c := p.keys[i].compare(a, b); c != 0 {
			return c
		}
	}
	return 0
}

func (p *Page[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if p.compare(p.kept[i], p.kept[parent]) <= 0 {
			return
		}
		p.kept[i], p.kept[parent] = p.kept[parent], p.kept[i]
		i = parent
	}
}

func (p *Page[T]) down() {
	for i := 0; ; {
		last := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(p.kept) && p.compare(p.kept[child], p.kept[last]) > 0 {
				last = child
			}
		}
		if last == i {
			return
		}
		p.kept[i], p.kept[last] = p.kept[last], p.kept[i]
		i = last
	}
}
