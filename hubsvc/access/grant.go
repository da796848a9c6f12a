package access

import (
	"maps"
	"slices"

	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Grant is a role as one binding gives it. It answers for itself by what decides about requests, so that people who read the rules
// see what the hub does.
type Grant struct {
	Binding *fleet.RoleBinding
	Role    *fleet.Role
	role    *role
}

// Held is a grant that somebody has.
type Held struct {
	*Grant
	// Group is the one by which the person has it; empty: the binding names the user.
	Group string
}

// Grants are all of the fleet, in the order of the bindings' names. The result is shared: do not change it.
func (r *Rules) Grants() []*Grant { return r.grants }

// Held are the grants of a person: their own, then those of their groups.
func (r *Rules) Held(p principal.Person) []Held {
	var all []Held
	for _, g := range r.users[p.Name] {
		all = append(all, Held{g, ""})
	}
	for _, group := range p.Groups {
		for _, g := range r.groups[group] {
			all = append(all, Held{g, group})
		}
	}
	return all
}

// Fleet says whether the grant allows a verb of the fleet, or for tools.
func (g *Grant) Fleet(verb string) bool { return g.role.does(verb) }

// Kubernetes are the indexes of the rules in the role's spec.kubernetes that allow q at a cluster; empty: at any.
func (g *Grant) Kubernetes(cluster string, q kubeaccess.Request) []int {
	var all []int
	discovery := kubeaccess.Discovery(q)
	for i := range g.role.rules {
		if one := &g.role.rules[i]; (cluster == "" || one.holds(cluster)) && one.passes(&q, discovery) {
			all = append(all, i)
		}
	}
	return all
}

// Clusters are the names of those that one of the rules is about, sorted; all says that it is about every one, also those to come.
func (g *Grant) Clusters(rule int) (names []string, all bool) {
	if picked := g.role.rules[rule].clusters; picked != nil {
		return slices.Sorted(maps.Keys(picked)), false
	}
	return nil, true
}
