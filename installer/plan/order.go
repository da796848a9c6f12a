package plan

import (
	"cmp"
	"slices"

	"github.com/pluralsh/plural/workspace/compose"
)

// order puts installations behind those that they depend on, else by name.
func order(all []*compose.Composed) ([]*compose.Composed, error) {
	byName := make(map[string]*compose.Composed, len(all))
	for _, c := range all {
		byName[c.Name] = c
	}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b *compose.Composed) int { return cmp.Compare(a.Name, b.Name) })
	return sort(sorted, func(c *compose.Composed) string { return c.Name }, func(c *compose.Composed) []*compose.Composed {
		var needs []*compose.Composed
		for _, name := range c.DependsOn {
			if other := byName[name]; other != nil {
				needs = append(needs, other)
			}
		}
		return needs
	})
}

// orderSteps puts a package's steps behind those that they need, else as they are written.
func orderSteps(c *compose.Composed) ([]*compose.Step, error) {
	byName := make(map[string]*compose.Step, len(c.Steps))
	all := make([]*compose.Step, len(c.Steps))
	for i := range c.Steps {
		all[i] = &c.Steps[i]
		byName[c.Steps[i].Name] = &c.Steps[i]
	}
	return sort(all, func(s *compose.Step) string { return c.Name + "/" + s.Name }, func(s *compose.Step) []*compose.Step {
		var needs []*compose.Step
		for _, name := range s.Needs {
			if other := byName[name]; other != nil {
				needs = append(needs, other)
			}
		}
		return needs
	})
}

// sort is a depth-first walk, so that the order among independent ones is that of the list.
func sort[T comparable](list []T, name func(T) string, needs func(T) []T) ([]T, error) {
	const under, placed = 1, 2
	state := make(map[T]int, len(list))
	out := make([]T, 0, len(list))
	var path []T
	var place func(T) error
	place = func(item T) error {
		switch state[item] {
		case placed:
			return nil
		case under:
			circle := append(path[slices.Index(path, item):len(path):len(path)], item)
			e := &CycleError{}
			for _, one := range circle {
				e.Path = append(e.Path, name(one))
			}
			return e
		}
		state[item] = under
		path = append(path, item)
		for _, need := range needs(item) {
			if err := place(need); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		state[item] = placed
		out = append(out, item)
		return nil
	}
	for _, item := range list {
		if err := place(item); err != nil {
			return nil, err
		}
	}
	return out, nil
}
