package compare

import (
	"fmt"
	"slices"

	"github.com/pluralsh/plural/agent/object"
)

// Moves tells what one service renders no longer, and another one renders now on the same cluster, as one change of the latter:
// it is neither added nor deleted, and counts for no budget.
func Moves(deltas []Delta) []Delta {
	m := moveFinder{deltas: deltas, told: make([]map[string][]int, len(deltas)), clusters: map[move][]string{}}
	m.pair()
	var out []Delta
	for i := range deltas {
		out = append(out, deltas[i].without(m.told[i])...)
	}
	for _, move := range m.moves {
		from, to := &deltas[move.from.delta], &deltas[move.to.delta]
		change := to.Changes[move.to.change].movedFrom(from.Service, &from.Changes[move.from.change])
		out = append(out, Delta{Service: to.Service, Clusters: m.clusters[move], Changes: []Change{change}})
	}
	return out
}

// part is one change of one delta, by their positions. There is no change where the object is only known to be rendered.
type part struct{ delta, change int }

const unchanged = -1

type move struct{ from, to part }

// location is an object on a cluster.
type location struct {
	cluster string
	id      object.ID
}

// moveFinder finds moves.
type moveFinder struct {
	deltas []Delta
	// moves are in the order in which they were found, clusters where they happen.
	moves    []move
	clusters map[move][]string
	// told are, for each delta, the changes by cluster that are told otherwise.
	told []map[string][]int
}

func (m *moveFinder) pair() {
	takers := m.takers()
	for i := range m.deltas {
		d := &m.deltas[i]
		for j := range d.Changes {
			if d.Changes[j].Action != Deleted {
				continue
			}
			for _, cluster := range d.Clusters {
				to, ok := takers[location{cluster, d.Changes[j].place()}]
				if ok && m.deltas[to.delta].Service != d.Service {
					m.note(cluster, part{i, j}, to)
				}
			}
		}
	}
}

// note remembers one move. Where nothing changes in what takes the object over, there is nothing to tell.
func (m *moveFinder) note(cluster string, from, to part) {
	m.hide(cluster, from)
	if to.change == unchanged {
		return
	}
	m.hide(cluster, to)
	found := move{from, to}
	if m.clusters[found] == nil {
		m.moves = append(m.moves, found)
	}
	m.clusters[found] = append(m.clusters[found], cluster)
}

func (m *moveFinder) hide(cluster string, p part) {
	if m.told[p.delta] == nil {
		m.told[p.delta] = map[string][]int{}
	}
	m.told[p.delta][cluster] = append(m.told[p.delta][cluster], p.change)
}

// takers are what renders the objects now that something renders no longer.
func (m *moveFinder) takers() map[location]part {
	leaving := map[object.ID]bool{}
	for i := range m.deltas {
		for j := range m.deltas[i].Changes {
			if c := &m.deltas[i].Changes[j]; c.Action == Deleted {
				leaving[c.place()] = true
			}
		}
	}
	takers := map[location]part{}
	for i := range m.deltas {
		d := &m.deltas[i]
		take := func(id object.ID, change int) {
			if !leaving[id] {
				return
			}
			for _, cluster := range d.Clusters {
				takers[location{cluster, id}] = part{i, change}
			}
		}
		for _, id := range d.Rendered {
			take(id, unchanged)
		}
		for j := range d.Changes {
			if c := &d.Changes[j]; c.after != nil {
				take(c.place(), j)
			}
		}
	}
	return takers
}

// place is the object's id with the namespace in which it is when it lies in one: whether a kind that Kubernetes does not
// bring does so is not known here. What is the same place is the same object either way.
func (c *Change) place() object.ID {
	id := c.ID
	if id.Namespace == "" && !builtIn(id.Group) {
		id.Namespace = c.home
	}
	return id
}

// movedFrom is the change of an object that another service gives up.
func (c *Change) movedFrom(service string, given *Change) Change {
	moved := *c
	moved.Action, moved.From = Moved, service
	if moved.before == nil {
		moved.before, moved.hide[0] = given.before, given.hide[0]
		moved.Fields = moved.fields()
	}
	return moved
}

// without is the delta without some changes, which are given by cluster: as many deltas as there are different rests.
func (d *Delta) without(told map[string][]int) []Delta {
	var rests []Delta
	known := map[string]int{}
	for _, cluster := range d.Clusters {
		left := told[cluster]
		slices.Sort(left)
		key := fmt.Sprint(left)
		at, ok := known[key]
		if !ok {
			at = len(rests)
			known[key] = at
			rests = append(rests, d.rest(left))
		}
		rests[at].Clusters = append(rests[at].Clusters, cluster)
	}
	return rests
}

// rest is the delta on no cluster yet, without the changes at some positions.
func (d *Delta) rest(without []int) Delta {
	rest := *d
	rest.Clusters, rest.Changes = nil, nil
	for j := range d.Changes {
		if _, gone := slices.BinarySearch(without, j); !gone {
			rest.Changes = append(rest.Changes, d.Changes[j])
		}
	}
	return rest
}
