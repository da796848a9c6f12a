package apply_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/health"
)

// annotated is the object with an annotation more.
func annotated(obj *unstructured.Unstructured, pairs ...string) *unstructured.Unstructured {
	obj = obj.DeepCopy()
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for i := 0; i < len(pairs); i += 2 {
		annotations[pairs[i]] = pairs[i+1]
	}
	obj.SetAnnotations(annotations)
	return obj
}

func job(name string) *unstructured.Unstructured {
	return manifest(fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: main, image: one}]}}}`, name))
}

// follows calls the engine whenever it says that something changed, as an agent does, until a pass satisfies enough.
func (w *world) follows(req apply.Request, enough func(*apply.Result) bool) *apply.Result {
	w.Helper()
	deadline := time.After(time.Minute)
	for {
		result := w.pass(req)
		if enough(result) {
			return result
		}
		retry := time.NewTimer(30 * time.Second)
		if result.Retry > 0 {
			retry.Reset(result.Retry)
		}
		select {
		case <-w.engine.Changed():
			w.engine.Take()
		case <-retry.C:
		case <-deadline:
			w.Fatalf("it never comes to it: %q, waiting for %q, retry in %v", lines(result), result.Waiting, result.Retry)
		}
	}
}

func isDone(result *apply.Result) bool { return result.Done }

// created returns the requests that made something, in their order.
type created struct {
	mu   sync.Mutex
	seen []string
}

func (c *created) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil && answer.StatusCode == http.StatusCreated && !strings.Contains(r.URL.Path, "plural-system") {
			c.mu.Lock()
			defer c.mu.Unlock()
			name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			c.seen = append(c.seen, name)
		}
		return answer, err
	})
}

func TestAWaveBeginsWhenTheOneBeforeIsHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := annotated(deployment("first", "one"), "plural.sh/wave", "-1")
	then := annotated(configMap("then", "1"), "argocd.argoproj.io/sync-wave", "0")
	last := annotated(configMap("last", "1"), "plural.sh/wave", "5")

	result := w.apply(last, then, first)

	w.expect(result, "created Deployment/first", "waiting ConfigMap/then", "waiting ConfigMap/last")
	if !strings.Contains(result.Waiting, "Deployment.apps") || result.Done {
		t.Errorf("waits for %q, done %t", result.Waiting, result.Done)
	}
	w.follows(w.request(last, then, first), isDone)
	w.mustExist(then, last)
}

func TestAWaveThatFailsKeepsTheNextOneBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := annotated(configMap("Not_A_Name", "1"), "plural.sh/wave", "-1")
	then := configMap("then", "1")

	w.expect(w.apply(then, bad), "Invalid ConfigMap/Not_A_Name", "waiting ConfigMap/then")
	if w.exists(then) {
		t.Error("the next wave began")
	}
}

func TestHooksRunOnceForEachRevisionInTheirStages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var made created
	w.engine = w.newEngine(made.wrap)
	before := annotated(job("before"), "plural.sh/hook", "pre-sync")
	after := annotated(job("after"), "argocd.argoproj.io/hook", "PostSync", "argocd.argoproj.io/hook-delete-policy", "HookSucceeded")
	web := deployment("web", "one")

	w.follows(w.request(after, web, before), isDone)

	if want := []string{"jobs", "web", "jobs"}; !slices.Equal(made.seen, want) {
		t.Errorf("made %q, want %q", made.seen, want)
	}
	uid := w.live(before).GetUID()
	w.eventually("the hook that succeeded to be deleted", func() bool { return !w.exists(after) })
	w.follows(w.request(after, web, before), isDone)
	w.delete(web)
	w.follows(w.request(after, web, before), func(*apply.Result) bool { return w.exists(web) })
	if got := w.live(before).GetUID(); got != uid || w.exists(after) {
		t.Error("a hook ran again to heal")
	}

	w.follows(w.request(after, deployment("web", "two"), before), isDone)
	if got := w.live(before).GetUID(); got == uid {
		t.Error("the hook did not run for the new revision")
	}
}

func TestAHookThatFailsEndsTheSyncAndRunsItsHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := annotated(failing("bad"), "helm.sh/hook", "pre-install,pre-upgrade")
	alarm := annotated(configMap("alarm", "1"), "plural.sh/hook", "sync-fail")
	web := configMap("web", "1")

	result := w.follows(w.request(bad, alarm, web), func(r *apply.Result) bool { return !r.Complete() })

	if err := result.Objects[0].Err; err == nil || err.Reason != apply.HookFailed {
		t.Errorf("error %v, want %s", err, apply.HookFailed)
	}
	w.eventually("the hook for failures to run", func() bool { w.pass(w.request(bad, alarm, web)); return w.exists(alarm) })
	if w.exists(web) {
		t.Error("the sync went on")
	}
	uid := w.live(bad).GetUID()
	for range 3 {
		w.pass(w.request(bad, alarm, web))
	}
	if got := w.live(bad).GetUID(); got != uid {
		t.Error("the hook ran again for the same revision")
	}
}

func TestAHookIsNotMadeTwiceWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var lost, posts int
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") {
				if posts++; lost == 0 && err == nil {
					lost++
					_ = answer.Body.Close()
					return nil, fmt.Errorf("connection reset by peer")
				}
			}
			return answer, err
		})
	})
	hook := annotated(job("once"), "plural.sh/hook", "pre-sync")
	req := w.request(hook, configMap("web", "1"))

	w.eventually("the sync to be done", func() bool {
		result, err := w.engine.Apply(t.Context(), req)
		return err == nil && result.Done
	})

	if events := w.live(hook).GetGeneration(); events != 1 || posts > 2 {
		t.Errorf("generation %d after %d requests", events, posts)
	}
}

func TestDependsOnHoldsBackOneObjectAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := fmt.Sprintf("apps/namespaces/%s/Deployment/db", w.namespace)
	web := annotated(configMap("web", "1"), "config.kubernetes.io/depends-on", path)

	result := w.apply(web, deployment("db", "one"), configMap("free", "1"))
	if w.exists(web) {
		t.Errorf("it did not wait: %q", lines(result))
	}
	w.mustExist(configMap("free", "1"))
	w.follows(w.request(web, deployment("db", "one"), configMap("free", "1")), isDone)
	w.mustExist(web)
}

func TestAnObjectThatMovesBetweenServicesIsNeverDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	moving, own := configMap("moving", "1"), configMap("own", "1")
	w.apply(moving, own)
	uid := w.live(moving).GetUID()
	other := w.request(moving, configMap("other", "1"))
	other.Service = w.service + "-2"
	w.Cleanup(func() {
		_, _ = w.engine.Remove(context.WithoutCancel(t.Context()), apply.Removal{Service: other.Service})
	})

	w.expect(w.pass(other), "Conflict ConfigMap/moving", "created ConfigMap/other")
	w.expect(w.apply(own), "unchanged ConfigMap/own", "kept ConfigMap/moving")
	result := w.follows(other, isDone)

	w.expect(result, "configured ConfigMap/moving", "unchanged ConfigMap/other")
	if len(result.Notes) != 1 || !strings.Contains(result.Notes[0], "taken over from service "+w.service) {
		t.Errorf("notes %q", result.Notes)
	}
	w.follows(w.request(own), isDone)
	if got := w.live(moving).GetUID(); got != uid {
		t.Error("it was made anew")
	}
	w.expect(w.apply(own), "unchanged ConfigMap/own")
}

func TestAServiceThatIsOrphanedLeavesItsObjectsUnmarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	req := w.request(configMaps("a", 3)...)
	req.Orphan = true
	w.pass(req)

	result, err := w.engine.Remove(t.Context(), apply.Removal{Service: w.service})
	if err != nil || !result.Done {
		t.Fatalf("%+v, %v", result, err)
	}

	for _, obj := range configMaps("a", 3) {
		if labels := w.live(obj).GetLabels(); len(labels) > 0 {
			t.Errorf("%s has labels %v", obj.GetName(), labels)
		}
	}
	if w.exists(w.inventory()) {
		t.Error("the inventory is still there")
	}
}

func TestHooksOfRemovalRunAroundIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var made created
	w.engine = w.newEngine(made.wrap)
	web := configMap("web", "1")
	pre := annotated(job("pre"), "plural.sh/hook", "pre-delete")
	post := annotated(job("post"), "helm.sh/hook", "post-delete")
	w.follows(w.request(web, pre, post), isDone)
	if w.exists(pre) || w.exists(post) {
		t.Fatal("a hook of removal ran with the sync")
	}
	removal := apply.Removal{
		Service: w.service, Namespace: w.namespace,
		Objects: func(context.Context) ([]*unstructured.Unstructured, error) {
			return []*unstructured.Unstructured{web, pre, post}, nil
		},
	}

	result := must(w.engine.Remove(t.Context(), removal))
	if result.Done || !w.exists(pre) || !w.exists(web) {
		t.Errorf("the objects did not wait for the hook: %q", lines(result))
	}
	w.eventually("the service to be gone", func() bool { return must(w.engine.Remove(t.Context(), removal)).Done })

	if want := []string{"web", "jobs", "jobs"}; !slices.Equal(made.seen, want) {
		t.Errorf("made %q, want %q", made.seen, want)
	}
	w.eventually("nothing to be left", func() bool { return !w.exists(web) && !w.exists(pre) && !w.exists(post) })
}

func TestAnIdleServiceSendsNoRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var requests []string
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") == "" {
				mu.Lock()
				requests = append(requests, r.Method+" "+r.URL.Path)
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	req := w.request(append(configMaps("a", 20), deployment("web", "one"))...)
	w.follows(req, func(r *apply.Result) bool { return r.Done && r.Objects[20].Health.Phase == health.Healthy })
	mu.Lock()
	requests = nil
	mu.Unlock()
	req.Objects = func(context.Context) ([]*unstructured.Unstructured, error) {
		t.Error("a render was asked for")
		return nil, nil
	}

	for range 10 {
		if result := w.pass(req); !result.Done {
			t.Errorf("not done: %+v", result)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(requests) > 0 {
		t.Errorf("requests were sent: %q", requests)
	}
}

func TestAnEngineThatStartsAnewFindsEverythingAsItWasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	req := w.request(append(configMaps("a", 5), deployment("web", "one"))...)
	w.settles(req)
	w.engine = w.newEngine(nil)
	req.Objects = func(context.Context) ([]*unstructured.Unstructured, error) {
		t.Error("a render was asked for")
		return nil, nil
	}

	if result := w.pass(req); !result.Done || len(result.Objects) != 6 {
		t.Errorf("%+v", result)
	}
}

func TestNothingOutsideTheAllowedNamespacesIsTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outside := configMap("outside", "1")
	outside.SetNamespace("default")
	role := manifest(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ` + w.namespace + `}, rules: []}`)
	req := w.request(configMap("inside", "1"), outside, role)
	req.Namespaces = []string{w.namespace}

	w.expect(w.pass(req), "created ConfigMap/inside", "OutOfBounds ConfigMap/outside", "OutOfBounds ClusterRole/"+w.namespace)
	if w.exists(outside) || w.exists(role) {
		t.Error("something outside was made")
	}
}

func TestObjectsAreAppliedAndDeletedAsTheServiceAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, text := range []string{
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer}}`,
		`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create, patch, delete]}]
`,
		`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer}]
`,
	} {
		w.create(manifest(text))
	}
	w.eventually("the role to be in force", func() bool {
		req := w.request(configMap("settings", "1"), manifest(`{apiVersion: v1, kind: Secret, metadata: {name: refused}}`))
		req.Account = w.namespace + "/deployer"
		result := w.pass(req)
		return result.Objects[0].Err == nil && result.Objects[1].Err != nil && result.Objects[1].Err.Reason == apply.Forbidden
	})

	result := w.settles(func() apply.Request {
		req := w.request(configMap("other", "1"))
		req.Account = w.namespace + "/deployer"
		return req
	}())
	if w.exists(configMap("settings", "1")) {
		t.Errorf("not deleted: %q", lines(result))
	}
	w.patch(manifest(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: deployer}}`), `{"rules":[]}`)
	w.eventually("the removal to be refused", func() bool {
		result, err := w.engine.Remove(t.Context(), apply.Removal{Service: w.service})
		return err == nil && !result.Complete()
	})
	w.mustExist(configMap("other", "1"))
}
