// Package gitagent owns the fetching of upstream repositories for the hub.
//
// There is one [Agent] for each repository, however many services read it, and a [Set] of them that follows the fleet. An
// agent asks its remote at jittered intervals, sooner when it is given a [Agent.Hint], and takes what is new into a
// mirror on disk. Whoever plans reads snapshots from there at any time: the last good commit of each ref, also while the
// remote is away, and straight after a restart. Nobody waits for a fetch; a channel says that a new look is worthwhile.
//
// The package knows nothing of services, clusters or bundles: URLs and refs go in, snapshots come out.
package gitagent

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
	"github.com/pluralsh/plural/workspace/snapshot"
)

// The rhythm of a fetch where the options say nothing else.
const (
	DefaultInterval = 2 * time.Minute
	DefaultTimeout  = 2 * time.Minute

	jitter     = 0.1
	minBackoff = 5 * time.Second
	maxBackoff = 15 * time.Minute
	// backoffIntervals keeps a repository that is polled often from being left alone for long.
	backoffIntervals = 30
)

// Options describe one agent.
type Options struct {
	// URL is the remote: https, ssh, http on this machine, or file where AllowFile is set.
	URL string
	// Dir is the mirror's own folder.
	Dir string
	// Interval lies between two fetches, before jitter; Timeout bounds one. Zero means the default.
	Interval, Timeout time.Duration
	AllowFile         bool
	// Log gets changes and failures; nil means slog.Default.
	Log *slog.Logger
}

// Agent follows one repository. It is safe for concurrent use; one Run at a time.
type Agent struct {
	options Options
	mirror  *snapshot.Mirror
	log     *slog.Logger
	wake    chan struct{}
	changed chan struct{}

	// mu guards what follows.
	mu       sync.Mutex
	refs     map[string]bool
	status   Status
	problems map[string]error // by ref
}

// Status is what is known of a repository now.
type Status struct {
	// URL carries no credentials.
	URL string
	// LastFetch is when the remote last answered, also before a restart; LastAttempt when it was last asked. Zero is never.
	LastFetch, LastAttempt time.Time
	// Age is how long ago LastFetch was; zero if it never was.
	Age time.Duration
	// LastError is why the last attempt brought not all that was asked for; empty when it did.
	LastError string
	// Attempts and Failures count since the start; in Changes a ref got a new commit.
	Attempts, Failures, Changes int64
	// Commits is the last good commit of each ref.
	Commits map[string]string
}

// Redact takes the credentials out of a repository's URL.
func Redact(url string) string { return snapshot.Redact(url) }

// New opens the repository's mirror. It does not touch the network.
func New(options Options) (*Agent, error) {
	mirror, err := snapshot.OpenMirror(options.Dir, snapshot.MirrorOptions{AllowFile: options.AllowFile})
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", Redact(options.URL), err)
	}
	options.Interval = cmp.Or(options.Interval, DefaultInterval)
	options.Timeout = cmp.Or(options.Timeout, DefaultTimeout)
	return &Agent{
		options: options, mirror: mirror, log: cmp.Or(options.Log, slog.Default()).With("repo", Redact(options.URL)),
		wake: make(chan struct{}, 1), changed: make(chan struct{}, 1), refs: map[string]bool{},
	}, nil
}

// Run fetches until ctx ends, whose error it returns. Nothing else than ctx ends it.
func (a *Agent) Run(ctx context.Context) error { return a.run(ctx, a.options.Interval) }

func (a *Agent) run(ctx context.Context, interval time.Duration) error {
	loop := poll.Loop{
		Interval: interval, Jitter: jitter,
		MinBackoff: min(interval, minBackoff), MaxBackoff: min(maxBackoff, backoffIntervals*interval),
	}
	return loop.Run(ctx, a.wake, a.fetch)
}

// Hint makes the next fetch due now. Many hints in a row are one.
func (a *Agent) Hint() { signal(a.wake) }

