package apply_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/order"
)

// failing is a Job that no node can take, and that gives up at once.
func failing(name string) *unstructured.Unstructured {
	bad := job(name)
	must(0, unstructured.SetNestedField(bad.Object, int64(1), "spec", "activeDeadlineSeconds"))
	must(0, unstructured.SetNestedField(bad.Object, map[string]any{"nowhere": "true"}, "spec", "template", "spec", "nodeSelector"))
	return bad
}

// The engine dies at every one of its requests in turn, before the API server has it or before the answer is there.
func TestHooksRunOnceAndGoWhereverTheEngineIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, lost := range []string{"request", "answer"} {
		killed := true
		for n := int32(1); killed; n++ {
			suffix := fmt.Sprintf("-%s-%d", lost, n)
			hooks := []*unstructured.Unstructured{
				annotated(configMap("needed"+suffix, "1"), "helm.sh/hook", "pre-install",
					"helm.sh/hook-delete-policy", "hook-succeeded", "helm.sh/hook-weight", "-1"),
				annotated(configMap("helm"+suffix, "1"), "helm.sh/hook", "pre-install", "helm.sh/hook-delete-policy", "hook-succeeded"),
				annotated(configMap("argo"+suffix, "1"), "argocd.argoproj.io/hook", "PreSync",
					"argocd.argoproj.io/hook-delete-policy", "HookSucceeded"),
				annotated(configMap("own"+suffix, "1"), "plural.sh/hook", "post-sync", "plural.sh/hook-delete-policy", "succeeded"),
			}
			web := configMap("web"+suffix, "1")
			req := w.request(append(hooks, web)...)
			req.Service = w.service + suffix
			var made created
			var sent atomic.Int32
			first := w.newEngine(func(next http.RoundTripper) http.RoundTripper {
				next = made.wrap(next)
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodGet || sent.Add(1) < n {
						return next.RoundTrip(r)
					}
					if lost == "answer" && sent.Load() == n {
						if answer, err := next.RoundTrip(r); err == nil {
							_ = answer.Body.Close()
						}
					}
					return nil, errors.New("no route to host")
				})
			})

			result, err := first.Apply(t.Context(), req)

			killed = err != nil || !result.Done
			w.engine = w.newEngine(made.wrap)
			w.follows(req, isDone)
			if runs := strings.Count(fmt.Sprint(made.seen), "configmaps"); runs != len(hooks) {
				t.Errorf("killed at %s %d: %d hooks were made, want %d", lost, n, runs, len(hooks))
			}
			w.mustExist(web)
			for _, hook := range hooks {
				if w.exists(hook) {
					t.Errorf("killed at %s %d: %s is still there", lost, n, hook.GetName())
				}
			}
			must(w.engine.Remove(context.WithoutCancel(t.Context()), apply.Removal{Service: req.Service}))
		}
	}
}

func TestAHookThatCannotBeDeletedNowIsDeletedBeforeTheSyncIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var away atomic.Bool
	away.Store(true)
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && away.Load() {
				return nil, errors.New("connection reset by peer")
			}
			return next.RoundTrip(r)
		})
	})
	hook := annotated(configMap("settings", "1"), "helm.sh/hook", "pre-install", "helm.sh/hook-delete-policy", "hook-succeeded")
	req := w.request(hook, configMap("web", "1"))

	if result := w.pass(req); result.Done || !strings.Contains(result.Waiting, "still to be deleted") || result.Retry == 0 {
		t.Errorf("done %t, waiting for %q, again in %v", result.Done, result.Waiting, result.Retry)
	}
	away.Store(false)
	w.follows(req, isDone)
	if w.exists(hook) {
		t.Error("it was never deleted")
	}
}

