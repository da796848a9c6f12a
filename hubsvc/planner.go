package hubsvc

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pluralsh/plural/api/bundle"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/hubsvc/edition"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/gitagent"
	"github.com/pluralsh/plural/internal/person"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealed"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// planner makes the plan of the newest edition, and keeps the last one until it can. On the replica that owns the
// installation repo it also edits: it judges commits, and publishes what is to be served.
type planner struct {
	Options
	repos     *gitagent.Set
	editions  *edition.Store
	upstreams *upstreams
	// edits says whether this replica publishes editions now.
	edits func() bool
	// moved is called with the plan that was in force, and the one that is now.
	moved     func(before, now *plan)
	wake      chan struct{}
	validator validator
	current   atomic.Pointer[plan]
	pace      pace
	// forgetful holds why what is being served is not remembered over a restart; nil, or an error that is nil, while it is.
	forgetful atomic.Pointer[error]

	// Only the goroutine of run touches what follows.
	good  *candidate         // the commit of the newest edition, once it is here
	taken *edition.Published // what the plan in force was made of
	// remembered is what this replica has on its disk of it.
	remembered *edition.Published
	head       v1.Commit // the newest commit that was looked at
	refused    []v1.Problem
	envelopes  envelopeCache
	lacks      string // what keeps the newest edition from being served
	planless   struct {
		edition *edition.Edition // the last one that leads to no plan
		err     error            // and why: it is not tried again
	}
}

func newPlanner(o Options, repos *gitagent.Set, editions *edition.Store, edits func() bool, s *signatures) *planner {
	u := newUpstreams(&o, s)
	p := &planner{
		Options: o, repos: repos, editions: editions, upstreams: u, edits: edits,
		wake: make(chan struct{}, 1), moved: func(_, _ *plan) {},
		validator: validator{repos: repos, upstreams: u, resolver: resolve.New(), sealed: sealed.New(), timeout: planTimeout},
	}
	p.current.Store(blank())
	return p
}

// plan is the one in force. It is safe to call from any goroutine, as are the lookups below.
func (p *planner) plan() *plan { return p.current.Load() }

// root is what a cluster should run; nil while nothing is known of it.
func (p *planner) root(cluster string) *gateway.Root { return p.plan().roots[cluster] }

// edition names what the plan in force was made of.
func (p *planner) edition() string { return p.plan().edition }

// key is the public key of a cluster's agent, or nil.
func (p *planner) key(cluster string) ed25519.PublicKey { return p.plan().keys[cluster] }

// person is the user that has a token of this hash.
func (p *planner) person(hash string) (person.Person, bool) {
	found, ok := p.plan().people[hash]
	return found, ok
}

// access says what people may do now.
func (p *planner) access() *access.Rules { return p.plan().access }

// url is how agents know this hub.
func (p *planner) url() string {
	if p.URL != "" {
		return p.URL
	}
	return p.plan().desired.Fleet.Workspace.Spec.Hub.URL
}

// pack writes the bundle behind key, for the cache.
func (p *planner) pack(_ context.Context, key string, w io.Writer) error {
	r, ok := p.plan().recipes[key]
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

// run plans whenever something changed, until ctx ends.
func (p *planner) run(ctx context.Context) error {
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
		case <-p.repos.Changed():
		case <-p.editions.Changed():
		case <-p.wake:
		case <-again:
		}
	}
}

// paced is a turn that says when it began and ended.
func (p *planner) paced(ctx context.Context) bool {
	p.pace.begin(time.Now())
	defer func() { p.pace.end(time.Now()) }()
	return p.turn(ctx)
}

// look makes the next turn due: this replica's part may have changed.
func (p *planner) look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// turn serves the newest edition if it can, and makes the next one if that is this replica's part. It says false when it
// should try again soon.
func (p *planner) turn(ctx context.Context) bool {
	newest, kept := p.editions.Newest()
	if newest != nil {
		p.adopt(ctx, newest)
	}
	if !p.edits() {
		return true
	}
	return p.edit(ctx, newest, kept)
}