// Follow adds a ref to those that are fetched: a branch, a tag, a commit's full hash; "" is the remote's default branch.
func (a *Agent) Follow(ref string) {
	a.mu.Lock()
	known := a.refs[ref]
	a.refs[ref] = true
	a.mu.Unlock()
	if !known {
		a.Hint()
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

// Changed has a value after a ref got a new commit or the repository's troubles changed. Values are coalesced, so one
// reader must look at everything again.
func (a *Agent) Changed() <-chan struct{} { return a.changed }

// Snapshot gives the last good commit of a ref. While there is none, the error is snapshot.ErrNotFetched with the reason.
func (a *Agent) Snapshot(ref string) (*snapshot.Snapshot, error) {
	snap, err := a.mirror.Snapshot(ref)
	if err == nil {
		return snap, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if why := a.problems[ref]; why != nil && errors.Is(err, snapshot.ErrNotFetched) {
		return nil, fmt.Errorf("%w: %w", snapshot.ErrNotFetched, why)
	}
	if a.status.LastError != "" && errors.Is(err, snapshot.ErrNotFetched) {
		return nil, fmt.Errorf("%w: %s", snapshot.ErrNotFetched, a.status.LastError)
	}
	return nil, fmt.Errorf("%s: %w", Redact(a.options.URL), err)
}

// At gives a commit of the repository that is still in the mirror; see [snapshot.Mirror.At].
func (a *Agent) At(commit string) (*snapshot.Snapshot, error) { return a.mirror.At(commit) }

// Status tells how the repository does.
func (a *Agent) Status() Status {
	a.mu.Lock()
	s := a.status
	a.mu.Unlock()
	s.URL, s.LastFetch, s.Commits = Redact(a.options.URL), a.mirror.Fetched(), a.mirror.Commits()
	if !s.LastFetch.IsZero() {
		s.Age = max(0, time.Since(s.LastFetch))
	}
	return s
}

// fetch is one turn. Its error slows the loop down; a remote that answers but lacks a ref is no reason for that.
func (a *Agent) fetch(ctx context.Context) error {
	refs := a.begin()
	if len(refs) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, a.options.Timeout)
	defer cancel()
	before := a.mirror.Fetched()
	changed, err := a.mirror.Fetch(limited, a.options.URL, refs)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.finish(changed, err)
	if err != nil && a.mirror.Fetched().After(before) {
		return nil
	}
	return err
}

func (a *Agent) begin() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.refs) > 0 {
		a.status.LastAttempt = time.Now()
		a.status.Attempts++
	}
	return slices.Sorted(maps.Keys(a.refs))
}

// finish takes down what came of a fetch, and tells whoever waits when that is news.
func (a *Agent) finish(changed []string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	a.mu.Lock()
	news := text != a.status.LastError
	a.status.LastError = text
	a.status.Changes += int64(len(changed))
	if err != nil {
		a.status.Failures++
	}
	a.problems = refProblems(err)
	a.mu.Unlock()
	a.report(changed, news, err)
	if news || len(changed) > 0 {
		signal(a.changed)
	}
}

func (a *Agent) report(changed []string, news bool, err error) {
	commits := a.mirror.Commits()
	for _, ref := range changed {
		a.log.Info("repository changed", "ref", ref, "commit", commits[ref])
	}
	switch {
	case news && err != nil:
		a.log.Warn("repository cannot be fetched as asked; the last good commits stay", "error", err)
	case news:
		a.log.Info("repository is fetched again")
	}
}

// refProblems finds what concerns single refs among joined errors.
func refProblems(err error) map[string]error {
	found := map[string]error{}
	var collect func(error)
	collect = func(err error) {
		if problem, ok := err.(*snapshot.RefError); ok { //nolint:errorlint // the tree is walked node by node here
			found[problem.Ref] = problem
			return
		}
		switch wrapped := err.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() error }:
			collect(wrapped.Unwrap())
		case interface{ Unwrap() []error }:
			for _, e := range wrapped.Unwrap() {
				collect(e)
			}
		}
	}
	collect(err)
	return found
}

// signal leaves a value for whoever looks next; one that is there already says the same.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
