package apply_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/health"
)

// refusing is an engine whose deletions of some resource the API server refuses while the switch is on.
func (w *world) refusing(resource string) (refuse *atomic.Bool) {
	refuse = new(atomic.Bool)
	refuse.Store(true)
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && refuse.Load() && strings.Contains(r.URL.Path, "/"+resource+"/") {
				r.Header.Set("Impersonate-User", "nobody")
			}
			return next.RoundTrip(r)
		})
	})
	return refuse
}

// second is a request of another service, which is removed after the test.
func (w *world) second(objects ...*unstructured.Unstructured) apply.Request {
	req := w.request(objects...)
	req.Service = w.service + "-2"
	w.Cleanup(func() {
		_, _ = w.engine.Remove(context.WithoutCancel(w.Context()), apply.Removal{Service: req.Service})
	})
	return req
}

func (w *world) remove(hooks ...*unstructured.Unstructured) *apply.Result {
	w.Helper()
	result, err := w.engine.Remove(w.Context(), apply.Removal{
		Service: w.service, Namespace: w.namespace,
		Objects: func(context.Context) ([]*unstructured.Unstructured, error) { return hooks, nil },
	})
	if err != nil {
		w.Fatal(err)
	}
	return result
}

// withoutRender fails the test when the request's render is asked for.
func (w *world) withoutRender(req apply.Request) apply.Request {
	req.Objects = func(context.Context) ([]*unstructured.Unstructured, error) {
		w.Error("a render was asked for")
		return nil, nil
	}
	return req
}

func TestAServiceThatIsAskedForAgainDuringItsRemovalGetsBackWhatWasDeleted(t *testing.T) {
	t.Parallel()
	for _, heal := range []bool{true, false} {
		w := newWorld(t)
		refuse := w.refusing("configmaps")
		web, settings := deployment("web", "one"), configMap("settings", "1")
		req := w.request(web, settings)
		req.Heal = heal
		w.settles(req)

		if result := w.remove(); result.Done || w.exists(web) {
			t.Fatalf("the removal is not halfway: %q", lines(result))
		}
		refuse.Store(false)
		w.engine = w.newEngine(nil) // as after a restart, which forgets what was refused
		w.settles(req)

		w.mustExist(web, settings)
	}
}

func TestARemovalLeavesItsObjectsToAnotherServiceThatWantsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	moving := configMap("moving", "1")
	w.apply(moving)
	uid := w.live(moving).GetUID()
	other := w.second(moving)
	w.expect(w.pass(other), "Conflict ConfigMap/moving")

	w.expect(w.remove(), "kept ConfigMap/moving")
	w.follows(other, isDone)
	w.eventually("the removal to be done", func() bool { return w.remove().Done })

	if got := w.live(moving).GetUID(); got != uid {
		t.Error("it was made anew")
	}
}

func TestARemovalGoesOnAfterSomebodyTouchedTheInventory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(configMap("web", "1"))
	w.patch(w.inventory(), `{"metadata":{"annotations":{"seen":"by me"}}}`)

	w.eventually("the removal to be done", func() bool {
		result, err := w.engine.Remove(t.Context(), apply.Removal{Service: w.service})
		return err == nil && result.Done
	})
}

func TestARefusedDeleteIsTriedLessAndLessOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refuse := w.refusing("configmaps")
	objects := configMaps("a", 2)
	w.apply(objects...)

	w.eventually("a longer pause", func() bool { return w.apply(objects[0]).Retry > time.Second })
	w.mustExist(objects...)
	refuse.Store(false)
	w.follows(w.request(objects[0]), isDone)
	if w.exists(objects[1]) {
		t.Error("it was not deleted when that was possible")
	}
}

