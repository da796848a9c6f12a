package details

import (
	"cmp"
	"slices"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
)

// root is a cluster whose objects of a service are looked at.
type root struct {
	cluster string
	phase   v1.Phase
	// feed brings what changes; nil: nobody looks.
	feed *feed[growth]
	// objects are by uid. While incoming is set, the stream is beginning anew, and objects are what was there before.
	objects, incoming map[string]v1.Object
	// ready says that all objects have come; err is what is wrong with the stream, since then.
	ready bool
	err   error
	since time.Time
	// over says that the stream has ended for good.
	over bool
}

// growth is something that a stream of objects says.
type growth struct {
	fresh, ready bool
	changes      v1.ObjectChanges
	// link says that the stream is there, err that it is not.
	link bool
	err  error
}

// watching gives what a stream says to put.
func watching(put func(growth) error) client.Watching {
	return client.Watching{
		Fresh:     func() error { return put(growth{fresh: true}) },
		Changed:   func(c v1.ObjectChanges) error { return put(growth{changes: c}) },
		Ready:     func() error { return put(growth{ready: true}) },
		Connected: func(err error) { _ = put(growth{link: true, err: err}) }, // that nobody looks any more ends the stream
	}
}

// grow takes in what a stream says.
func (r *root) grow(g growth, now time.Time) {
	switch {
	case g.link:
		if r.err == nil || g.err == nil {
			r.since = now
		}
		r.err = g.err
	case g.fresh:
		r.incoming = map[string]v1.Object{}
	case g.ready:
		if r.incoming != nil {
			r.objects, r.incoming = r.incoming, nil
		}
		r.ready = true
	default:
		into := r.objects
		if r.incoming != nil {
			into = r.incoming
		}
		for _, o := range g.changes.Changed {
			into[o.UID] = o
		}
		for _, uid := range g.changes.Deleted {
			delete(into, uid)
		}
		if r.incoming != nil && !r.ready {
			r.objects = r.incoming // the first ones are shown as they come
		}
	}
}

// twig is a row of the tree: a cluster, or an object of it.
type twig struct {
	root   *root
	object *v1.Object
	// below says of each level above whether more comes there, last that nothing more comes on its own.
	below []bool
	last  bool
	// parent is the row that it hangs below; children says that something hangs below it.
	parent   int
	children bool
	open     bool
}

// id names what is folded.
func (t *twig) id() string {
	if t.object == nil {
		return t.root.cluster
	}
	return t.root.cluster + "/" + t.object.UID
}

// maxDepth is where a tree grows no further to the right.
const maxDepth = 12

// rows are what is seen of a root: objects below what owns them, those without an owner that is known at the first level.
func (r *root) rows(folded map[string]bool) []twig {
	rows := []twig{{root: r, children: true, open: r.feed != nil}}
	if r.feed == nil {
		return rows
	}
	below := map[string][]*v1.Object{}
	for _, o := range r.objects {
		owner := o.Owner
		if _, known := r.objects[owner]; !known || owner == o.UID {
			owner = ""
		}
		below[owner] = append(below[owner], &o)
	}
	for _, children := range below {
		slices.SortFunc(children, func(a, b *v1.Object) int {
			return cmp.Or(
				cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID),
			)
		})
	}
	g := grower{root: r, below: below, folded: folded, seen: map[string]bool{}, rows: rows}
	g.grow("", nil, 0)
	for _, o := range sortedObjects(r.objects) {
		if o.Owner != "" && !g.seen[o.Owner] && g.circle(o) {
			g.grow(o.Owner, nil, 0) // what owns itself by a detour
		}
	}
	return g.rows
}

func sortedObjects(objects map[string]v1.Object) []v1.Object {
	all := make([]v1.Object, 0, len(objects))
	for _, o := range objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b v1.Object) int { return cmp.Compare(a.UID, b.UID) })
	return all
}

type grower struct {
	root   *root
	below  map[string][]*v1.Object
	folded map[string]bool
	// seen are owners whose objects were drawn: a circle of owners ends there.
	seen map[string]bool
	rows []twig
}

// circle says that an object is owned by itself through others.
func (g *grower) circle(o v1.Object) bool {
	at := o.Owner
	for range len(g.root.objects) {
		if at == o.UID {
			return true
		}
		at = g.root.objects[at].Owner
	}
	return false
}

// grow draws what an owner has. The owner is the last row.
func (g *grower) grow(owner string, below []bool, depth int) {
	if g.seen[owner] {
		return
	}
	g.seen[owner] = true
	parent := len(g.rows) - 1
	if depth == 0 {
		parent = 0
	}
	for i, o := range g.below[owner] {
		t := twig{
			root: g.root, object: o, below: below, last: i == len(g.below[owner])-1,
			parent: parent, children: len(g.below[o.UID]) > 0,
		}
		t.open = !g.folded[t.id()]
		g.rows = append(g.rows, t)
		if !t.open {
			g.seen[o.UID] = true
			continue
		}
		further := below
		if depth < maxDepth {
			further = append(slices.Clone(below), !t.last)
		}
		g.grow(o.UID, further, depth+1)
	}
}
