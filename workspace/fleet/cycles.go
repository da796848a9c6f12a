package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/yamlstrict"
)

// maxCycles bounds what is reported at once: one wrong edge can close very many.
const maxCycles = 20

// checkCycles reports services that wait for each other, and installations that follow each other.
func checkCycles(f *Fleet, out *yamlstrict.Faults) {
	services := make([]node, len(f.Services))
	for i := range f.Services {
		s := &f.Services[i]
		services[i].name = s.Metadata.Name
		for j, dep := range s.Spec.DependsOn {
			services[i].edges = append(services[i].edges, edge{dep.Service, s.Place(index("spec.dependsOn", j) + ".service")})
		}
	}
	walkAll(services, "remove one of these dependencies", "dependency cycle", out)
	installations := make([]node, len(f.Installations))
	for i := range f.Installations {
		in := &f.Installations[i]
		installations[i].name = in.Metadata.Name
		for j, first := range in.Spec.Upgrade.After {
			installations[i].edges = append(installations[i].edges, edge{first, in.Place(index("spec.upgrade.after", j))})
		}
	}
	walkAll(installations, "let one of them go first", "upgrades that wait for each other", out)
}

// node is a document that waits for others of its kind.
type node struct {
	name  string
	edges []edge
}

// edge is one wait, and where it is written.
type edge struct {
	to string
	at Position
}

// visit is how far what a node waits for was followed.
type visit int

const (
	unseen visit = iota
	following
	done
)

// step is one wait on the way from where the walk began.
type step struct {
	from string
	edge edge
}

// walk is a depth-first search along waits. It reports every cycle that it finds once, with the place of every step.
type walk struct {
	nodes     map[string]*node
	out       *yamlstrict.Faults
	fix, what string
	state     map[string]visit
	trail     []step
	found     int
}

func walkAll(nodes []node, fix, what string, out *yamlstrict.Faults) {
	w := &walk{nodes: make(map[string]*node, len(nodes)), out: out, fix: fix, what: what, state: make(map[string]visit, len(nodes))}
	for i := range nodes {
		if _, twice := w.nodes[nodes[i].name]; !twice {
			w.nodes[nodes[i].name] = &nodes[i]
		}
	}
	for i := range nodes {
		w.visit(&nodes[i])
	}
}

func (w *walk) visit(n *node) {
	if w.state[n.name] != unseen {
		return
	}
	w.state[n.name] = following
	for _, e := range n.edges {
		next, ok := w.nodes[e.to]
		if !ok {
			continue // reported as an unknown reference
		}
		w.trail = append(w.trail, step{n.name, e})
		if w.state[e.to] == following && w.found < maxCycles {
			w.found++
			w.report(e.to)
		}
		w.visit(next)
		w.trail = w.trail[:len(w.trail)-1]
	}
	w.state[n.name] = done
}

// report names the cycle that the last step of the trail closes at the node called name.
func (w *walk) report(name string) {
	start := slices.IndexFunc(w.trail, func(s step) bool { return s.from == name })
	var way []string
	for _, s := range w.trail[start:] {
		way = append(way, fmt.Sprintf("%s (%s)", s.from, s.edge.at))
	}
	w.out.Add(w.trail[start].edge.at, w.fix, "%s: %s -> %s", w.what, strings.Join(way, " -> "), name)
}
