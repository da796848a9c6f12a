// Package gitpoller owns the polling of one git, Helm, OCI or HTTP source each.
//
// There is one [Agent] for each upstream, however many services read it, and a [Set] of them that follows the fleet. In a
// hub of several replicas one of them owns each upstream: its agent asks the upstream at jittered intervals, sooner when
// it is given a [Agent.Hint], and takes what is new into a mirror on disk. The agents of the other replicas fill their
// mirrors from the owner's. Whoever plans reads snapshots from the mirror at any time: the last good commit of each ref,
// also while upstream or owner are away, and straight after a restart. Nobody waits for a fetch; a channel says that a
// new look is worthwhile.
//
// The package knows nothing of services, clusters or bundles, nor of protocols: upstreams and refs go in, snapshots come
// out.
package gitpoller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pluralsh/plural/internal/poll"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// The rhythm of a fetch where the options say nothing else.
const (
	DefaultInterval = 2 * time.Minute
	DefaultTimeout  = 2 * time.Minute

	jitter     = 0.1
	minBackoff = 5 * time.Second
	maxBackoff = 15 * time.Minute
	// backoffIntervals keeps an upstream that is polled often from being left alone for long.
	backoffIntervals = 30
	// mostPatience bounds how long an upstream can ask to be left alone.
	mostPatience = time.Hour
	// followInterval is how often a follower asks the owner, who also tells when there is news.
	followInterval = 30 * time.Second
)

// Role is what this replica is to one upstream.
type Role int

const (
	// Idle means that nobody fetches the upstream now: what is there is served.
	Idle Role = iota
	// Own means that this replica fetches from the upstream.
	Own
	// Follow means that this replica fetches from the one that owns it.
	Follow
)

// Options describe one agent.
type Options struct {
	// Name is the upstream's URL without credentials.
	Name string
	// Dir is the mirror's own folder.
	Dir string
	// Interval lies between two fetches, before jitter; Timeout bounds one. Zero means the default.
	Interval, Timeout time.Duration
	// Owner is where a follower fetches from, and Warm where a new owner does before it asks the upstream itself: another
	// replica's mirror. Both are nil when this replica is the only one.
	Owner, Warm mirror.Upstream
	// Trust is the want's.
	Trust string
	// Damaged is told that the mirror on disk is damaged, or was and has been fetched anew; nil is not told.
	Damaged func(mended bool)
	// MaxFile is how large a file may be that is read, in bytes: larger ones are left out. Zero means snapshot.MaxBlob.
	MaxFile int64
	// Slots bounds how many agents fetch at a time, all together; nil bounds nothing.
	Slots *Slots
	// Log gets changes and failures; nil means slog.Default.
	Log *slog.Logger
}

// Agent follows one upstream. It is safe for concurrent use; one Run at a time.
type Agent struct {
	options Options
	mirror  *mirror.Mirror
	log     *slog.Logger
	wake    chan struct{}
	changed func()
	slow    bool // the last fetch was; it belongs to fetch

	// mu guards what follows.
	mu       sync.Mutex
	upstream mirror.Upstream
	broken   error // why there is no upstream
	version  string
	before   mirror.Traffic // of upstreams that were replaced
	refs     map[string]bool
	role     Role
	owner    string
	synced   bool      // whoever is asked in this role has answered
	warmed   bool      // other replicas were asked for what they have
	quiet    time.Time // the upstream wants to be left alone until then
	interval time.Duration
	enough   time.Time // a follower that asks the upstream itself, for the owner's trust is another, need not again until then
	status   Status
	owners   *Status          // what the owner says, while this replica follows
	problems map[string]error // by ref
}

