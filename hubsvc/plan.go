package hubsvc

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pluralsh/plural/api/bundle"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/gitagent"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// plan is what follows from one commit of the installation repo and the newest commits of its sources. It is immutable,
// and replaced as a whole.
type plan struct {
	desired view.Desired
	roots   map[string]*gateway.Root
	keys    map[string]ed25519.PublicKey
	recipes map[string]recipe
}

// recipe says where the bytes behind a bundle's key are.
type recipe struct {
	snapshot *snapshot.Snapshot
	inputs   []string
}

// planner makes plans, and keeps the last good one whatever comes after it.
type planner struct {
	Options
	repos    *gitagent.Set
	resolver *resolve.Resolver
	current  atomic.Pointer[plan]

	// Only the goroutine of run touches what follows.
	good *candidate // the fleet being served
	seen string     // the newest commit that was judged
	bad  []v1.Problem
	head v1.Commit
}

// candidate is a commit that reads as a fleet.
type candidate struct {
	fleet    *fleet.Fleet
	snapshot *snapshot.Snapshot
}

func newPlanner(o Options, repos *gitagent.Set) *planner {
	p := &planner{Options: o, repos: repos, resolver: resolve.New()}
	p.current.Store(&plan{})
	return p
}

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

// run plans whenever a repository changed.
func (p *planner) run(ctx context.Context) error {
	changed := p.repos.Changed()
	p.follow(nil)
	p.restore()
	for {
		if err := p.replan(); err != nil {
			p.Log.Error("no new plan; the last good one stays", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// follow has the installation repo fetched, with the sources of a fleet.
func (p *planner) follow(f *fleet.Fleet) {
	refs := []string{p.Branch}
	if p.good != nil && p.good.snapshot.Commit().ID != p.seen {
		refs = append(refs, p.good.snapshot.Commit().ID) // the mirror keeps it, however far the branch moves
	}
	wants := []gitagent.Want{{URL: p.Repo, Interval: p.Interval, Refs: refs}}
	if f != nil {
		wants = append(wants, sourceWants(f)...)
	}
	p.repos.Ensure(wants)
}

// sourceWants lists the repositories that a fleet's services read, with the refs they read.
func sourceWants(f *fleet.Fleet) []gitagent.Want {
	var wants []gitagent.Want
	for i := range f.Sources {
		source := &f.Sources[i]
		if source.Spec.Git == nil {
			continue
		}
		interval, _ := time.ParseDuration(source.Spec.Interval) // checked when the fleet was loaded; empty means the hub's own
		want := gitagent.Want{URL: source.Spec.Git.URL, Interval: interval, Refs: []string{source.Spec.Git.Ref}}
		for j := range f.Services {
			if ref := f.Services[j].Spec.Source; ref.Name == source.Metadata.Name && ref.Ref != "" {
				want.Refs = append(want.Refs, ref.Ref)
			}
		}
		wants = append(wants, want)
	}
	return wants
}

// restore takes up the commit that was served before a restart: the newest one may be worse.
func (p *planner) restore() {
	id, err := os.ReadFile(p.goodFile())
	if err != nil {
		return // nothing was served yet
	}
	snap, err := p.repos.At(p.Repo, strings.TrimSpace(string(id)))
	if err != nil {
		p.Log.Warn("the commit served before the restart is not in the mirror", "commit", string(id), "error", err)
		return
	}
	f, err := fleet.Load(snap.FS())
	if err != nil {
		p.Log.Warn("the commit served before the restart is no fleet", "commit", string(id), "error", err)
		return
	}
	p.good = &candidate{f, snap}
}

func (p *planner) goodFile() string { return filepath.Join(p.Data, "good") }

// replan judges the newest commit if it is new, then resolves the fleet being served against its sources.
func (p *planner) replan() error {
	snap, err := p.repos.Snapshot(p.Repo, p.Branch)
	if err != nil && !errors.Is(err, snapshot.ErrNotFetched) {
		return fmt.Errorf("read installation repo: %w", err)
	}
	if err == nil && snap.Commit().ID != p.seen {
		p.judge(snap)
	}
	if p.good == nil {
		p.current.Store(&plan{desired: view.Desired{Head: p.head, Refused: p.bad}})
		return nil
	}
	p.follow(p.good.fleet)
	next, err := p.make()
	if err != nil {
		return err
	}
	p.current.Store(next)
	return nil
}

// judge takes a commit over as the fleet's desired state, as a whole, or refuses it with all its errors.
func (p *planner) judge(snap *snapshot.Snapshot) {
	p.seen, p.head = snap.Commit().ID, describe(snap.Commit())
	f, problems := p.examine(snap)
	p.bad = problems
	if len(problems) > 0 {
		first := problems[0]
		p.Log.Warn("commit refused; the last good one stays", "commit", p.seen, "errors", len(problems),
			"file", first.File, "line", first.Line, "first", first.Message)
		return
	}
	p.good = &candidate{f, snap}
	p.Log.Info("commit accepted", "commit", p.seen, "clusters", len(f.Clusters), "services", len(f.Services))
	if err := writeFile(p.goodFile(), p.seen+"\n"); err != nil {
		p.Log.Error("the commit being served cannot be remembered over a restart", "error", err)
	}
}

func writeFile(name, text string) error {
	if err := os.WriteFile(name+".tmp", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

// examine returns the commit's fleet, or everything that is wrong with it.
func (p *planner) examine(snap *snapshot.Snapshot) (*fleet.Fleet, []v1.Problem) {
	f, err := fleet.Load(snap.FS())
	var mistakes fleet.Errors
	if errors.As(err, &mistakes) {
		problems := make([]v1.Problem, 0, len(mistakes))
		for _, m := range mistakes {
			problems = append(problems, v1.Problem{File: m.File, Line: m.Line, Message: m.Message, Fix: m.Fix})
		}
		return nil, problems
	}
	if err != nil {
		return nil, []v1.Problem{{Message: err.Error()}}
	}
	var problems []v1.Problem
	for _, found := range p.resolver.Validate(f, p.sourcesAt(snap, f)) {
		if found.Source == "" { // what is wrong with another repository holds its services, and nothing else
			problems = append(problems, view.Problem(&found))
		}
	}
	if problem := p.overBudget(f); problem != nil {
		problems = append(problems, *problem)
	}
	return f, problems
}

// overBudget refuses a commit that takes away more services than one commit may.
func (p *planner) overBudget(f *fleet.Fleet) *v1.Problem {
	if p.good == nil {
		return nil
	}
	removed, all := 0, len(p.good.fleet.Services)
	for i := range p.good.fleet.Services {
		if _, ok := f.Service(p.good.fleet.Services[i].Metadata.Name); !ok {
			removed++
		}
	}
	limit, err := budget.Parse(f.Workspace.Spec.DeletionBudget)
	if err != nil || limit.Allows(removed, all) {
		return nil
	}
	return &v1.Problem{
		File:    "services",
		Message: fmt.Sprintf("the commit takes away %d of %d services, and the deletion budget of %s allows %d", removed, all, limit, limit.Allowed(all)),
		Fix:     "put them back, or raise spec.deletionBudget in plural.yaml",
	}
}

// sourcesAt gives resolve the installation repo as it is at snap, and every source as it is now.
func (p *planner) sourcesAt(snap *snapshot.Snapshot, f *fleet.Fleet) resolve.Sources {
	return sources{own: snap, fleet: f, repos: p.repos}
}

type sources struct {
	own   *snapshot.Snapshot
	fleet *fleet.Fleet
	repos *gitagent.Set
}

func (s sources) Snapshot(name, ref string) (*snapshot.Snapshot, error) {
	if name == "" {
		return s.own, nil
	}
	source, ok := s.fleet.Source(name)
	if !ok || source.Spec.Git == nil {
		return nil, fmt.Errorf("no source %q", name)
	}
	return s.repos.Snapshot(source.Spec.Git.URL, ref)
}

// make resolves the fleet being served for every cluster.
func (p *planner) make() (*plan, error) {
	f := p.good.fleet
	next := &plan{
		desired: view.Desired{
			Fleet: *f, Deployments: make(map[string][]resolve.Deployment, len(f.Clusters)),
			Served: describe(p.good.snapshot.Commit()), Head: p.head, Refused: p.bad,
		},
		roots:   make(map[string]*gateway.Root, len(f.Clusters)),
		keys:    make(map[string]ed25519.PublicKey, len(f.Clusters)),
		recipes: make(map[string]recipe),
	}
	if next.desired.Head.ID == "" {
		next.desired.Head = next.desired.Served
	}
	terms := p.Terms
	terms.DeletionBudget = f.Workspace.Spec.DeletionBudget
	src := p.sourcesAt(p.good.snapshot, f)
	for i := range f.Clusters {
		if err := p.addCluster(next, &f.Clusters[i], src, terms); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (p *planner) addCluster(next *plan, c *fleet.Cluster, src resolve.Sources, terms gateway.Terms) error {
	name := c.Metadata.Name
	deployments, err := p.resolver.For(p.good.fleet, name, src)
	if err != nil {
		return err
	}
	next.desired.Deployments[name] = deployments
	for i := range deployments {
		if d := &deployments[i]; d.Bundle != "" {
			next.recipes[d.Bundle] = recipe{d.Snapshot, d.Inputs}
		}
	}
	if next.roots[name], err = gateway.NewRoot(name, deployments, terms); err != nil {
		return err
	}
	if c.Spec.Agent.Auth == "" {
		return nil
	}
	if next.keys[name], err = crypto.ParseAuthKey(c.Spec.Agent.Auth); err != nil {
		p.Log.Warn("cluster's agent cannot log in", "cluster", name, slog.Any("error", err))
		delete(next.keys, name)
	}
	return nil
}

func describe(c snapshot.Commit) v1.Commit {
	at := c.Time
	return v1.Commit{ID: c.ID, Subject: c.Subject, Author: c.Author, Time: &at}
}
