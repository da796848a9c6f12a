package servicetest

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/object"
)

const (
	// maxItems is the longest list that an expression sees.
	maxItems = 500
	// What an expression calls one object, and a list of them.
	self  = "self"
	items = "items"
)

// assert holds each assertion against the cluster; the first that does not hold is the outcome.
func (a attempt) assert(ctx context.Context, assertions []Assertion) outcome {
	for i, assertion := range assertions {
		if err := a.holds(ctx, assertion); err != nil {
			return outcome{err: fmt.Errorf("assertion %d: %w", i+1, err)}
		}
	}
	return outcome{}
}

func (a attempt) holds(ctx context.Context, want Assertion) error {
	if want.Kind == "" || want.Name != "" && want.Selector != "" {
		return wrong("want a kind, and either a name or a selector")
	}
	variable := items
	if want.Name != "" {
		variable = self
	}
	expression, err := health.Compile(want.Expression, variable)
	if err != nil {
		return wrong("%v", err)
	}
	seen, what, err := a.look(ctx, want)
	if err != nil {
		return because(ctx, err)
	}
	switch is, err := expression.Bool(map[string]any{variable: seen}); {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case !is:
		return fmt.Errorf("%s: %s", what, cmp.Or(want.Message, "not true: "+want.Expression))
	}
	return nil
}

// look reads what an assertion is about, and says what that is.
func (a attempt) look(ctx context.Context, want Assertion) (seen any, what string, err error) {
	kind := schema.GroupVersionKind{Group: want.Group, Version: want.Version, Kind: want.Kind}
	served, err := a.resource(ctx, kind)
	if err != nil {
		return nil, "", err
	}
	id := object.ID{Group: want.Group, Kind: want.Kind, Name: want.Name}
	objects := dynamic.ResourceInterface(a.objects.Resource(served.GroupVersionResource))
	if served.Namespaced {
		if id.Namespace, err = a.namespace(want.Namespace); err != nil {
			return nil, "", err
		}
		objects = a.objects.Resource(served.GroupVersionResource).Namespace(id.Namespace)
	} else if len(a.target.Namespaces) > 0 {
		return nil, "", wrong("%s has no namespace, and the service may touch some namespaces only", kind.GroupKind())
	}
	if want.Name != "" {
		seen, err = one(ctx, objects, id)
		return seen, id.String(), err
	}
	id.Name = "*"
	seen, err = all(ctx, objects, id, want.Selector)
	return seen, id.String(), err
}

func one(ctx context.Context, objects dynamic.ResourceInterface, id object.ID) (any, error) {
	obj, err := objects.Get(ctx, id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s", id)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", id, err)
	}
	return shown(obj, id), nil
}

func all(ctx context.Context, objects dynamic.ResourceInterface, id object.ID, selector string) (any, error) {
	if _, err := labels.Parse(selector); err != nil {
		return nil, wrong("selector: %v", err)
	}
	list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxItems})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", id, err)
	}
	if list.GetContinue() != "" || len(list.Items) > maxItems {
		return nil, wrong("more than %d objects fit: narrow the selector", maxItems)
	}
	seen := make([]any, len(list.Items))
	for i := range list.Items {
		seen[i] = shown(&list.Items[i], id)
	}
	return seen, nil
}

// shown is what an expression sees of an object, which it may change. A Secret's values are nobody's to repeat.
func shown(obj *unstructured.Unstructured, id object.ID) map[string]any {
	obj.SetManagedFields(nil)
	if id.IsSecret() {
		for _, field := range []string{"data", "stringData"} {
			values, _ := obj.Object[field].(map[string]any)
			for key := range values {
				values[key] = ""
			}
		}
		unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	}
	return obj.Object
}
