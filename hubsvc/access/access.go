// Package access owns the authorisation of people by roles.
//
// It refuses to know who asks, and how that was found out. Rules are made of one fleet and never change: for a new fleet
// there are new Rules. What no role allows is denied, and what a role allows at a cluster the cluster's own rules may
// still deny.
package access

import (
	"fmt"
	"slices"

	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Verbs of the fleet, each of which implies the ones before it.
const (
	View  = "view"
	Sync  = "sync"
	Edit  = "edit"
	Admin = "admin"
)

// Verbs that allow one thing and imply nothing: reading the hub's figures, which Admin may too, telling it that somebody pushed,
// which Sync may too, and reading who did what, which no other verb allows: who is looked at need not be who looks.
const (
	Metrics = "metrics"
	Hint    = "hint"
	Audit   = "audit"
)

// Rules are who may do what in one fleet. They are safe for concurrent use.
type Rules struct {
	// grants are all that give something, in the order of the bindings' names.
	grants        []*Grant
	users, groups map[string][]*Grant
	clusters      map[string]bool
}

// role is a fleet.Role, made ready for many questions.
type role struct {
	// reach counts the fleet verbs that are allowed, in their order; tools are the verbs for tools.
	reach int
	tools []string
	rules []rule
}

// rule is one of a role's for Kubernetes.
type rule struct {
	// clusters is nil for all.
	clusters map[string]bool
	rule     *kubeaccess.Rule
}

func (r *rule) holds(cluster string) bool { return r.clusters == nil || r.clusters[cluster] }

// New reads the roles of f, and who has them.
func New(f *fleet.Fleet) *Rules {
	r := &Rules{
		grants: make([]*Grant, 0, len(f.RoleBindings)), users: map[string][]*Grant{}, groups: map[string][]*Grant{},
		clusters: make(map[string]bool, len(f.Clusters)),
	}
	for i := range f.Clusters {
		r.clusters[f.Clusters[i].Metadata.Name] = true
	}
	roles := make(map[string]*Grant, len(f.Roles))
	for i := range f.Roles {
		roles[f.Roles[i].Metadata.Name] = &Grant{Role: &f.Roles[i], role: ready(&f.Roles[i], f.Clusters)}
	}
	for i := range f.RoleBindings {
		binding := &f.RoleBindings[i]
		if of, ok := roles[binding.Spec.Role]; ok {
			given := &Grant{Binding: binding, Role: of.Role, role: of.role}
			r.grants = append(r.grants, given)
			give(r.users, binding.Spec.Users, given)
			give(r.groups, binding.Spec.Groups, given)
		}
	}
	return r
}

// give adds what a binding grants to each of its names, once.
func give(to map[string][]*Grant, names []string, given *Grant) {
	for _, name := range names {
		if has := to[name]; len(has) == 0 || has[len(has)-1] != given {
			to[name] = append(has, given)
		}
	}
}

func ready(from *fleet.Role, clusters []fleet.Cluster) *role {
	made := &role{}
	for _, verb := range from.Spec.Fleet {
		made.reach = max(made.reach, reach(verb))
		if slices.Contains(fleet.ToolVerbs(), verb) {
			made.tools = append(made.tools, verb)
		}
	}
	for i := range from.Spec.Kubernetes {
		written := &from.Spec.Kubernetes[i]
		made.rules = append(made.rules, rule{picked(written.Clusters, clusters), &written.Rule})
	}
	return made
}

// picked are the names of the clusters that a selector picks; nil for all.
func picked(s *fleet.Selector, clusters []fleet.Cluster) map[string]bool {
	if s == nil {
		return nil
	}
	names := map[string]bool{}
	for i := range clusters {
		if s.Matches(&clusters[i]) {
			names[clusters[i].Metadata.Name] = true
		}
	}
	return names
}

// reach is how far a verb goes among those of the fleet; 0 is no verb.
func reach(verb string) int { return slices.Index(fleet.FleetVerbs(), verb) + 1 }

// does says whether the role allows a verb of the fleet, or for tools.
func (r *role) does(verb string) bool {
	switch verb {
	case Metrics:
		return r.reach >= reach(Admin) || slices.Contains(r.tools, verb)
	case Hint:
		return r.reach >= reach(Sync) || slices.Contains(r.tools, verb)
	case Audit:
		return slices.Contains(r.tools, verb)
	}
	wanted := reach(verb)
	return wanted > 0 && r.reach >= wanted
}

// some says whether a role of the person passes the test.
func (r *Rules) some(p *principal.Person, pass func(*role) bool) bool {
	given := func(g *Grant) bool { return pass(g.role) }
	if slices.ContainsFunc(r.users[p.Name], given) {
		return true
	}
	return slices.ContainsFunc(p.Groups, func(group string) bool { return slices.ContainsFunc(r.groups[group], given) })
}

// Fleet is nil when the person may do verb to the fleet, and a *Denied otherwise.
func (r *Rules) Fleet(p principal.Person, verb string) error {
	if p.Operator || r.some(&p, func(role *role) bool { return role.does(verb) }) {
		return nil
	}
	what := verb + " the fleet"
	switch verb {
	case Metrics:
		what = "read the hub's figures"
	case Hint:
		what = "tell the hub of a push"
	case Audit:
		what = "read who did what"
	}
	return &Denied{Person: p.Name, What: what, Fix: fmt.Sprintf("bind a Role with fleet: [%s] to them in access/", verb)}
}

// Kubernetes is nil when the person may ask the cluster's API server for q, and a *Denied otherwise. What every client asks
// before anything else is open to whoever may ask for anything there.
func (r *Rules) Kubernetes(p principal.Person, cluster string, q kubeaccess.Request) error {
	discovery := kubeaccess.Discovery(q)
	if r.clusters[cluster] && (p.Operator || r.some(&p, func(role *role) bool { return role.allows(cluster, &q, discovery) })) {
		return nil
	}
	return &Denied{
		Person: p.Name, What: q.Describe(), Cluster: cluster,
		Fix: fmt.Sprintf("bind a Role with a kubernetes rule for it to %s in access/", p.Name),
	}
}

func (r *role) allows(cluster string, q *kubeaccess.Request, discovery bool) bool {
	for i := range r.rules {
		if r.rules[i].holds(cluster) && r.rules[i].passes(q, discovery) {
			return true
		}
	}
	return false
}

// passes says whether the rule allows q at the clusters that it is about; discovery is whether q is that.
func (r *rule) passes(q *kubeaccess.Request, discovery bool) bool {
	return discovery || r.rule.Allows(q)
}

// Sees says whether the person may know that the cluster is there: who has a verb of the fleet, or may ask for anything of
// the cluster. Verbs for tools show nothing.
func (r *Rules) Sees(p principal.Person, cluster string) bool {
	return r.clusters[cluster] && (p.Operator || r.some(&p, func(role *role) bool {
		return role.reach > 0 || slices.ContainsFunc(role.rules, func(one rule) bool { return one.holds(cluster) })
	}))
}

// Denied says what a person may not do.
type Denied struct {
	Person string
	// What is a verb with its object.
	What string
	// Cluster is empty for what concerns the fleet.
	Cluster string
	// Fix is what somebody who may change the fleet can do about it.
	Fix string
}

// Error has place, cause and fix.
func (d *Denied) Error() string {
	if d.Cluster != "" {
		return fmt.Sprintf("cluster %s: user %q may not %s: %s", d.Cluster, d.Person, d.What, d.Fix)
	}
	return fmt.Sprintf("user %q may not %s: %s", d.Person, d.What, d.Fix)
}
