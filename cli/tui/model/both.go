package model

import (
	"context"
	"sync"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/workspace"
)

// patience is how long a hub may take to answer at the start before the repo, with what was seen last, is shown meanwhile. One that
// cannot be reached gets none.
const patience = 300 * time.Millisecond

// both is a hub and, until that has said anything, the repo.
type both struct {
	hub, repo Source
	Options

	mu   sync.Mutex // guards what follows, and the order in which batches are given
	emit func(Batch)
	// heard says that the hub gave rows: the repo is not listened to any more.
	heard bool
	// offline is what the repo's source said last of itself, why what keeps the hub away.
	offline *State
	why     string
	// failed is closed when the hub cannot be asked, or says that the person is logged out: that is told at once, beside the repo.
	failed    chan struct{}
	once      sync.Once
	loggedOut bool
}

// FromBoth is the hub and, while that cannot be reached from the start, the repo. Each but o may be nil.
func FromBoth(c *client.Client, r *workspace.Repo, seen *fleetcache.Store, o Options) Source {
	local := FromRepo(r, seen, o)
	if c == nil {
		return local
	}
	return &both{hub: FromHub(c, o), repo: local, Options: o, failed: make(chan struct{})}
}

// Seek asks the hub.
func (b *both) Seek(kind v1.ChangeKind, filter string) { b.hub.Seek(kind, filter) }

// Run listens to the hub, and to the repo as long as that is of use.
func (b *both) Run(ctx context.Context, emit func(Batch)) error {
	b.emit = emit
	offline, heard := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- b.hub.Run(ctx, func(batch Batch) { b.fromHub(batch, heard) })
	}()
	wait := b.Patience
	if wait == 0 {
		wait = patience
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	defer heard()
	var refused error
	select {
	case <-offline.Done():
		return <-ended
	case refused = <-ended:
	case <-b.failed:
	case <-timer.C:
	}
	_ = b.repo.Run(offline, b.fromRepo) // it ends when the hub is heard, and not before
	if refused != nil {
		return refused
	}
	return <-ended
}

// fromHub passes on what the hub says. Until it gives rows, that it is away only explains why the repo is shown.
func (b *both) fromHub(batch Batch, heard func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.heard && len(batch.Marks) > 0 {
		b.heard = true
		heard()
	}
	if batch.State != nil && !b.heard {
		b.why, b.loggedOut = batch.State.Why, batch.State.LoggedOut
		b.once.Do(func() { close(b.failed) })
		if b.offline == nil {
			batch.State.Link = Connecting
		} else {
			batch.State = b.explained()
		}
	}
	if b.offline != nil && !b.heard {
		batch.Summary = nil
	}
	b.emit(batch)
}

func (b *both) fromRepo(batch Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heard {
		return
	}
	if batch.State != nil {
		b.offline = batch.State
		batch.State = b.explained()
	}
	b.emit(batch)
}

func (b *both) explained() *State {
	s := *b.offline
	s.Why, s.LoggedOut, s.Asked = b.why, b.loggedOut, b.why == ""
	return &s
}
