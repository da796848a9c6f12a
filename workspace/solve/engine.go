package solve

import (
	"cmp"
	"slices"
)

// engine knows slots as numbers with sets of values, and rules. It is the core of PubGrub (Natalie Weizenbaum, 2018) over
// finite sets: what is known of each slot only narrows, until a rule is broken; then the rule is resolved with those that
// made it so until it tells how far back the cause lies.
type engine struct {
	// every has all values of a slot, known those that are left.
	every, known []set
	trail        []step
	// steps are those of the trail that narrowed a slot, rules those that watch it.
	steps   [][]int
	rules   [][]*rule
	level   int
	changed []int
	// seen counts those steps that whoever uses the engine has seen; it goes back with the trail.
	seen int
	// trouble is how much a slot has had to do with dead ends, of which the later ones count more: by weight.
	trouble []float64
	weight  float64
}

// step narrows what is known of one slot.
type step struct {
	slot, level   int
	before, after set
	// own is what the step says by itself.
	own set
	// cause is the rule that it follows from; nil for a decision.
	cause *rule
}

// term says that a slot's value is in a set.
type term struct {
	slot int
	in   set
}

// rule forbids that all its terms hold.
type rule struct {
	// terms are sorted by slot, each slot once.
	terms []term
	// facts are numbers of what the rule rests on, sorted.
	facts []int
	// watched are two terms that do not hold, as long as there are two: nothing follows from the rule until one does.
	watched [2]int
}

// add makes room for one more slot.
func (e *engine) add(size int) int {
	e.every = append(e.every, full(size))
	e.known = append(e.known, e.every[len(e.every)-1])
	e.steps = append(e.steps, nil)
	e.rules = append(e.rules, nil)
	e.trouble = append(e.trouble, 0)
	return len(e.every) - 1
}

// rule makes one of terms, of which those of the same slot are joined.
func (e *engine) rule(terms []term, facts ...int) *rule {
	r := &rule{facts: facts}
	slices.SortStableFunc(terms, func(a, b term) int { return cmp.Compare(a.slot, b.slot) })
	for _, t := range terms {
		if last := len(r.terms) - 1; last >= 0 && r.terms[last].slot == t.slot {
			r.terms[last].in = r.terms[last].in.and(t.in)
		} else {
			r.terms = append(r.terms, t)
		}
	}
	r.terms = slices.DeleteFunc(r.terms, func(t term) bool { return e.every[t.slot].within(t.in) })
	return r
}

// post takes a rule in. The result is nil, or the rule when it is broken.
func (e *engine) post(r *rule) *rule {
	if len(r.terms) == 0 {
		return r
	}
	// Of terms that hold, those that came to do so last are watched: they are the first that will not hold when the engine
	// goes back.
	age := make([]int, len(r.terms))
	order := make([]int, len(r.terms))
	for i, t := range r.terms {
		if order[i], age[i] = i, len(e.trail); e.holds(t) {
			age[i] = e.first(t.slot, t.in)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(age[b], age[a]) })
	r.watched = [2]int{order[0], order[min(1, len(order)-1)]}
	e.watch(r, 0)
	if len(r.terms) > 1 {
		e.watch(r, 1)
		if !e.holds(r.terms[r.watched[1]]) {
			return nil
		}
	}
	return e.last(r, r.terms[r.watched[0]])
}

func (e *engine) watch(r *rule, which int) {
	slot := r.terms[r.watched[which]].slot
	e.rules[slot] = append(e.rules[slot], r)
}

func (e *engine) holds(t term) bool { return e.known[t.slot].within(t.in) }

// last draws the conclusion from a rule of which all terms but this one hold. The result is nil, or the rule when this one
// does too.
func (e *engine) last(r *rule, t term) *rule {
	switch {
	case e.holds(t):
		return r
	case e.known[t.slot].meets(t.in):
		e.narrow(t.slot, e.every[t.slot].minus(t.in), r)
	}
	return nil
}

// check looks at a rule of which a term about a slot is watched. It says whether the rule goes on watching that slot.
func (e *engine) check(r *rule, slot int) (stays bool, broken *rule) {
	which := 0
	if r.terms[r.watched[0]].slot != slot {
		which = 1
	}
	if !e.holds(r.terms[r.watched[which]]) {
		return true, nil
	}
	other := r.terms[r.watched[1-which]]
	if !e.known[other.slot].meets(other.in) {
		return true, nil
	}
	for i, t := range r.terms {
		if i != r.watched[0] && i != r.watched[1] && !e.holds(t) {
			r.watched[which] = i
			e.watch(r, which)
			return false, nil
		}
	}
	return true, e.last(r, other)
}

