package fleet

import (
	"slices"
	"strings"
)

// checkNames reports documents of one kind with the same name, at the later one.
func checkNames(f *Fleet, out *faults) {
	unique(f.Clusters, "cluster", out, func(c *Cluster) (string, Position) { return c.Metadata.Name, c.Position })
	unique(f.Sources, "source", out, func(s *Source) (string, Position) { return s.Metadata.Name, s.Position })
	unique(f.Services, "service", out, func(s *Service) (string, Position) { return s.Metadata.Name, s.Position })
}

func unique[T any](list []T, what string, out *faults, of func(*T) (string, Position)) {
	for i := 1; i < len(list); i++ {
		name, at := of(&list[i])
		before, first := of(&list[i-1])
		if name == before && name != "" {
			out.add(at, "rename one of them", "a second %s named %s; the other is at %s", what, quote(name), first)
		}
	}
}

// checkReferences reports names that nothing in the fleet has.
func checkReferences(f *Fleet, out *faults) {
	clusters, sources, services := names(f.Clusters, clusterName), names(f.Sources, sourceName), names(f.Services, serviceName)
	for i := range f.Services {
		s := &f.Services[i]
		if s.Spec.Source.Name != "" {
			refer(s, "spec.source.name", "source", s.Spec.Source.Name, sources, out)
		}
		for j, name := range s.Spec.Clusters.Names {
			refer(s, index("spec.clusters.names", j), "cluster", name, clusters, out)
		}
		for j, dep := range s.Spec.DependsOn {
			refer(s, index("spec.dependsOn", j)+".service", "service", dep.Service, services, out)
		}
	}
}

func names[T any](list []T, of func(*T) string) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = of(&list[i])
	}
	return all
}

// refer reports a name that is not in known, which is sorted.
func refer(s *Service, path, what, name string, known []string, out *faults) {
	if _, ok := slices.BinarySearch(known, name); ok || name == "" {
		return
	}
	out.add(s.Place(path), didYouMean(name, known, what+"s"), "%s refers to the %s %s, which does not exist", strings.TrimPrefix(path, "spec."), what, quote(name))
}
