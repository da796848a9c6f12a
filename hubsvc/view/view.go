// Package view owns the read model: desired state joined with observed state.
//
// It fetches nothing, and refuses to know how its answers reach people. Joined rows of the whole fleet are kept ready: a report
// costs as much as its cluster has services, a new plan as much as there are rows, an answer as much as looking at each row
// once. Before each answer what has changed since is taken in, so an answer never disagrees with the newest plan and reports;
// [View.Run] does the same for those who follow changes. All of it is derived: a restart makes it anew.
package view

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Desired is what the fleet should be. It is immutable.
type Desired struct {
	// Fleet is the one being served; its zero value stands for no fleet yet.
	Fleet fleet.Fleet
	// Deployments are by cluster, sorted by service. Clusters share those that are the same, so Cluster is empty in each;
	// Parameters, Helm and Tests are only in what agents get.
	Deployments map[string][]*resolve.Deployment
	// Served and Head are the commit being served and the newest seen.
	Served, Head v1.Commit
	// Refused says why Head is not served.
	Refused []v1.Problem
}

// Options are what a view joins. All must be set but Connected, Upgrades and Event.
type Options struct {
	Desired func() *Desired
	// Report is a cluster's newest report, Received when it came: that of a repeated one too, in Unix milliseconds.
	Report   func(cluster string) (*api.Report, bool)
	Received func(cluster string) (int64, bool)
	Sources  func() []v1.Source
	// Connected says whether a cluster's agent holds a way open by which people reach it. Nil: nobody knows. Who finds that it
	// is otherwise than before says so by Reported. It may not ask the view.
	Connected func(cluster string) bool
	// Notices are what the hub has noticed lately; nil: it notices nothing.
	Notices func() []v1.Notice
	// Upgrades are where installations stand, sorted.
	Upgrades func() []v1.Upgrade
	Now      func() time.Time
	// StaleAfter is how long a cluster may be silent before what is known of it counts as old.
	StaleAfter time.Duration
	Version    string
	// Event is told what the view notices by itself, in order. It must neither block nor ask the view.
	Event func(v1.Event)
}

// View joins. It is safe for concurrent use.
type View struct {
	Options
	reader reader
	news   news

	mu      sync.Mutex // guards what follows
	index   index
	changes changes
	events  events
}

// New is a view of nothing yet: its first answer, or Run, takes in what there is.
func New(o Options) *View {
	if o.Event == nil {
		o.Event = func(v1.Event) {}
	}
	if o.Upgrades == nil {
		o.Upgrades = func() []v1.Upgrade { return nil }
	}
	if o.Notices == nil {
		o.Notices = func() []v1.Notice { return nil }
	}
	return &View{
		Options: o, reader: reader{maphash.MakeSeed()}, news: newNews(), changes: newChanges(),
		events: events{paces: map[pacedBy]*pace{}},
	}
}

// Bounds of the lists in a Status.
const (
	maxUnhealthy = 50
	maxSources   = 100
	maxHeld      = 200
)

// Status is the fleet at a glance.
func (v *View) Status() *v1.Status {
	s, worst := v.figures()
	var refused, held, sources int
	s.Refused, refused = within(s.Refused, maxDetails/3)
	s.Held, held = within(s.Held, maxDetails/4)
	s.Sources, sources = within(fewSources(v.Sources()), maxDetails/4)
	s.Notices = v.Notices()
	s.Unhealthy, _ = v.detailed(worst, maxDetails-refused-held-sources)
	return s
}

// figures are a Status without rows and sources, and its rows.
func (v *View) figures() (*v1.Status, []cell) {
	v.settled()
	defer v.mu.Unlock()
	desired := v.index.desired
	nowhere := v.index.nowhere()
	return &v1.Status{
		Workspace: desired.Fleet.Workspace.Metadata.Name, Hub: desired.Fleet.Workspace.Spec.Hub.URL, Version: v.Version,
		Commit: desired.Served, Head: desired.Head, Refused: desired.Refused, Held: v.index.held,
		Clusters: v.index.clusters.counts(), Services: v.index.serviceCounts(), Deployments: v.index.deployments.counts(),
		Suspended: v.index.resting, Nowhere: len(nowhere), NowhereNames: nowhere[:min(len(nowhere), maxUnhealthy)],
	}, v.index.worst(maxUnhealthy)
}

