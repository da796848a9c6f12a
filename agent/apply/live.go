package apply

import (
	"context"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// observed is what a pass needs to know of a live object.
type observed struct {
	uid, version string
	generation   int64
	// owner is the service that the label names; empty when there is no label.
	owner string
	// trace is this manager's own record on the object: when it last changed which fields. Empty when it never did.
	trace        string
	pruneAllowed bool
	deleting     bool
	finalizers   string
}

func observe(obj metav1.Object) observed {
	return observed{
		uid:          string(obj.GetUID()),
		version:      obj.GetResourceVersion(),
		generation:   obj.GetGeneration(),
		owner:        obj.GetLabels()[ServiceLabel],
		trace:        trace(obj),
		pruneAllowed: obj.GetAnnotations()[PruneAnnotation] == "allow",
		deleting:     obj.GetDeletionTimestamp() != nil,
		finalizers:   strings.Join(obj.GetFinalizers(), ", "),
	}
}

func trace(obj metav1.Object) string {
	for _, f := range obj.GetManagedFields() {
		if f.Manager != Manager || f.Operation != metav1.ManagedFieldsOperationApply || f.Subresource != "" {
			continue
		}
		record := f.APIVersion + "\n"
		if f.Time != nil {
			record += f.Time.UTC().String()
		}
		if f.FieldsV1 != nil {
			record += "\n" + f.FieldsV1.GetRawString()
		}
		return record
	}
	return ""
}

// action tells what an apply did. Applying what is there already leaves the resourceVersion alone; when it moved all
// the same, a controller may have written a status meanwhile, which is not our change.
func (before observed) action(after observed) Action {
	switch {
	case before.uid != after.uid:
		return Created
	case before.version == after.version:
		return Unchanged
	case before.generation != 0 && before.generation == after.generation && before.trace == after.trace:
		return Unchanged
	default:
		return Configured
	}
}

// scope is one list request: a kind, in one namespace or in all of them.
type scope struct {
	kind      schema.GroupKind
	res       resource
	namespace string
}

// observeAll lists, by label, what the service has of the kinds it is about to apply. What is missing from the answer,
// also because a list was refused, is looked at one by one when its turn comes.
func (p *pass) observeAll(ctx context.Context) {
	lists := slices.Collect(maps.Values(scopes(p.items)))
	answers := make([]map[ID]observed, len(lists))
	p.each(len(lists), func(i int) { answers[i] = p.list(ctx, lists[i]) })
	p.live = map[ID]observed{}
	for _, answer := range answers {
		maps.Copy(p.live, answer)
	}
}

// scopes asks for a kind in one namespace when all its objects are in one, else everywhere.
func scopes(items []item) map[schema.GroupKind]scope {
	out := map[schema.GroupKind]scope{}
	for _, it := range items {
		if it.definition != (ID{}) {
			continue
		}
		kind := it.id.groupKind()
		s := scope{kind, it.res, it.id.Namespace}
		if known, ok := out[kind]; ok && known.namespace != s.namespace {
			s.namespace = metav1.NamespaceAll
		}
		out[kind] = s
	}
	return out
}

func (p *pass) list(ctx context.Context, s scope) map[ID]observed {
	found := map[ID]observed{}
	client := p.metadata.Resource(s.res.GroupVersionResource).Namespace(s.namespace)
	options := metav1.ListOptions{LabelSelector: ServiceLabel + "=" + p.service, Limit: listPage}
	for p.contact.lost(ctx) == nil {
		page, err := client.List(ctx, options)
		p.contact.note(err)
		if err != nil {
			return found
		}
		for i := range page.Items {
			obj := &page.Items[i]
			found[ID{s.kind.Group, s.kind.Kind, obj.Namespace, obj.Name}] = observe(obj)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return found
		}
	}
	return found
}

// inspect looks at one object; exists is false when the API server says that there is none. A server that does not
// serve the kind at all has not said that: then the catalog is out of date, and an error is returned.
func (p *pass) inspect(ctx context.Context, id ID, res resource) (seen observed, exists bool, err error) {
	obj, err := p.metadata.Resource(res.GroupVersionResource).Namespace(id.Namespace).
		Get(ctx, id.Name, metav1.GetOptions{})
	p.contact.note(err)
	switch {
	case isUnserved(err):
		p.kinds.current.Store(nil)
		return observed{}, false, err
	case apierrors.IsNotFound(err):
		return observed{}, false, nil
	case err != nil:
		return observed{}, false, err
	default:
		return observe(obj), true, nil
	}
}

// isUnserved tells a 404 for the whole kind, which has no proper status in its body, from one for the object.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
