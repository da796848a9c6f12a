// Package replay owns the comparison of keys with what they stand for, over a repository's history: did a service's key
// change exactly when its rendered output did?
//
// It refuses to know hubs, agents and clusters' state.
//
// Run goes from commit to commit. At each it finds the services (services.go) and asks workspace/resolve for their keys as
// the hub does; then it renders them with agent/render, not from the inputs that resolve named, which would prove nothing,
// but from all of the repository (universe.go). An output that changed without its key is a false negative: a cluster
// would have kept the old one. A key that changed without its output is a false positive, and costs a needless render.
package replay

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Options say what is compared.
type Options struct {
	// Repo is the folder of a git repository. From is compared with what follows it, up to To.
	Repo, From, To string
	// Paths narrow the services to those below these folders; none means all.
	Paths []string
	// Render is the command of a render's child process.
	Render []string
	// Workers is how many renders run at once.
	Workers int
	// Progress is told of each commit.
	Progress func(done, all int, commit string)
}

// Result is what was found.
type Result struct {
	// Commits were compared with the one before each, all or until it was ended. Steps are the services in them that were
	// there before and after, and could be resolved and rendered both times.
	Commits int `json:"commits"`
	Steps   int `json:"steps"`
	// Services were seen in all; Unrendered are those that were never rendered, for one of the Reasons.
	Services   int            `json:"services"`
	Unrendered int            `json:"unrendered"`
	Reasons    map[string]int `json:"reasons,omitempty"`
	// KeysChanged and OutputsChanged are steps in which they did.
	KeysChanged    int `json:"keysChanged"`
	OutputsChanged int `json:"outputsChanged"`
	// FalseNegatives changed their output and not their key; FalsePositives the other way round. Incomplete are services
	// that their bundle renders to something else than the whole repository does.
	FalseNegatives []Offender `json:"falseNegatives"`
	FalsePositives []Offender `json:"falsePositives"`
	Incomplete     []Offender `json:"incomplete"`
	// Unrepeatable are services that render to something else each time, which nothing can be said of.
	Unrepeatable []string `json:"unrepeatable,omitempty"`
	// Renders is how many were made.
	Renders int `json:"renders"`
}

// Ratio is how many keys changed for each output that did; 1 when neither changed.
func (r *Result) Ratio() float64 {
	if r.OutputsChanged == 0 && r.KeysChanged == 0 {
		return 1
	}
	return float64(r.KeysChanged) / float64(max(r.OutputsChanged, 1))
}

// Offender is a service at a commit.
type Offender struct {
	Service string `json:"service"`
	Commit  string `json:"commit"`
}

// state is a service at a commit.
type state struct {
	deployment *resolve.Deployment
	key        string
	// output is a hash over the rendered objects; empty when the service cannot be resolved or rendered, for a reason.
	output, reason string
}

// walk is a run under way.
type walk struct {
	Options
	objects  *snapshot.Objects
	resolver *resolve.Resolver
	renderer *render.Renderer
	result   *Result
	// rendered remembers which services ever were, and complete which bundles were seen to be.
	rendered, fickle map[string]bool
	complete         map[string]bool
	reasons          map[string]string
	before           map[string]*state
	universe         string
	mu               sync.Mutex // guards result.Renders
}

// Run compares. The error is about the repository, or a ctx that ended; once a commit was looked at there is a result beside it, of
// those that were compared by then.
func Run(ctx context.Context, o Options) (*Result, error) {
	commits, err := commits(ctx, o)
	if err != nil {
		return nil, err
	}
	store, err := openObjects(ctx, o.Repo)
	if err != nil {
		return nil, err
	}
	defer store.close()
	w := newWalk(o, store)
	defer w.renderer.Close()
	for i, commit := range commits {
		if o.Progress != nil {
			o.Progress(i, len(commits)-1, commit)
		}
		if err = w.step(ctx, commit, i == 0); err != nil {
			err = fmt.Errorf("commit %s: %w", commit, err)
			break
		}
		w.result.Commits = i
	}
	w.conclude()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return w.result, err
}

func newWalk(o Options, store snapshot.Store) *walk {
	return &walk{
		Options: o, objects: snapshot.NewObjects(store, nil), resolver: resolve.New(),
		result:   &Result{FalseNegatives: []Offender{}, FalsePositives: []Offender{}, Incomplete: []Offender{}},
		renderer: &render.Renderer{Command: o.Render, Limits: render.Limits{Files: maxFiles, Input: maxUniverse}, Warm: time.Minute},
		rendered: map[string]bool{}, fickle: map[string]bool{}, complete: map[string]bool{}, reasons: map[string]string{},
	}
}

