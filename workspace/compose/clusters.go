package compose

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/pluralsh/plural/workspace/fleet"
)

// onClusters gives a Service that says nothing of it the installation's clusters.
func (i *installing) onClusters(spec map[string]any) error {
	if spec["clusters"] != nil {
		return nil
	}
	picked := i.in.Spec.Clusters
	if picksNone(picked) {
		management := i.w.Fleet.Workspace.Spec.Management
		if management == "" {
			return fleet.Errors{{
				Position: i.w.Fleet.Workspace.Position, Message: fmt.Sprintf("package %s names no clusters, and there is no management cluster", i.name()),
				Fix: fmt.Sprintf("write management: CLUSTER below spec, or clusters: {names: [CLUSTER]} into %s", i.in.Position.File),
			}}
		}
		picked.Names = []string{management}
	}
	spec["clusters"] = tree(picked, nil)
	return nil
}

// staysOn refuses clusters that a step picks by itself beyond those that the installation names: where a package goes is for
// whoever installs it to say.
func (i *installing) staysOn(p *part, own fleet.Selector) error {
	if picksNone(i.in.Spec.Clusters) || i.covers(i.in.Spec.Clusters, own) {
		return nil
	}
	where := i.in.Place("spec.clusters")
	return i.loaded.fault(p.field("spec.clusters"),
		fmt.Sprintf("widen spec.clusters in %s if that is meant, or leave clusters out of the step, which then goes where they say", where.File),
		"the step %s picks clusters beyond those of its installation (%s:%d)", p.step.Name, where.File, where.Line)
}

func picksNone(s fleet.Selector) bool {
	return len(s.Names)+len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// covers says whether a selector picks every cluster that another picks. Of one that picks by tags that is known only where it
// has all conditions of the other: another cluster may come.
func (i *installing) covers(all, some fleet.Selector) bool {
	if reflect.DeepEqual(all, some) || !picksNone(all) && narrows(all, some) {
		return true
	}
	for _, name := range some.Names {
		c, ok := i.w.Fleet.Cluster(name)
		if !ok || !all.Matches(c) {
			return false
		}
	}
	return len(some.Names) > 0
}

// narrows says whether a selector has all conditions of another, and so picks nothing that the other does not.
func narrows(all, some fleet.Selector) bool {
	for _, name := range some.Names {
		if len(all.Names) > 0 && !slices.Contains(all.Names, name) {
			return false
		}
	}
	for label, value := range all.MatchLabels {
		if got, ok := some.MatchLabels[label]; !ok || got != value {
			return false
		}
	}
	for n := range all.MatchExpressions {
		same := func(r fleet.Requirement) bool { return reflect.DeepEqual(r, all.MatchExpressions[n]) }
		if !slices.ContainsFunc(some.MatchExpressions, same) {
			return false
		}
	}
	return len(all.Names) == 0 || len(some.Names) > 0
}

// clustersOf are the facts of the clusters that a service goes to, which its texts may read.
func (i *installing) clustersOf(s *fleet.Service) []any {
	var all []any
	for n := range i.w.Fleet.Clusters {
		if c := &i.w.Fleet.Clusters[n]; s.Spec.Clusters.Matches(c) {
			all = append(all, []any{c.Metadata.Name, c.Spec.Tags, c.Spec.Parameters})
		}
	}
	return all
}