func TestWhatAHookNeedsStaysWhileAnotherOfAFailedStageRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ours := func(obj *unstructured.Unstructured, more ...string) *unstructured.Unstructured {
		return annotated(annotated(obj, "plural.sh/hook", "pre-sync"), more...)
	}
	settings := ours(configMap("settings", "1"), "plural.sh/wave", "-1", "plural.sh/hook-delete-policy", "succeeded")
	slow := failing("slow")
	must(0, unstructured.SetNestedField(slow.Object, int64(4), "spec", "activeDeadlineSeconds"))
	req := w.request(settings, ours(failing("fast")), ours(slow), configMap("web", "1"))

	hasFailed := func(r *apply.Result, name string) bool {
		return slices.ContainsFunc(r.Objects, func(o apply.ObjectResult) bool { return o.Name == name && o.Err != nil })
	}
	early := false
	w.follows(req, func(r *apply.Result) bool {
		if hasFailed(r, "fast") && !hasFailed(r, "slow") {
			early = true
			w.mustExist(settings)
		}
		return hasFailed(r, "slow")
	})
	if !early {
		t.Error("both failed at once: nothing was seen")
	}
	w.follows(req, func(*apply.Result) bool { return !w.exists(settings) })
}

func TestAHookForFailuresIsDeletedThoughItsFirstDeletionFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var away atomic.Bool
	away.Store(true)
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && away.Load() {
				text := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}`
				return &http.Response{
					StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(strings.NewReader(text)), Request: r,
				}, nil
			}
			return next.RoundTrip(r)
		})
	})
	alarm := annotated(configMap("alarm", "1"), "plural.sh/hook", "sync-fail", "plural.sh/hook-delete-policy", "succeeded")
	req := w.request(alarm, annotated(failing("bad"), "plural.sh/hook", "pre-sync"), configMap("web", "1"))
	w.follows(req, func(r *apply.Result) bool {
		return strings.Contains(strings.Join(r.Notes, " "), "alarm is done and cannot be deleted")
	})
	away.Store(false)
	w.follows(req, func(*apply.Result) bool { return !w.exists(alarm) })
}

func TestHooksOfArgoCDGoWhenTheWholeSyncHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	argo := func(obj *unstructured.Unstructured, stage, policy string) *unstructured.Unstructured {
		return annotated(obj, "argocd.argoproj.io/hook", stage, "argocd.argoproj.io/hook-delete-policy", policy)
	}
	whenGood := argo(configMap("when-good", "1"), "PreSync", "HookSucceeded")
	whenBad := argo(configMap("when-bad", "1"), "PreSync", "HookFailed,BeforeHookCreation")
	alarm := argo(configMap("alarm", "1"), "SyncFail", "HookFailed")
	web := configMap("web", "1")

	bad := argo(failing("last"), "PostSync", "HookSucceeded")
	req := w.request(whenGood, whenBad, alarm, web, bad)
	w.follows(req, func(r *apply.Result) bool {
		if w.exists(bad) && r.Complete() {
			w.mustExist(whenGood, whenBad)
		}
		return !r.Complete()
	})
	w.mustExist(whenGood, web, bad)
	for _, hook := range []*unstructured.Unstructured{whenBad, alarm} {
		if w.exists(hook) {
			t.Errorf("the sync failed, and %s is still there", hook.GetName())
		}
	}

	good := argo(job("good"), "PostSync", "HookSucceeded")
	w.follows(w.request(whenGood, whenBad, alarm, web, good), func(r *apply.Result) bool {
		if w.exists(good) && !r.Done {
			w.mustExist(whenGood, whenBad)
		}
		return r.Done
	})
	w.mustExist(whenBad)
	for _, hook := range []*unstructured.Unstructured{whenGood, good} {
		if w.exists(hook) {
			t.Errorf("the sync succeeded, and %s is still there", hook.GetName())
		}
	}
}

func TestAHookOfRemovalThatRunsAgainHasWhatItNeeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	account := annotated(manifest(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: runner}}`),
		"helm.sh/hook", "pre-delete", "helm.sh/hook-weight", "-1", "helm.sh/hook-delete-policy", "hook-succeeded")
	bad := annotated(failing("backup"), "helm.sh/hook", "pre-delete")
	w.settles(w.request(configMap("web", "1")))
	w.eventually("the hook to fail", func() bool { return !w.remove(account, bad).Complete() })
	if w.exists(account) {
		t.Error("the account that the hook needed is still there")
	}

	background := metav1.DeletePropagationBackground
	if err := w.resource(bad).Delete(t.Context(), "backup", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	var made created
	w.engine = w.newEngine(made.wrap)
	mended := annotated(job("backup"), "helm.sh/hook", "pre-delete")
	must(0, unstructured.SetNestedField(mended.Object, "runner", "spec", "template", "spec", "serviceAccountName"))
	w.eventually("the removal to be done", func() bool { return w.remove(account, mended).Done })
	if got := fmt.Sprint(made.seen); got != "[serviceaccounts jobs]" {
		t.Errorf("made %s", got)
	}
}

