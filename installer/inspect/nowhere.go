package inspect

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

// nowhere warns of a service that asks for clusters of which there are none. One that asks for none is meant so, and a fleet without
// clusters waits for its first.
func (i *inspector) nowhere(s *fleet.Service) {
	asks := s.Spec.Clusters
	if len(i.Fleet.Clusters) == 0 || asks.None() {
		return
	}
	known := map[string]bool{}
	for c := range i.Fleet.Clusters {
		if asks.Matches(&i.Fleet.Clusters[c]) {
			return
		}
		for key, value := range i.Fleet.Clusters[c].Spec.Tags {
			known[key+"="+value] = true
		}
	}
	all := slices.Sorted(maps.Keys(known))
	fix := "no cluster has a tag: plural cluster set CLUSTER tag.KEY=VALUE"
	if len(all) > 0 {
		fix = "clusters have the tags " + listOf(all)
	}
	for _, key := range slices.Sorted(maps.Keys(asks.MatchLabels)) {
		if wanted := key + "=" + asks.MatchLabels[key]; !known[wanted] {
			if near, ok := yamlstrict.Nearest(wanted, all); ok {
				fix = fmt.Sprintf("no cluster has %s; did you mean %s?", wanted, near)
			}
		}
	}
	i.tell(&i.report.Warnings, Finding{
		Where:   s.Place("spec.clusters").String(),
		Message: fmt.Sprintf("service %s runs nowhere: no cluster fits its spec.clusters", s.Metadata.Name), Fix: fix,
	})
}
