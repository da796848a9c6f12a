package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// maxCycles bounds what is reported at once: one wrong edge can close very many.
const maxCycles = 20

// checkCycles reports services that wait for each other, once for each cycle found, with the place of every step.
func checkCycles(f *Fleet, out *faults) {
	w := &walk{fleet: f, out: out, state: make(map[string]visit, len(f.Services))}
	for i := range f.Services {
		w.visit(&f.Services[i])
	}
}

// visit is how far a service's dependencies were followed.
type visit int

const (
	unseen visit = iota
	following
	done
)

// step is one dependency on the way from where the walk began: the service and which of its dependencies is followed.
type step struct {
	service *Service
	dep     int
}

// walk is a depth-first search along dependsOn.
type walk struct {
	fleet *Fleet
	out   *faults
	state map[string]visit
	trail []step
	found int
}

func (w *walk) visit(s *Service) {
	if w.state[s.Metadata.Name] != unseen {
		return
	}
	w.state[s.Metadata.Name] = following
	for i, dep := range s.Spec.DependsOn {
		next, ok := w.fleet.Service(dep.Service)
		if !ok {
			continue // reported as an unknown reference
		}
		w.trail = append(w.trail, step{s, i})
		if w.state[dep.Service] == following && w.found < maxCycles {
			w.found++
			w.report(dep.Service)
		}
		w.visit(next)
		w.trail = w.trail[:len(w.trail)-1]
	}
	w.state[s.Metadata.Name] = done
}

// report names the cycle that the last step of the trail closes at the service called name.
func (w *walk) report(name string) {
	start := slices.IndexFunc(w.trail, func(s step) bool { return s.service.Metadata.Name == name })
	var way []string
	for _, s := range w.trail[start:] {
		way = append(way, fmt.Sprintf("%s (%s)", s.service.Metadata.Name, s.place()))
	}
	fix := "remove one of these dependencies"
	w.out.add(w.trail[start].place(), fix, "dependency cycle: %s -> %s", strings.Join(way, " -> "), name)
}

func (s step) place() Position {
	return s.service.Place(index("spec.dependsOn", s.dep) + ".service")
}
