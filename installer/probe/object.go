package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"google.golang.org/protobuf/types/known/structpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/internal/boundcel"
	"github.com/pluralsh/plural/workspace/packages"
)

// object is one that is waited for, with what is read of it.
type object struct {
	*packages.WaitObject
	gvk       schema.GroupVersionKind
	condition *boundcel.Expression // nil: it is to be there
	outputs   map[string]*boundcel.Expression
}

func newObject(w *packages.WaitObject) (*object, error) {
	gv, err := schema.ParseGroupVersion(w.APIVersion)
	if err != nil {
		return nil, err
	}
	o := &object{WaitObject: w, gvk: gv.WithKind(w.Kind), outputs: map[string]*boundcel.Expression{}}
	env, err := boundcel.Environment("object")
	if err != nil {
		return nil, err
	}
	if w.Condition != "" {
		if o.condition, err = boundcel.Compile(env, w.Condition, cel.BoolType); err != nil {
			return nil, fmt.Errorf("condition: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Outputs)) {
		if o.outputs[name], err = boundcel.Compile(env, w.Outputs[name], nil); err != nil {
			return nil, fmt.Errorf("output %s: %w", name, err)
		}
	}
	return o, nil
}

// String names it as kubectl is told its name.
func (o *object) String() string {
	kind, name := o.Kind, o.Name
	if o.gvk.Group != "" {
		kind += "." + o.gvk.Group
	}
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return kind + " " + name
}

// object waits until an object is as it should be.
func (p *probe) object(ctx context.Context, o *object) (map[string]any, error) {
	client, err := discovery.NewDiscoveryClientForConfig(p.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	objects, err := dynamic.NewForConfig(p.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	served := kinds.New(client)
	for pause := first; ; pause = min(2*pause, longest) {
		outputs, seen, err := p.follow(ctx, o, served, objects)
		switch {
		case err != nil:
			return nil, err
		case outputs != nil:
			return outputs, nil
		}
		if ctx.Err() == nil {
			p.say(o.String() + ": " + seen)
		}
		if ctx.Err() != nil || !again(ctx, pause) {
			return nil, &TimeoutError{
				What: o.String(), Seen: cmp.Or(strings.TrimPrefix(p.seen, o.String()+": "), seen), After: p.limit, Err: context.Cause(ctx),
				Solution: fmt.Sprintf("kubectl describe -n %s %s %s", cmp.Or(o.Namespace, "default"), strings.ToLower(o.Kind), o.Name),
			}
		}
	}
}

// follow looks at an object, and then watches it for as long as its watch lasts. It gives the outputs when it is as it should be,
// else what was seen. An error is one that waiting does not mend.
func (p *probe) follow(ctx context.Context, o *object, served *kinds.Kinds, objects dynamic.Interface) (outputs map[string]any, seen string, err error) {
	asking, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	catalog, err := served.With(asking, []schema.GroupVersionKind{o.gvk})
	if err != nil {
		return nil, oneLine(err.Error()), refusal(err)
	}
	res, ok := catalog.Exact(o.gvk)
	if !ok {
		return nil, "the cluster does not serve this kind", nil
	}
	var in dynamic.ResourceInterface = objects.Resource(res.GroupVersionResource)
	if res.Namespaced {
		in = objects.Resource(res.GroupVersionResource).Namespace(cmp.Or(o.Namespace, metav1.NamespaceDefault))
	}
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", o.Name).String()}
	list, err := in.List(asking, only)
	if err != nil {
		return nil, oneLine(err.Error()), refusal(err)
	}
	seen = "it is not there"
	for i := range list.Items {
		if outputs, seen = o.look(&list.Items[i]); outputs != nil {
			return outputs, "", nil
		}
	}
	p.say(o.String() + ": " + seen)
	only.ResourceVersion = list.GetResourceVersion()
	watch, err := in.Watch(ctx, only)
	if err != nil {
		return nil, seen, refusal(err)
	}
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, seen, nil
		case event, open := <-watch.ResultChan():
			live, ok := event.Object.(*unstructured.Unstructured)
			if !open || !ok || live.GetKind() == "Status" {
				return nil, seen, nil // the next look begins a new one
			}
			if event.Type == "DELETED" {
				seen = "it is not there"
			} else if outputs, seen = o.look(live); outputs != nil {
				return outputs, "", nil
			}
			p.say(o.String() + ": " + seen)
		}
	}
}

// refusal is an error that waiting does not mend, or nil.
func refusal(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return err
	}
	return nil
}

// look holds an object against what is waited for. What is seen repeats nothing of a Secret.
func (o *object) look(live *unstructured.Unstructured) (outputs map[string]any, seen string) {
	vars := map[string]any{"object": live.Object}
	if o.condition != nil {
		value, err := o.condition.Eval(vars)
		switch {
		case err != nil:
			return nil, o.quiet("its condition cannot be told yet", err)
		case value.Value() != true:
			return nil, "its condition is not true yet: " + o.Condition + status(live)
		}
	}
	outputs = map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(o.outputs)) {
		value, err := o.outputs[name].Eval(vars)
		if err != nil {
			return nil, o.quiet("output "+name+" is not there yet", err)
		}
		native, err := value.ConvertToNative(reflect.TypeFor[*structpb.Value]())
		if err != nil {
			return nil, o.quiet("output "+name+" is no value of JSON", err)
		}
		outputs[name] = whole(native.(*structpb.Value).AsInterface())
	}
	return outputs, ""
}

// quiet is an error with what it is about; of a Secret it might quote a value.
func (o *object) quiet(about string, err error) string {
	if o.gvk.Group == "" && o.Kind == "Secret" {
		var missing *boundcel.MissingError
		if errors.As(err, &missing) {
			return about + ": no such key: " + missing.Key
		}
		return about
	}
	return about + ": " + oneLine(err.Error())
}

// status is what an object says of its conditions that are not met, for a person.
func status(live *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	var said []string
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok || condition["status"] == "True" {
			continue
		}
		text := fmt.Sprintf("%v is %v", condition["type"], condition["status"])
		if message, _ := condition["message"].(string); message != "" {
			text += " (" + oneLine(message) + ")"
		}
		said = append(said, text)
	}
	if len(said) == 0 {
		return ""
	}
	return "; " + strings.Join(said, ", ")
}

// whole has numbers without a fraction be whole numbers, which JSON does not tell apart.
func whole(value any) any {
	const most = 1 << 53 // beyond that, a float holds no whole number for sure
	switch v := value.(type) {
	case float64:
		if v == float64(int64(v)) && v > -most && v < most {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	}
	return value
}
