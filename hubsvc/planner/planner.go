// Package planner owns the choice and check of the commit that is served, and the plan for every cluster that follows from it.
//
// It judges the newest commit as a whole, publishes it with the commits of all sources as one revision if it is good, and resolves the
// newest revision to a Plan. It fetches nothing, serves nothing, and knows nobody who asks.
package planner

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pluralsh/plural/api/bundle"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/revision"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/internal/oidcflow"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealcheck"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Options are what a Planner works with. All must be set but URL.
type Options struct {
	// URL is how agents reach the hub; empty means what plural.yaml says.
	URL string
	// Branch is the one of the installation repo that is served.
	Branch string
	// Notifications is the folder for what sinks write to files.
	Notifications string
	// Terms are what the hub asks of every agent; the budget in it is the fleet's own business, and ignored here.
	Terms     gateway.Terms
	Sources   *sources.Set
	Mirrors   *gitpoller.Set
	Revisions *revision.Store
	// Publishes says whether this replica decides now what is served.
	Publishes func() bool
	// Changed is called with the plan that was in force, and the one that is now.
	Changed func(before, now *Plan)
	Log     *slog.Logger
}

// Planner makes the plan of the newest revision, and keeps the last one until it can. On the replica that publishes it also judges
// commits, and publishes what is to be served.
type Planner struct {
	Options
	wake      chan struct{}
	validator validator
	current   atomic.Pointer[Plan]
	// Pace is when its turns began and ended.
	Pace Pace
	// unkept holds why what is being served is not remembered over a restart; nil, or an error that is nil, while it is.
	unkept atomic.Pointer[error]

	// Only the goroutine of Run touches what follows.
	good  *sources.Commit     // the commit of the newest revision, once it is here
	taken *revision.Published // what the plan in force was made of
	// remembered is what this replica has on its disk of it.
	remembered *revision.Published
	head       v1.Commit // the newest commit that was looked at
	refused    []v1.Problem
	envelopes  envelopeCache
	lacks      string // what keeps the newest revision from being served
	planless   struct {
		edition *revision.Edition // the last one that leads to no plan
		err     error             // and why: it is not tried again
	}
}

// New makes a Planner with an empty plan.
func New(o Options) *Planner {
	p := &Planner{
		Options: o, wake: make(chan struct{}, 1),
		validator: validator{
			repos: o.Mirrors, sources: o.Sources, resolver: resolve.New(), sealed: sealcheck.New(), timeout: planTimeout,
		},
	}
	p.current.Store(blank())
	return p
}

// Plan is the one in force. It is safe to call from any goroutine, as are the lookups below.
func (p *Planner) Plan() *Plan { return p.current.Load() }

// Root is what a cluster should run; nil while nothing is known of it.
func (p *Planner) Root(cluster string) *gateway.Root { return p.Plan().roots[cluster] }

// Revision names what the plan in force was made of.
func (p *Planner) Revision() string { return p.Plan().Revision }

// Key is the public key of a cluster's agent, or nil.
func (p *Planner) Key(cluster string) ed25519.PublicKey { return p.Plan().keys[cluster] }

// Directory is who may log in now.
func (p *Planner) Directory() *auth.Directory { return p.Plan().directory }

// PageSecret is the secret of a provider's client for the hub's page; false: it cannot be opened.
func (p *Planner) PageSecret(provider string) (oidcflow.Secret, bool) {
	secret, ok := p.Plan().pageSecrets[provider]
	return secret, ok
}

// Access says what people may do now.
func (p *Planner) Access() *access.Rules { return p.Plan().access }

// AgentURL is how agents know this hub.
func (p *Planner) AgentURL() string {
	if p.URL != "" {
		return p.URL
	}
	return p.Plan().Desired.Fleet.Workspace.Spec.Hub.URL
}

// Left says that the fleet which is served does not have a cluster; nobody has left before there is one.
func (p *Planner) Left(cluster string) bool {
	desired := &p.Plan().Desired
	_, there := desired.Fleet.Cluster(cluster)
	return desired.Served.ID != "" && !there
}