func TestNullsAmongLabelsAndAnnotationsAreEmptyAsForAnAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crd, custom := w.definition()
	workload := deployment("web", "one")
	must(0, unstructured.SetNestedField(workload.Object, map[string]any{"checksum": nil}, "spec", "template", "metadata", "annotations"))
	hook := annotated(configMap("hook", "1"), "plural.sh/hook", "pre-sync")
	hook.Object["metadata"].(map[string]any)["annotations"].(map[string]any)["empty"] = nil
	nothing := configMap("nothing", "1")
	for field, value := range map[string]any{"labels": nil, "annotations": nil, "namespace": nil} {
		must(0, unstructured.SetNestedField(nothing.Object, value, "metadata", field))
	}
	some := map[string]any{"annotations": map[string]any{"empty": nil, "full": "1"}, "labels": map[string]any{"empty": nil, "app": "web"}}
	settings := configMap("settings", "1")
	for _, obj := range []*unstructured.Unstructured{settings, custom, workload} {
		for field, value := range some {
			must(0, unstructured.SetNestedField(obj.Object, value, "metadata", field))
		}
	}
	objects := []*unstructured.Unstructured{crd, custom, workload, hook, nothing, settings}
	w.settles(w.request(objects...))

	for _, obj := range []*unstructured.Unstructured{settings, custom, workload} {
		plain := obj.DeepCopy()
		plain.SetName(obj.GetName() + "-plain")
		want := must(w.resource(plain).Create(t.Context(), plain, metav1.CreateOptions{}))
		live := w.live(obj)
		for field := range some {
			for key, value := range must2(unstructured.NestedStringMap(want.Object, "metadata", field)) {
				got, there := must2(unstructured.NestedStringMap(live.Object, "metadata", field))[key]
				if (!there || got != value) && !strings.HasPrefix(key, "deployment.") {
					t.Errorf("%s: %s %s is %q (%t), and %q after a create", obj.GetName(), field, key, got, there, value)
				}
			}
		}
	}
	if annotations := w.live(hook).GetAnnotations(); annotations["empty"] != "" || annotations["plural.sh/hook"] != "pre-sync" {
		t.Errorf("the hook has annotations %v", annotations)
	}

	versions := map[string]string{}
	for _, obj := range objects[1:] {
		versions[obj.GetName()] = w.live(obj).GetResourceVersion()
	}
	again := w.request(objects...)
	again.Key, again.Revision = "the same with another key", w.request(objects...).Key
	for _, o := range w.settles(again).Objects {
		if o.Action != apply.Unchanged {
			t.Errorf("%s %s again", o.Action, o.Name)
		}
	}
	must(0, w.resource(settings).Delete(t.Context(), "settings-plain", metav1.DeleteOptions{}))
	for _, obj := range []*unstructured.Unstructured{custom, hook, nothing, settings} {
		if got := w.live(obj).GetResourceVersion(); got != versions[obj.GetName()] {
			t.Errorf("%s was written again", obj.GetName())
		}
	}
}

// must2 is must for what also says whether it is there.
func must2[T any](value T, _ bool, err error) T { return must(value, err) }

// What no inventory names when the engine dies, nobody finds again.
func TestAHookIsInTheInventoryBeforeItIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := annotated(configMap("hook", "1"), "plural.sh/hook", "pre-sync")
	known := make(chan bool, 1)
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/namespaces/"+w.namespace+"/configmaps") {
				_, inv := w.recorded()
				known <- slices.ContainsFunc(slices.Collect(maps.Keys(inv.Hooks)), func(id inventory.HookID) bool { return id.ID == w.id(hook) })
			}
			return next.RoundTrip(r)
		})
	})

	w.follows(w.request(hook, configMap("web", "1")), isDone)

	if !<-known {
		t.Error("the hook was made before the inventory named it")
	}
}