// fewSources leaves out sources that are well where there are many.
func fewSources(all []v1.Source) []v1.Source {
	if len(all) <= maxSources {
		return all
	}
	bad := slices.Clone(all)
	slices.SortStableFunc(bad, func(a, b v1.Source) int { return cmp.Compare(cmp.Compare(b.Error, ""), cmp.Compare(a.Error, "")) })
	return bad[:maxSources]
}

// Summary is the fleet in figures.
func (v *View) Summary() *v1.Summary {
	v.settled()
	defer v.mu.Unlock()
	return v.index.summary()
}

// Problem says in people's words what resolve found.
func Problem(p *resolve.Problem) v1.Problem {
	return v1.Problem{Cluster: p.Cluster, Service: p.Service, File: p.File, Line: p.Line, Message: p.Message, Fix: p.Fix}
}

// Cluster returns one cluster and the services on it.
func (v *View) Cluster(name string) (v1.ClusterDetail, bool) {
	now := v.settled()
	place := v.index.byName[name]
	if place == nil {
		v.mu.Unlock()
		return v1.ClusterDetail{}, false
	}
	found := place.entry
	v.mu.Unlock()
	out := v1.ClusterDetail{Cluster: v.cluster(found, now), Parameters: found.cluster.Spec.Parameters}
	out.Deployments, out.LeftOut = v.detailed(found.all(), maxDetails)
	return out, true
}

// Service returns one service with a row a cluster.
func (v *View) Service(name string) (v1.Service, bool) {
	v.settled()
	tally := v.index.services[name]
	if tally == nil {
		v.mu.Unlock()
		return v1.Service{}, false
	}
	out, rows := tally.service(), tally.rows()
	v.mu.Unlock()
	out.Deployments, out.LeftOut = v.detailed(rows, maxDetails)
	return out, true
}

// Deployment returns one service on one cluster.
func (v *View) Deployment(cluster, service string) (v1.Deployment, bool) {
	v.settled()
	place := v.index.byName[cluster]
	if place == nil {
		v.mu.Unlock()
		return v1.Deployment{}, false
	}
	found := cell{place.entry, place.entry.row(service)}
	v.mu.Unlock()
	if found.row == nil {
		return v1.Deployment{}, false
	}
	rows, _ := v.detailed([]cell{found}, maxDetails)
	return rows[0], true
}

// Targets are the clusters that a service is meant for, by name; false: there is no such service.
func (v *View) Targets(service string) ([]string, bool) {
	v.settled()
	defer v.mu.Unlock()
	tally := v.index.services[service]
	if tally == nil {
		return nil, false
	}
	names := []string{}
	for _, c := range tally.rows() {
		if c.row.want != nil {
			names = append(names, c.entry.name())
		}
	}
	return names, true
}

// Upgrade is where one installation stands.
func (v *View) Upgrade(name string) (v1.Upgrade, bool) {
	for _, u := range v.Upgrades() {
		if u.Installation == name {
			return u, true
		}
	}
	return v1.Upgrade{}, false
}

// ServiceState is how a service is on one cluster that it is meant for.
type ServiceState struct {
	Cluster string
	Phase   v1.Phase
	// Quarantined says that what is wanted failed a test that gates.
	Quarantined bool
	Message     string
}

// Stands are how a service is on the clusters that it is meant for, by name.
func (v *View) Stands(service string) []ServiceState {
	v.settled()
	defer v.mu.Unlock()
	tally := v.index.services[service]
	if tally == nil {
		return nil
	}
	var out []ServiceState
	for _, c := range tally.rows() {
		if want := c.row.want; want != nil {
			failed := c.row.fact != nil && want.Key != "" && c.row.fact.quarantined.Value() == want.Key
			out = append(out, ServiceState{c.entry.name(), c.row.phase, failed, clip(c.row.said(), maxMessage)})
		}
	}
	return out
}

// Waiting are what can be agreed to of a service's deletions, on all clusters however many there are: tokens, and for those that
// are unchecked TOKEN@CLUSTER.
func (v *View) Waiting(service string) map[string]bool {
	v.settled()
	defer v.mu.Unlock()
	tokens := map[string]bool{}
	tally := v.index.services[service]
	if tally == nil {
		return tokens
	}
	for _, c := range tally.rows() {
		if c.row.fact != nil && c.row.fact.held != nil {
			tokens[c.row.fact.held.Agreement(c.entry.name())] = true
		}
	}
	return tokens
}