// Pack writes the bundle behind key, for the cache.
func (p *Planner) Pack(_ context.Context, key string, w io.Writer) error {
	r, ok := p.Plan().bundles[key]
	if !ok {
		return fmt.Errorf("pack bundle %s: %w", key, fs.ErrNotExist)
	}
	return bundle.Pack(w, r.snapshot.FS(), r.inputs, bundle.DefaultLimits())
}

// An edition that nobody takes in time, as while the servers elect a leader, is published again after a wait. If the first
// attempt arrived after all, the second is overtaken by it.
const (
	publishTimeout = time.Second
	retryPublish   = 250 * time.Millisecond
	// retryLate is the wait after a turn that did not get to its end in time.
	retryLate = 10 * time.Second
	// retryRemember is the wait after a disk did not take what is to be remembered.
	retryRemember = 5 * time.Second
)

// Run plans whenever something changed, until ctx ends.
func (p *Planner) Run(ctx context.Context) error {
	p.follow(nil, nil)
	for {
		var again <-chan time.Time
		p.validator.late = false
		switch done := p.paced(ctx); {
		case p.validator.late:
			again = time.After(retryLate)
		case !done:
			again = time.After(retryPublish)
		case !p.remember():
			again = time.After(retryRemember)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.Mirrors.Changed():
		case <-p.Revisions.Changed():
		case <-p.wake:
		case <-again:
		}
	}
}

// paced is a turn that says when it began and ended.
func (p *Planner) paced(ctx context.Context) bool {
	p.Pace.Begin(time.Now())
	defer func() { p.Pace.End(time.Now()) }()
	return p.turn(ctx)
}

// Look makes the next turn due: this replica's part may have changed.
func (p *Planner) Look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// turn serves the newest edition if it can, and makes the next one if that is this replica's part. It says false when it
// should try again soon.
func (p *Planner) turn(ctx context.Context) bool {
	newest, kept := p.Revisions.Newest()
	if newest != nil {
		p.adopt(ctx, newest)
	}
	if !p.Publishes() {
		return true
	}
	return p.edit(ctx, newest, kept)
}

// adopt puts the newest edition's plan in force, if all that it names is here.
func (p *Planner) adopt(ctx context.Context, newest *revision.Published) {
	if p.taken != nil && p.taken.ID == newest.ID && !p.Plan().unread {
		return
	}
	if p.good == nil || p.good.ID() != newest.Edition.Commit {
		p.good = p.candidate(newest.Edition.Commit)
	}
	p.follow(&newest.Edition, p.good)
	if p.good == nil {
		p.lack("commit " + newest.Edition.Commit + " of the installation repo")
		return
	}
	if lacks := p.pinned(p.good, &newest.Edition).missing(p.Sources.Of(p.good)); lacks != "" {
		p.lack(lacks)
		return
	}
	next, err := p.draft(ctx, p.good, &newest.Edition)
	if err != nil {
		p.Log.Error("no plan of the newest edition; the last one stays", "edition", newest.ID.String(), "error", err)
		return
	}
	p.install(next, newest)
}

// lack says once what the newest edition waits for.
func (p *Planner) lack(what string) {
	if p.lacks != what {
		p.Log.Info("the newest edition waits for a mirror", "lacks", what)
	}
	p.lacks = what
}

// candidate reads a commit that was good when it was published. A mirror that was lost brings it with a later fetch.
func (p *Planner) candidate(commit string) *sources.Commit {
	snap, err := p.Mirrors.At(p.Sources.Own().ID, commit)
	if err != nil {
		return nil
	}
	f, err := fleet.Load(snap.FS())
	if err != nil {
		p.Log.Error("the commit to serve is no fleet", "commit", commit, "error", err)
		return nil
	}
	return &sources.Commit{Fleet: f, Snapshot: snap}
}

