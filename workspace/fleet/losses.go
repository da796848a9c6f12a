package fleet

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/budget"
)

// Loss is what a commit takes away from the fleet beyond its deletion budget: the hub refuses it until a person agrees.
type Loss struct {
	// Names are of what goes, sorted: services, or SERVICE/CLUSTER.
	Names []string
	// Files are those that have said so far that it is there.
	Files []string

	noun  string
	total int
	limit budget.Budget
}

// Losses are those of the commit that makes one fleet of another, and that nobody agreed to.
func Losses(before, after *Fleet) ([]Loss, error) {
	spec := &after.Workspace.Spec
	limit, err := budget.Parse(spec.DeletionBudget)
	if err != nil {
		return nil, err
	}
	var over []Loss
	for _, lost := range []Loss{lostServices(before, after), lostPlaces(before, after)} {
		if limit.Allows(len(lost.Names), lost.total) || budget.Agreed(spec.Acknowledged, lost.Names) {
			continue
		}
		lost.limit = limit
		slices.Sort(lost.Names)
		slices.Sort(lost.Files)
		lost.Files = slices.Compact(lost.Files)
		over = append(over, lost)
	}
	return over, nil
}

// lostServices are the services that are gone altogether.
func lostServices(before, after *Fleet) Loss {
	lost := Loss{noun: "services", total: len(before.Services)}
	for i := range before.Services {
		s := &before.Services[i]
		if _, stays := after.Service(s.Metadata.Name); !stays {
			lost.Names, lost.Files = append(lost.Names, s.Metadata.Name), append(lost.Files, s.Position.File)
		}
	}
	return lost
}

// lostPlaces are the clusters on which services stop that stay in the fleet. A cluster that leaves the fleet keeps what it
// runs.
func lostPlaces(before, after *Fleet) Loss {
	lost := Loss{noun: "places where services run"}
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
			if is.Spec.Clusters.Matches(now) {
				continue
			}
			lost.Names = append(lost.Names, was.Metadata.Name+"/"+name)
			if was.Spec.Clusters.Matches(now) { // the service asks for less; else the cluster is another
				lost.Files = append(lost.Files, was.Position.File)
			} else {
				lost.Files = append(lost.Files, before.Clusters[j].Position.File)
			}
		}
	}
	return lost
}

// Leaving are the clusters of one fleet on which a service of it runs no more in the next, by name, and how many it runs on there. A
// service that is gone leaves all its clusters.
func Leaving(before, after *Fleet, service string) (leaves []string, runs int) {
	was, there := before.Service(service)
	is, stays := after.Service(service)
	if stays {
		for i := range after.Clusters {
			if is.Spec.Clusters.Matches(&after.Clusters[i]) {
				runs++
			}
		}
	}
	for i := range before.Clusters {
		c := &before.Clusters[i]
		if !there || !was.Spec.Clusters.Matches(c) {
			continue
		}
		now, known := after.Cluster(c.Metadata.Name)
		if !stays || known && !is.Spec.Clusters.Matches(now) { // a cluster that leaves the fleet keeps what it runs
			leaves = append(leaves, c.Metadata.Name)
		}
	}
	return leaves, runs
}

// sameChoice says whether every service that stays picks its clusters by the same selector, of clusters with the same tags.
func sameChoice(before, after *Fleet) bool {
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

// Token names exactly this loss in an agreement.
func (l *Loss) Token() string { return budget.Token(l.Names) }

// Services are those that go, or stop somewhere.
func (l *Loss) Services() []string {
	names := make([]string, len(l.Names))
	for i, name := range l.Names {
		names[i], _, _ = strings.Cut(name, "/")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Message says what goes, out of how much, and what may.
func (l *Loss) Message() string {
	const most = 10
	list := strings.Join(l.Names[:min(len(l.Names), most)], ", ")
	if rest := len(l.Names) - most; rest > 0 {
		list = fmt.Sprintf("%s and %d more", list, rest)
	}
	return fmt.Sprintf("the commit takes away %d of %d %s, and the deletion budget of %s allows %d: %s",
		len(l.Names), l.total, l.noun, l.limit, l.limit.Allowed(l.total), list)
}

// Fix is what may be done about it. Back is the command that brings it back, where one is known.
func (l *Loss) Fix(back string) string {
	if back != "" {
		back = " (" + back + ")"
	}
	return fmt.Sprintf("put them back%s, agree to exactly this with plural service ack --commit (spec.acknowledged: [%q] in plural.yaml), "+
		"or raise spec.deletionBudget there", back, l.Token())
}
