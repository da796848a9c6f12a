package solve

import (
	"cmp"
	"maps"
	"slices"
)

// solution reads the picks off the engine: what is wanted, and what that needs.
func (s *solver) solution() (*Solution, error) {
	picks := map[int]*Pick{}
	needs := map[int][]int{}
	var reach func(at int)
	reach = func(at int) {
		if picks[at] != nil {
			return
		}
		each, v := s.slots.list[at], s.value(at)
		p := &Pick{As: each.as, Name: v.Name, Version: v.Version.Version, Catalog: v.Catalog, Satisfies: map[string]string{}}
		picks[at] = p
		for _, n := range s.needs(at) {
			if n.Optional {
				continue // nothing is there for its sake
			}
			to := s.standing(n.choices)
			needs[at] = append(needs[at], to)
			p.Satisfies[n.Key()] = s.slots.list[to].as
			reach(to)
		}
	}
	for _, f := range s.facts {
		if f.want < 0 {
			continue
		}
		at := s.standing(f.choices)
		reach(at)
		picks[at].For = append(picks[at].For, s.wants[f.want].By)
	}
	for _, at := range slices.Sorted(maps.Keys(picks)) {
		for _, n := range s.needs(at) {
			if !n.Optional {
				continue
			}
			if to := s.beside(at, n, picks); to >= 0 {
				needs[at] = append(needs[at], to)
				picks[at].Satisfies[n.Key()] = s.slots.list[to].as
			}
		}
		for _, to := range needs[at] {
			picks[to].For = append(picks[to].For, picks[at].As+" "+picks[at].Version)
		}
	}
	return inOrder(picks, needs)
}

// value is the version that a slot has; nil when it has none.
func (s *solver) value(at int) *version {
	if value, ok := s.engine.known[at].single(); ok && value > 0 {
		return &s.slots.list[at].versions[value]
	}
	return nil
}

// needs are the dependencies of the version that a slot has.
func (s *solver) needs(at int) []*need {
	value, _ := s.engine.known[at].single()
	var all []*need
	for _, n := range s.slots.list[at].needs {
		if n.of.has(value) {
			all = append(all, n)
		}
	}
	return all
}

// beside is the slot that an optional dependency means among those that are there; -1 when there is none.
func (s *solver) beside(at int, n *need, picks map[int]*Pick) int {
	for _, c := range n.Choices() {
		best := -1
		for to, each := range s.slots.list {
			if to == at || picks[to] == nil || len(s.value(to).offers(c.Package)) == 0 {
				continue
			}
			if best < 0 || closeness(each, c.Package) > closeness(s.slots.list[best], c.Package) {
				best = to
			}
		}
		if best >= 0 {
			return best
		}
	}
	return -1
}

// closeness is more for the installation of the very name, then for the package.
func closeness(s *slot, name string) int {
	switch name {
	case s.as:
		return 2
	case s.name:
		return 1
	}
	return 0
}

// standing is the first choice that has come true. One has: the solver is done.
func (s *solver) standing(choices []choice) int {
	for _, c := range choices {
		if value, ok := s.engine.known[c.slot].single(); ok && value > 0 && c.fits.has(value) {
			return c.slot
		}
	}
	panic("solve: done, and something that is needed is not there")
}

// inOrder sorts picks so that each comes after those that it needs.
func inOrder(picks map[int]*Pick, needs map[int][]int) (*Solution, error) {
	left := slices.SortedFunc(maps.Keys(picks), func(a, b int) int { return cmp.Compare(picks[a].As, picks[b].As) })
	done := map[int]bool{}
	out := &Solution{Picks: make([]Pick, 0, len(left))}
	for len(left) > 0 {
		next := slices.IndexFunc(left, func(at int) bool {
			return !slices.ContainsFunc(needs[at], func(to int) bool { return !done[to] })
		})
		if next < 0 {
			return nil, circle(left, picks, needs, done)
		}
		at := left[next]
		left, done[at] = slices.Delete(left, next, next+1), true
		slices.Sort(picks[at].For)
		picks[at].For = slices.Compact(picks[at].For)
		out.Picks = append(out.Picks, *picks[at])
	}
	return out, nil
}

// circle names a circle among what is left: from the first name on, always to the first that is needed and left itself.
func circle(left []int, picks map[int]*Pick, needs map[int][]int, done map[int]bool) error {
	var path []int
	for at := left[0]; !slices.Contains(path, at); {
		path = append(path, at)
		open := slices.DeleteFunc(slices.Clone(needs[at]), func(to int) bool { return done[to] })
		at = slices.MinFunc(open, func(a, b int) int { return cmp.Compare(picks[a].As, picks[b].As) })
		if i := slices.Index(path, at); i >= 0 {
			path = path[i:]
		}
	}
	names := make([]string, len(path))
	for i, at := range path {
		names[i] = picks[at].As
	}
	least := slices.Index(names, slices.Min(names))
	names = slices.Concat(names[least:], names[:least])
	return &CycleError{Names: append(names, names[0])}
}
