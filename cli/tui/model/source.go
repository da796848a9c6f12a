package model

import (
	"context"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Batch is what came. Fields that are nil or empty say nothing.
type Batch struct {
	Deployments v1.Changes[v1.Deployment]
	Clusters    v1.Changes[v1.Cluster]
	Services    v1.Changes[v1.Service]
	Sources     v1.Changes[v1.Source]
	Upgrades    v1.Changes[v1.Upgrade]
	// Events come in any order; those that came before are known by what they say.
	Events   []v1.Event
	Summary  *v1.Summary
	Me       *v1.Me
	State    *State
	Problems []v1.Problem
	// Marks say how far lists are.
	Marks []Mark
}

// Mark says how far the listing of one kind is. A beginning counts before the rows of its batch, an end after them.
type Mark struct {
	Kind v1.ChangeKind
	// Begin starts a listing: rows that do not come before its end are dropped there.
	Begin, End bool
	// Total is how many rows there are.
	Total int
	// Cut says at the end that not all of them came; nothing is dropped then.
	Cut bool
}

// Source is where what is known comes from.
type Source interface {
	// Run gives what comes to emit, one batch at a time, until ctx ends. emit may block. The error says what cannot be had by
	// waiting.
	Run(ctx context.Context, emit func(Batch)) error
	// Seek asks for the rows that fit a filter first, while not all are there. It does not wait.
	Seek(kind v1.ChangeKind, filter string)
}

// Options say how a source goes about it.
type Options struct {
	// Now is the clock.
	Now func() time.Time
	// Patience is how long a hub may take to answer at the start before the repo is shown; zero: 300 ms.
	Patience time.Duration
	// Token is the person's as it is kept now, for when the hub does not take that of the client any more; nil: there is no other.
	Token func() (string, error)
	// Why says what keeps the hub away, as a person is told it; nil: as the error says.
	Why func(error) string
}

// listed are the kinds of which there are lists.
func listed() []v1.ChangeKind {
	return []v1.ChangeKind{
		v1.ChangedDeployments, v1.ChangedClusters, v1.ChangedServices, v1.ChangedSources, v1.ChangedUpgrades, v1.Happened,
	}
}
