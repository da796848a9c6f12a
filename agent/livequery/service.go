package livequery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// look is how often a service's objects are looked at though nobody says that they changed: of what the engine does itself
	// nobody is told.
	look = time.Second
	// maxNamespaces is how many namespaces of one service are watched one by one; more are watched as all that there are.
	maxNamespaces = 8
)

// tree is one reader's view of a service.
type tree struct {
	views   *Views
	service string
	wake    chan struct{}
	tables  map[place]*branch
	// sent is what the reader knows, by uid.
	sent map[string]*tunnelapi.Object
	// missing are kinds that cannot be watched, which was said.
	missing map[place]bool
}

// branch is a table in which children of the service's objects are looked for.
type branch struct {
	*table
	reading *reading
}

// service follows the objects of a service, and what hangs below them.
func (v *Views) service(ctx context.Context, service string, send func(*tunnelapi.ObjectsEvent) error) error {
	t := &tree{
		views: v, service: service, wake: make(chan struct{}, 1),
		tables: map[place]*branch{}, sent: map[string]*tunnelapi.Object{}, missing: map[place]bool{},
	}
	defer t.close()
	defer v.o.Services.Listen(service, t.woken)()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for out := (outlet{send: send}); ; {
		changed, deleted, err := t.next(ctx)
		if err != nil {
			return err
		}
		if err := out.put(changed, deleted); err != nil {
			return err
		}
		if err := out.pause(ctx, t.wake, ticker.C); err != nil {
			return err
		}
		select {
		case <-v.stopped:
			return &Error{Code: codes.Unavailable, Message: "the agent is stopping"}
		default:
		}
	}
}

func (t *tree) woken() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *tree) close() {
	for at := range t.tables {
		t.cut(at)
	}
}

func (t *tree) cut(at place) {
	b := t.tables[at]
	delete(t.tables, at)
	b.forget(b.reading)
	t.views.close(b.table)
}

// next is what became of the service since the last call.
func (t *tree) next(ctx context.Context) (changed []*tunnelapi.Object, deleted []string, err error) {
	catalog, err := t.views.o.Kinds.With(ctx, nil)
	if err != nil {
		return nil, nil, &Error{Code: codes.Unavailable, Message: err.Error()}
	}
	owned := t.views.o.Services.Owned(t.service)
	if err := t.grow(ctx, catalog, owned); err != nil {
		return nil, nil, err
	}
	now := roots(catalog, owned)
	if !t.gather(now) {
		return nil, nil, &Error{Code: codes.ResourceExhausted, Message: fmt.Sprintf("the service has more than %d objects", MaxObjects)}
	}
	for uid, o := range now {
		var said []string // which is masked already
		if o.GetHealth() != phase(health.Healthy) {
			said = t.views.o.Said(t.service, uid)
		}
		if len(said) > 0 || o.GetMessage() != "" {
			o = proto.CloneOf(o) // others look at the same
			o.Message = t.views.o.Mask(t.service, o.GetMessage())
			o.Message = strings.TrimPrefix(strings.Join(append([]string{o.GetMessage()}, said...), "; "), "; ")
			now[uid] = o
		}
		if was := t.sent[uid]; was != o && !proto.Equal(was, o) {
			changed = append(changed, o)
		}
	}
	for uid := range t.sent {
		if now[uid] == nil {
			deleted = append(deleted, uid)
		}
	}
	t.sent = now
	return changed, deleted, nil
}

// roots are the service's own objects, by uid.
func roots(catalog *kinds.Catalog, owned map[object.ID]watchcache.Facts) map[string]*tunnelapi.Object {
	all := make(map[string]*tunnelapi.Object, len(owned))
	for id, facts := range owned {
		gvk := id.GroupKind().WithVersion("")
		res, _ := catalog.Find(gvk)
		gvk.Version = res.Version
		all[facts.UID] = show(id, facts, gvk, res)
	}
	return all
}

