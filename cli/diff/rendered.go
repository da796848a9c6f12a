package diff

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/installer/inspect"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// report is all that the comparison found.
type report struct {
	// Against is the revision as it was given, Commit its id.
	Against string `json:"against"`
	Commit  string `json:"commit"`
	// Clusters and Deployments count what was looked at, Differ the clusters where something differs.
	Clusters    int `json:"clusters"`
	Deployments int `json:"deployments"`
	Differ      int `json:"differ"`
	// Items are the changes, those that reach most first.
	Items []compare.Group `json:"items"`
	// Settings are changes of how services are applied, which render to the same.
	Settings []setting `json:"settings,omitempty"`
	// Held are deletions that will wait for a person.
	Held []compare.Hold `json:"held,omitempty"`
	// Problems are what could not be compared.
	Problems []problem `json:"problems,omitempty"`
	// Mistakes are what clusters would refuse of the objects that differ, and Warnings what they may.
	Mistakes []inspect.Finding `json:"mistakes,omitempty"`
	Warnings []inspect.Finding `json:"warnings,omitempty"`
	// Left are the clusters that leave the fleet; what runs on them stays.
	Left []string `json:"left,omitempty"`
	// Packages is what a deploy would do about packages.
	Packages *packages `json:"packages,omitempty"`
	// Live is what clusters said that were asked.
	Live *liveReport `json:"live,omitempty"`
}

// differs says whether the work tree changes anything for clusters, or for packages.
func (r *report) differs() bool {
	return len(r.Items)+len(r.Settings)+len(r.Left)+len(r.Problems) > 0 || r.Packages.differs() || r.Live != nil && len(r.Live.Items)+len(r.Live.Leaving) > 0
}

// broken says whether the work tree has something that does not render, or a cluster could not be asked.
func (r *report) broken() bool {
	fault := func(p problem) bool { return p.Side != "before" && !p.Elsewhere }
	return slices.ContainsFunc(r.Problems, fault) || r.Packages.broken() || r.Live != nil && slices.ContainsFunc(r.Live.Problems, fault)
}

// runRendered compares what the two sides render to.
func (o options) runRendered(ctx context.Context, repo *workspace.Repo) error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	s, err := o.open(repo)
	if err != nil {
		return err
	}
	found, err := s.pair(ctx, o)
	if err != nil {
		return err
	}
	changed, err := o.packages(repo, s)
	if err != nil {
		return err
	}
	if found.deployments == 0 && len(found.left) == 0 && changed == nil && len(o.services)+len(o.clusters) == 0 && !o.live.On {
		return o.runFiles(ctx, repo)
	}
	r, err := o.compare(ctx, s, found)
	if err != nil {
		return err
	}
	r.Packages = changed
	if o.live.On {
		if r.Live, err = o.ask(ctx, repo, s); err != nil {
			return err
		}
	}
	if program := o.f.Getenv("KUBECTL_EXTERNAL_DIFF"); program != "" && printer.Human() && len(r.Items) > 0 && r.Live == nil {
		return o.external(ctx, program, r)
	}
	view := ui.View{
		Value: r, Names: append(objectNames(r.Items), packageNames(r.Packages)...),
		Screen:   func(w io.Writer) error { return screen{o.f.IO, o.unified}.write(w, r) },
		Markdown: func(w io.Writer) error { return commentOn(r).write(w) },
	}
	if err := printer.Print(view); err != nil {
		return err
	}
	if printer.Human() && !r.differs() {
		o.f.Say("nothing renders differently than at %s, on %s", ui.Clean(o.commit), count(r.Clusters, "cluster"))
	}
	return o.end(r)
}

// end is the exit code.
func (o options) end(r *report) error {
	switch {
	case r.broken():
		return ui.Silent(ui.ExitFailed)
	case o.exitCode && r.differs():
		return ui.Silent(ui.ExitDiffers)
	}
	return nil
}

// open reads both sides, and finds what is named in them.
func (o *options) open(repo *workspace.Repo) (*sides, error) {
	before, err := offline.Open(repo, o.commit)
	var mistakes fleet.Errors
	if errors.As(err, &mistakes) {
		told := cmdutil.Problems("the installation repo at "+o.commit, cmdutil.FleetProblems(mistakes))
		told.Fix = "files alone: plural diff --files"
		if readable, steps := offline.LastReadable(repo); readable != nil {
			told.Fix = fmt.Sprintf("compare with the newest commit that can be read: plural diff HEAD~%d; or %s", steps, told.Fix)
		}
		return nil, told
	}
	if err != nil {
		return nil, err
	}
	after, err := offline.Open(repo, "")
	if err != nil {
		return nil, err
	}
	s := &sides{before: before, after: after, resolver: resolve.New()}
	if err := o.takeNames(s); err != nil {
		return nil, err
	}
	return s, s.checkNames(o)
}

