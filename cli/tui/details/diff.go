package details

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/go-git/go-git/v5/plumbing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/patch"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/ui"
)

// differ is the pane of what differs, by hunks.
type differ struct {
	searched[*delta]
	blanks bool
	// begins are the lines where hunks do; hunk is the one that is looked at, from 1, 0 before any.
	begins []int
	hunk   int
	// cluster is the one that is asked about, empty: the worst; clusters are those that can be asked about.
	cluster  string
	clusters []string
}

type diffKeys struct{ next, before, blanks, cluster, clusterBefore key.Binding }

func diffKeysOf() diffKeys {
	return diffKeys{
		next: bind("n", "next difference", "n"), before: bind("N", "difference before", "N"),
		blanks:  bind("w", "blanks too, or not", "w"),
		cluster: bind("tab", "next cluster", "tab"), clusterBefore: bind("shift+tab", "cluster before", "shift+tab"),
	}
}

func newDiff(w *pane.World, about pane.Subject) (pane.Pane, error) {
	d := &differ{searched: searched[*delta]{newPage[*delta](w, about, "diff")}, blanks: true, cluster: about.Cluster}
	a := askerOf(w)
	switch about.Kind {
	case pane.KindDeployment:
		d.from = "cluster " + about.Cluster
	case pane.KindService, pane.KindPackage, pane.KindCommit:
	default:
		return nil, fmt.Errorf("there is no diff of a %s", about.Kind)
	}
	d.write = func(found *delta) []line {
		lines, begins := found.lines(d.blanks)
		for i := range begins {
			begins[i] += len(d.lines) // what stands above already
		}
		d.begins = begins
		return lines
	}
	d.arrived = func(found *delta) { d.cluster, d.clusters, d.hunk = found.cluster, found.clusters, 0 }
	d.reask(a)
	return d, nil
}

// reask has the question be about the cluster that is wanted now.
func (d *differ) reask(a asker) {
	about, cluster := d.about, d.cluster
	d.question = func(ctx context.Context) (*delta, error) {
		switch about.Kind {
		case pane.KindPackage:
			return a.packageDelta(ctx, about.Name)
		case pane.KindCommit:
			return a.commitDelta(ctx, about.Name)
		}
		return a.serviceDelta(ctx, serviceOf(about), cluster, about.Kind == pane.KindService)
	}
}

// serviceDelta asks a cluster what it would change; where none is named, the service's worst.
func (a asker) serviceDelta(ctx context.Context, service, cluster string, others bool) (*delta, error) {
	if a.hub == nil {
		return nil, errNoHub()
	}
	var clusters []string
	if others {
		s, err := a.hub.Service(ctx, service)
		if err != nil {
			return nil, err
		}
		if clusters = worstFirst(s.Deployments); len(clusters) == 0 {
			return nil, &ui.Err{
				Msg: "service " + service + " runs on no cluster", Fix: "see spec.clusters in its file: e", Doc: ui.DocNotFound,
			}
		}
		cluster = cmp.Or(cluster, clusters[0])
	}
	diff, err := a.hub.Diff(ctx, cluster, service)
	if err != nil {
		return nil, err
	}
	d := objectsDelta(cluster, diff)
	d.clusters = clusters
	return d, nil
}

// worstFirst are the clusters of deployments: those that are not healthy first, the worst of them before the others.
func worstFirst(list []v1.Deployment) []string {
	list = slices.Clone(list)
	phases := v1.Phases()
	slices.SortStableFunc(list, func(a, b v1.Deployment) int {
		return cmp.Or(cmp.Compare(slices.Index(phases, b.Phase), slices.Index(phases, a.Phase)), cmp.Compare(a.Cluster, b.Cluster))
	})
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Cluster
	}
	return names
}

