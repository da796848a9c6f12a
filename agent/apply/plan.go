package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
	"github.com/pluralsh/plural/agent/reserved"
	"github.com/pluralsh/plural/internal/kubewatch"
	"github.com/pluralsh/plural/internal/removedapi"
)

// item is one object of the render at one of its turns, with its place in the cluster.
type item struct {
	id   object.ID
	gvk  schema.GroupVersionKind
	res  kinds.Resource
	obj  *unstructured.Unstructured
	turn order.Turn
	// run names the one time that a hook runs; empty for what is no hook.
	run string
	// body is the object as it is sent, and digest names it.
	body   []byte
	digest string
	// definition is set when the kind is served only once that CustomResourceDefinition of the same render is.
	definition object.ID
}

// pass is one call of Apply, Remove or Diff: the state that its steps share. What several goroutines write has its own lock.
type pass struct {
	*Engine
	req       Request
	namespace string
	record    *record
	inv       *inventory.Inventory
	// state names what the cluster is when all of the request is done.
	state string
	blind bool // it asks for each object instead of watching
	// removing says that the service goes.
	removing bool
	catalog  *kinds.Catalog
	contact  *reachability
	result   *Result

	items    []item
	rejected []ObjectResult
	// rendered holds every object of the render that is no hook, also the rejected ones: none of them is ever pruned.
	rendered map[object.ID]bool
	// hooks holds every hook of the render.
	hooks map[object.ID]bool
	// watched are the kinds that the pass looks at, unfollowed those among them that cannot be watched, with the reason.
	watched    map[schema.GroupKind]bool
	unfollowed map[schema.GroupKind]error
	// blocked holds the namespaces and definitions that other objects wait for in vain.
	blocked map[object.ID]*Error
	// settled holds the objects of this render that are in place and healthy, for those that depend on them.
	settled map[object.ID]bool

	// journaling guards the inventory while several goroutines look at it.
	journaling sync.RWMutex

	mu    sync.Mutex // guards the result's wishes, and what follows
	notes []string
}

func (e *Engine) newPass(ctx context.Context, req Request, r *record) (*pass, error) {
	p := e.blankPass(req, r)
	return p, p.open(ctx)
}

func (e *Engine) blankPass(req Request, r *record) *pass {
	return &pass{
		Engine: e, req: req, state: req.state(), namespace: cmp.Or(req.Namespace, DefaultNamespace), record: r, inv: r.inv,
		contact: &reachability{limit: 2 * e.options.Parallel}, result: &Result{},
		rendered: map[object.ID]bool{}, hooks: map[object.ID]bool{}, blocked: map[object.ID]*Error{},
		watched: map[schema.GroupKind]bool{}, unfollowed: map[schema.GroupKind]error{}, settled: map[object.ID]bool{},
	}
}

// open learns of what the inventory names.
func (p *pass) open(ctx context.Context) error {
	wanted := make(map[schema.GroupVersionKind]bool)
	for _, entry := range p.inv.Entries {
		wanted[gvkOf(entry)] = true
	}
	catalog, err := p.kinds.With(ctx, slices.Collect(maps.Keys(wanted)))
	if err != nil {
		return fmt.Errorf("apply service %q: %w", p.req.Service, err)
	}
	p.catalog = catalog
	for id := range p.inv.Hooks {
		wanted[id.GroupKind().WithVersion("")] = true // in whichever version they are served
	}
	p.follow(ctx, wanted)
	return ctx.Err()
}

func gvkOf(e inventory.Entry) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
}

// followWait is how long a pass waits for watches to begin, at an API server that does not come to an end with it.
const followWait = 5 * time.Second

// follow returns when the objects of the kinds are known, as far as they can be.
func (p *pass) follow(ctx context.Context, wanted map[schema.GroupVersionKind]bool) {
	if p.blind {
		return
	}
	watch := make(map[schema.GroupKind]kinds.Resource)
	for gvk := range wanted {
		if res, ok := p.catalog.Find(gvk); ok {
			watch[gvk.GroupKind()] = res
			p.watched[gvk.GroupKind()] = true
		}
	}
	p.watches(p.record, maps.Clone(p.watched))
	if len(watch) > 0 {
		waiting, done := context.WithTimeout(ctx, followWait)
		defer done()
		failed := p.seen.Follow(waiting, watch)
		for kind := range watch {
			delete(p.unfollowed, kind)
		}
		maps.Copy(p.unfollowed, failed)
		for _, err := range failed {
			var refused *kubewatch.Error
			if errors.As(err, &refused) && refused.Unserved() {
				p.kinds.Forget()
			}
		}
	}
}

