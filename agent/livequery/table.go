package livequery

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/kubewatch"
)

// table is one resource's objects in one place, for as long as somebody looks. It is a kubewatch.Sink.
type table struct {
	views *Views
	at    place
	kind  schema.GroupVersionKind
	res   kinds.Resource
	stop  context.CancelFunc
	// readers and leaving are guarded by the Views' mutex; leaving ends the table when nobody comes back.
	readers int
	leaving *time.Timer

	// synced is closed when it is known what there is; ended when it will not be known any more.
	synced, ended chan struct{}
	// listed counts what was seen before synced.
	listed atomic.Int64

	mu       sync.Mutex // guards what follows
	whole    bool       // synced is closed
	err      *Error
	objects  map[string]seen            // by uid; an object that changes is replaced
	names    map[string]string          // uids by "namespace/name"
	below    map[string]map[string]bool // uids by that of the owner
	readings map[*reading]bool
}

// seen is an object as its cluster tells of it. Its message is masked for whoever looks, when they do: what is a secret may become
// known after the message came.
type seen struct {
	*tunnelapi.Object
	service string // whose label it has
}

// masked is the object as people may see it.
func (v *Views) masked(s seen) *tunnelapi.Object {
	text := v.o.Mask(s.service, s.GetMessage())
	if text == s.GetMessage() {
		return s.Object
	}
	o := proto.CloneOf(s.Object) // others look at the same
	o.Message = text
	return o
}

// reading is what one reader of a table does not know yet.
type reading struct {
	// wake is sent on, without blocking, when the table changed.
	wake chan struct{}
	// changed are uids; nil for a reader that looks for itself. slow says that there were too many of them. The table's mutex
	// guards both.
	changed map[string]bool
	slow    bool
}

func newTable(v *Views, at place, gvk schema.GroupVersionKind, res kinds.Resource) *table {
	return &table{
		views: v, at: at, kind: gvk, res: res, synced: make(chan struct{}), ended: make(chan struct{}),
		objects: map[string]seen{}, names: map[string]string{}, below: map[string]map[string]bool{}, readings: map[*reading]bool{},
	}
}

// run keeps the table up until ctx ends.
func (t *table) run(ctx context.Context) {
	source := kubewatch.Metadata(t.views.o.Metadata, t.at.GroupVersionResource, t.at.namespace)
	if gk := t.kind.GroupKind(); (t.res.Status || t.views.o.Services.Judge("").Rules(gk)) && !isPrivate(gk) {
		source = kubewatch.Objects(t.views.o.Objects, t.at.GroupVersionResource, t.at.namespace)
	}
	watch := kubewatch.Watch[seen]{Source: source, Reduce: t.count, Sink: t, Failed: t.failing}
	watch.Run(ctx)
	t.fail(&Error{Code: codes.Unavailable, Message: "nobody looks at " + t.at.String() + " any more"})
}

// isPrivate kinds are asked for as metadata alone, whatever else the API server would say of them.
func isPrivate(gk schema.GroupKind) bool {
	id := object.ID{Group: gk.Group, Kind: gk.Kind}
	return id.IsSecret() || gk == schema.GroupKind{Kind: "ConfigMap"}
}

// failing ends a table that trying again would not mend.
func (t *table) failing(err *kubewatch.Error) {
	if hopeless := refusal(err); hopeless != nil {
		t.end(hopeless)
	}
}

// fail lets the readers go. The first reason counts.
func (t *table) fail(why *Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	t.err = why
	close(t.ended)
	t.tell("")
}

// end lets the readers go, and the watch.
func (t *table) end(why *Error) {
	t.fail(why)
	t.views.failed(t)
}

func (t *table) failure() *Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *table) tooMany() {
	t.end(&Error{
		Code: codes.ResourceExhausted, Message: fmt.Sprintf("there are more than %d objects in %s", MaxObjects, t.at), Fix: "look at one namespace",
	})
}

func (p place) String() string {
	text := p.GroupResource().String()
	if p.namespace != "" {
		text += " of namespace " + p.namespace
	}
	return text
}

// count reduces, and stops a list before it fills the memory.
func (t *table) count(obj metav1.Object) seen {
	select {
	case <-t.synced:
	default:
		if t.listed.Add(1) == 2*MaxObjects { // a list that breaks off begins anew
			t.tooMany()
		}
	}
	return t.reduce(obj)
}