// compare renders what differs.
func (o options) compare(ctx context.Context, s *sides, found *pairs) (*report, error) {
	c := comparison{options: o, key: make([]byte, 32), pairs: found}
	_, _ = rand.Read(c.key) // it never fails
	for i, side := range []*offline.State{s.before, s.after} {
		renderer, err := preview.New(side.Taken(), o.f.Identities().Load)
		if err != nil {
			return nil, err
		}
		renderer.KubeVersion = o.kubeVersion
		c.renderers[i] = renderer
	}
	var err error
	if c.changes, err = o.inspection(s, c.renderers[1]); err != nil {
		return nil, err
	}
	if err := c.renderAll(ctx); err != nil {
		return nil, err
	}
	judged, err := c.changes.Report(ctx)
	if err != nil {
		return nil, err
	}
	deltas := compare.Moves(c.deltas)
	r := &report{
		Against: o.commit, Commit: s.before.Taken().Commit().ID, Clusters: found.clusters, Deployments: found.deployments,
		Items: compare.Of(deltas), Held: slices.Concat(s.budgets(o, found), compare.Holds(deltas)),
		Settings: s.settings(o, found), Problems: found.problems, Left: found.left,
		Mistakes: judged.Errors, Warnings: judged.Warnings,
	}
	if r.Items == nil {
		r.Items = []compare.Group{}
	}
	r.Differ = len(reached(r))
	return r, nil
}

// inspection judges what differs as plural validate does, for the versions that clusters were last seen to have.
func (o options) inspection(s *sides, renderer *preview.Renderer) (*inspect.Changes, error) {
	var seen *fleetcache.Seen
	if store := o.f.LastSeen(); store != nil {
		seen, _ = store.Load() // the newest version of Kubernetes will do
	}
	versions := seen.Versions()
	if o.kubeVersion != "" {
		for i := range s.after.Fleet.Clusters {
			versions[s.after.Fleet.Clusters[i].Metadata.Name] = o.kubeVersion
		}
	}
	return inspect.NewChanges(inspect.Inspection{
		Fleet: s.after.Fleet, Sources: s.after, Resolver: s.resolver, Renderer: renderer, Versions: versions,
	})
}

// reached are the clusters where something differs.
func reached(r *report) map[string]bool {
	names := map[string]bool{}
	for _, g := range r.Items {
		for _, name := range g.Clusters {
			names[name] = true
		}
	}
	return names
}

// comparison renders pairs and compares what comes of them.
type comparison struct {
	options
	*pairs
	renderers [2]*preview.Renderer
	key       []byte
	changes   *inspect.Changes

	mu     sync.Mutex // guards what follows, and pairs.problems
	deltas []compare.Delta
}

