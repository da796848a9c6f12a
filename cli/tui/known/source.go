package known

import (
	"context"
	"errors"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/lastseen"
	"github.com/pluralsh/plural/workspace"
)

// Batch is what came. Fields that are nil or empty say nothing.
type Batch struct {
	Deployments v1.Changes[v1.Deployment]
	Clusters    v1.Changes[v1.Cluster]
	Services    v1.Changes[v1.Service]
	Sources     v1.Changes[v1.Source]
	Upgrades    v1.Changes[v1.Upgrade]
	// Events are in the order in which they happened.
	Events   []v1.Event
	Summary  *v1.Summary
	Me       *v1.Me
	State    *State
	Problems []v1.Problem
	// Marks say how far lists are.
	Marks []Mark
}

// Mark says how far the listing of one kind is. It counts after the rows of its batch.
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
	// Run gives what comes to emit, which may block, until ctx ends. The error says what cannot be had by waiting.
	Run(ctx context.Context, emit func(Batch)) error
	// Seek asks for the rows that fit a filter first, while not all are there.
	Seek(kind v1.ChangeKind, filter string)
}

// Options say how a source goes about it. The zero value is fine.
type Options struct {
	Now func() time.Time
}

// FromHub is what a hub says.
func FromHub(c *client.Client, o Options) Source { return nowhere{} }

// FromRepo is what an installation repo says should be, with what was seen last. seen may be nil.
func FromRepo(repo *workspace.Repo, seen *lastseen.Store, o Options) Source { return nowhere{} }

// FromBoth is the hub and, while that cannot be reached from the start, the repo. hub may be nil, repo may be nil.
func FromBoth(hub *client.Client, repo *workspace.Repo, seen *lastseen.Store, o Options) Source {
	return nowhere{}
}

type nowhere struct{}

func (nowhere) Run(context.Context, func(Batch)) error { return errors.New("not written yet") }
func (nowhere) Seek(v1.ChangeKind, string)             {}

// Remember gives what writes what is known into a store, for another goroutine; nil: there is nothing new to write.
func (f *Fleet) Remember(store *lastseen.Store) func() error { return nil }