// adopt puts the newest edition's plan in force, if all that it names is here.
func (p *planner) adopt(ctx context.Context, newest *edition.Published) {
	if p.taken != nil && p.taken.ID == newest.ID && !p.plan().unread {
		return
	}
	if p.good == nil || p.good.id() != newest.Edition.Commit {
		p.good = p.candidate(newest.Edition.Commit)
	}
	p.follow(&newest.Edition, p.good)
	if p.good == nil {
		p.lack("commit " + newest.Edition.Commit + " of the installation repo")
		return
	}
	if lacks := p.pinned(p.good, &newest.Edition).missing(p.upstreams.of(p.good)); lacks != "" {
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
func (p *planner) lack(what string) {
	if p.lacks != what {
		p.Log.Info("the newest edition waits for a mirror", "lacks", what)
	}
	p.lacks = what
}

// candidate reads a commit that was good when it was published. A mirror that was lost brings it with a later fetch.
func (p *planner) candidate(commit string) *candidate {
	snap, err := p.repos.At(p.upstreams.own.ID, commit)
	if err != nil {
		return nil
	}
	f, err := fleet.Load(snap.FS())
	if err != nil {
		p.Log.Error("the commit to serve is no fleet", "commit", commit, "error", err)
		return nil
	}
	return &candidate{f, snap}
}

// edit looks at the newest commits of everything, and publishes what is to be served, if it is something new.
func (p *planner) edit(ctx context.Context, newest *edition.Published, kept bool) bool {
	if newest != nil && !p.repos.Synced(p.upstreams.own.ID) { // what is in the mirror may be older than what is served
		p.head, p.refused = newest.Edition.Head, newest.Edition.Refused
	} else if next := p.newest(ctx); next != nil {
		if done, err := p.publish(ctx, next, newest, kept); err == nil {
			return done
		}
	}
	if p.good == nil {
		if newest == nil {
			p.put(p.annotated(*blank(), &edition.Edition{Head: p.head, Refused: p.refused}))
		}
		return true
	}
	done, err := p.publish(ctx, p.good, newest, kept)
	if err != nil {
		p.Log.Error("no new plan; the last one stays", "error", err)
		now := p.plan()
		p.put(p.annotated(*now, &edition.Edition{Head: p.head, Refused: slices.Concat(p.refused, []v1.Problem{{Message: err.Error()}})}))
	}
	return done
}

// publish makes an edition of a commit, unless the newest says the same. The error is that of a commit which leads to no
// plan: it is refused. False means that the edition could not be published now.
func (p *planner) publish(ctx context.Context, c *candidate, newest *edition.Published, kept bool) (bool, error) {
	e := &edition.Edition{Commit: c.id(), Head: p.head, Refused: p.refused}
	p.follow(e, c)
	e.Pins = pins(p.upstreams.of(c), p.repos, newest)
	if newest != nil && kept && newest.Edition.Equal(e) {
		return true, nil
	}
	next, err := p.draft(ctx, c, e)
	if err != nil {
		if p.good == nil || c.id() != p.good.id() {
			p.refused = p.blame([]v1.Problem{{Message: err.Error()}})
		}
		return true, err
	}
	limited, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	published, err := p.editions.Publish(limited, e, newest)
	switch {
	case errors.Is(err, edition.ErrOvertaken), errors.Is(err, edition.ErrAway):
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
func (p *planner) newest(ctx context.Context) *candidate {
	snap, err := p.repos.Snapshot(p.upstreams.own.ID, p.Branch)
	if err != nil {
		if !errors.Is(err, snapshot.ErrNotFetched) {
			p.Log.Error("installation repo cannot be read; the last good commit stays", "error", err)
		}
		return nil
	}
	before := p.head.ID
	p.head = describe(snap.Commit())
	if p.good != nil && p.good.id() == p.head.ID {
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
func (p *planner) blame(problems []v1.Problem) []v1.Problem {
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
func (p *planner) draft(ctx context.Context, c *candidate, e *edition.Edition) (*plan, error) {
	if last := p.planless.edition; last != nil && last.Commit == e.Commit && maps.Equal(last.Pins, e.Pins) {
		return nil, p.planless.err
	}
	envelopes, err := p.envelopes.in(c.snapshot)
	if err != nil {
		return nil, err
	}
	with := means{p.validator.resolver, p.pinned(c, e), p.upstreams.own.ID, envelopes, p.plan()}
	limited, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	next, err := newPlan(limited, c, with, p.Terms, p.Log)
	switch {
	case limited.Err() != nil && err != nil:
		p.validator.late = true // it is no fault of the commit, and tried again
		return nil, err
	case err != nil:
		p.Log.Warn("there is no plan of a commit; the last good one stays", "commit", c.id(), "error", err)
		p.planless.edition, p.planless.err = e, err
		return nil, err
	}
	if last := p.plan(); last.desired.Served.ID == c.id() {
		next.sinks = last.sinks
	} else {
		next.sinks = p.sinks(c)
	}
	return p.annotated(*next, e), nil
}

func (p *planner) pinned(c *candidate, e *edition.Edition) pinned {
	list := p.upstreams.of(c)
	return pinned{newest{c.snapshot, idsOf(list), p.repos}, e.Pins, verifiedOf(list)}
}

// put makes a plan the one in force.
func (p *planner) put(next *plan) { p.moved(p.current.Swap(next), next) }

// install puts a plan in force, also after a restart.
func (p *planner) install(next *plan, of *edition.Published) {
	accepted := p.taken == nil || p.taken.Edition.Commit != of.Edition.Commit
	next.edition = of.ID.String()
	p.put(next)
	p.taken, p.lacks = of, ""
	if accepted {
		f := p.good.fleet
		p.Log.Info("commit accepted", "commit", of.Edition.Commit, "clusters", len(f.Clusters), "services", len(f.Services))
		if p.url() == "" {
			p.Log.Warn("no agent can log in: neither --url nor spec.hub.url in plural.yaml says how agents reach the hub")
		}
	}
}

// remember keeps what is being served over a restart. It says false while the disk does not take it.
func (p *planner) remember() bool {
	if p.taken == nil || p.remembered == p.taken {
		return true
	}
	err := p.editions.Remember(p.taken)
	if before := p.forgetful.Swap(&err); err != nil && (before == nil || *before == nil) {
		p.Log.Error("what is being served cannot be remembered over a restart; it is tried again", "error", err)
	}
	if err != nil {
		return false
	}
	p.remembered = p.taken
	return true
}

// annotated is a plan with the newest commit, and why it is not the one being served.
func (p *planner) annotated(next plan, e *edition.Edition) *plan {
	next.desired.Head, next.desired.Refused = e.Head, e.Refused
	if e.Head.ID == "" {
		next.desired.Head = next.desired.Served
	}
	return &next
}

// follow has the installation repo fetched, with the sources of a commit, if there is one. A commit that is not the newest
// is fetched by its id, so that mirrors keep it however far the branch moves.
func (p *planner) follow(e *edition.Edition, c *candidate) {
	own := p.upstreams.own
	own.Refs = []string{p.Branch}
	if e != nil && e.Commit != e.Head.ID {
		own.Refs = append(own.Refs, e.Commit)
	}
	wants := []gitagent.Want{own}
	if c != nil {
		for _, each := range p.upstreams.of(c) {
			wants = append(wants, each.want)
		}
	}
	p.repos.Ensure(wants)
}
