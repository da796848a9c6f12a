package servicetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

// hook is one object of a chart's tests.
type hook struct {
	obj  *unstructured.Unstructured
	turn order.Turn
}

// HooksOf are the objects of a render that are tests, as Target wants them. One that leaves its name's end to the API server has
// a name of its own for each key.
func HooksOf(objects []*unstructured.Unstructured, key string) []*unstructured.Unstructured {
	var hooks []*unstructured.Unstructured
	for _, obj := range objects {
		turns, err := order.Of(obj)
		if err == nil && slices.ContainsFunc(turns, func(t order.Turn) bool { return t.Stage == order.Test && !t.LocalOnly }) {
			hooks = append(hooks, object.Named(obj, key, len(hooks)))
		}
	}
	return hooks
}

// runs says that the hook comes to an end, which is waited for; the others are there for those.
func (h hook) runs() bool { return object.Of(h.obj).RunsToCompletion() }

// hooks runs a chart's tests as `helm test` does: one after the other by weight, until one fails.
func (a attempt) hooks(ctx context.Context, test Helm) outcome {
	chosen, err := choose(a.target.Hooks, test.Hooks)
	if err != nil {
		return outcome{err: err}
	}
	var log strings.Builder
	var passed []madeHook
	for _, h := range chosen {
		done, result := a.hook(ctx, h)
		if result.log != "" {
			fmt.Fprintf(&log, "==> %s <==\n%s", object.Of(h.obj), result.log)
		}
		if result.err != nil {
			return outcome{log.String(), result.err}
		}
		passed = append(passed, done)
	}
	clean(ctx, passed, func(t order.Turn) bool { return t.Succeeded })
	return outcome{log: log.String()}
}

// madeHook is a hook that is there.
type madeHook struct {
	hook
	*task
	live *unstructured.Unstructured
}

func (a attempt) hook(ctx context.Context, h hook) (madeHook, outcome) {
	t, err := a.task(ctx, h.obj)
	if err != nil {
		return madeHook{}, outcome{err: because(ctx, err)}
	}
	if !h.runs() {
		live, err := t.start(ctx, func(*unstructured.Unstructured) bool { return true })
		if err != nil {
			return madeHook{}, outcome{err: because(ctx, err)}
		}
		return madeHook{h, t, live}, outcome{}
	}
	live, result := a.run(ctx, t, func(live *unstructured.Unstructured) bool { return !isDone(live) })
	done := madeHook{h, t, live}
	if result.err != nil && live != nil {
		clean(ctx, []madeHook{done}, func(t order.Turn) bool { return t.Failed })
	}
	return done, result
}

// clean deletes the hooks whose policy says so, the last first. What cannot be deleted changes no result, and is Sweep's.
func clean(ctx context.Context, hooks []madeHook, wanted func(order.Turn) bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
	defer cancel()
	for _, h := range slices.Backward(hooks) {
		if wanted(h.turn) {
			_ = h.remove(ctx, h.live.GetUID())
		}
	}
}

// choose sorts hooks by weight, what others need first, then by name, and leaves the named ones with what they may need.
func choose(all []*unstructured.Unstructured, names []string) ([]hook, error) {
	var hooks []hook
	for _, obj := range all {
		turns, err := order.Of(obj)
		if err != nil {
			return nil, wrong("%s: %v", object.Of(obj), err)
		}
		for _, turn := range turns {
			if turn.Stage == order.Test {
				hooks = append(hooks, hook{obj, turn})
			}
		}
	}
	tests := map[string]bool{}
	for _, h := range hooks {
		if h.runs() {
			tests[h.obj.GetName()] = true
		}
	}
	for _, name := range names {
		if !tests[name] {
			return nil, wrong("the chart has no test %q", name)
		}
	}
	if len(tests) == 0 {
		return nil, wrong("the chart has no tests: nothing in it says %s: test", hookAnnotation)
	}
	hooks = slices.DeleteFunc(hooks, func(h hook) bool {
		return h.runs() && len(names) > 0 && !slices.Contains(names, h.obj.GetName())
	})
	slices.SortStableFunc(hooks, func(x, y hook) int {
		return cmp.Or(cmp.Compare(x.turn.Wave, y.turn.Wave), order.Compare(object.Of(x.obj), object.Of(y.obj)))
	})
	return hooks, nil
}

// isTestHook says that helm takes the object for a test.
func isTestHook(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(strings.Split(obj.GetAnnotations()[hookAnnotation], ","), func(word string) bool {
		word = strings.TrimSpace(word)
		return word == "test" || word == "test-success"
	})
}
