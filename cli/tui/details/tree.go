package details

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// tree is the pane of a service's live objects: on one cluster, or on those of its clusters that a person opens.
type tree struct {
	*page[*v1.Service]
	list
	roots  []*root
	folded map[string]bool
	rows   []twig
}

type treeKeys struct{ enter, open, shut key.Binding }

func treeKeysOf() treeKeys {
	return treeKeys{
		enter: bind("enter", "fold, describe", "enter"),
		open:  bind("right", "open", "right"), shut: bind("left", "fold, or go up", "left"),
	}
}

func newTree(w *pane.World, about pane.Subject) (pane.Pane, error) {
	t := &tree{page: newPage[*v1.Service](w, about, "tree"), folded: map[string]bool{}}
	t.grid = paint.Grid{Sorted: -1, Columns: []paint.Column{
		{Name: "OBJECT", Weight: 2, Min: 24}, {Name: "HEALTH"}, {Name: "CREATED", Rank: 2, Hide: 100}, {Name: "REASON", Weight: 3, Min: 24},
	}}
	t.write = func(*v1.Service) []line { return nil } // rows are drawn by Draw
	hub := w.Hub
	switch about.Kind {
	case pane.KindDeployment:
		t.plant([]v1.Deployment{{Cluster: about.Cluster, Phase: about.Phase}})
	case pane.KindService:
		t.question = func(ctx context.Context) (*v1.Service, error) {
			if hub == nil {
				return nil, errNoHub()
			}
			return hub.Service(ctx, about.Name)
		}
		t.arrived = func(s *v1.Service) { t.plant(s.Deployments) }
	default:
		return nil, fmt.Errorf("a %s has no objects", about.Kind)
	}
	return t, nil
}

// plant has the tree be of those clusters, the worst first. What is looked at already stays.
func (t *tree) plant(deployments []v1.Deployment) {
	var roots []*root
	phases := map[string]v1.Phase{}
	for i := range deployments {
		phases[deployments[i].Cluster] = deployments[i].Phase
	}
	for _, cluster := range worstFirst(deployments) {
		r := &root{cluster: cluster, objects: map[string]v1.Object{}}
		if i := slices.IndexFunc(t.roots, func(r *root) bool { return r.cluster == cluster }); i >= 0 {
			r = t.roots[i]
		}
		r.phase = phases[cluster]
		roots = append(roots, r)
	}
	for _, r := range t.roots {
		if !slices.Contains(roots, r) {
			r.leave()
		}
	}
	t.roots = roots
}

// Init asks where the service runs, or looks at once.
func (t *tree) Init() tea.Cmd {
	if t.about.Kind == pane.KindDeployment {
		return t.watch(t.roots[0])
	}
	return t.page.Init()
}

// maxWatched is how many clusters are looked at at once: a hub lets one person have 64 requests under way.
const maxWatched = 16

// watch begins to look at a cluster.
func (t *tree) watch(r *root) tea.Cmd {
	r.leave()
	if t.w.Hub == nil {
		r.err, r.over = errNoHub(), true
		t.regrow()
		return nil
	}
	watched := 0
	for _, other := range t.roots {
		if other.feed != nil {
			watched++
		}
	}
	if watched >= maxWatched {
		return pane.Ask(pane.Told{Text: fmt.Sprintf("%d clusters are looked at: fold one of them first", watched), Bad: true})
	}
	hub, cluster, service := t.w.Hub, r.cluster, serviceOf(t.about)
	var cmd tea.Cmd
	r.feed, cmd = look(t.cancels, func(ctx context.Context, put func(growth) error) error {
		return hub.WatchObjects(ctx, cluster, service, watching(put))
	})
	r.ready, r.err, r.over = false, nil, false
	t.regrow()
	return cmd
}

// leave ends the looking.
func (r *root) leave() {
	if r.feed != nil {
		r.feed.cancel()
	}
	r.feed, r.incoming = nil, nil
}

