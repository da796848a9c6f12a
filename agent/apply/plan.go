package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// item is one object of the render, with its place in the cluster.
type item struct {
	id  ID
	gvk schema.GroupVersionKind
	res resource
	obj *unstructured.Unstructured
	// definition is set when the kind is served only once that CustomResourceDefinition of the same render is.
	definition ID
}

// pass is one call of Apply or Remove: the state that its steps share. Only contact is written by several goroutines.
type pass struct {
	*Engine
	service   string
	namespace string
	inv       *inventory
	catalog   *catalog
	contact   *contact

	items    []item
	rejected []ObjectResult
	// rendered holds every object of the render, also the rejected ones: none of them is ever pruned.
	rendered map[ID]bool
	// live is what carried the service's label when the pass began.
	live map[ID]observed
	// blocked holds the namespaces and definitions that other objects wait for in vain.
	blocked map[ID]*Error
}

func (e *Engine) newPass(ctx context.Context, req Request, inv *inventory) (*pass, error) {
	p := &pass{
		Engine: e, service: req.Service, namespace: cmp.Or(req.Namespace, DefaultNamespace), inv: inv,
		contact: &contact{limit: 2 * e.options.Parallel}, rendered: map[ID]bool{}, blocked: map[ID]*Error{},
	}
	catalog, err := e.kinds.with(ctx, wanted(req.Objects, inv))
	if err != nil {
		return nil, fmt.Errorf("apply service %q: %w", req.Service, err)
	}
	p.catalog = catalog
	own := map[schema.GroupVersionKind]declaration{}
	for _, obj := range req.Objects {
		if obj.GroupVersionKind().Group == definitionGroup {
			maps.Copy(own, declared(obj))
		}
	}
	for _, obj := range req.Objects {
		p.place(obj, own)
	}
	slices.SortFunc(p.items, func(a, b item) int { return e.order.compare(a.id, b.id) })
	return p, nil
}

// wanted lists the kinds that a pass has to find.
func wanted(objects []*unstructured.Unstructured, inv *inventory) []schema.GroupVersionKind {
	set := map[schema.GroupVersionKind]bool{}
	for _, obj := range objects {
		set[obj.GroupVersionKind()] = true
	}
	for _, e := range inv.entries {
		set[e.gvk()] = true
	}
	return slices.Collect(maps.Keys(set))
}

// place files an object under items, or under rejected with the reason.
func (p *pass) place(obj *unstructured.Unstructured, own map[schema.GroupVersionKind]declaration) {
	gvk := obj.GroupVersionKind()
	it := item{gvk: gvk, obj: obj, id: ID{gvk.Group, gvk.Kind, obj.GetNamespace(), obj.GetName()}}
	if err := check(obj); err != nil {
		p.reject(it, Invalid, err.Error(), "")
		return
	}
	var known bool
	if it.res, known = p.catalog.kinds[gvk]; !known {
		var added declaration
		added, known = own[gvk]
		it.res, it.definition = added.resource, added.definition
	}
	if !known {
		p.rejectUnknown(it)
		return
	}
	it.id.Namespace = ""
	if it.res.namespaced {
		it.id.Namespace = cmp.Or(obj.GetNamespace(), p.namespace)
	}
	switch {
	case p.rendered[it.id]:
		p.reject(it, Invalid, "it is rendered twice", "remove one of the two")
	case isInventory(it.id):
		p.reject(it, Invalid, "this name is kept for inventories", "rename it")
	default:
		p.rendered[it.id] = true
		p.items = append(p.items, it)
	}
}

func (p *pass) rejectUnknown(it item) {
	if p.catalog.silent[it.gvk.Group] {
		p.reject(it, Unavailable, fmt.Sprintf("whoever serves the API group %q does not answer", it.gvk.Group), "")
		return
	}
	p.reject(it, MissingKind, fmt.Sprintf("the cluster does not serve %s of %s", it.gvk.Kind, it.gvk.GroupVersion()),
		"install its CustomResourceDefinition")
}

func (p *pass) reject(it item, reason Reason, message, fix string) {
	p.rendered[it.id] = true
	p.rejected = append(p.rejected,
		failed(it.gvk, it.id, &Error{Reason: reason, Object: it.id, Message: message, Fix: fix}))
}

func isInventory(id ID) bool {
	return id.Group == "" && id.Kind == "ConfigMap" && id.Namespace == SystemNamespace &&
		strings.HasPrefix(id.Name, inventoryPrefix)
}