// renderAll goes service by service, so that no more is held in memory than one needs.
func (c *comparison) renderAll(ctx context.Context) error {
	for _, list := range byService(c.list) {
		sample := list
		if c.renders > 0 && len(list) > c.renders {
			sample = list[:c.renders]
			c.skipped(list[c.renders:])
		}
		memo := [2]*memory{{renderer: c.renderers[0]}, {renderer: c.renderers[1]}}
		var group errgroup.Group
		group.SetLimit(runtime.NumCPU())
		for _, p := range sample {
			group.Go(func() error {
				if ctx.Err() != nil {
					return nil
				}
				return c.one(ctx, memo, p)
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	slices.SortStableFunc(c.problems, func(a, b problem) int {
		return strings.Compare(a.Service+"\n"+a.Message, b.Service+"\n"+b.Message)
	})
	return nil
}

// byService cuts a list into those of each service, which reach most first.
func byService(list []*pairing) [][]*pairing {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *pairing) int {
		if a.service != b.service {
			return strings.Compare(a.service, b.service)
		}
		return len(b.clusters) - len(a.clusters)
	})
	var cut [][]*pairing
	for i, p := range list {
		if i == 0 || list[i-1].service != p.service {
			cut = append(cut, nil)
		}
		cut[len(cut)-1] = append(cut[len(cut)-1], p)
	}
	return cut
}

// skipped tells of what was not rendered because there is too much of it.
func (c *comparison) skipped(list []*pairing) {
	p := problem{
		Service: list[0].service, Side: "after", Elsewhere: true, Fix: "--renders 0 renders them all",
		Message: fmt.Sprintf("%d more variants, each with parameters of its own, were not rendered", len(list)),
	}
	var clusters []string
	for _, pair := range list {
		clusters = append(clusters, pair.clusters...)
	}
	slices.Sort(clusters)
	c.note(p, clusters...)
}

// memory is what one side of a service rendered to, by key.
type memory struct {
	renderer *preview.Renderer
	made     sync.Map // key to func() (*preview.Rendition, error)
}

func (m *memory) render(ctx context.Context, d *resolve.Deployment) (*preview.Rendition, error) {
	if d == nil {
		return nil, nil
	}
	once := sync.OnceValues(func() (*preview.Rendition, error) { return m.renderer.Render(ctx, d) })
	kept, _ := m.made.LoadOrStore(d.Key, once)
	return kept.(func() (*preview.Rendition, error))()
}

// sideOf is what was made of a deployment; nothing where there is none.
func sideOf(d *resolve.Deployment, made *preview.Rendition) compare.Side {
	if made == nil {
		return compare.Side{}
	}
	return compare.Side{Objects: made.Objects, Namespace: d.Namespace, Sealed: made.Sealed}
}

// one compares one pair. What does not render is told in its place; the error says that nothing can be judged.
func (c *comparison) one(ctx context.Context, memo [2]*memory, p *pairing) error {
	madeBefore, errBefore := memo[0].render(ctx, p.before)
	madeAfter, errAfter := memo[1].render(ctx, p.after)
	before, after := sideOf(p.before, madeBefore), sideOf(p.after, madeAfter)
	delta := compare.Delta{
		Service: p.service, Clusters: p.clusters, Before: len(before.Objects), After: len(after.Objects), Leaves: p.after == nil,
	}
	after.Kept, after.Gone = whyKept(p), p.after == nil
	if errBefore == nil && errAfter == nil {
		delta.Changes = compare.Objects(before, after, c.key)
		if err := c.judge(p, madeBefore, madeAfter, delta.Changes); err != nil {
			return err
		}
	}
	if p.after != nil {
		delta.Prune, delta.Budget = p.after.Prune, p.after.DeletionBudget
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, err := range []error{errBefore, errAfter} {
		if err != nil && (i == 1 || errAfter == nil) { // what does not render now is the news
			var plugin *preview.PluginError
			var locked *sealer.LockedError
			told := cmdutil.RenderProblem("", err)
			c.note(problem{
				Service: p.service, Side: []string{"before", "after"}[i], Elsewhere: errors.As(err, &plugin) || errors.As(err, &locked),
				Where: told.Where, Message: told.Message, Fix: told.Fix,
			}, p.clusters...)
		}
	}
	c.deltas = append(c.deltas, delta)
	return nil
}

// judge judges what comes or changes.
func (c *comparison) judge(p *pairing, before, after *preview.Rendition, changes []compare.Change) error {
	differ := map[object.ID]bool{}
	for i := range changes {
		if changes[i].Action != compare.Deleted {
			differ[changes[i].ID] = true
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return c.changes.Judge(&inspect.Change{
		Deployment: p.after, Was: p.before, Clusters: p.clusters, Before: before, After: after,
		Differs: func(o *unstructured.Unstructured) bool { return differ[compare.Identify(o, p.after.Namespace)] },
	})
}

// whyKept says why nothing of a service is deleted, whatever its render holds.
func whyKept(p *pairing) string {
	switch {
	case p.after != nil && !p.after.Prune:
		return "pruning is off for this service"
	case p.after == nil && p.before.OnDelete == "orphan":
		return "the service leaves its objects behind"
	}
	return ""
}

// objectNames are "kind.group/name", as kubectl writes them.
func objectNames(groups []compare.Group) []string {
	var names []string
	for _, g := range groups {
		for _, o := range g.Objects {
			kind, name, _ := strings.Cut(o.Object, " ")
			names = append(names, strings.ToLower(kind)+"/"+name[strings.LastIndex(name, "/")+1:])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