// Subjects is the object under the cursor, or the service on the cluster there.
func (t *tree) Subjects() []pane.Subject {
	if t.cursor >= len(t.rows) {
		return nil
	}
	on := &t.rows[t.cursor]
	s := pane.Subject{Kind: pane.KindDeployment, Cluster: on.root.cluster, Service: serviceOf(t.about), Phase: on.root.phase}
	if on.object != nil {
		s.Kind, s.Name, s.Phase, s.Object = pane.KindObject, on.object.Name, "", new(*on.object)
	}
	return []pane.Subject{s}
}

// Note says how many objects there are, and how fresh what is shown is.
func (t *tree) Note() string {
	objects, bad := 0, 0
	parts := []string{}
	for _, r := range t.roots {
		objects += len(r.objects)
		for _, o := range r.objects {
			if o.Health != v1.ObjectHealthy {
				bad++
			}
		}
		if r.err != nil && len(t.roots) == 1 {
			parts = append(parts, "broken "+cmdutil.Ago(t.w.Now(), &r.since))
		} else if r.ready && len(t.roots) == 1 {
			parts = append(parts, "live")
		}
	}
	return strings.Join(append([]string{fmt.Sprintf("%d objects, %d not healthy", objects, bad)}, parts...), ", ")
}

// Keys are those of the tree.
func (t *tree) Keys() []key.Binding {
	k := treeKeysOf()
	return append([]key.Binding{k.enter, k.open, k.shut, again()}, listKeys()...)
}

// Update takes in what grew, moves the cursor, folds.
func (t *tree) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case fed[growth]:
		return t.grown(msg)
	case tea.KeyPressMsg:
		if cmd, yes := t.key(msg); yes {
			return cmd
		}
	}
	if t.list.update(msg, len(t.rows)) {
		return nil
	}
	if t.about.Kind == pane.KindDeployment {
		return nil
	}
	planted := t.page.at
	cmd := t.page.Update(msg)
	if t.page.at != planted && len(t.roots) > 0 {
		t.regrow()
		if planted.IsZero() {
			return t.watch(t.roots[0])
		}
	}
	return cmd
}

func (t *tree) grown(came fed[growth]) tea.Cmd {
	i := slices.IndexFunc(t.roots, func(r *root) bool { return r.feed == came.from })
	if i < 0 {
		return nil
	}
	r := t.roots[i]
	if came.over {
		r.over = true
		if came.err != nil {
			r.err, r.since = came.err, t.w.Now()
		}
	}
	for _, g := range came.items {
		r.grow(g, t.w.Now())
	}
	t.regrow()
	if came.over {
		return nil
	}
	return came.from.next()
}

// regrow has the rows be what there is now. The cursor stays on what it was on.
func (t *tree) regrow() {
	was := ""
	if t.cursor < len(t.rows) {
		was = t.rows[t.cursor].id()
	}
	t.rows = t.rows[:0]
	for _, r := range t.roots {
		base := len(t.rows)
		for _, row := range r.rows(t.folded) {
			row.parent += base
			t.rows = append(t.rows, row)
		}
	}
	if i := slices.IndexFunc(t.rows, func(row twig) bool { return row.id() == was }); i >= 0 {
		t.cursor = i
	}
	t.cursor = max(0, min(t.cursor, len(t.rows)-1))
}

func (t *tree) key(press tea.KeyPressMsg) (cmd tea.Cmd, yes bool) {
	if t.cursor >= len(t.rows) {
		return nil, false
	}
	on := &t.rows[t.cursor]
	switch k := treeKeysOf(); {
	case key.Matches(press, again()):
		if t.about.Kind == pane.KindService {
			return tea.Batch(t.page.Init(), t.watch(on.root)), true
		}
		return t.watch(on.root), true
	case key.Matches(press, k.enter):
		if !on.children {
			return pane.Ask(pane.Open{Pane: "describe", About: t.Subjects()[0]}), true
		}
		return t.fold(on, on.open), true
	case key.Matches(press, k.open):
		if on.children && !on.open {
			return t.fold(on, false), true
		}
	case key.Matches(press, k.shut):
		if on.children && on.open {
			return t.fold(on, true), true
		}
		t.cursor = on.parent
	default:
		return nil, false
	}
	return nil, true
}

