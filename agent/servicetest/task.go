package servicetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/reserved"
)

const (
	// digestAnnotation is, on what a test made, the digest of what it was made from.
	digestAnnotation = "plural.sh/test-digest"
	// hookAnnotation is helm's word for what a manifest is there for.
	hookAnnotation = "helm.sh/hook"
	// watchPause lies between two tries to follow an object.
	watchPause = time.Second
)

// task is an object that a test makes: a Job or a Pod that runs once, or something that they need.
type task struct {
	id      object.ID
	wanted  *unstructured.Unstructured
	objects dynamic.ResourceInterface
	purpose purpose
	made    *made
}

// task prepares an object. A namespaced one that names no namespace is in the target's.
func (a attempt) task(ctx context.Context, from *unstructured.Unstructured) (*task, error) {
	served, err := a.resource(ctx, from.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	wanted := from.DeepCopy()
	objects := dynamic.ResourceInterface(a.objects.Resource(served.GroupVersionResource))
	switch {
	case served.Namespaced:
		namespace, err := a.namespace(from.GetNamespace())
		if err != nil {
			return nil, err
		}
		wanted.SetNamespace(namespace)
		objects = a.objects.Resource(served.GroupVersionResource).Namespace(namespace)
	case len(a.target.Namespaces) > 0:
		return nil, wrong("%s has no namespace, and the service may touch some namespaces only", object.Of(from))
	}
	if refusal := reserved.Write(a.target.origin(), object.Of(wanted), wanted); refusal != nil {
		return nil, wrong("%s: %s: %s", object.Of(wanted), refusal.Cause, refusal.Fix)
	}
	if err := mark(wanted, a.target); err != nil {
		return nil, err
	}
	why := purpose{a.target.Service, a.target.Key, wanted.GetAnnotations()[digestAnnotation]}
	return &task{object.Of(wanted), wanted, objects, why, a.made}, nil
}

// mark makes an object a test's own. It is not the service's: nothing applies or prunes it, and its health is not the service's.
func mark(obj *unstructured.Unstructured, target Target) error {
	delete(obj.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "generateName", "managedFields"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, object.ServiceLabel)
	labels[ServiceLabel] = target.Service
	obj.SetLabels(labels)
	text, err := json.Marshal(obj.Object)
	if err != nil {
		return wrong("encode %s: %v", object.Of(obj), err)
	}
	digest := sha256.Sum256(text)
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[object.RunAnnotation] = target.Key
	annotations[digestAnnotation] = hex.EncodeToString(digest[:])
	obj.SetAnnotations(annotations)
	return nil
}

// start makes the object, or finds it as this process made it for the same run. One that is not reusable, or that this process did
// not make, is deleted first, and waited for.
func (t *task) start(ctx context.Context, reusable func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, error) {
	for {
		made, err := t.objects.Create(ctx, t.wanted, metav1.CreateOptions{FieldManager: object.Manager})
		switch {
		case err == nil:
			t.made.note(made.GetUID(), t.purpose)
			return made, nil
		case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
			return nil, wrong("create %s: %v", t.id, err)
		case !apierrors.IsAlreadyExists(err):
			return nil, fmt.Errorf("create %s: %w", t.id, err)
		}
		live, err := t.objects.Get(ctx, t.id.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", t.id, err)
		case !t.owns(live):
			return nil, wrong("%s exists, and no test of service %q made it: give one of them another name", t.id, t.purpose.service)
		case live.GetDeletionTimestamp() == nil && t.made.is(live.GetUID(), t.purpose) && reusable(live):
			return live, nil
		}
		if err := t.remove(ctx, live.GetUID()); err != nil {
			return nil, err
		}
		if _, err := t.follow(ctx, live.GetUID(), never); err != nil {
			return nil, fmt.Errorf("wait until the former %s is gone: %w", t.id, err)
		}
	}
}

// owns says that the object may be deleted for a new run: by what stands on it, a test of the service made it, or `helm test` did, and
// no service has it, nor another one's test. It says nothing of how the run ends.
func (t *task) owns(live *unstructured.Unstructured) bool {
	if live.GetLabels()[object.ServiceLabel] != "" {
		return false
	}
	by := live.GetLabels()[ServiceLabel]
	return by == t.purpose.service && live.GetAnnotations()[digestAnnotation] != "" || by == "" && isTestHook(live) && isTestHook(t.wanted)
}

// remove deletes exactly the object that was seen, with what it made.
func (t *task) remove(ctx context.Context, uid types.UID) error {
	err := t.objects.Delete(ctx, t.id.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", t.id, err)
	}
	return nil
}

// follow waits until enough is true of the object, or until the object is gone, which is nil. Watches that break and API servers
// that do not answer are tried again until ctx ends.
func (t *task) follow(ctx context.Context, uid types.UID, enough func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, error) {
	for {
		live, err := t.objects.Get(ctx, t.id.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && live.GetUID() != uid:
			return nil, nil
		case err == nil && enough(live):
			return live, nil
		case err == nil:
			if seen, err := t.watch(ctx, live, enough); seen != nil || err != nil {
				return seen, err
			}
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return nil, fmt.Errorf("read %s: %w", t.id, err)
		default: // an API server that does not answer is no failure of the test
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(watchPause):
		}
	}
}

// watch returns the object when enough is true of it, and nil when somebody has to look again.
func (t *task) watch(ctx context.Context, from *unstructured.Unstructured, enough func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, error) {
	changes, err := t.objects.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", t.id.Name).String(),
		ResourceVersion: from.GetResourceVersion(),
	})
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("watch %s: %w", t.id, err)
	}
	if err != nil {
		return nil, nil //nolint:nilerr // whoever asked looks again
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		live, ok := change.Object.(*unstructured.Unstructured)
		if !ok || change.Type == watch.Error || change.Type == watch.Deleted || live.GetUID() != from.GetUID() {
			return nil, nil
		}
		if enough(live) {
			return live, nil
		}
	}
	return nil, nil
}

