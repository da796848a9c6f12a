package paging

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
)

// Page collects one page out of items. It keeps no more of them than the page can have.
type Page[T any] struct {
	keys  []key[T]
	after *cursor[T]
	limit int
	// skip is how many of the first items are left out. Then all are kept, in no order, unless items come in the page's: those who
	// jump are few.
	skip int
	// compared is how many of the keys decide: where items come in their own order, what is equal in these is in the order of coming.
	compared int
	ordered  bool
	// kept are the first items seen so far, the last of them on top of the heap.
	kept []placed[T]
	// seen counts all that come after the page before.
	seen int
}

// maxRoom is for how many items there is room from the beginning, at most: a reader may ask for any offset.
const maxRoom = 1 << 17

// placed is an item with what decides its place first, so that this is asked for once: the value of the first key, and its number in
// the order of coming.
type placed[T any] struct {
	item   T
	number int64
	text   string
	came   int
}

// Start begins a page. The error is an *Error.
func (t Table[T]) Start(q Query) (*Page[T], error) {
	keys, asked, err := t.order(q.Sort)
	if err != nil {
		return nil, err
	}
	p := &Page[T]{keys: keys, limit: q.Limit, skip: q.Offset, compared: len(keys), ordered: t.Ordered}
	if p.ordered {
		p.compared = t.deciding(keys[:asked])
	}
	if p.limit == 0 {
		p.limit = DefaultLimit
	}
	if p.skip > 0 && p.compared > 0 {
		p.kept = make([]placed[T], 0, min(p.skip+p.limit, maxRoom))
	}
	if q.Continue != "" {
		if p.after, err = parse(q.Continue, keys); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// deciding is how many of the keys that were asked for decide where items come in the list's own order: those at the end that ask for
// just that do not.
func (t Table[T]) deciding(asked []key[T]) int {
	for i := range asked {
		rest := asked[i:]
		same := func(k key[T], name string) bool { return k.name == name && !k.down }
		if len(rest) <= len(t.ID) && slices.EqualFunc(rest, t.ID[:len(rest)], same) {
			return i
		}
	}
	return len(asked)
}

// Add gives the page one of the list's items.
func (p *Page[T]) Add(item T) {
	if p.after != nil && p.after.compare(item) <= 0 {
		return
	}
	p.seen++
	if p.compared == 0 { // they come as they are shown
		if p.seen > p.skip && len(p.kept) < p.limit {
			p.kept = append(p.kept, placed[T]{item: item})
		}
		return
	}
	at := p.placed(item)
	if p.skip > 0 {
		p.kept = append(p.kept, at)
		return
	}
	if len(p.kept) < p.limit {
		p.kept = append(p.kept, at)
		p.up(len(p.kept) - 1)
		return
	}
	if p.compare(&at, &p.kept[0]) < 0 {
		p.kept[0] = at
		p.down()
	}
}

func (p *Page[T]) placed(item T) placed[T] {
	at := placed[T]{item: item, came: p.seen}
	if first := &p.keys[0]; first.Text != nil {
		at.text = clip(first.Text(item))
	} else {
		at.number = first.Number(item)
	}
	return at
}

// Items are the page's, in order, with the token that continues the list, which is empty on the last page. size is the length
// of an item's JSON; a page has at least one item, if there is one. The page is used up.
func (p *Page[T]) Items(size func(T) int) (items []T, next string) {
	skipped := min(p.skip, p.seen)
	bytes := 0
	for i, at := range p.window() {
		bytes += size(at.item) + len(",")
		if bytes > MaxBytes && i > 0 {
			break
		}
		items = append(items, at.item)
	}
	if len(items) > 0 && skipped+len(items) < p.seen {
		next = tokenOf(items[len(items)-1], p.keys)
	}
	return items, next
}

// window is what is kept of the page, in order.
func (p *Page[T]) window() []placed[T] {
	if p.compared == 0 {
		return p.kept
	}
	window := p.kept
	if p.skip > 0 {
		window = window[min(p.skip, len(window)):]
		p.part(p.kept, p.skip)
		p.part(window, p.limit)
		window = window[:min(p.limit, len(window))]
	}
	slices.SortFunc(window, func(a, b placed[T]) int { return p.compare(&a, &b) })
	return window
}

// part brings the first n of all before the others. Far less is compared than in sorting all.
func (p *Page[T]) part(all []placed[T], n int) {
	for n > 0 && n < len(all) {
		pivot, last := rand.IntN(len(all)), len(all)-1
		all[pivot], all[last] = all[last], all[pivot]
		before := 0
		for i := range all[:last] {
			if p.compare(&all[i], &all[last]) < 0 {
				all[i], all[before] = all[before], all[i]
				before++
			}
		}
		all[before], all[last] = all[last], all[before]
		if n <= before {
			all = all[:before]
			continue
		}
		all, n = all[before+1:], n-before-1
	}
}

func (p *Page[T]) compare(a, b *placed[T]) int {
	c := cmp.Compare(a.number, b.number)
	if c == 0 && p.keys[0].Text != nil {
		c = strings.Compare(a.text, b.text)
	}
	if p.keys[0].down {
		c = -c
	}
	for i := 1; c == 0 && i < p.compared; i++ {
		c = p.keys[i].compare(a.item, b.item)
	}
	if c == 0 && p.ordered {
		c = cmp.Compare(a.came, b.came)
	}
	return c
}

func (p *Page[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if p.compare(&p.kept[i], &p.kept[parent]) <= 0 {
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
			if child < len(p.kept) && p.compare(&p.kept[child], &p.kept[last]) > 0 {
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