// Status is what is known of an upstream now.
type Status struct {
	// Name is its URL without credentials.
	Name string `json:"name"`
	// LastFetch is when the upstream last brought all that was asked for, also before a restart; LastAttempt when it was last asked.
	// Zero is never.
	LastFetch   time.Time `json:"lastFetch"`
	LastAttempt time.Time `json:"lastAttempt"`
	// Age is how long ago LastFetch was; zero if it never was.
	Age time.Duration `json:"-"`
	// LastError is why the last attempt brought not all that was asked for; empty when it did.
	LastError string `json:"lastError,omitempty"`
	// FailingSince is when the first of the attempts failed that have all failed since; zero while the last one did not. InARow is
	// how many these are, NextAttempt when the next is due.
	FailingSince time.Time `json:"failingSince,omitzero"`
	InARow       int64     `json:"inARow,omitempty"`
	NextAttempt  time.Time `json:"nextAttempt,omitzero"`
	// Attempts and Failures count since the start, when they end; in Changes a ref got a new commit.
	Attempts int64 `json:"attempts"`
	Failures int64 `json:"failures"`
	Changes  int64 `json:"changes"`
	// Requests and Bytes are the traffic with the upstream since the start.
	Requests int64 `json:"requests"`
	Bytes    int64 `json:"bytes"`
	// Tips are the last good commits by ref.
	Tips map[string]mirror.Tip `json:"-"`
	// Role is that of the replica that says this, and Synced whether its mirror is up to date; see [Agent.Synced].
	Role   Role `json:"role"`
	Synced bool `json:"synced"`
	// Trust is the [Want]'s on that replica; one of an earlier release says none.
	Trust string `json:"trust,omitempty"`
}

// New opens the upstream's mirror. It does not touch the network.
func New(options Options) (*Agent, error) {
	m, err := mirror.OpenLimited(options.Dir, cmp.Or(options.MaxFile, snapshot.MaxBlob))
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", options.Name, err)
	}
	options.Interval = cmp.Or(options.Interval, DefaultInterval)
	options.Timeout = cmp.Or(options.Timeout, DefaultTimeout)
	return &Agent{
		options: options, mirror: m, log: cmp.Or(options.Log, slog.Default()).With("upstream", options.Name),
		wake: make(chan struct{}, 1), changed: func() {}, refs: map[string]bool{}, role: Own,
		interval: options.Interval,
	}, nil
}

