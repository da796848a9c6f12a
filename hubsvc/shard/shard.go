// Package shard owns the leases by which replicas divide the sources among them.
//
// It knows nothing of upstreams and repositories but their names, and does not promise that an owner does its work:
// what it saves is traffic, and what is served is right whoever fetched it.
//
// Each replica keeps one lease, a record in a replicated stream, and renews it every third of its time. All read all
// leases from the stream's leader, and judge their age by their own monotonic clock: no time of day is ever compared.
// Among the members with a live lease, rendezvous hashing names one owner for every repository. A replica gives its own
// lease up before anybody else may count it as gone, and a newcomer owns nothing before all others have said in their
// leases that they know it; so two that can be the same repository's owner always know of each other, and agree.
package shard

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultTTL is how long a lease lasts. Less, and the innocent lose theirs: NATS takes 4 to 9 s to elect a leader.
const DefaultTTL = 12 * time.Second

// Shares of a lease's time.
const (
	renewals = 3  // renewals in it, of which two may fail
	looks    = 24 // how often the others' leases are looked at in it
	patience = 6  // one request may take this share of it
)

// Options of a shard.
type Options struct {
	Conn      *nats.Conn
	JetStream jetstream.JetStream
	// Replicas is how many servers should keep the leases.
	Replicas int
	// Self is this replica; its ID is its own, and the same after a restart.
	Self Member
	// TTL is how long a lease lasts, the same on all replicas; zero means DefaultTTL.
	TTL     time.Duration
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Member is a replica of the hub.
type Member struct {
	ID string `json:"id"`
	// Peer is HOST:PORT of its listener for other replicas.
	Peer     string `json:"peer"`
	Version  string `json:"version"`
	Draining bool   `json:"draining,omitempty"`
}

// MemberStatus is a member as this replica sees it.
type MemberStatus struct {
	Member
	// Self is set on this replica, Live on those whose lease has not run out.
	Self, Live bool
	// Age is how long ago a renewal was seen.
	Age time.Duration
}

// Shard is this replica's part in the division of work. It is safe for concurrent use.
type Shard struct {
	Options
	leases  *leases
	metrics *metrics
	changed chan struct{}
	wake    chan struct{}
	opened  time.Time

	mu   sync.Mutex // guards what follows
	view view
	own  lease
	// outcome is what Changed was last signalled for; written is closed and made anew when a renewal went through.
	outcome string
	written chan struct{}
}

// Open returns a shard that knows nobody yet, itself neither. Run must be running for anything else.
func Open(o Options) *Shard {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	s := &Shard{
		Options: o, leases: &leases{js: o.JetStream, replicas: o.Replicas}, opened: time.Now(),
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), written: make(chan struct{}),
	}
	s.metrics = newMetrics(o.Metrics, s)
	return s
}

// Owner is the replica that fetches from a repository. It says false when that is not known now: before this replica
// has seen the leases, and after it has lost sight of them for as long as one lasts. Then nobody here fetches.
func (s *Shard) Owner(repo string) (Member, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sighted() {
		return Member{}, false
	}
	return s.view.owner(repo)
}

// Mine says whether this replica is a repository's owner, and certain to be the only one. Owner can name this replica a
// moment before Mine does, while the others have yet to say that they know it.
func (s *Shard) Mine(repo string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.holding() {
		return false
	}
	owner, ok := s.view.owner(repo)
	return ok && owner.ID == s.Self.ID
}

// sighted says whether the view is no older than a lease may become.
func (s *Shard) sighted() bool {
	return !s.view.at.IsZero() && time.Since(s.view.at) < s.TTL
}

// holding says whether this replica may own anything.
func (s *Shard) holding() bool {
	return s.own.settled && !s.own.draining && s.sighted() && time.Since(s.own.renewed) < s.span()
}

// span is how long a replica trusts its own lease: less than the others do, so that their clocks may run faster.
func (s *Shard) span() time.Duration { return s.TTL * 9 / 10 }

// Members lists all whose lease is remembered, by ID.
func (s *Shard) Members() []MemberStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]MemberStatus, 0, len(s.view.members))
	for _, m := range s.view.members {
		if m.Left {
			continue
		}
		list = append(list, MemberStatus{
			Member: m.Member, Self: m.Term == s.own.term, Live: m.live && s.sighted(), Age: time.Since(m.seen),
		})
	}
	slices.SortFunc(list, func(a, b MemberStatus) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Epoch grows with each lease that this replica has held, over restarts too: of two holders, the later one's is
// greater. It is zero before the first.
func (s *Shard) Epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.epoch
}

// Changed has a value after Owner or Mine may give other answers.
func (s *Shard) Changed() <-chan struct{} { return s.changed }

// Drain gives all that this replica owns to the others, for good. It returns once they can see that, or ctx ends.
func (s *Shard) Drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		s.own.draining = true
		done, written := s.own.told.Draining || s.own.fenced, s.written
		s.mu.Unlock()
		s.notify()
		if done {
			return nil
		}
		signal(s.wake)
		select {
		case <-ctx.Done():
			return fmt.Errorf("hand ownership over: the leases cannot be written now, so the others take over when this "+
				"replica's runs out: %w", ctx.Err())
		case <-written:
		}
	}
}

// notify signals Changed if who owns what may have changed.
func (s *Shard) notify() {
	s.mu.Lock()
	outcome := s.view.candidates()
	if !s.sighted() {
		outcome = "not known"
	}
	if s.holding() {
		outcome += " held"
	}
	changed := outcome != s.outcome
	s.outcome = outcome
	s.mu.Unlock()
	if changed {
		s.metrics.changes.Inc()
		signal(s.changed)
	}
}

// signal makes sure that there is a value in c, which holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