// fold hides what hangs below a row, or shows it. A cluster that is folded is not looked at any more.
func (t *tree) fold(on *twig, shut bool) tea.Cmd {
	if on.object == nil {
		r := on.root
		if !shut {
			return t.watch(r)
		}
		r.leave()
	} else {
		t.folded[on.id()] = shut
	}
	t.regrow()
	return nil
}

// Draw is the rows around the cursor, with what is wrong above.
func (t *tree) Draw(width, height int) []string {
	look := t.w.Look
	var out []string
	if t.about.Kind == pane.KindService {
		out = t.page.Draw(width, height)
	}
	for _, r := range t.roots {
		if r.err == nil || len(out) >= height-2 {
			continue
		}
		lines := trouble(r.err)
		if len(t.roots) > 1 || !r.over {
			text := fmt.Sprintf("cluster %s, broken %s: %s", r.cluster, cmdutil.Ago(t.w.Now(), &r.since), oneLine(r.err))
			lines = []line{say(paint.Bad, text)}
		}
		for _, l := range lines {
			out = append(out, painted(look, l, width))
		}
	}
	out = out[:min(len(out), height)]
	if len(t.rows) == 0 {
		return out
	}
	now := t.w.Now()
	t.above = len(out)
	return append(out, t.list.draw(look, width, height-len(out), len(t.rows), func(i int, cells []paint.Cell) {
		row := &t.rows[i]
		cells[0].Text = row.label(look)
		if row.object == nil {
			cells[1], cells[3] = t.rootCells(row.root)
			return
		}
		o := row.object
		glyph, style := look.Health(o.Health)
		cells[1] = paint.Cell{Glyph: glyph, Text: string(o.Health), Style: style}
		if o.Created != nil {
			cells[2].Text = cmdutil.Ago(now, o.Created)
		}
		cells[3].Text = reasonOf(o)
	})...)
}

// rootCells are how the service is on a cluster, and why it is not well there.
func (t *tree) rootCells(r *root) (health, reason paint.Cell) {
	phase, message := r.phase, ""
	if row := t.w.Fleet.Deployments.Get(r.cluster + "/" + serviceOf(t.about)); row != nil {
		phase, message = row.Phase, row.Message
	}
	if phase != "" {
		health.Text = string(phase)
		health.Glyph, health.Style = t.w.Look.Phase(phase)
	}
	switch {
	case message != "" && phase != v1.Healthy:
		reason.Text = message
	case r.feed != nil && !r.ready && r.err == nil:
		reason = paint.Cell{Text: "asking cluster " + r.cluster + " ...", Style: paint.Faint}
	case r.ready && len(r.objects) == 0:
		reason = paint.Cell{Text: "nothing of it is there", Style: paint.Faint}
	}
	return health, reason
}

// label is the name of a row below what it hangs on.
func (t *twig) label(look *paint.Look) string {
	var b strings.Builder
	name := t.root.cluster
	if t.object != nil {
		for _, more := range t.below {
			if more {
				b.WriteString(look.Glyph(paint.Trunk) + "  ")
			} else {
				b.WriteString("   ")
			}
		}
		fork := paint.Branch
		if t.last {
			fork = paint.LastBranch
		}
		b.WriteString(look.Glyph(fork) + look.Glyph(paint.Twig) + " ")
		name = t.object.Kind + "/" + t.object.Name
		if t.object.Namespace != "" && len(t.below) == 0 { // what hangs below it is in the same one
			name += " (" + t.object.Namespace + ")"
		}
	}
	if t.children {
		fold := paint.Shut
		if t.open {
			fold = paint.Open
		}
		b.WriteString(look.Glyph(fold) + " ")
	}
	return b.String() + name
}

// reasonOf is why an object is not well, or not for long.
func reasonOf(o *v1.Object) string {
	var parts []string
	if o.Deleting {
		parts = append(parts, "being deleted")
	}
	if o.Health != v1.ObjectHealthy && o.Message != "" {
		parts = append(parts, o.Message)
	}
	return strings.Join(parts, "; ")
}
