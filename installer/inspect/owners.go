package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
	"github.com/pluralsh/plural/agent/unseal"
)

// claim is that a service makes an object.
type claim struct {
	// where it is written, and the service itself.
	where, service string
	renditions     []*rendition
	sealed         []string
}

// clusters are those where the service makes the object.
func (c *claim) clusters() []string {
	var names []string
	for _, r := range c.renditions {
		names = append(names, r.clusters...)
	}
	return names
}

// claims notes which objects a rendition makes. Those of several renditions of a service are one, and no object is held on to.
func (i *inspector) claims(r *rendition, objects []*unstructured.Unstructured, where func(n int) string, sealed []string) {
	ids := map[object.ID]int{}
	for n, o := range objects {
		if o.GetName() != "" && applied(o) {
			ids[i.identify(r, o)] = n
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, n := range ids {
		if i.claimed[id] == nil {
			i.claimed[id] = map[string]*claim{}
		}
		c := i.claimed[id][r.deployment.Service]
		if c == nil {
			c = &claim{where: where(n), service: r.deployment.Service, sealed: sealed}
			i.claimed[id][c.service] = c
		}
		c.renditions = append(c.renditions, r)
	}
}

// applied says whether an object is there for as long as its service: hooks come and go, and of some the agent keeps its hands off.
func applied(o *unstructured.Unstructured) bool {
	turns, err := order.Of(o)
	passing := func(t order.Turn) bool { return t.Hook || t.Once || t.Pause || t.LocalOnly }
	return err == nil && !slices.ContainsFunc(turns, passing)
}

// identify is what an object is called in a cluster. One of somebody else's kind that names no namespace may have none: it is told
// apart by the namespace of its service all the same, for nobody knows.
func (i *inspector) identify(r *rendition, o *unstructured.Unstructured) object.ID {
	namespace := cmp.Or(r.deployment.Namespace, "default")
	id := compare.Identify(o, namespace)
	if id.Namespace == "" && !i.builtin.OwnsGroup(id.Group) {
		id.Namespace = namespace
	}
	return id
}

// judgeOwners tells of objects that two services make on the same cluster: the one that comes second is refused there. Where a
// subject is named, that service comes second, and nothing is told of the others among themselves.
func (i *inspector) judgeOwners(subject string) {
	type pair struct{ first, second *claim }
	for id, services := range i.claimed {
		if len(services) < 2 {
			continue
		}
		owners, shared := map[string]*claim{}, map[pair][]string{}
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(services)), func(name string) bool { return name == subject })
		if services[subject] != nil {
			names = append(names, subject)
		}
		for _, name := range names {
			second := services[name]
			for _, cluster := range second.clusters() {
				first := owners[cluster]
				if first == nil {
					owners[cluster] = second
				}
				if first == nil || first == second { // which may have been rendered twice
					continue
				}
				shared[pair{first, second}] = append(shared[pair{first, second}], cluster)
			}
		}
		for p, clusters := range shared {
			if subject != "" && p.second.service != subject {
				continue
			}
			slices.Sort(clusters)
			clusters = slices.Compact(clusters)
			message := fmt.Sprintf("service %s: %s is made by service %s too, at %s, on %s",
				p.second.service, id, p.first.service, p.first.where, listOf(clusters))
			for _, sealed := range [][]string{p.first.sealed, p.second.sealed} {
				message = unseal.Redact(message, sealed)
			}
			i.tell(&i.report.Errors, Finding{
				Where: p.second.where, Message: message,
				Fix: fmt.Sprintf("take it out of service %s or of service %s, or give one another name or namespace", p.first.service, p.second.service),
			})
		}
	}
}