// render files the objects of a render: each under items for each of its turns, or under rejected with the reason.
func (p *pass) render(ctx context.Context, objects []*unstructured.Unstructured) error {
	wanted := make(map[schema.GroupVersionKind]bool)
	own := make(map[schema.GroupVersionKind]declaration)
	for _, obj := range objects {
		wanted[obj.GroupVersionKind()] = true
		if object.Of(obj).IsDefinition() {
			maps.Copy(own, declared(obj))
		}
	}
	var err error
	if p.catalog, err = p.kinds.With(ctx, slices.Collect(maps.Keys(wanted))); err != nil {
		return fmt.Errorf("apply service %q: %w", p.req.Service, err)
	}
	p.follow(ctx, wanted)
	unnamed := make(map[object.ID]int)
	for _, obj := range objects {
		alike := object.Of(obj)
		alike.Name = obj.GetGenerateName()
		p.place(obj, own, unnamed[alike])
		unnamed[alike]++
	}
	slices.SortStableFunc(p.items, func(a, b item) int { return order.Compare(a.id, b.id) })
	return ctx.Err()
}

// place files one object. The number tells it from others that are named alike by the API server.
func (p *pass) place(obj *unstructured.Unstructured, own map[schema.GroupVersionKind]declaration, number int) {
	turns, err := order.Of(obj)
	if err != nil {
		p.reject(item{gvk: obj.GroupVersionKind(), obj: obj, id: object.Of(obj)}, Invalid, err.Error(), "")
		return
	}
	for _, turn := range turns {
		switch {
		case turn.LocalOnly:
		case turn.Stage == order.Skip: // neither applied nor deleted
			p.skip(obj)
		case turn.Stage == order.Test: // who tries the service runs it
		case turn.Only != "" && (turn.Only == "install") != (p.inv.Key == ""): // of the other moment
		default:
			p.placeTurn(obj, turn, own, number)
		}
	}
}

func (p *pass) placeTurn(obj *unstructured.Unstructured, turn order.Turn, own map[schema.GroupVersionKind]declaration, number int) {
	gvk, run := obj.GroupVersionKind(), ""
	if turn.Hook {
		run = p.run(turn.Stage)
		obj = object.Named(obj, run, number)
	}
	it := item{gvk: gvk, obj: obj, turn: turn, id: object.Of(obj), run: run}
	if err := check(it.obj); err != nil {
		p.reject(it, Invalid, err.Error(), "")
		return
	}
	var known bool
	if it.res, known = p.catalog.Exact(gvk); !known {
		var added declaration
		added, known = own[gvk]
		it.res, it.definition = added.Resource, added.definition
	}
	if !known {
		p.rejectUnknown(it)
		return
	}
	it.id.Namespace = ""
	if it.res.Namespaced {
		it.id.Namespace = cmp.Or(it.obj.GetNamespace(), p.namespace)
	}
	if !p.admit(it) {
		return
	}
	body, err := encode(outgoing(it.obj, it.id, p.req.Service, it.run))
	if err != nil {
		p.reject(it, Invalid, err.Error(), "")
		return
	}
	it.body, it.digest = body, p.digest(body, it.id, &p.req.Policies)
	p.items = append(p.items, it)
}

// skip files an object that is left as it is.
func (p *pass) skip(obj *unstructured.Unstructured) {
	id := object.Of(obj)
	if id.Namespace == "" && p.namespaced(id) {
		id.Namespace = p.namespace
	}
	p.rendered[id] = true
}

