package order

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pluralsh/plural/agent/object"
)

// Item is one turn of one object.
type Item struct {
	ID   object.ID
	Turn Turn
}

// Step is a set of objects that may be applied at the same time.
type Step struct {
	Stage Stage
	Wave  int
	Rank  int   // of the kinds in it
	Items []int // indexes of what was planned
	// AwaitHealth says that the next step starts when everything in this step, and in those before it, is healthy, and
	// hooks are done. Between two steps without it nothing is waited for, but for what is a barrier by its rank, or what
	// single objects depend on. It is never set before a stage that is entered for a reason of its own.
	AwaitHealth bool
}

// Plan cuts items into the steps that follow each other: by stage, by wave, what others of the wave depend on first,
// by the rank of the kind; Helm's hooks of a wave after that, one by one. What is skipped, or local, is in no step.
// A dependency on what is not among the items puts nothing in order: it has to be waited for where it is live.
// An error is a *DependencyError.
func Plan(items []Item) ([]Step, error) {
	p := &planner{items: items, byID: map[object.ID][]int{}, layers: make([]int, len(items))}
	for i, item := range items {
		if item.Turn.Stage != Skip && !item.Turn.LocalOnly {
			p.order = append(p.order, i)
			p.byID[item.ID] = append(p.byID[item.ID], i)
		}
	}
	if err := p.layer(); err != nil {
		return nil, err
	}
	slices.SortFunc(p.order, p.compare)
	return p.steps(), nil
}

// planner holds what the steps of one plan share.
type planner struct {
	items []Item
	order []int               // of what has a step
	byID  map[object.ID][]int // its turns
	// layers count, within a wave, how many objects have to be healthy one after another before this one is applied.
	layers []int
}

func (p *planner) compare(a, b int) int {
	x, y := p.items[a], p.items[b]
	byKind, first := Compare, 0
	switch {
	case x.Turn.alone() && y.Turn.alone():
		byKind = compareHelmHooks
	case x.Turn.alone():
		first = 1
	case y.Turn.alone():
		first = -1
	}
	return cmp.Or(
		cmp.Compare(x.Turn.Stage, y.Turn.Stage),
		cmp.Compare(x.Turn.Wave, y.Turn.Wave),
		cmp.Compare(p.layers[a], p.layers[b]),
		first,
		byKind(x.ID, y.ID),
		cmp.Compare(a, b),
	)
}

// alone says that nothing runs beside the hook: the next one waits until it has ended.
func (t Turn) alone() bool { return t.Hook && t.Family == Helm }

func (p *planner) steps() []Step {
	var steps []Step
	for n, i := range p.order {
		turn, rank := p.items[i].Turn, placeOf(p.items[i].ID).rank
		if n > 0 {
			last, together := &steps[len(steps)-1], p.together(p.order[n-1], i)
			if together && last.Rank == rank {
				last.Items = append(last.Items, i)
				continue
			}
			apart := last.Stage != turn.Stage || last.Wave != turn.Wave || turn.alone() || p.items[p.order[n-1]].Turn.alone()
			last.AwaitHealth = apart && follows(last.Stage, turn.Stage)
		}
		steps = append(steps, Step{Stage: turn.Stage, Wave: turn.Wave, Rank: rank, Items: []int{i}})
	}
	return steps
}

// together reports whether neither of two objects waits for the other's health.
func (p *planner) together(a, b int) bool {
	x, y := p.items[a].Turn, p.items[b].Turn
	return !x.alone() && !y.alone() && x.Stage == y.Stage && x.Wave == y.Wave && p.layers[a] == p.layers[b]
}

// follows reports whether one stage is entered because the other is done.
func follows(before, after Stage) bool { return before == after || after <= PostSync }

// layer puts what an object depends on in a layer before it. It works through the objects that wait for nothing any
// more; those that are left over then wait for each other.
func (p *planner) layer() error {
	waits := make([]int, len(p.items))
	waiters := map[int][]int{}
	for _, i := range p.order {
		for _, on := range p.items[i].Turn.After {
			first, found, err := p.dependency(i, on)
			if err != nil {
				return err
			}
			if found {
				waits[i]++
				waiters[first] = append(waiters[first], i)
			}
		}
	}
	done := 0
	ready := slices.DeleteFunc(slices.Clone(p.order), func(i int) bool { return waits[i] > 0 })
	for ; done < len(ready); done++ {
		for _, i := range waiters[ready[done]] {
			p.layers[i] = max(p.layers[i], p.layers[ready[done]]+1)
			if waits[i]--; waits[i] == 0 {
				ready = append(ready, i)
			}
		}
	}
	if done == len(p.order) {
		return nil
	}
	return p.circle(waits)
}

// dependency finds the turn of the same wave that an item waits for. One of an earlier wave or stage is waited for
// anyway, one of a later is an error.
func (p *planner) dependency(i int, on object.ID) (first int, found bool, err error) {
	turns := p.byID[on]
	if len(turns) == 0 {
		return 0, false, nil
	}
	when := func(i int) Turn { return p.items[i].Turn }
	compare := func(a, b int) int {
		return cmp.Or(cmp.Compare(when(a).Stage, when(b).Stage), cmp.Compare(when(a).Wave, when(b).Wave))
	}
	first = slices.MinFunc(turns, compare)
	switch c := compare(first, i); {
	case c < 0:
		return 0, false, nil
	case c == 0:
		return first, true, nil
	default:
		return 0, false, &DependencyError{
			Path: []object.ID{p.items[i].ID, on},
			Message: fmt.Sprintf("that one comes later, in stage %s, wave %d: take the dependency away, or move one of them",
				when(first).Stage, when(first).Wave),
		}
	}
}

// circle finds one circle among the items that still wait: whoever follows what they wait for must come round.
func (p *planner) circle(waits []int) error {
	at := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
	var path []int
	for !slices.Contains(path, at) {
		path = append(path, at)
		at = p.waitsFor(at, waits)
	}
	path = path[slices.Index(path, at):]
	ids := make([]object.ID, 0, len(path))
	for _, i := range path {
		ids = append(ids, p.items[i].ID)
	}
	return &DependencyError{Path: ids}
}

func (p *planner) waitsFor(i int, waits []int) int {
	for _, on := range p.items[i].Turn.After {
		if first, found, err := p.dependency(i, on); err == nil && found && waits[first] > 0 {
			return first
		}
	}
	return i
}