// never is enough of no object: follow waits until it is gone.
func never(*unstructured.Unstructured) bool { return false }

// run runs a Job or a Pod to its end.
func (a attempt) run(ctx context.Context, t *task, reusable func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, outcome) {
	live, err := t.start(ctx, reusable)
	if err != nil {
		return nil, outcome{err: because(ctx, err)}
	}
	ended, err := t.follow(ctx, live.GetUID(), isDone)
	var late *lateError
	switch {
	case errors.As(err, &late):
		return live, a.tooLate(ctx, t, live, late)
	case err != nil:
		return nil, outcome{err: because(ctx, err)}
	case ended == nil:
		return nil, outcome{err: fmt.Errorf("%s was deleted while it ran", t.id)}
	}
	log, why := a.report(ctx, ended)
	if failure := failed(ended); failure != "" {
		return ended, outcome{log, errors.New(strings.Join(slices.DeleteFunc([]string{t.id.String() + " failed", failure, why}, isEmpty), ": "))}
	}
	return ended, outcome{log: log}
}

// tooLate stops what still runs.
func (a attempt) tooLate(ctx context.Context, t *task, live *unstructured.Unstructured, late *lateError) outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
	defer cancel()
	log, why := a.report(ctx, live)
	err := fmt.Errorf("%s: %w", t.id, late)
	if why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	return outcome{log, errors.Join(err, t.remove(ctx, live.GetUID()))}
}

// lateError says that a try's, or a sweep's, own time is over.
type lateError struct{ limit time.Duration }

func (e *lateError) Error() string { return fmt.Sprintf("not done after %v", e.limit) }

// isDone says that a Job or a Pod has come to its end, good or bad.
func isDone(obj *unstructured.Unstructured) bool {
	switch phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase {
	case "Succeeded", "Failed":
		return true
	}
	return hasCondition(obj, "Complete") || hasCondition(obj, "Failed")
}

// failed is why a Job or a Pod that is done did not succeed; empty when it did.
func failed(obj *unstructured.Unstructured) string {
	if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase == "Failed" {
		message, _, _ := unstructured.NestedString(obj.Object, "status", "message")
		return strings.TrimSuffix("phase Failed: "+message, ": ")
	}
	for _, condition := range conditions(obj) {
		if condition["type"] == "Failed" && condition["status"] == "True" {
			return strings.TrimSuffix(fmt.Sprintf("%v: %v", condition["reason"], condition["message"]), ": <nil>")
		}
	}
	return ""
}

func hasCondition(obj *unstructured.Unstructured, name string) bool {
	return slices.ContainsFunc(conditions(obj), func(c map[string]any) bool { return c["type"] == name && c["status"] == "True" })
}

func conditions(obj *unstructured.Unstructured) []map[string]any {
	return mapsIn(obj, "status", "conditions")
}

// mapsIn are the maps in a list.
func mapsIn(obj *unstructured.Unstructured, path ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(obj.Object, path...)
	found := make([]map[string]any, 0, len(list))
	for _, item := range list {
		if fields, ok := item.(map[string]any); ok {
			found = append(found, fields)
		}
	}
	return found
}

func isEmpty(text string) bool { return text == "" }