func (a asker) commitDelta(ctx context.Context, id string) (*delta, error) {
	list, err := a.patch(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := a.revision(ctx, id)
	if err != nil {
		return nil, err
	}
	now := a.now()
	head := []line{
		{{paint.Name, "commit "}, {paint.Plain, r.ID}},
		say(paint.Bold, r.Subject),
		say(paint.Faint, r.Author+", "+cmdutil.Ago(now, r.Time)),
		{},
	}
	if len(list) == 0 {
		head = append(head, say(paint.Faint, "it changes no file"))
	}
	return filesDelta(head, list), nil
}

// packageDelta is an upgrade: its versions, and what its branch changes where the clone has that.
func (a asker) packageDelta(ctx context.Context, installation string) (*delta, error) {
	if a.hub == nil {
		return nil, errNoHub()
	}
	u, err := a.upgrade(ctx, installation)
	if err != nil {
		return nil, err
	}
	to := cmp.Or(u.Target, u.Newest)
	f := &facts{now: a.now()}
	switch {
	case to == "" || to == u.Version:
		f.say(paint.Good, u.Installation+" is at "+u.Version+", and there is nothing newer")
	default:
		f.add(line{{paint.Bold, u.Installation + "  "}, {paint.Removed, u.Version}, {paint.Plain, " -> "}, {paint.Added, to}})
	}
	f.fact("together with", strings.Join(u.With, ", "))
	for _, r := range u.Reasons {
		f.fact("because", r.Message)
		f.fact("fix", r.Fix)
	}
	f.fact("branch", u.Branch)
	f.fact("pull request", u.URL)
	f.add(line{})
	switch {
	case u.Branch != "" && a.repo != nil:
		list, err := patch.Commits(ctx, a.repo, "HEAD", "refs/remotes/origin/"+u.Branch)
		if errors.Is(err, plumbing.ErrReferenceNotFound) {
			f.say(paint.Faint, "the clone does not have the branch: git fetch")
			return &delta{head: f.lines}, nil
		}
		if err != nil {
			f.add(trouble(err)...)
			return &delta{head: f.lines}, nil
		}
		return filesDelta(f.lines, list), nil
	case u.Commit != "" && a.repo != nil:
		list, err := a.patch(ctx, u.Commit)
		if err != nil {
			f.add(trouble(err)...)
			return &delta{head: f.lines}, nil
		}
		f.say(paint.Faint, "its last move, commit "+cmdutil.ShortCommit(u.Commit))
		f.add(line{})
		return filesDelta(f.lines, list), nil
	}
	return &delta{head: f.lines}, nil
}

// Title names the cluster too.
func (d *differ) Title() string {
	if d.about.Kind == pane.KindService && d.cluster != "" {
		return d.page.Title() + " on " + d.cluster
	}
	return d.page.Title()
}

// Note says how many differences there are.
func (d *differ) Note() string {
	note := d.searched.Note()
	if len(d.begins) == 0 || d.pattern != nil {
		return note
	}
	of := fmt.Sprintf("%d differences", len(d.begins))
	if d.hunk > 0 {
		of = fmt.Sprintf("difference %d of %d", d.hunk, len(d.begins))
	} else if len(d.begins) == 1 {
		of = "1 difference"
	}
	return of + ", " + note
}

// Keys are those of hunks, and of reading.
func (d *differ) Keys() []key.Binding {
	k := diffKeysOf()
	keys := []key.Binding{k.next, k.before, k.blanks}
	if d.pattern != nil {
		keys = []key.Binding{searchKeysOf().next, searchKeysOf().before, k.blanks}
	}
	if d.about.Kind == pane.KindService {
		keys = append(keys, k.cluster, k.clusterBefore)
	}
	return append(keys, d.page.Keys()...)
}

// Update goes from hunk to hunk and from cluster to cluster.
func (d *differ) Update(msg tea.Msg) tea.Cmd {
	press, ok := msg.(tea.KeyPressMsg)
	if !ok {
		return d.page.Update(msg)
	}
	switch k := diffKeysOf(); {
	case d.pattern != nil && key.Matches(press, k.next, k.before): // they go on looking
		return d.searched.Update(msg)
	case key.Matches(press, k.next):
		d.step(1)
	case key.Matches(press, k.before):
		d.step(-1)
	case key.Matches(press, k.blanks):
		d.blanks, d.hunk = !d.blanks, 0
		d.rewrite()
	case d.about.Kind == pane.KindService && key.Matches(press, k.cluster):
		return d.other(1)
	case d.about.Kind == pane.KindService && key.Matches(press, k.clusterBefore):
		return d.other(-1)
	default:
		return d.page.Update(msg)
	}
	return nil
}

// step goes to the next hunk, or the one before, and from the last to the first.
func (d *differ) step(by int) {
	n := len(d.begins)
	if n == 0 {
		return
	}
	if d.hunk == 0 && by < 0 {
		d.hunk = 1
	}
	d.hunk = (d.hunk-1+by+n)%n + 1
	d.jump(d.begins[d.hunk-1])
}

// other asks about another cluster.
func (d *differ) other(by int) tea.Cmd {
	n := len(d.clusters)
	if n < 2 {
		return nil
	}
	d.cluster = d.clusters[(slices.Index(d.clusters, d.cluster)+by+n)%n]
	d.from, d.begins = "cluster "+d.cluster, nil
	d.forget()
	d.reask(askerOf(d.w))
	return d.Init()
}
