package diff

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// sides are the two states that are compared.
type sides struct {
	before, after *offline.State
	resolver      *resolve.Resolver
	inputs        preview.Inputs
}

// pairing is one service whose deployments have the same input on all the clusters, before and after. A side is nil where the
// service is not asked for.
type pairing struct {
	service       string
	clusters      []string
	before, after *resolve.Deployment
}

// pairs are what the two sides want of the clusters, where they differ.
type pairs struct {
	list     []*pairing
	problems []problem
	// clusters counts those that are looked at, deployments what is asked for on them on either side.
	clusters, deployments int
	// leaves are, for each cluster, the services that leave it.
	leaves map[string]departure
	// left are the clusters that leave the fleet.
	left []string
}

// departure are the services that leave a cluster, of how many.
type departure struct {
	names []string
	all   int
}

type ratio struct{ some, all int }

// problem is what cannot be compared.
type problem struct {
	Service  string   `json:"service"`
	Clusters []string `json:"clusters"`
	// Side is before or after.
	Side string `json:"side"`
	// Elsewhere says that nothing is wrong: the files are in another repository.
	Elsewhere bool   `json:"elsewhere,omitempty"`
	Where     string `json:"where,omitempty"`
	Message   string `json:"message"`
	Fix       string `json:"fix,omitempty"`
}

// two are the deployments of one service on one cluster; nil where it is not asked for.
type two struct{ before, after *resolve.Deployment }