// foreign is a hook as whoever may write into the namespace can make it: with all that is known of it beforehand.
func (w *world) foreign(hook *unstructured.Unstructured, stage string, req apply.Request) *unstructured.Unstructured {
	w.Helper()
	made := annotated(hook, "plural.sh/run", req.Key+"/"+stage, "plural.sh/run-proof", "guessed")
	made.SetLabels(map[string]string{"plural.sh/service": w.service})
	w.create(made)
	return w.live(made)
}

func TestAHookThatSomebodyElseMadeBeforeIsNotTakenForRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := annotated(configMap("migrate", "real"), "plural.sh/hook", "pre-sync")
	req := w.request(hook, configMap("web", "1"))
	forged := w.foreign(configMap("migrate", "forged"), "pre-sync", req)
	var notes []string
	w.follows(req, func(r *apply.Result) bool {
		notes = append(notes, r.Notes...)
		return r.Done
	})
	if live := w.live(hook); live.GetUID() == forged.GetUID() || w.value("migrate") != "real" {
		t.Errorf("the hook never ran: there is %q", w.value("migrate"))
	}
	if !strings.Contains(strings.Join(notes, " "), "migrate was there before the hook, with its label and not made by it") {
		t.Errorf("it is not said: %q", notes)
	}
}

func TestAHookThatIsNeverDeletedDeletesNothingInItsPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := annotated(configMap("migrate", "real"), "plural.sh/hook", "pre-sync", "plural.sh/hook-delete-policy", "never")
	req := w.request(hook, configMap("web", "1"))
	forged := w.foreign(configMap("migrate", "forged"), "pre-sync", req)
	w.follows(req, func(r *apply.Result) bool {
		return slices.ContainsFunc(r.Objects, func(o apply.ObjectResult) bool {
			return o.Name == "migrate" && o.Err != nil && o.Err.Reason == apply.Conflict && o.Err.Fix != ""
		})
	})
	if w.live(hook).GetUID() != forged.GetUID() || w.exists(configMap("web", "1")) {
		t.Error("it was deleted, or taken for the hook")
	}
}

func TestAHookThatSomebodyElsePutInItsPlaceHasFailedAndStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := annotated(failing("slow"), "plural.sh/hook", "pre-sync", "plural.sh/hook-delete-policy", "succeeded,failed")
	must(0, unstructured.SetNestedField(slow.Object, int64(600), "spec", "activeDeadlineSeconds"))
	req := w.request(slow, configMap("web", "1"))
	w.follows(req, func(*apply.Result) bool { return w.exists(slow) })
	proof := w.live(slow).GetAnnotations()["plural.sh/run-proof"]
	if proof == "" {
		t.Fatal("it carries no proof")
	}
	w.delete(slow)
	done := annotated(job("slow"), "plural.sh/run", req.Key+"/pre-sync", "plural.sh/run-proof", proof)
	done.SetLabels(map[string]string{"plural.sh/service": w.service})
	w.create(done)
	w.follows(req, func(r *apply.Result) bool {
		if r.Done {
			t.Fatal("its end was taken for the hook's")
		}
		return slices.ContainsFunc(r.Objects, func(o apply.ObjectResult) bool {
			return o.Name == "slow" && o.Err != nil && o.Err.Reason == apply.HookFailed
		})
	})
	notes := w.removed()
	if !w.exists(done) || !strings.Contains(notes, "was not made by it: delete it by hand") {
		t.Errorf("what somebody else made is there: %t; it is said: %q", w.exists(done), notes)
	}
}

// A hook that an older agent had planned and made carries no proof.
func TestAHookThatAnOlderAgentMadeRunsNoSecondTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := annotated(configMap("migrate", "1"), "plural.sh/hook", "pre-sync")
	web := configMap("web", "1")
	w.settles(w.request(web))
	req := w.request(hook, web)
	store, inv := w.recorded()
	inv.Hooks[inventory.HookID{ID: w.id(hook), Stage: order.PreSync}] = inventory.Hook{Run: req.Key}
	must(0, store.Save(t.Context(), inv))
	made := annotated(hook, "plural.sh/run", req.Key+"/pre-sync")
	made.SetLabels(map[string]string{"plural.sh/service": w.service})
	w.create(made)
	uid := w.live(made).GetUID()
	w.engine = w.newEngine(nil)
	w.settles(req)
	if w.live(hook).GetUID() != uid {
		t.Error("it ran again")
	}
}
