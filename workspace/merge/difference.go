package merge

// maxWork bounds the steps that one comparison takes. What is not compared by then counts as changed as a whole, which can only
// make a conflict larger.
const maxWork = 50_000_000

// difference is how to get from one text to another in as few changed lines as possible, by Myers' algorithm in its form that
// divides the texts where the ways from both ends meet. Changes are sorted, and do not touch each other.
func difference(from, to []int) []change {
	c := &comparison{from: from, to: to, removed: make([]bool, len(from)), added: make([]bool, len(to)), work: maxWork}
	size := 2*(len(from)+len(to)) + 4
	c.forward, c.backward = make([]int, size), make([]int, size)
	c.compare(0, len(from), 0, len(to))
	settle(from, c.removed)
	settle(to, c.added)
	return c.changes()
}

// comparison marks the lines that are only on one side.
type comparison struct {
	from, to          []int
	removed, added    []bool
	forward, backward []int
	work              int
}

// compare marks what differs between from[a:b] and to[x:y].
func (c *comparison) compare(a, b, x, y int) {
	for a < b && x < y && c.from[a] == c.to[x] {
		a, x = a+1, x+1
	}
	for a < b && x < y && c.from[b-1] == c.to[y-1] {
		b, y = b-1, y-1
	}
	if a < b && x < y {
		if s, ok := c.middle(a, b, x, y); ok {
			c.compare(a, s.from, x, s.to)
			c.compare(s.from, b, s.to, y)
			return
		}
	}
	for i := a; i < b; i++ {
		c.removed[i] = true
	}
	for i := x; i < y; i++ {
		c.added[i] = true
	}
}

// point is a place in both texts.
type point struct{ from, to int }

// middle finds a point on a shortest way through from[a:b] and to[x:y], neither of which is empty, that divides it. Ways are
// numbered by their diagonal: the lines taken from the one text less those taken from the other.
func (c *comparison) middle(a, b, x, y int) (point, bool) {
	n, m := b-a, y-x
	delta := n - m
	odd := delta%2 != 0
	down := front{reach: c.forward, zero: n + m + 1, n: n, m: m, same: func(i, j int) bool { return c.from[a+i] == c.to[x+j] }}
	up := front{reach: c.backward, zero: n + m + 1, n: n, m: m, same: func(i, j int) bool { return c.from[b-1-i] == c.to[y-1-j] }}
	for d := 0; d <= (n+m+1)/2; d++ {
		if c.work -= d + 1; c.work < 0 {
			return point{}, false
		}
		for k := -d; k <= d; k += 2 {
			if i := down.advance(k, d); odd && up.meets(delta-k, d-1, n-i) {
				return c.split(a+i, x+i-k, a, b, x, y)
			}
		}
		for k := -d; k <= d; k += 2 {
			if i := up.advance(k, d); !odd && down.meets(delta-k, d, n-i) {
				return c.split(b-i, y-(i-k), a, b, x, y)
			}
		}
	}
	return point{}, false
}

// front is how far ways from one end have got: on each diagonal, how many lines of the first text are taken.
type front struct {
	reach      []int
	zero, n, m int
	same       func(i, j int) bool
}

// nowhere is the reach of a diagonal that no way inside the texts leads to.
const nowhere = -1

// advance takes one more line that differs, after d-1 of them, to come to diagonal k; then all that are the same.
func (f *front) advance(k, d int) int {
	i := nowhere
	if d == 0 {
		i = 0
	}
	if k > -d && f.reach[f.zero+k-1] != nowhere && f.reach[f.zero+k-1] < f.n {
		i = f.reach[f.zero+k-1] + 1
	}
	if k < d && f.reach[f.zero+k+1] > i && f.reach[f.zero+k+1]-k <= f.m {
		i = f.reach[f.zero+k+1]
	}
	for i != nowhere && i < f.n && i-k < f.m && f.same(i, i-k) {
		i++
	}
	f.reach[f.zero+k] = i
	return i
}

// meets says whether the ways that took up to d lines that differ have got as far as to i on diagonal k.
func (f *front) meets(k, d, i int) bool {
	return k >= -d && k <= d && i <= f.n && f.reach[f.zero+k] != nowhere && f.reach[f.zero+k] >= i
}

// split accepts a point that lies inside and is none of the corners, which would divide nothing.
func (c *comparison) split(i, j, a, b, x, y int) (point, bool) {
	inside := i >= a && i <= b && j >= x && j <= y
	corner := i == a && j == x || i == b && j == y
	return point{i, j}, inside && !corner
}

// settle moves each run of marked lines down as far as it says the same, where it may meet the next: of several lines that
// are equal, the last is the one that came or went. Without it, the choice would depend on the rest of the text.
func settle(text []int, marked []bool) {
	for i := len(text) - 1; i >= 0; i-- {
		if !marked[i] || i > 0 && marked[i-1] {
			continue
		}
		begin, end := i, i
		for end < len(text) && marked[end] {
			end++
		}
		for end < len(text) && text[begin] == text[end] {
			marked[begin], marked[end] = false, true
			begin++
			for end++; end < len(text) && marked[end]; {
				end++
			}
		}
	}
}

// changes are the runs of marked lines, side by side.
func (c *comparison) changes() []change {
	var list []change
	for i, j := 0, 0; i < len(c.removed) || j < len(c.added); i, j = i+1, j+1 {
		one := change{from: i, newFrom: j}
		for i < len(c.removed) && c.removed[i] {
			i++
		}
		for j < len(c.added) && c.added[j] {
			j++
		}
		if one.to, one.newTo = i, j; i > one.from || j > one.newFrom {
			list = append(list, one)
		}
	}
	return list
}