// admit files the object's name, unless it is taken or not to be touched.
func (p *pass) admit(it item) bool {
	refusal := reserved.Write(p.req.origin(), it.id, it.obj)
	switch {
	case !p.req.allows(it.id):
		p.reject(it, OutOfBounds, "the service may not touch "+where(it.id),
			"move it, or name its namespace in spec.allowedNamespaces")
	case inventory.IsInventory(it.id):
		p.reject(it, Invalid, "this name is kept for inventories", "rename it")
	case refusal != nil:
		p.reject(it, Reserved, refusal.Cause, refusal.Fix)
	case it.turn.Hook:
		p.hooks[it.id] = true
		return true
	case p.rendered[it.id]:
		p.reject(it, Invalid, "it is rendered twice", "remove one of the two")
	default:
		p.rendered[it.id] = true
		return true
	}
	return false
}

func where(id object.ID) string {
	if id.Namespace == "" {
		return "what has no namespace"
	}
	return "namespace " + id.Namespace
}

func (p *pass) rejectUnknown(it item) {
	if p.catalog.Silent(it.gvk.Group) {
		p.reject(it, Unavailable, fmt.Sprintf("whoever serves the API group %q does not answer", it.gvk.Group), "")
		return
	}
	if it.turn.Optional {
		p.rendered[it.id] = true
		message := fmt.Sprintf("waits until the cluster serves %s", it.gvk)
		p.result.Objects = append(p.result.Objects, it.waiting(message))
		p.wait(it.id.String() + " " + message)
		p.result.again(lastRetry)
		return
	}
	message, fix := whyUnserved(it.gvk)
	p.reject(it, MissingKind, message, fix)
}

// whyUnserved says of a kind why the cluster does not serve it, as far as Kubernetes' own history tells, and what to do about it.
func whyUnserved(gvk schema.GroupVersionKind) (message, fix string) {
	message = fmt.Sprintf("the cluster does not serve %s of %s", gvk.Kind, gvk.GroupVersion())
	if removal, removed := removedapi.Removed(gvk); removed {
		return fmt.Sprintf("%s: %s", message, removal), removal.Fix()
	}
	if removedapi.Group(gvk.Group) {
		return message, "it is of another release of Kubernetes, or switched off in this cluster: see what it serves with kubectl api-resources"
	}
	return message, cmp.Or(object.Instead(gvk.GroupKind()), "install its CustomResourceDefinition, by this service or one that it depends on")
}

func (p *pass) reject(it item, reason Reason, message, fix string) {
	p.rendered[it.id] = true
	err := &Error{Reason: reason, Object: it.id, Message: message, Fix: fix}
	p.rejected = append(p.rejected, failed(it.gvk, it.id, err))
	p.result.again(p.record.failed(it.id, "", err))
}

// declaration is a kind that the render itself brings along.
type declaration struct {
	kinds.Resource
	definition object.ID
}

// declared reads which kinds a CustomResourceDefinition will add. Of a malformed one, nothing: it fails on its own.
func declared(obj *unstructured.Unstructured) map[schema.GroupVersionKind]declaration {
	group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	plural, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "plural")
	scope, _, _ := unstructured.NestedString(obj.Object, "spec", "scope")
	versions, _, _ := unstructured.NestedSlice(obj.Object, "spec", "versions")
	out := map[schema.GroupVersionKind]declaration{}
	for _, v := range versions {
		fields, _ := v.(map[string]any)
		version, _ := fields["name"].(string)
		if served, _ := fields["served"].(bool); !served {
			continue
		}
		_, status, _ := unstructured.NestedMap(fields, "subresources", "status")
		gv := schema.GroupVersion{Group: group, Version: version}
		out[gv.WithKind(kind)] = declaration{
			Resource: kinds.Resource{
				GroupVersionResource: gv.WithResource(plural), Namespaced: scope == "Namespaced", Status: status,
			},
			definition: object.ID{Group: object.DefinitionGroup, Kind: "CustomResourceDefinition", Name: obj.GetName()},
		}
	}
	return out
}

// run names the one time that the hooks of a stage run for the render.
func (p *pass) run(stage order.Stage) string { return p.revision() + "/" + stage.String() }

func (p *pass) revision() string { return cmp.Or(p.req.Revision, p.req.Key) }

// note says something that keeps nothing from being right. It may be called from any goroutine.
func (p *pass) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// tellNotes takes the notes into the result.
func (p *pass) tellNotes() {
	slices.Sort(p.notes)
	p.result.Notes = slices.Compact(p.notes)
}