// edit looks at the newest commits of everything, and publishes what is to be served, if it is something new.
func (p *Planner) edit(ctx context.Context, newest *revision.Published, kept bool) bool {
	if newest != nil && !p.Mirrors.Synced(p.Sources.Own().ID) { // what is in the mirror may be older than what is served
		p.head, p.refused = newest.Edition.Head, newest.Edition.Refused
	} else if next := p.newest(ctx); next != nil {
		if done, err := p.publish(ctx, next, newest, kept); err == nil {
			return done
		}
	}
	if p.good == nil {
		if newest == nil {
			p.put(p.annotated(*blank(), &revision.Edition{Head: p.head, Refused: p.refused}))
		}
		return true
	}
	done, err := p.publish(ctx, p.good, newest, kept)
	if err != nil {
		p.Log.Error("no new plan; the last one stays", "error", err)
		now := p.Plan()
		p.put(p.annotated(*now, &revision.Edition{Head: p.head, Refused: slices.Concat(p.refused, []v1.Problem{{Message: err.Error()}})}))
	}
	return done
}

// publish makes an edition of a commit, unless the newest says the same. The error is that of a commit which leads to no
// plan: it is refused. False means that the edition could not be published now.
func (p *Planner) publish(ctx context.Context, c *sources.Commit, newest *revision.Published, kept bool) (bool, error) {
	e := &revision.Edition{Commit: c.ID(), Head: p.head, Refused: p.refused}
	p.follow(e, c)
	e.Pins = pins(p.Sources.Of(c), p.Mirrors, newest)
	if newest != nil && kept && newest.Edition.Equal(e) {
		return true, nil
	}
	next, err := p.draft(ctx, c, e)
	if err != nil {
		if p.good == nil || c.ID() != p.good.ID() {
			p.refused = p.blame([]v1.Problem{{Message: err.Error()}})
		}
		return true, err
	}
	limited, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	published, err := p.Revisions.Publish(limited, e, newest)
	switch {
	case errors.Is(err, revision.ErrOvertaken), errors.Is(err, revision.ErrAway):
		return true, nil // the store says when there is more to do
	case err != nil:
		p.Log.Error("what is to be served cannot be published; the last edition stays", "error", err)
		return false, nil
	}
	p.good = c
	p.install(next, published)
	return true, nil
}

// newest is the newest commit if it is good and not served yet, or nil. A commit that was refused is looked at again:
// what failed may have been the reading.
func (p *Planner) newest(ctx context.Context) *sources.Commit {
	snap, err := p.Mirrors.Snapshot(p.Sources.Own().ID, p.Branch)
	if err != nil {
		if !errors.Is(err, snapshot.ErrNotFetched) {
			p.Log.Error("installation repo cannot be read; the last good commit stays", "error", err)
		}
		return nil
	}
	before := p.head.ID
	p.head = describe(snap.Commit())
	if p.good != nil && p.good.ID() == p.head.ID {
		p.refused = nil
		return nil
	}
	next, problems := p.validator.examine(ctx, snap, p.good)
	problems = p.blame(problems)
	if len(problems) > 0 && (before != p.head.ID || !slices.EqualFunc(problems, p.refused, v1.Problem.Equal)) {
		p.Log.Warn("commit refused; the last good one stays", "commit", p.head.ID, "errors", len(problems),
			"file", problems[0].File, "line", problems[0].Line, "first", problems[0].Message)
	}
	p.refused = problems[:min(len(problems), maxProblems)]
	return next
}

// blame has each problem of the newest commit name the commit that came with it: people push on while one is refused, and to take
// back the newest does not help them. What a hub finds that knows of no commit before may be there for long.
func (p *Planner) blame(problems []v1.Problem) []v1.Problem {
	head := &p.head
	if p.good == nil && len(p.refused) == 0 {
		head = nil
	}
	for i := range problems {
		is := &problems[i]
		at := slices.IndexFunc(p.refused, func(was v1.Problem) bool {
			return was.File == is.File && was.Message == is.Message && was.Service == is.Service && was.Cluster == is.Cluster
		})
		switch {
		case at >= 0:
			is.Since = p.refused[at].Since
		case head != nil:
			since := *head
			is.Since = &since
		}
	}
	return problems
}

// maxProblems bounds what an edition says of a commit that is refused.
const maxProblems = 200

