// Package known owns what the console knows of the fleet.
package known

import (
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
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

	now func() time.Time
}

// New is a fleet of which nothing is known.
func New(now func() time.Time) *Fleet {
	return &Fleet{
		Deployments: &List[Deployment]{}, Clusters: &List[v1.Cluster]{}, Services: &List[v1.Service]{}, Sources: &List[v1.Source]{},
		Upgrades: &List[v1.Upgrade]{}, Events: &List[v1.Event]{}, now: now,
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
	// AsOf is when what is shown was true, where that is not now; zero: never seen.
	AsOf time.Time
}

// AsOf is when what is shown was true: now while it is live; zero when it was never seen.
func (f *Fleet) AsOf() time.Time { return f.State.AsOf }

// Age is how old a row is: as old as what is shown, or, where its cluster is silent, as the last report of that.
func (f *Fleet) Age(d *Deployment) time.Duration { return 0 }

// ClusterAge is Age of a cluster.
func (f *Fleet) ClusterAge(c *v1.Cluster) time.Duration { return 0 }

// Apply takes in what came.
func (f *Fleet) Apply(b Batch) {}