func TestWhatIsMadeOnceIsLeftToWhoeverMadeItBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMap("password", "theirs"))
	mine := annotated(configMap("password", "ours"), "kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent")
	missing := annotated(configMap("missing", "ours"), "kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent")
	req := w.request(mine, missing)

	w.expect(w.pass(req), "created ConfigMap/missing", "kept ConfigMap/password")
	w.patch(missing, `{"data":{"key":"edited"}}`)
	w.eventually("no more to be done", func() bool {
		rendered := false
		asked := req
		asked.Objects = func(ctx context.Context) ([]*unstructured.Unstructured, error) {
			rendered = true
			return req.Objects(ctx)
		}
		return w.pass(asked).Done && !rendered
	})

	for _, obj := range []*unstructured.Unstructured{mine, missing} {
		if got, _, _ := unstructured.NestedString(w.live(obj).Object, "data", "key"); got == "ours" {
			t.Errorf("%s was overwritten", obj.GetName())
		}
	}
}

func TestAHookThatMustNotBeDeletedIsNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claim := manifest(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	for _, hook := range []*unstructured.Unstructured{
		annotated(configMap("never", "1"), "plural.sh/hook", "pre-sync", "plural.sh/hook-delete-policy", "never"),
		annotated(claim, "plural.sh/hook", "pre-sync", "plural.sh/hook-delete-policy", "before-creation,succeeded,failed"),
	} {
		w.pass(w.request(hook, configMap("web", "1"))) // whether or not anything binds the claim
		uid := w.live(hook).GetUID()

		result := w.pass(w.request(hook, configMap("web", "2")))

		if len(result.Objects) == 0 || result.Objects[0].Err == nil || result.Objects[0].Err.Reason != apply.Conflict {
			t.Errorf("%q: want it refused", lines(result))
		}
		if live := w.live(hook); live.GetUID() != uid || live.GetDeletionTimestamp() != nil {
			t.Errorf("%s was deleted", hook.GetKind())
		}
	}
}

func TestAHookThatEndedWellAndThenWasDeletedDidEndWell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := annotated(job("quick"), "plural.sh/hook", "pre-sync")
	req := w.request(hook, configMap("web", "1"))
	w.pass(req)
	w.patch(hook, `{"metadata":{"finalizers":["example.com/wait"]}}`)
	w.eventually("the hook to end", func() bool { return health.Of(w.live(hook)).Phase == health.Healthy })
	if err := w.resource(hook).Delete(t.Context(), hook.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.patch(hook, `{"metadata":{"finalizers":null}}`)
	w.eventually("the hook to be gone", func() bool { return !w.exists(hook) })

	w.follows(req, isDone)
	if w.exists(hook) {
		t.Error("it ran again")
	}
}

func TestPermissionToDeleteIsHeededAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claim := manifest(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	stays := configMap("stays", "1")
	w.apply(claim, stays)
	w.expect(w.apply(stays), "unchanged ConfigMap/stays", "kept PersistentVolumeClaim/data")

	w.engine = w.newEngine(nil)
	for range 2 { // with a render, and without
		result := w.apply(stays)
		w.expect(result, "unchanged ConfigMap/stays", "kept PersistentVolumeClaim/data")
		if message := result.Objects[1].Message; !strings.Contains(message, "plural.sh/prune=allow") {
			t.Errorf("message %q does not say what to do", message)
		}
	}
	w.expect(w.pass(w.withoutRender(w.request(stays))), "unchanged ConfigMap/stays", "kept PersistentVolumeClaim/data")
	w.patch(claim, `{"metadata":{"annotations":{"plural.sh/prune":"allow"}}}`)
	w.eventually("the claim to be deleted", func() bool {
		return slices.Contains(lines(w.apply(stays)), "deleted PersistentVolumeClaim/data")
	})
}

func TestOtherPoliciesForTheSameRenderAreFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var made created
	w.engine = w.newEngine(made.wrap)
	hook := annotated(configMap("hook", "1"), "plural.sh/hook", "pre-sync", "plural.sh/hook-delete-policy", "succeeded")
	stays, goes := configMap("stays", "1"), configMap("goes", "1")
	w.settles(w.request(hook, stays, goes))
	req := w.request(hook, stays)
	req.Prune = false
	w.settles(req)
	w.mustExist(goes)
	ran := len(made.seen)

	req.Prune = true
	w.settles(req)

	if w.exists(goes) {
		t.Error("it is still there")
	}
	if len(made.seen) != ran {
		t.Errorf("a hook ran again: %q", made.seen)
	}
	req.Namespaces = []string{"elsewhere"}
	w.expect(w.pass(req), "OutOfBounds ConfigMap/hook", "OutOfBounds ConfigMap/stays")
}

