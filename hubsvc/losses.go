package hubsvc

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/workspace/fleet"
)

// losses are what a commit takes away from the fleet, out of total.
type losses struct {
	what string
	// names are of what goes: services, or SERVICE/CLUSTER.
	names []string
	total int
}

// overBudget refuses a fleet that takes away more than one commit may, unless a person has agreed to exactly that.
func overBudget(good *candidate, f *fleet.Fleet) []v1.Problem {
	if good == nil {
		return nil
	}
	spec := &f.Workspace.Spec
	limit, err := budget.Parse(spec.DeletionBudget)
	if err != nil {
		return []v1.Problem{{File: f.Workspace.Position.File, Line: f.Workspace.Position.Line, Message: err.Error()}}
	}
	var problems []v1.Problem
	for _, lost := range []losses{lostServices(good.fleet, f), lostPlaces(good.fleet, f)} {
		if limit.Allows(len(lost.names), lost.total) || budget.Agreed(spec.Acknowledged, lost.names) {
			continue
		}
		problems = append(problems, lost.problem(limit))
	}
	return problems
}

// lostServices are the services that are gone altogether.
func lostServices(before, after *fleet.Fleet) losses {
	lost := losses{what: "services", total: len(before.Services)}
	for i := range before.Services {
		name := before.Services[i].Metadata.Name
		if _, stays := after.Service(name); !stays {
			lost.names = append(lost.names, name)
		}
	}
	return lost
}

// lostPlaces are the clusters on which services stop that stay in the fleet. A cluster that leaves the fleet keeps what it
// runs.
func lostPlaces(before, after *fleet.Fleet) losses {
	lost := losses{what: "places where services run"}
	if sameChoice(before, after) { // as with most commits, of fleets with millions of places
		return lost
	}
	for i := range before.Services {
		was := &before.Services[i]
		is, stays := after.Service(was.Metadata.Name)
		for j := range before.Clusters {
			name := before.Clusters[j].Metadata.Name
			now, there := after.Cluster(name)
			if !stays || !there || !was.Spec.Clusters.Matches(&before.Clusters[j]) {
				continue
			}
			lost.total++
			if !is.Spec.Clusters.Matches(now) {
				lost.names = append(lost.names, was.Metadata.Name+"/"+name)
			}
		}
	}
	return lost
}

// sameChoice says whether every service that stays picks its clusters by the same selector, of clusters with the same tags.
func sameChoice(before, after *fleet.Fleet) bool {
	for i := range before.Services {
		was := &before.Services[i]
		if is, stays := after.Service(was.Metadata.Name); stays && !reflect.DeepEqual(was.Spec.Clusters, is.Spec.Clusters) {
			return false
		}
	}
	for i := range before.Clusters {
		was := &before.Clusters[i]
		if is, stays := after.Cluster(was.Metadata.Name); stays && !maps.Equal(was.Spec.Tags, is.Spec.Tags) {
			return false
		}
	}
	return true
}

func (l losses) problem(limit budget.Budget) v1.Problem {
	token := budget.Token(l.names)
	return v1.Problem{
		File: "services", Token: token, Services: l.services(),
		Message: fmt.Sprintf("the commit takes away %d of %d %s, and the deletion budget of %s allows %d: %s",
			len(l.names), l.total, l.what, limit, limit.Allowed(l.total), l.list()),
		Fix: fmt.Sprintf("put them back, agree to exactly this with plural service ack --commit (spec.acknowledged: [%q] in plural.yaml), "+
			"or raise spec.deletionBudget there", token),
	}
}

// services are those that go, or stop somewhere.
func (l losses) services() []string {
	names := make([]string, len(l.names))
	for i, name := range l.names {
		names[i], _, _ = strings.Cut(name, "/")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// list names the first of what goes.
func (l losses) list() string {
	const most = 10
	slices.Sort(l.names)
	if rest := len(l.names) - most; rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(l.names[:most], ", "), rest)
	}
	return strings.Join(l.names, ", ")
}