// pair resolves every cluster on both sides, and keeps what has another key.
func (s *sides) pair(ctx context.Context, o options) (*pairs, error) {
	clusters := s.clusters(o.clusters)
	each := make([]map[string]two, len(clusters))
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i, cluster := range clusters {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var err error
			each[i], err = s.both(cluster)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	c := collector{sides: s, pairs: &pairs{clusters: len(clusters), leaves: map[string]departure{}}, known: map[string]*pairing{}}
	for i, cluster := range clusters {
		if _, stays := s.after.Fleet.Cluster(cluster); !stays {
			c.left = append(c.left, cluster) // nobody deletes anything on it
			continue
		}
		for _, service := range slices.Sorted(maps.Keys(each[i])) {
			c.count(cluster, service, each[i][service])
			if len(o.services) == 0 || slices.Contains(o.services, service) {
				c.add(cluster, service, each[i][service])
			}
		}
	}
	return c.pairs, nil
}

// clusters are those of both sides, sorted, or those of them that are wanted.
func (s *sides) clusters(wanted []string) []string {
	var all []string
	for _, f := range []*fleet.Fleet{s.before.Fleet, s.after.Fleet} {
		for i := range f.Clusters {
			if name := f.Clusters[i].Metadata.Name; len(wanted) == 0 || slices.Contains(wanted, name) {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// both are a cluster's deployments by service.
func (s *sides) both(cluster string) (map[string]two, error) {
	all := map[string]two{}
	for i, side := range []*offline.State{s.before, s.after} {
		if _, ok := side.Fleet.Cluster(cluster); !ok {
			continue
		}
		list, err := s.resolver.For(side.Fleet, cluster, side)
		if err != nil {
			return nil, err
		}
		for j := range list {
			pair := all[list[j].Service]
			*[]**resolve.Deployment{&pair.before, &pair.after}[i] = &list[j]
			all[list[j].Service] = pair
		}
	}
	return all, nil
}

// collector puts together what is the same on several clusters.
type collector struct {
	*sides
	*pairs
	known map[string]*pairing
}

func (c *collector) add(cluster, service string, d two) {
	c.deployments++
	if c.held(cluster, service, d) || d.before != nil && d.after != nil && d.before.Key == d.after.Key {
		return
	}
	name := strings.Join([]string{service, c.input(d.before), c.input(d.after)}, "\n")
	p := c.known[name]
	if p == nil {
		p = &pairing{service: service, before: d.before, after: d.after}
		c.known[name] = p
		c.list = append(c.list, p)
	}
	p.clusters = append(p.clusters, cluster)
}

// count remembers which services leave a cluster.
func (c *collector) count(cluster, service string, d two) {
	if d.before == nil {
		return
	}
	r := c.leaves[cluster]
	r.all++
	if d.after == nil {
		r.names = append(r.names, service)
	}
	c.leaves[cluster] = r
}

// held tells of what cannot be rendered on one of the sides. What was so before, with nothing that changes it, is nobody's news.
func (c *collector) held(cluster, service string, d two) bool {
	why := [2]*resolve.Problem{}
	for i, side := range []*resolve.Deployment{d.before, d.after} {
		if side != nil {
			why[i] = side.Hold
		}
	}
	switch {
	case why[0] == nil && why[1] == nil:
		return false
	case why[0] != nil && why[1] != nil && c.sameWords(cluster, service, why):
	case why[1] != nil:
		c.tell(cluster, service, "after", why[1])
	default:
		c.tell(cluster, service, "before", why[0])
	}
	return true
}

// sameWords says that nothing changes in what a service that cannot be rendered here is made of.
func (c *collector) sameWords(cluster, service string, why [2]*resolve.Problem) bool {
	return why[0].Message == why[1].Message && words(c.before.Fleet, cluster, service) == words(c.after.Fleet, cluster, service)
}

// words are all that an installation repo itself says of a service on a cluster.
func words(f *fleet.Fleet, cluster, service string) string {
	said := []any{}
	if s, ok := f.Service(service); ok {
		said = append(said, s.Spec)
		if source, ok := f.Source(s.Spec.Source.Name); ok {
			said = append(said, source.Spec)
		}
	}
	if c, ok := f.Cluster(cluster); ok {
		said = append(said, c.Spec.Tags, c.Spec.Parameters)
	}
	text, err := json.Marshal(said)
	if err != nil {
		return ""
	}
	return string(text)
}

func (c *collector) tell(cluster, service, side string, why *resolve.Problem) {
	p := problem{Service: service, Side: side, Elsewhere: why.Source != "", Where: why.Position.String(), Message: why.Message, Fix: why.Fix}
	if p.Elsewhere {
		p.Where = ""
	}
	c.note(p, cluster)
}

// note adds clusters to a problem, which is told once.
func (p *pairs) note(about problem, clusters ...string) {
	same := func(o problem) bool {
		return o.Service == about.Service && o.Side == about.Side && o.Where == about.Where && o.Message == about.Message
	}
	if i := slices.IndexFunc(p.problems, same); i >= 0 {
		p.problems[i].Clusters = append(p.problems[i].Clusters, clusters...)
		return
	}
	about.Clusters = clusters
	p.problems = append(p.problems, about)
}

// input is empty for no deployment.
func (s *sides) input(d *resolve.Deployment) string {
	if d == nil {
		return ""
	}
	return s.inputs.Of(d)
}

// checkNames refuses services and clusters that neither side has.
func (s *sides) checkNames(o *options) error {
	for _, name := range o.services {
		if !s.hasService(name) {
			return &ui.Err{Msg: fmt.Sprintf("no service %q in this repository", name), Fix: "ls services/", Doc: ui.DocNotFound}
		}
	}
	for _, name := range o.clusters {
		if !s.hasCluster(name) {
			return &ui.Err{Msg: fmt.Sprintf("no cluster %q in this repository", name), Fix: "ls clusters/", Doc: ui.DocNotFound}
		}
	}
	return nil
}

func (s *sides) hasService(name string) bool {
	_, before := s.before.Fleet.Service(name)
	_, after := s.after.Fleet.Service(name)
	return before || after
}

func (s *sides) hasCluster(name string) bool {
	_, before := s.before.Fleet.Cluster(name)
	_, after := s.after.Fleet.Cluster(name)
	return before || after
}