func (e *engine) narrow(slot int, to set, cause *rule) {
	before := e.known[slot]
	e.known[slot] = before.and(to)
	e.steps[slot] = append(e.steps[slot], len(e.trail))
	e.trail = append(e.trail, step{slot, e.level, before, e.known[slot], to, cause})
	e.changed = append(e.changed, slot)
}

// decide gives a slot a value, until that turns out to be wrong.
func (e *engine) decide(slot, value int) {
	e.level++
	only := make(set, len(e.every[slot]))
	only.add(value)
	e.narrow(slot, only, nil)
}

// propagate draws all conclusions. The result is nil, or a rule that is broken.
func (e *engine) propagate() *rule {
	for len(e.changed) > 0 {
		slot := e.changed[0]
		e.changed = e.changed[1:]
		watching := e.rules[slot]
		kept := 0
		for i, r := range watching {
			stays, broken := e.check(r, slot)
			if stays {
				watching[kept] = r
				kept++
			}
			if broken != nil {
				kept += copy(watching[kept:], watching[i+1:])
				e.rules[slot] = watching[:kept]
				return broken
			}
		}
		e.rules[slot] = watching[:kept]
	}
	return nil
}

// learn goes back from a broken rule to where its cause lies, and takes in what it has learned. When the cause lies in what
// was there before any decision, ok is false, and facts are what cannot all hold.
func (e *engine) learn(r *rule) (facts []int, ok bool) {
	if e.weight = max(e.weight, 1) * 1.05; e.weight > 1e100 {
		e.weight = 1
		for slot := range e.trouble {
			e.trouble[slot] /= 1e100
		}
	}
	for {
		if len(r.terms) == 0 {
			return r.facts, false
		}
		last, which, back := e.satisfier(r)
		e.trouble[last.slot] += e.weight
		if last.cause == nil || back < last.level {
			e.back(back)
			if r = e.post(r); r == nil {
				return nil, true
			}
			continue // the rule is broken there too
		}
		r = e.resolve(r, which, last)
	}
}

// satisfier finds the step by which all terms of a broken rule held for the first time, the term that it completed, and
// the level at which everything else that the rule needs was there.
func (e *engine) satisfier(r *rule) (last step, which, back int) {
	at := -1
	firsts := make([]int, len(r.terms))
	for i, t := range r.terms {
		if firsts[i] = e.first(t.slot, t.in); firsts[i] > at {
			at, which = firsts[i], i
		}
	}
	last = e.trail[at]
	for i, first := range firsts {
		if i != which {
			back = max(back, e.trail[first].level)
		}
	}
	if rest := r.terms[which].in.or(e.every[last.slot].minus(last.own)); !e.every[last.slot].within(rest) {
		back = max(back, e.trail[e.first(last.slot, rest)].level)
	}
	return last, which, back
}

// first is the step of the trail after which a slot was known to be in a set.
func (e *engine) first(slot int, in set) int {
	for _, i := range e.steps[slot] {
		if e.trail[i].after.within(in) {
			return i
		}
	}
	panic("solve: a rule is not broken that is said to be")
}

// resolve replaces a term by the reasons that it held.
func (e *engine) resolve(r *rule, which int, last step) *rule {
	terms := slices.Delete(slices.Clone(r.terms), which, which+1)
	for _, t := range last.cause.terms {
		if t.slot != last.slot {
			terms = append(terms, t)
		}
	}
	terms = append(terms, term{last.slot, r.terms[which].in.or(e.every[last.slot].minus(last.own))})
	return e.rule(terms, union(r.facts, last.cause.facts)...)
}

func union(a, b []int) []int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// back undoes all that was decided and concluded above a level.
func (e *engine) back(level int) {
	for len(e.trail) > 0 && e.trail[len(e.trail)-1].level > level {
		last := e.trail[len(e.trail)-1]
		e.known[last.slot] = last.before
		e.steps[last.slot] = e.steps[last.slot][:len(e.steps[last.slot])-1]
		e.trail = e.trail[:len(e.trail)-1]
	}
	e.level, e.changed = level, nil
	e.seen = min(e.seen, len(e.trail))
}
