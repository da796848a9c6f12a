package revert

import (
	"maps"
	"slices"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Touched is what of a fleet a plan has to do with, sorted.
type Touched struct {
	// Services are those that are there afterwards, Gone those that are not.
	Services, Gone []string
	// Clusters run one of them, before or after; Changed are those whose own files are changed.
	Clusters, Changed []string
	// Agents are clusters that another agent acts for afterwards, or can be taken by one: keys or a join token come back.
	Agents []string
}

// Touches compares two states of a fleet by the files of a plan that leads from one to the other.
func (p *Plan) Touches(before, after *fleet.Fleet, src resolve.Sources) Touched {
	services, clusters, changed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range []*fleet.Fleet{before, after} {
		for i := range f.Services {
			s := &f.Services[i]
			if !p.holds(history.Paths(history.Reads(f, s, src)...)) {
				continue
			}
			services[s.Metadata.Name] = true
			for j := range f.Clusters {
				if c := &f.Clusters[j]; s.Spec.Clusters.Matches(c) {
					clusters[c.Metadata.Name] = true
				}
			}
		}
		for i := range f.Clusters {
			if _, ok := p.Files[f.Clusters[i].Position.File]; ok {
				changed[f.Clusters[i].Metadata.Name] = true
				clusters[f.Clusters[i].Metadata.Name] = true
			}
		}
	}
	t := Touched{Agents: agents(before, after), Clusters: slices.Sorted(maps.Keys(clusters)), Changed: slices.Sorted(maps.Keys(changed))}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if _, ok := after.Service(name); ok {
			t.Services = append(t.Services, name)
		} else {
			t.Gone = append(t.Gone, name)
		}
	}
	return t
}

// agents are the clusters for which after lets somebody in whom before does not.
func agents(before, after *fleet.Fleet) []string {
	var names []string
	for i := range after.Clusters {
		now, was := &after.Clusters[i], &fleet.Cluster{}
		if c, ok := before.Cluster(now.Metadata.Name); ok {
			was = c
		}
		keys := now.Spec.Agent != was.Spec.Agent && now.Spec.Agent != (fleet.AgentKeys{})
		join := now.Spec.Join != nil && (was.Spec.Join == nil || *now.Spec.Join != *was.Spec.Join)
		if keys || join {
			names = append(names, now.Metadata.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *Plan) holds(scope history.Scope) bool {
	for path := range p.Files {
		if scope.Holds(path) {
			return true
		}
	}
	return false
}
