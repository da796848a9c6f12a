package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
)

// Change is what applying a render would do to one object now.
type Change struct {
	ID object.ID
	// Served is where the API server has it; empty of one that was not asked about.
	Served kinds.Resource
	// Action is Created, Configured, Deleted or Failed.
	Action Action
	// Before and After are the object without what the API server keeps for itself; nil where there is none. They are those
	// of a Secret too: whoever shows them masks its values.
	Before, After *unstructured.Unstructured
	// Conflicts say which fields other managers have, with their names.
	Conflicts []string
	// Err is set when the API server would refuse the object.
	Err *Error
}

// Diff asks the API server what applying the request would change, and changes nothing. Objects that stay as they are are
// left out. What the render no longer holds, and may be deleted, comes last. No inventory is written, no watch is kept, no hook is run.
func (e *Engine) Diff(ctx context.Context, req Request) ([]Change, error) {
	if _, err := req.check(); err != nil {
		return nil, err
	}
	inv, err := e.inventory.Load(ctx, req.Service)
	if err != nil {
		return nil, err
	}
	p := e.blankPass(req, newRecord())
	p.inv, p.blind = inv, true
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	objects, err := req.Objects(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.render(ctx, objects); err != nil {
		return nil, err
	}
	changes := make([]Change, len(p.items))
	e.each(len(p.items), func(i int) { changes[i] = p.try(ctx, p.items[i]) })
	for _, o := range p.rejected {
		changes = append(changes, Change{ID: o.ID(), Action: Failed, Err: o.Err})
	}
	for _, entry := range p.unrendered() {
		changes = append(changes, p.tryPrune(ctx, entry))
	}
	changes = slices.DeleteFunc(changes, func(c Change) bool { return c.Action == Unchanged })
	if err := p.contact.closing(ctx); err != nil {
		return nil, fmt.Errorf("compare service %q with its cluster: %w", req.Service, err)
	}
	return changes, nil
}

// try asks what one apply would do.
func (p *pass) try(ctx context.Context, it item) Change {
	c := Change{ID: it.id, Served: it.res, Action: Unchanged}
	if it.turn.Hook || it.turn.Pause || it.definition != (object.ID{}) {
		if it.definition != (object.ID{}) {
			c.Action, c.After = Created, it.obj
		}
		return c
	}
	before, err := p.wire.getWhole(ctx, p.target(it))
	p.contact.note(err)
	switch {
	case apierrors.IsNotFound(err):
		c.Action = Created
	case err != nil:
		c.Action, c.Err = Failed, describe(it.id, err)
		return c
	}
	if err == nil {
		refused := p.taken(ctx, it, watchcache.OfMetadata(before))
		if refused != nil && !p.req.ShowTaken { // what it holds is the other one's
			c.Action, c.Err = Failed, refused
			return c
		}
		c.Before = bare(before)
	}
	after, _, err := p.wire.apply(ctx, p.target(it), it.body, applying{manager: object.Manager, dryRun: true})
	if isFieldConflict(err) {
		var manifest map[string]any
		if bad := kjson.Unmarshal(it.body, &manifest); bad == nil {
			for _, cause := range fieldConflicts(err) {
				found := conflictOf(cause, manifest)
				c.Conflicts = append(c.Conflicts, fmt.Sprintf("%s belongs to %q", found.field, found.manager))
			}
		}
		after, _, err = p.wire.apply(ctx, p.target(it), it.body, applying{manager: object.Manager, force: true, dryRun: true})
	}
	p.contact.note(err)
	if err != nil {
		c.Action, c.Err = Failed, describe(it.id, err)
		if c.Err.Reason == MissingNamespace && (p.req.Account == "" || it.id.Namespace == p.namespace) { // which a pass makes first
			c.Action, c.Err, c.After = Created, nil, it.obj
		}
		return c
	}
	c.After = bare(after)
	if c.Before != nil && !sameObject(c.Before, c.After) {
		c.Action = Configured
	}
	return c
}

// tryPrune says whether an object that the render does not hold would be deleted, once that is allowed.
func (p *pass) tryPrune(ctx context.Context, e inventory.Entry) Change {
	res, ok := p.catalog.Find(gvkOf(e))
	if !ok || !p.req.Prune {
		return Change{ID: e.ID, Action: Unchanged}
	}
	live, err := p.wire.getWhole(ctx, target{id: e.ID, res: res, account: p.req.Account})
	p.contact.note(err)
	switch {
	case apierrors.IsNotFound(err):
		return Change{ID: e.ID, Action: Unchanged}
	case err != nil:
		return Change{ID: e.ID, Served: res, Action: Failed, Err: describe(e.ID, err)}
	}
	j := judgement{entry: e, seen: p.judged(res, e.ID, live), there: true}
	if p.decide(&j); j.verdict != doomed {
		return Change{ID: e.ID, Action: Unchanged}
	}
	return Change{ID: e.ID, Served: res, Action: Deleted, Before: bare(live)}
}

// bare is an object without what changes by itself.
func bare(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(out.Object, "status")
	return out
}

func sameObject(a, b *unstructured.Unstructured) bool {
	x, errX := json.Marshal(a.Object)
	y, errY := json.Marshal(b.Object)
	return errX == nil && errY == nil && string(x) == string(y)
}

// FieldOwner is one manager's part of an object.
type FieldOwner struct {
	Manager, Operation, Subresource string
	Time                            time.Time
	// Fields are dotted paths, sorted.
	Fields []string
}

// Ownership says who owns which fields of an object, newest first. The error is the API server's when there is none.
func (e *Engine) Ownership(ctx context.Context, id object.ID) ([]FieldOwner, *unstructured.Unstructured, error) {
	catalog, err := e.kinds.With(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	res, ok := catalog.Find(id.GroupKind().WithVersion(""))
	if !ok {
		return nil, nil, &Error{Reason: MissingKind, Object: id, Message: "the cluster does not serve " + id.GroupKind().String()}
	}
	live, err := e.wire.getWhole(ctx, target{id: id, res: res})
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", id, err)
	}
	var owners []FieldOwner
	for _, record := range live.GetManagedFields() {
		owners = append(owners, ownerOf(record))
	}
	slices.SortStableFunc(owners, func(a, b FieldOwner) int { return b.Time.Compare(a.Time) })
	return owners, live, nil
}

func ownerOf(record metav1.ManagedFieldsEntry) FieldOwner {
	owner := FieldOwner{Manager: record.Manager, Operation: string(record.Operation), Subresource: record.Subresource}
	if record.Time != nil {
		owner.Time = record.Time.UTC()
	}
	var set map[string]any
	if record.FieldsV1 != nil {
		_ = json.Unmarshal([]byte(record.FieldsV1.GetRawString()), &set) // what cannot be read names no field
	}
	names(set, "", &owner.Fields)
	slices.Sort(owner.Fields)
	return owner
}

// names lists the leaves of a set of fields as the API server writes them.
func names(set map[string]any, at string, into *[]string) {
	for key, child := range set {
		kind, name, _ := strings.Cut(key, ":")
		inner, _ := child.(map[string]any)
		var path string
		switch kind {
		case "f":
			path = strings.TrimPrefix(at+"."+name, ".")
		case "k", "v", "i":
			path = at + "[" + name + "]"
		default: // "." is the field itself
			continue
		}
		if len(inner) == 0 || len(inner) == 1 && inner["."] != nil {
			*into = append(*into, path)
			continue
		}
		names(inner, path, into)
	}
}