// grow has the tables ready in which children of the owned objects may be, and lets go of the others.
func (t *tree) grow(ctx context.Context, catalog *kinds.Catalog, owned map[object.ID]watchcache.Facts) error {
	wanted := map[place]schema.GroupVersionKind{}
	for gk, namespaces := range offspring(owned) {
		gvk := gk.WithVersion("")
		res, ok := catalog.Find(gvk)
		if !ok {
			continue
		}
		if gvk.Version = res.Version; len(namespaces) > maxNamespaces {
			namespaces = map[string]bool{"": true}
		}
		for namespace := range namespaces {
			wanted[place{res.GroupVersionResource, namespace}] = gvk
		}
	}
	for at := range t.tables {
		if _, still := wanted[at]; !still {
			t.cut(at)
		}
	}
	for at, gvk := range wanted {
		if t.tables[at] != nil || t.missing[at] {
			continue
		}
		res, _ := catalog.Exact(gvk)
		opened, err := t.views.open(at, gvk, res)
		if err != nil {
			return err
		}
		t.tables[at] = &branch{opened, opened.read(t.wake, false)}
	}
	return t.ready(ctx)
}

// ready waits until the tables are known, and leaves out those that cannot be.
func (t *tree) ready(ctx context.Context) error {
	for at, b := range t.tables {
		select {
		case <-b.synced:
		case <-b.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		if why := b.failure(); why != nil {
			t.cut(at)
			if why.Code == codes.Unavailable {
				return why
			}
			t.missing[at] = true
			t.views.o.Log.Warn("what hangs below a service's objects is shown in part", "service", t.service, "error", why)
		}
	}
	return nil
}

// gather adds what hangs below the objects, unless that is too much.
func (t *tree) gather(all map[string]*tunnelapi.Object) bool {
	queue := slices.Collect(maps.Keys(all))
	for len(queue) > 0 {
		uid := queue[0]
		queue = queue[1:]
		for _, b := range t.tables {
			for _, child := range b.children(uid) {
				if all[child.GetUid()] != nil {
					all[child.GetUid()].Owner = uid // what carries the label may hang below something else all the same
					continue
				}
				all[child.GetUid()] = child
				queue = append(queue, child.GetUid())
			}
		}
		if len(all) > MaxObjects {
			return false
		}
	}
	return true
}

// offspring are the kinds of what may hang below objects, with the namespaces in which to look.
func offspring(owned map[object.ID]watchcache.Facts) map[schema.GroupKind]map[string]bool {
	found := map[schema.GroupKind]map[string]bool{}
	for id := range owned {
		if id.Namespace == "" {
			continue
		}
		for _, gk := range below(id.GroupKind()) {
			if found[gk] == nil {
				found[gk] = map[string]bool{}
			}
			found[gk][id.Namespace] = true
		}
	}
	return found
}

// below are the kinds of what controllers make for an object of some kind, at any depth. Whoever defines a kind of its own may
// make anything of it.
func below(gk schema.GroupKind) []schema.GroupKind {
	pods := schema.GroupKind{Kind: "Pod"}
	replicaSets := schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	jobs := schema.GroupKind{Group: "batch", Kind: "Job"}
	slices := schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}
	switch gk {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return []schema.GroupKind{replicaSets, pods}
	case replicaSets, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, jobs,
		schema.GroupKind{Kind: "ReplicationController"}:
		return []schema.GroupKind{pods}
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return []schema.GroupKind{jobs, pods}
	case schema.GroupKind{Kind: "Service"}:
		return []schema.GroupKind{slices}
	}
	if !strings.Contains(gk.Group, ".") || strings.HasSuffix(gk.Group, ".k8s.io") {
		return nil
	}
	return []schema.GroupKind{
		{Group: "apps", Kind: "Deployment"},
		{Group: "apps", Kind: "StatefulSet"},
		{Group: "apps", Kind: "DaemonSet"},
		replicaSets, jobs,
		{Group: "batch", Kind: "CronJob"},
		pods,
		{Kind: "Service"},
		slices,
		{Kind: "PersistentVolumeClaim"},
	}
}