// commits lists From and the commits after it up to To, oldest first, along first parents: what a branch's followers see.
func commits(ctx context.Context, o Options) ([]string, error) {
	var list []string
	for _, args := range [][]string{
		{"rev-parse", "--verify", "--end-of-options", o.From + "^{commit}"},
		{"rev-list", "--reverse", "--first-parent", "--end-of-options", o.From + ".." + o.To},
	} {
		out, err := gitexec.Call{Dir: o.Repo, Env: bareAt(o.Repo), Args: args}.Run(ctx)
		if err != nil {
			return nil, fmt.Errorf("list commits %s..%s: %w", o.From, o.To, err)
		}
		list = append(list, strings.Fields(string(out))...)
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("list commits %s..%s: there are none after the first", o.From, o.To)
	}
	return list, nil
}

// step resolves and renders one commit, and compares it with the one before.
func (w *walk) step(ctx context.Context, commit string, first bool) error {
	snap, err := w.objects.Snapshot(snapshot.Hash(commit))
	if err != nil {
		return err
	}
	services, err := w.services(snap)
	if err != nil {
		return err
	}
	all, err := take(ctx, snap)
	if err != nil {
		return err
	}
	same := all.hash == w.universe // then nothing that a render can see is another
	w.universe = all.hash
	now := make(map[string]*state, len(services))
	group, rendering := errgroup.WithContext(ctx)
	group.SetLimit(max(w.Workers, 1))
	for _, d := range services {
		name := d.Service + at(d.Cluster)
		s := &state{deployment: d, key: d.Key}
		now[name] = s
		if last := w.before[name]; last != nil && same && last.reason == "" && settings(last.deployment) == settings(d) {
			s.output = last.output
			continue
		}
		group.Go(func() error { return w.render(rendering, s, all) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for name, s := range now {
		if err := w.compare(ctx, name, commit, w.before[name], s, all, first); err != nil {
			return err
		}
	}
	w.before = now
	return nil
}

func at(cluster string) string {
	if cluster == "" || cluster == nowhere {
		return ""
	}
	return " on " + cluster
}

// compare counts one service's step from before to now.
func (w *walk) compare(ctx context.Context, name, commit string, before, now *state, all *universe, first bool) error {
	if now.reason != "" {
		w.reasons[name] = now.reason
		return nil
	}
	w.rendered[name] = true
	if err := w.checkBundle(ctx, name, commit, now); err != nil {
		return err
	}
	if first || before == nil || before.reason != "" || w.fickle[name] {
		return nil
	}
	keyChanged, outputChanged := before.key != now.key, before.output != now.output
	if outputChanged && !keyChanged {
		again := &state{deployment: now.deployment}
		if err := w.render(ctx, again, all); err != nil {
			return err
		}
		if again.output != now.output {
			w.fickle[name] = true
			return nil
		}
		w.result.FalseNegatives = append(w.result.FalseNegatives, Offender{name, commit})
	}
	if keyChanged && !outputChanged {
		w.result.FalsePositives = append(w.result.FalsePositives, Offender{name, commit})
	}
	w.result.Steps++
	if keyChanged {
		w.result.KeysChanged++
	}
	if outputChanged {
		w.result.OutputsChanged++
	}
	return nil
}

// checkBundle renders a service as an agent does, from its bundle alone, once for each key.
func (w *walk) checkBundle(ctx context.Context, name, commit string, now *state) error {
	id := name + "\x00" + now.key
	if w.complete[id] || w.fickle[name] {
		return nil
	}
	w.complete[id] = true
	alone, err := inputs(now.deployment)
	if err != nil {
		return err
	}
	s := &state{deployment: now.deployment}
	if err := w.render(ctx, s, alone); err != nil || s.output == now.output {
		return err
	}
	if err := w.render(ctx, s, alone); err != nil { // once more, for one that renders to something else each time
		return err
	}
	again := &state{deployment: now.deployment}
	if err := w.render(ctx, again, alone); err != nil {
		return err
	}
	if again.output != s.output {
		w.fickle[name] = true
		return nil
	}
	w.result.Incomplete = append(w.result.Incomplete, Offender{name, commit})
	return nil
}