func TestWithHealingOffNothingIsTouchedAndWhatIsMissingIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone, edited := configMap("gone", "1"), configMap("edited", "1")
	req := w.request(gone, edited)
	req.Heal = false
	w.settles(req)
	w.delete(gone)
	w.patch(edited, `{"data":{"key":"theirs"}}`)

	for _, orphan := range []bool{false, true} { // without a render, and with one
		req.Orphan = orphan
		w.eventually("what is missing to be told", func() bool {
			result := w.pass(req)
			return result.Done && result.Objects[1].Health.Phase == health.Degraded
		})
	}

	if value, _, _ := unstructured.NestedString(w.live(edited).Object, "data", "key"); value != "theirs" || w.exists(gone) {
		t.Error("something was healed")
	}
}

func TestARenderWithSomethingWrongInItGivesNothingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := configMap("mine", "1")
	w.apply(mine, configMap("other", "1"))
	w.expect(w.apply(annotated(mine, "plural.sh/wave", "first"), configMap("other", "1")), "unchanged ConfigMap/other", "Invalid ConfigMap/mine", "kept ConfigMap/mine")

	w.expect(w.pass(w.second(mine)), "Conflict ConfigMap/mine")
}

func TestAServiceWithNothingLeftWantsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, stays := configMap("mine", "1"), configMap("stays", "1")
	w.apply(mine)
	nothing := w.request()
	nothing.Acknowledged = []string{w.pass(nothing).Held.Token}
	w.settles(nothing)

	other := w.second(mine, stays)
	w.settles(other)
	other.Key, other.Objects = w.request(stays).Key, w.request(stays).Objects
	w.expect(w.pass(other), "unchanged ConfigMap/stays", "deleted ConfigMap/mine")
}

func TestAnObjectMayDependOnAHookThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := annotated(configMap("first", "1"), "plural.sh/hook", "pre-sync", "plural.sh/hook-delete-policy", "succeeded")
	web := annotated(configMap("web", "1"), "config.kubernetes.io/depends-on", fmt.Sprintf("/namespaces/%s/ConfigMap/first", w.namespace))
	req := w.request(hook, web)

	w.follows(req, isDone)
	w.delete(web)
	w.follows(req, func(*apply.Result) bool { return w.exists(web) })
}

func TestAnObjectThatBecomesAHookIsNoObjectAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(configMap("turned", "1"), configMap("stays", "1"))
	hook := annotated(configMap("turned", "1"), "plural.sh/hook", "pre-sync")

	w.follows(w.request(hook, configMap("stays", "1")), isDone)
	w.expect(w.apply(hook, configMap("stays", "1")), "unchanged ConfigMap/stays")
	w.eventually("the removal to be done", func() bool { return w.remove().Done })
	if w.exists(hook) {
		t.Error("the hook was left behind")
	}
}

func TestWhatWasAgreedToIsDeletedTurnByTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, then := deployment("first", "one"), configMap("then", "1")
	w.settles(w.request(first, then))
	w.patch(first, `{"metadata":{"finalizers":["example.com/wait"]}}`)
	req := w.request()
	req.Acknowledged = []string{w.pass(req).Held.Token}

	w.expect(w.pass(req), "deleted Deployment/first", "kept ConfigMap/then")
	w.patch(first, `{"metadata":{"finalizers":null}}`)
	w.follows(req, isDone)
	if w.exists(then) {
		t.Error("the second turn never came")
	}
}

func TestHooksOfASecondRemovalRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refuse := w.refusing("configmaps")
	web := configMap("web", "1")
	hook := annotated(manifest(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: backup}}`), "plural.sh/hook", "pre-delete")
	req := w.request(web, hook)
	w.settles(req)
	w.remove(hook)
	first := w.live(hook).GetUID()
	w.remove(hook)
	if got := w.live(hook).GetUID(); got != first {
		t.Fatal("the hook ran twice in one removal")
	}

	w.settles(req)
	w.eventually("the hook to run for the next removal", func() bool {
		w.remove(hook)
		return w.exists(hook) && w.live(hook).GetUID() != first
	})
	refuse.Store(false)
	w.eventually("the removal to be done", func() bool { return w.remove(hook).Done })
}

func TestAHookOfRemovalThatFailedRunsAgainOnceItIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web := configMap("web", "1")
	hook := annotated(failing("bad"), "plural.sh/hook", "pre-delete")
	w.settles(w.request(web))
	w.eventually("the hook to fail", func() bool { return !w.remove(hook).Complete() })
	for range 3 {
		if w.remove(hook).Done {
			t.Fatal("the removal did not wait for its hook")
		}
	}
	w.mustExist(web)

	background := metav1.DeletePropagationBackground
	if err := w.resource(hook).Delete(t.Context(), "bad", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(hook.Object, "spec", "activeDeadlineSeconds")
	unstructured.RemoveNestedField(hook.Object, "spec", "template", "spec", "nodeSelector")
	w.eventually("the removal to be done", func() bool { return w.remove(hook).Done })
}

func TestALostInventoryIsFoundAgainAndDeletesNothingUnasked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := configMaps("a", 3)
	w.apply(objects...)
	w.delete(w.inventory())
	w.engine = w.newEngine(nil)

	result := w.apply(objects[:2]...)

	w.expect(result, "unchanged ConfigMap/a-000", "unchanged ConfigMap/a-001", "kept ConfigMap/a-002")
	if result.Held == nil || !strings.Contains(result.Held.Message, "the inventory was lost") {
		t.Fatalf("held %+v does not say why", result.Held)
	}
	w.mustExist(objects...)
}

func TestALostInventoryIsFoundAgainWithKindsThatAreRenderedNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stays, goes := configMap("stays", "1"), deployment("goes", "example.com/web:1")
	w.apply(stays, goes)
	w.delete(w.inventory())
	w.engine = w.newEngine(nil)

	result := w.apply(stays)

	if result.Held == nil || len(result.Held.Names) != 1 || !strings.HasSuffix(result.Held.Names[0], "/goes") {
		t.Fatalf("held %+v: what only the lost inventory knew is forgotten", result.Held)
	}
	w.mustExist(stays, goes)
}

func TestAnInventoryThatWasMadeAnewStillKeepsWhatIsToBeKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keeps, goes := annotated(configMap("keeps", "1"), "helm.sh/resource-policy", "keep"), configMap("goes", "1")
	w.apply(keeps, goes)
	w.patch(w.inventory(), `{"binaryData":null,"data":{"inventory.json":"damaged"}}`)
	w.engine = w.newEngine(nil)

	w.eventually("the removal to be done", func() bool { return w.remove().Done })

	w.mustExist(keeps)
	if w.exists(goes) {
		t.Error("it is still there")
	}
}

func TestAServiceThatAnotherAgentAppliesIsNotTakenFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(configMap("own", "1")) // the engine has looked who is there
	mine := w.engine
	w.engine = w.newEngine(nil)
	theirs := configMap("theirs", "1")
	w.pass(w.second(theirs))
	w.eventually("the first engine to see it", func() bool {
		result := must(mine.Apply(t.Context(), w.request(configMap("own", "1"), theirs)))
		return slices.Contains(lines(result), "Conflict ConfigMap/theirs")
	})
}

func TestAHookOfAnotherServiceIsNotTakenForOnesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := annotated(configMap("hook", "1"), "plural.sh/hook", "pre-sync")
	first, other := w.request(hook), w.second(hook)
	first.Revision, other.Revision = "same", "same"
	w.settles(first)

	w.expect(w.pass(other), "Conflict ConfigMap/hook")
}

func TestObjectsThatFailAndTakeLongLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var failed atomic.Int32
	hang := make(chan struct{})
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if isApply(r) && strings.Contains(r.URL.Path, "/slow-") {
				if failed.Add(1) > 2 {
					<-hang
				}
				r.Header.Set("Impersonate-User", "nobody")
			}
			return next.RoundTrip(r)
		})
	})
	engine := must(apply.New(config, apply.Options{Parallel: 2}))
	w.run(engine)
	slow := w.second(configMaps("slow", 2)...)
	result := must(engine.Apply(t.Context(), slow))
	if result.Complete() {
		t.Fatal("nothing failed")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for failed.Load() <= 2 && t.Context().Err() == nil {
			_, _ = engine.Apply(t.Context(), slow)
		}
	}()
	w.eventually("a try that hangs", func() bool { return failed.Load() > 2 })

	quick := must(engine.Apply(t.Context(), w.request(configMap("quick", "1"))))

	if !quick.Done {
		t.Errorf("not done: %q", lines(quick))
	}
	close(hang)
	<-ended
}

// mortal is an engine that dies with its n-th request that changes something: it never reaches the API server, or its answer
// never comes back.
func (w *world) mortal(n int32, arrives bool, count func(*http.Request, *http.Response), kill func()) *apply.Engine {
	var sent atomic.Int32
	return w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return next.RoundTrip(r)
			}
			at := sent.Add(1)
			if at > n || at == n && !arrives {
				kill()
				return nil, errors.New("killed")
			}
			answer, err := next.RoundTrip(r)
			if err == nil {
				count(r, answer)
			}
			if err == nil && at == n {
				kill()
				_ = answer.Body.Close()
				return nil, errors.New("killed")
			}
			return answer, err
		})
	})
}

// TestAnEngineKilledAtAnyRequestIsFollowedByOneThatFinishes goes through all requests that change something, of a revision that
// adds, changes and drops objects and runs a hook.
func TestAnEngineKilledAtAnyRequestIsFollowedByOneThatFinishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := annotated(manifest(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: hook}}`),
		"plural.sh/hook", "pre-sync", "plural.sh/hook-delete-policy", "succeeded")
	for i := int32(0); ; i++ {
		// Both revisions are new each time, and the hook of the first has run.
		w.engine = w.newEngine(nil)
		before := w.request(configMap("stays", fmt.Sprint(i)), configMap("goes", "1"), hook)
		before.Key = fmt.Sprintf("%d-before", i)
		w.settles(before)
		after := w.request(configMap("stays", "changed"), configMap("comes", "1"), hook)
		after.Key = fmt.Sprintf("%d-after", i)
		var runs atomic.Int32
		count := func(r *http.Request, answer *http.Response) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/serviceaccounts") && answer.StatusCode == http.StatusCreated {
				runs.Add(1)
			}
		}

		life, kill := context.WithCancel(t.Context())
		mortal := w.mortal(i/2+1, i%2 == 0, count, kill)
		done := false
		for !done && life.Err() == nil {
			result, err := mortal.Apply(life, after)
			done = err == nil && result.Done
		}
		kill()
		w.engine = w.mortal(math.MaxInt32, true, count, func() {})
		w.settles(after)

		w.mustExist(configMap("stays", ""), configMap("comes", ""))
		if got := runs.Load(); got != 1 {
			t.Errorf("killed at request %d: the hook ran %d times", i/2+1, got)
		}
		if w.exists(configMap("goes", "")) {
			t.Errorf("killed at request %d: something was left behind", i/2+1)
		}
		if done {
			break
		}
		w.delete(configMap("comes", ""))
	}
}

func TestGoingBackAfterAKillBringsBackWhatTheKilledPassChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settles(w.request(configMap("settings", "1")))
	life, kill := context.WithCancel(t.Context())
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if isApply(r) && strings.HasSuffix(r.URL.Path, "/settings") {
				kill() // the change is made, and nobody writes down that it is
			}
			return answer, err
		})
	})
	_, _ = w.engine.Apply(life, w.request(configMap("settings", "2")))
	if got := w.value("settings"); got != "2" {
		t.Fatalf("the value is %q: the killed pass changed nothing", got)
	}

	w.engine = w.newEngine(nil)
	w.settles(w.request(configMap("settings", "1")))

	if got := w.value("settings"); got != "1" {
		t.Errorf("the value is %q, want that of the revision that was gone back to", got)
	}
}