// draft makes the plan of a commit as an edition has it. One that there is no plan of is not tried again.
func (p *Planner) draft(ctx context.Context, c *sources.Commit, e *revision.Edition) (*Plan, error) {
	if last := p.planless.edition; last != nil && last.Commit == e.Commit && maps.Equal(last.Pins, e.Pins) {
		return nil, p.planless.err
	}
	envelopes, err := p.envelopes.in(c.Snapshot)
	if err != nil {
		return nil, err
	}
	with := planInputs{p.validator.resolver, p.pinned(c, e), p.Sources.Own().ID, envelopes, p.Plan()}
	limited, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	next, err := newPlan(limited, c, with, p.Terms, p.Log)
	switch {
	case limited.Err() != nil && err != nil:
		p.validator.late = true // it is no fault of the commit, and tried again
		return nil, err
	case err != nil:
		p.Log.Warn("there is no plan of a commit; the last good one stays", "commit", c.ID(), "error", err)
		p.planless.edition, p.planless.err = e, err
		return nil, err
	}
	if last := p.Plan(); last.Desired.Served.ID == c.ID() {
		next.Sinks, next.SigningKeys, next.pageSecrets, next.Views = last.Sinks, last.SigningKeys, last.pageSecrets, last.Views
	} else {
		next.Sinks, next.SigningKeys, next.pageSecrets = p.sinks(c), p.signingKeys(c), p.openPageSecrets(c)
		next.Views = sharedViews(c.Snapshot.FS())
	}
	return p.annotated(*next, e), nil
}

func (p *Planner) pinned(c *sources.Commit, e *revision.Edition) pinned {
	list := p.Sources.Of(c)
	return pinned{newest{c.Snapshot, idsOf(list), p.Mirrors}, e.Pins, verifiedOf(list)}
}

// put makes a plan the one in force.
func (p *Planner) put(next *Plan) { p.Changed(p.current.Swap(next), next) }

// install puts a plan in force, also after a restart.
func (p *Planner) install(next *Plan, of *revision.Published) {
	accepted := p.taken == nil || p.taken.Edition.Commit != of.Edition.Commit
	next.Revision = of.ID.String()
	p.put(next)
	p.taken, p.lacks = of, ""
	if accepted {
		f := p.good.Fleet
		p.Log.Info("commit accepted", "commit", of.Edition.Commit, "clusters", len(f.Clusters), "services", len(f.Services))
		if p.AgentURL() == "" {
			p.Log.Warn("no agent can log in: neither --url nor spec.hub.url in plural.yaml says how agents reach the hub")
		}
	}
}

// Unkept is why what is being served would not be known after a restart; nil while it would.
func (p *Planner) Unkept() error {
	if err := p.unkept.Load(); err != nil {
		return *err
	}
	return nil
}

// remember keeps what is being served over a restart. It says false while the disk does not take it.
func (p *Planner) remember() bool {
	if p.taken == nil || p.remembered == p.taken {
		return true
	}
	err := p.Revisions.Remember(p.taken)
	if before := p.unkept.Swap(&err); err != nil && (before == nil || *before == nil) {
		p.Log.Error("what is being served cannot be remembered over a restart; it is tried again", "error", err)
	}
	if err != nil {
		return false
	}
	p.remembered = p.taken
	return true
}

// annotated is a plan with the newest commit, and why it is not the one being served.
func (p *Planner) annotated(next Plan, e *revision.Edition) *Plan {
	next.Desired.Head, next.Desired.Refused = e.Head, e.Refused
	if e.Head.ID == "" {
		next.Desired.Head = next.Desired.Served
	}
	return &next
}

// follow has the installation repo fetched, with the sources of a commit, if there is one. A commit that is not the newest
// is fetched by its id, so that mirrors keep it however far the branch moves.
func (p *Planner) follow(e *revision.Edition, c *sources.Commit) {
	own := p.Sources.Own()
	own.Refs = []string{p.Branch}
	if e != nil && e.Commit != e.Head.ID {
		own.Refs = append(own.Refs, e.Commit)
	}
	wants := []gitpoller.Want{own}
	if c != nil {
		for _, each := range p.Sources.Of(c) {
			wants = append(wants, each.Want)
		}
	}
	p.Mirrors.Ensure(wants)
}