// Use sets the upstream that is asked from now on, or why there is none. Version tells one from another: with the one in
// use nothing happens, and open is not called.
func (a *Agent) Use(version string, open func() (mirror.Upstream, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.version == version && (a.upstream != nil || a.broken != nil) {
		return
	}
	if a.upstream != nil {
		a.before = sum(a.before, a.upstream.Traffic())
	}
	a.version, a.quiet, a.enough = version, time.Time{}, time.Time{}
	a.upstream, a.broken = open()
	signal(a.wake)
}

func sum(a, b mirror.Traffic) mirror.Traffic {
	return mirror.Traffic{Requests: a.Requests + b.Requests, Bytes: a.Bytes + b.Bytes}
}

// Run fetches as the owner until ctx ends, whose error it returns. Nothing else than ctx ends it.
func (a *Agent) Run(ctx context.Context) error { return a.run(ctx, a.options.Interval) }

func (a *Agent) run(ctx context.Context, interval time.Duration) error {
	loop := poll.Loop{
		Interval: interval, Jitter: jitter,
		MinBackoff: min(interval, minBackoff), MaxBackoff: min(maxBackoff, backoffIntervals*interval), Due: a.due,
	}
	return loop.Run(ctx, a.wake, a.fetch)
}

// due takes down when the upstream is asked next, which may have asked to be left alone for longer.
func (a *Agent) due(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.NextAttempt = at
	if a.quiet.After(at) {
		a.status.NextAttempt = a.quiet
	}
}

// Hint makes the next fetch due now, and tells the upstream that somebody insists. Many hints in a row are one.
func (a *Agent) Hint() {
	a.mu.Lock()
	if insistent, ok := a.upstream.(interface{ Hint() }); ok {
		insistent.Hint()
	}
	a.mu.Unlock()
	a.Wake()
}

// Wake makes the next fetch due now.
func (a *Agent) Wake() {
	a.mu.Lock()
	a.enough = time.Time{}
	a.mu.Unlock()
	signal(a.wake)
}

// Follow adds a ref to those that are fetched, in the words of the upstream's kind.
func (a *Agent) Follow(ref string) {
	a.mu.Lock()
	known := a.refs[ref]
	a.refs[ref] = true
	a.mu.Unlock()
	if !known {
		a.Wake()
	}
}

// askEvery says how often the upstream itself is asked, by a replica that otherwise asks the owner.
func (a *Agent) askEvery(interval time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.interval != interval {
		a.interval, a.enough = interval, time.Time{}
	}
}

// followOnly replaces the refs that are fetched. The last good commits of others stay for a while.
func (a *Agent) followOnly(refs map[string]bool) {
	a.mu.Lock()
	maps.DeleteFunc(a.refs, func(ref string, _ bool) bool { return !refs[ref] })
	a.mu.Unlock()
	for ref := range refs {
		a.Follow(ref)
	}
}

// Snapshot gives the last good commit of a ref. While there is none, the error is snapshot.ErrNotFetched with the reason.
func (a *Agent) Snapshot(ref string) (*snapshot.Snapshot, error) {
	snap, err := a.mirror.Snapshot(ref)
	switch {
	case err == nil:
		return snap, nil
	case errors.Is(err, snapshot.ErrNotFetched):
		return nil, a.unfetched(ref)
	}
	return nil, fmt.Errorf("%s: %w", a.options.Name, err)
}

// Tip names the last good commit of a ref, with errors as Snapshot has them.
func (a *Agent) Tip(ref string) (mirror.Tip, error) {
	tip, ok := a.mirror.Tips()[ref]
	if !ok {
		return tip, a.unfetched(ref)
	}
	return tip, nil
}

// unfetched says why there is no good commit of a ref so far.
func (a *Agent) unfetched(ref string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch why := a.problems[ref]; {
	case why != nil:
		return fmt.Errorf("%w: %w", snapshot.ErrNotFetched, why)
	case a.role == Follow && a.owners != nil && a.owners.LastError != "":
		return fmt.Errorf("%w: %s", snapshot.ErrNotFetched, a.owners.LastError)
	case a.status.LastError != "":
		return fmt.Errorf("%w: %s", snapshot.ErrNotFetched, a.status.LastError)
	}
	return fmt.Errorf("%s: %w", a.options.Name, snapshot.ErrNotFetched)
}

// At gives a commit that is still in the mirror; see [mirror.Mirror.At].
func (a *Agent) At(commit string) (*snapshot.Snapshot, error) { return a.mirror.At(commit) }

// Mirror is what replicas that follow this one read.
func (a *Agent) Mirror() *mirror.Mirror { return a.mirror }

// Synced says whether the mirror is as new as this replica's role makes it: since it has that role, the upstream has
// answered, or the owner. Before, the mirror of a replica that was away may be far behind.
func (a *Agent) Synced() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.synced
}

// Status tells how the upstream does. On a replica that follows, the owner's word counts.
func (a *Agent) Status() Status {
	a.mu.Lock()
	s := a.own()
	if a.role == Follow && a.owners != nil {
		s = *a.owners
		s.Role, s.Synced = a.role, a.synced
	}
	a.mu.Unlock()
	s.Name, s.Tips = a.options.Name, a.mirror.Tips()
	if s.LastFetch.IsZero() {
		s.LastFetch = a.mirror.Brought()
	}
	if !s.LastFetch.IsZero() {
		s.Age = max(0, time.Since(s.LastFetch))
	}
	return s
}

// OwnStatus is what this replica itself has seen of the upstream, for those that follow it.
func (a *Agent) OwnStatus() Status {
	a.mu.Lock()
	s := a.own()
	a.mu.Unlock()
	s.Name, s.LastFetch = a.options.Name, a.mirror.Brought()
	return s
}

// own is called with mu held.
func (a *Agent) own() Status {
	s, traffic := a.status, a.before
	if a.upstream != nil {
		traffic = sum(traffic, a.upstream.Traffic())
	}
	s.Requests, s.Bytes = traffic.Requests, traffic.Bytes
	s.Role, s.Synced, s.Trust = a.role, a.synced, a.options.Trust
	return s
}

// Heard takes in what the owner says of the upstream.
func (a *Agent) Heard(s Status) {
	a.mu.Lock()
	news := a.owners == nil || a.owners.LastError != s.LastError
	a.owners = &s
	a.mu.Unlock()
	if news {
		a.changed()
	}
}

// signal leaves a value for whoever looks next; one that is there already says the same.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// refNames are the refs to ask for, in order.
func (a *Agent) refNames() []string { return slices.Sorted(maps.Keys(a.refs)) }
