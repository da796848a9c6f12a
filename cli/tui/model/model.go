// Package model owns the rows of the fleet that the console shows.
//
// It refuses to know screens, and how anything is changed.
//
// A [Source] runs beside the console and gives batches: pages of a hub's lists and then what its stream says, or what the
// installation repo asks for with what was seen last. [Fleet.Apply] takes them in, on the one goroutine that also reads, so there
// are no locks. Rows lie in a [List] for each kind; a [View] is an order of them of which a filter picks some, and costs as much
// as what changed, not as much as there is.
package model

import (
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	// maxRows bounds the deployments that are kept: listed ones, with some room for those that somebody looks for.
	maxRows = maxListed + 50_000
	// maxListed is how many are listed.
	maxListed = 250_000
	// maxEvents bounds the events that are kept.
	maxEvents = 1000
)

// Fleet is what is known of a fleet. Only one goroutine may use it.
type Fleet struct {
	Deployments *List[Deployment] // id CLUSTER/SERVICE
	Clusters    *List[v1.Cluster]
	Services    *List[v1.Service]
	Sources     *List[v1.Source]
	Upgrades    *List[v1.Upgrade]
	// Events are the newest, at most a thousand.
	Events *List[v1.Event]
	// Summary is nil until it is known.
	Summary *v1.Summary
	// Me is who the person is to the hub; nil: not known.
	Me *v1.Me
	// State says where what is shown comes from now.
	State State
	// Problems are mistakes in the installation repo, where that is what is shown.
	Problems []v1.Problem

	now        func() time.Time
	grid       *grid
	remembered uint64
}

// New is a fleet of which nothing is known.
func New(now func() time.Time) *Fleet {
	g := newGrid()
	return &Fleet{
		Deployments: g.rows, Clusters: newNamed(clusterTable()), Services: newNamed(serviceTable()), Sources: newNamed(sourceTable()),
		Upgrades: newNamed(upgradeTable()), Events: newNamed(eventTable()), State: State{Since: now()}, now: now, grid: g,
	}
}

// Link says how what is shown gets here.
type Link uint8

// Links.
const (
	Connecting Link = iota
	// Live: the hub tells what changes.
	Live
	// Broken: the hub did, and is away; it is tried again and again.
	Broken
	// Offline: the installation repo says what should be, and what was seen last how it was.
	Offline
)

// State is how fresh a fleet is.
type State struct {
	Link Link
	// Since is when the link became so.
	Since time.Time
	// Why says what keeps it from being live.
	Why string
	// LoggedOut says that the hub does not take the person's token: Why is what it said.
	LoggedOut bool
	// Asked says, for Offline, that the hub may answer yet: nothing keeps it from being live so far.
	Asked bool
	// AsOf is when what is shown was true, for Offline; zero: nothing was ever seen.
	AsOf time.Time
}

// AsOf is when what is shown was true: now while it is live; zero when nothing was seen.
func (f *Fleet) AsOf() time.Time {
	switch f.State.Link {
	case Live:
		return f.now()
	case Broken:
		return f.State.Since
	case Offline:
		return f.State.AsOf
	case Connecting:
	}
	return time.Time{}
}

// Age is how old what is known of a row is: as old as what is shown or, where its cluster is silent, as the last report of that.
// It is negative when there is nothing known.
func (f *Fleet) Age(d *Deployment) time.Duration { return f.age(d.Silent, d.Reported) }

// ClusterAge is Age of a cluster.
func (f *Fleet) ClusterAge(c *v1.Cluster) time.Duration { return f.age(silent(c), reportOf(c)) }

func (f *Fleet) age(silent bool, reported time.Time) time.Duration {
	at := f.AsOf()
	if silent {
		at = reported
	}
	if at.IsZero() {
		return -1
	}
	return max(0, f.now().Sub(at))
}

// Apply takes in what came.
func (f *Fleet) Apply(b Batch) {
	for _, m := range b.Marks {
		if m.Begin {
			f.mark(Mark{Kind: m.Kind, Begin: true, Total: m.Total})
		}
	}
	f.shared(&b)
	f.rows(&b)
	if b.Summary != nil {
		f.Summary = b.Summary
		f.Deployments.counted(b.Summary.Deployments)
		f.Clusters.counted(b.Summary.Clusters)
		f.Services.counted(b.Summary.Services)
	}
	if b.Me != nil {
		f.Me = b.Me
	}
	if b.State != nil {
		f.State = *b.State
	}
	switch {
	case f.State.Link == Live:
		f.Problems = nil
	case b.Problems != nil:
		f.Problems = b.Problems
	}
	for _, m := range b.Marks {
		if m.End {
			f.mark(Mark{Kind: m.Kind, End: true, Total: m.Total, Cut: m.Cut})
		}
	}
}

// shared takes in clusters and services, and what deployments share of them.
func (f *Fleet) shared(b *Batch) {
	for i := range b.Clusters.Items {
		f.grid.cluster(&b.Clusters.Items[i])
	}
	for i := range b.Services.Items {
		f.grid.service(&b.Services.Items[i])
	}
	take(f.Clusters, b.Clusters)
	take(f.Services, b.Services)
}

func (f *Fleet) rows(b *Batch) {
	for i := range b.Deployments.Items {
		f.grid.row(&b.Deployments.Items[i])
	}
	for _, id := range b.Deployments.Gone {
		f.Deployments.drop(f.Deployments.ids.slot(id))
	}
	take(f.Sources, b.Sources)
	take(f.Upgrades, b.Upgrades)
	take(f.Events, v1.Changes[v1.Event]{Items: b.Events})
	if f.Events.Len() > maxEvents {
		f.Events.base.settle()
		for _, slot := range f.Events.base.all[maxEvents:] {
			f.Events.drop(slot)
		}
	}
}

func take[T any](l *List[T], changes v1.Changes[T]) {
	for i := range changes.Items {
		l.put(l.ids.slot(l.table.id(&changes.Items[i])), changes.Items[i])
	}
	for _, id := range changes.Gone {
		l.drop(l.ids.slot(id))
	}
}

func (f *Fleet) mark(m Mark) {
	switch m.Kind {
	case v1.ChangedDeployments:
		f.Deployments.mark(m)
	case v1.ChangedClusters:
		f.Clusters.mark(m)
	case v1.ChangedServices:
		f.Services.mark(m)
	case v1.ChangedSources:
		f.Sources.mark(m)
	case v1.ChangedUpgrades:
		f.Upgrades.mark(m)
	case v1.Happened:
		f.Events.mark(m)
	case v1.ChangedSummary, v1.Reset:
	}
}
