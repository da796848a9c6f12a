package hubsvc

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/pluralsh/plural/api/bundle"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/gitagent"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealed"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// planner makes plans, and keeps the last good one whatever comes after it.
type planner struct {
	Options
	repos   *gitagent.Set
	judge   judge
	current atomic.Pointer[plan]
	file    lastGood

	// Only the goroutine of run touches what follows.
	remembered string     // the commit served before a restart; "" once it is served again, or another is
	good       *candidate // the commit being served
	head       v1.Commit  // the newest commit that was looked at
	refused    []v1.Problem
	envelopes  envelopeCache
}

func newPlanner(o Options, repos *gitagent.Set) *planner {
	p := &planner{Options: o, repos: repos, judge: judge{repos, resolve.New(), sealed.New()}, file: lastGood(filepath.Join(o.Data, "good"))}
	p.current.Store(&plan{})
	return p
}

// plan is the one in force. It is safe to call from any goroutine, as are the lookups below.
func (p *planner) plan() *plan { return p.current.Load() }

// root is what a cluster should run; nil while nothing is known of it.
func (p *planner) root(cluster string) *gateway.Root { return p.plan().roots[cluster] }

// key is the public key of a cluster's agent, or nil.
func (p *planner) key(cluster string) ed25519.PublicKey { return p.plan().keys[cluster] }

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

// run plans whenever a repository changed, until ctx ends.
func (p *planner) run(ctx context.Context) error {
	var err error
	if p.remembered, err = p.file.load(); err != nil {
		p.Log.Warn("what was served before the restart is not known", "error", err)
	}
	p.follow(nil)
	for {
		p.replan()
		select {
		case <-ctx.Done():
			return nil
		case <-p.repos.Changed():
		}
	}
}

// replan takes the newest commit over if it is good, else stays with the one being served, resolved anew against the
// newest commits of its sources.
func (p *planner) replan() {
	if p.good == nil && p.remembered != "" {
		p.restore()
	}
	if next := p.newest(); next != nil && p.take(next) {
		return
	}
	if p.good == nil {
		p.current.Store(p.annotated(plan{}))
		return
	}
	if err := p.serve(p.good); err != nil {
		p.Log.Error("no new plan; the last one stays", "error", err)
		kept := p.annotated(*p.plan())
		kept.desired.Refused = slices.Concat(p.refused, []v1.Problem{{Message: err.Error()}})
		p.current.Store(kept)
	}
}

// restore takes up the commit that was served before a restart. A mirror that was lost brings it with a later fetch.
func (p *planner) restore() {
	snap, err := p.repos.At(p.Repo, p.remembered)
	if err != nil {
		p.Log.Warn("the commit served before the restart is not in the mirror", "commit", p.remembered, "error", err)
		return
	}
	f, err := fleet.Load(snap.FS())
	if err != nil {
		p.Log.Warn("the commit served before the restart is no fleet", "commit", p.remembered, "error", err)
		return
	}
	p.good, p.remembered = &candidate{f, snap}, ""
}

// newest is the newest commit if it is good and not served yet, or nil. A commit that was refused is looked at again:
// what failed may have been the reading.
func (p *planner) newest() *candidate {
	snap, err := p.repos.Snapshot(p.Repo, p.Branch)
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
	next, problems := p.judge.examine(snap, p.good)
	if len(problems) > 0 && (before != p.head.ID || !slices.Equal(problems, p.refused)) {
		p.Log.Warn("commit refused; the last good one stays", "commit", p.head.ID, "errors", len(problems),
			"file", problems[0].File, "line", problems[0].Line, "first", problems[0].Message)
	}
	p.refused = problems
	return next
}

// take serves a commit from now on, also after a restart. It says false when there is no plan to be made of it: then
// the commit is refused, and the one before must be served again.
func (p *planner) take(next *candidate) bool {
	if err := p.serve(next); err != nil {
		p.Log.Warn("commit refused; the last good one stays", "commit", next.id(), "error", err)
		p.refused = []v1.Problem{{Message: err.Error()}}
		return false
	}
	p.good, p.remembered = next, ""
	p.Log.Info("commit accepted", "commit", next.id(), "clusters", len(next.fleet.Clusters), "services", len(next.fleet.Services))
	if p.url() == "" {
		p.Log.Warn("no agent can log in: neither --url nor spec.hub.url in plural.yaml says how agents reach the hub")
	}
	if err := p.file.save(next.id()); err != nil {
		p.Log.Error("the commit being served cannot be remembered over a restart", "error", err)
	}
	return true
}

// serve puts a commit's plan in force.
func (p *planner) serve(c *candidate) error {
	p.follow(c)
	envelopes, err := p.envelopes.in(c.snapshot)
	if err != nil {
		return err
	}
	with := means{p.judge.resolver, sources{c.snapshot, c.fleet, p.repos}, envelopes, p.plan()}
	next, err := newPlan(c, with, p.Terms, p.Log)
	if err != nil {
		return err
	}
	p.current.Store(p.annotated(*next))
	return nil
}

// annotated is a plan with the newest commit, and why it is not the one being served.
func (p *planner) annotated(next plan) *plan {
	next.desired.Head, next.desired.Refused = p.head, p.refused
	if p.head.ID == "" {
		next.desired.Head = next.desired.Served
	}
	return &next
}

// follow has the installation repo fetched, with the sources of the commit to be served, if there is one. A commit that
// is not the newest is fetched by its id, so that the mirror keeps it however far the branch moves.
func (p *planner) follow(c *candidate) {
	own := gitagent.Want{URL: p.Repo, Interval: p.Interval, Refs: []string{p.Branch}}
	if c == nil {
		if p.remembered != "" {
			own.Refs = append(own.Refs, p.remembered)
		}
		p.repos.Ensure([]gitagent.Want{own})
		return
	}
	if c.id() != p.head.ID {
		own.Refs = append(own.Refs, c.id())
	}
	p.repos.Ensure(append(sourceWants(c.fleet), own))
}