// Replace implements kubewatch.Sink.
func (t *table) Replace(items []kubewatch.Item[seen], _ string) {
	if len(items) > MaxObjects {
		t.tooMany()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := make(map[string]bool, len(t.objects))
	for uid := range t.objects {
		gone[uid] = true
	}
	for _, item := range items {
		delete(gone, item.Value.GetUid())
		if old := t.objects[item.Value.GetUid()]; old.Object == nil || old.GetResourceVersion() != item.Version {
			t.put(item)
		}
	}
	for uid := range gone {
		t.remove(uid)
	}
	if !t.whole {
		t.whole = true
		close(t.synced)
		t.tell("")
	}
}

// Put implements kubewatch.Sink.
func (t *table) Put(item kubewatch.Item[seen]) {
	t.mu.Lock()
	t.put(item)
	full := len(t.objects) > MaxObjects
	t.mu.Unlock()
	if full {
		t.tooMany()
	}
}

// Delete implements kubewatch.Sink.
func (t *table) Delete(item kubewatch.Item[seen]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(item.Value.GetUid())
}

// put is called with mu held, as are remove and tell.
func (t *table) put(item kubewatch.Item[seen]) {
	o := item.Value
	name := item.Namespace + "/" + item.Name
	if before, ok := t.names[name]; ok && before != o.GetUid() {
		t.remove(before) // its end was missed
	}
	if old := t.objects[o.GetUid()]; old.GetOwner() != o.GetOwner() {
		t.unhang(old)
	}
	t.objects[o.GetUid()], t.names[name] = o, o.GetUid()
	if o.GetOwner() != "" {
		if t.below[o.GetOwner()] == nil {
			t.below[o.GetOwner()] = map[string]bool{}
		}
		t.below[o.GetOwner()][o.GetUid()] = true
	}
	t.tell(o.GetUid())
}

func (t *table) remove(uid string) {
	old := t.objects[uid]
	if old.Object == nil {
		return
	}
	t.unhang(old)
	delete(t.objects, uid)
	if name := old.GetNamespace() + "/" + old.GetName(); t.names[name] == uid {
		delete(t.names, name)
	}
	t.tell(uid)
}

func (t *table) unhang(o seen) {
	below := t.below[o.GetOwner()]
	if delete(below, o.GetUid()); len(below) == 0 {
		delete(t.below, o.GetOwner())
	}
}

// tell has the readers look at an object again, or, without a uid, at the table.
func (t *table) tell(uid string) {
	for r := range t.readings {
		if uid != "" && r.changed != nil && !r.slow {
			r.changed[uid] = true
			r.slow = len(r.changed) > maxUnsent
		}
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// read makes a reader that is woken by every change. One that collects begins with all objects as changed.
func (t *table) read(wake chan struct{}, collects bool) *reading {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &reading{wake: wake}
	if collects {
		r.changed = make(map[string]bool, len(t.objects))
		for uid := range t.objects {
			r.changed[uid] = true
		}
	}
	t.readings[r] = true
	return r
}

func (t *table) forget(r *reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.readings, r)
}

// take returns what a reader does not know, which it knows then.
func (t *table) take(r *reading) (changed []*tunnelapi.Object, deleted []string, err error) {
	found, deleted, err := t.news(r)
	for _, s := range found {
		changed = append(changed, t.views.masked(s))
	}
	return changed, deleted, err
}

func (t *table) news(r *reading) (changed []seen, deleted []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return nil, nil, t.err
	}
	if r.slow {
		return nil, nil, &Error{Code: codes.ResourceExhausted, Message: "changes were read too slowly", Fix: "look again"}
	}
	for uid := range r.changed {
		if s := t.objects[uid]; s.Object != nil {
			changed = append(changed, s)
		} else {
			deleted = append(deleted, uid)
		}
	}
	clear(r.changed)
	return changed, deleted, nil
}

// children are the objects that hang below an owner. The messages of those without a label are not masked: what is known of the
// owner's service is.
func (t *table) children(owner string) []*tunnelapi.Object {
	var children []*tunnelapi.Object
	for _, s := range t.hanging(owner) {
		if s.service != "" {
			s.Object = t.views.masked(s)
		}
		children = append(children, s.Object)
	}
	return children
}

func (t *table) hanging(owner string) []seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make([]seen, 0, len(t.below[owner]))
	for uid := range t.below[owner] {
		found = append(found, t.objects[uid])
	}
	return found
}
