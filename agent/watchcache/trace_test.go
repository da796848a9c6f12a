package watchcache_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/watchcache"
)

// trace reads an object's trace both ways, which must agree.
func (w *world) trace(obj *unstructured.Unstructured) string {
	w.Helper()
	client, res := w.resource(obj)
	live, err := client.Get(w.Context(), obj.GetName(), metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	meta, err := w.metadata.Resource(res).Namespace(w.Namespace).Get(w.Context(), obj.GetName(), metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	whole, brief := watchcache.Of(live, nil), watchcache.OfMetadata(meta)
	if whole.Trace != brief.Trace {
		w.Fatalf("the trace of the object is %q, of its metadata %q", whole.Trace, brief.Trace)
	}
	brief.Health, brief.ResourceVersion = whole.Health, whole.ResourceVersion // controllers write in between
	if whole != brief {
		w.Errorf("the object says %+v, its metadata %+v", whole, brief)
	}
	return whole.Trace
}

// TestTheTraceFollowsOurFieldsAlone asserts of a real API server what drift detection relies on.
func TestTheTraceFollowsOurFieldsAlone(t *testing.T) {
	w := newWorld(t)
	mine := deployment("web", "one")
	steps := []struct {
		what    string
		do      func() *unstructured.Unstructured
		changes bool
	}{
		{"an apply of the same", func() *unstructured.Unstructured { return w.apply(mine) }, false},
		{"a status", func() *unstructured.Unstructured {
			return w.patch(mine, "controller", `{"status":{"replicas":1,"readyReplicas":1,"updatedReplicas":1}}`, "status")
		}, false},
		{"another's label", func() *unstructured.Unstructured {
			return w.patch(mine, "kubectl-label", `{"metadata":{"labels":{"theirs":"yes"}}}`)
		}, false},
		{"a scale of replicas, which we do not set", func() *unstructured.Unstructured {
			return w.patch(mine, "autoscaler", `{"spec":{"replicas":3}}`, "scale")
		}, false},
		{"an injected container", func() *unstructured.Unstructured {
			return w.applyAs("mesh", parse(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: sidecar, image: proxy}]}}}
`))
		}, false},
		{"our value, applied by another too", func() *unstructured.Unstructured {
			return w.applyAs("sharer", parse(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {metadata: {labels: {app: web}}}}}`))
		}, false},
		{"an edit of our field", func() *unstructured.Unstructured {
			return w.patch(mine, "kubectl-edit", `{"spec":{"template":{"metadata":{"labels":{"app":"web"},"annotations":{"a":"b"}},"spec":{"containers":[{"name":"main","image":"edited"}]}}}}`)
		}, true},
		{"our apply over it", func() *unstructured.Unstructured { return w.apply(mine) }, true},
		{"another's forced apply", func() *unstructured.Unstructured {
			return w.applyAs("taker", parse(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [{name: main, image: taken}]}}}}`))
		}, true},
		{"our apply over that", func() *unstructured.Unstructured { return w.apply(mine) }, true},
		{"a removal of our field", func() *unstructured.Unstructured {
			return w.patch(mine, "kubectl-edit", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"one","ports":null}]}}}}`)
		}, true},
	}
	w.apply(mine)
	before := w.trace(mine)
	if raw, err := base64.RawURLEncoding.DecodeString(before); err != nil || len(raw) != 16 {
		t.Fatalf("trace %q", before)
	}
	for _, step := range steps {
		step.do()
		after := w.trace(mine)
		if changed := before != after; changed != step.changes {
			t.Errorf("after %s the trace changed: %t", step.what, changed)
		}
		before = after
	}
}

func TestAnObjectThatWeNeverAppliedHasNoTrace(t *testing.T) {
	w := newWorld(t)
	theirs := w.applyAs("theirs", w.labelled(configMap("a", "1")))
	if got := w.trace(theirs); got != "" {
		t.Errorf("trace %q", got)
	}
	if got := watchcache.Of(w.patch(theirs, "plural", `{"data":{"key":"2"}}`), nil); got.Trace != "" {
		t.Errorf("an update under our name, which is no apply, leaves the trace %q", got.Trace)
	}
}

func TestAnApplyOfTheSameLeavesTheObjectAlone(t *testing.T) {
	w := newWorld(t)
	for _, obj := range []*unstructured.Unstructured{
		configMap("a", "1"),
		parse(`{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: b}}`),
		parse(`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}`),
	} {
		first := w.apply(obj)
		again := w.apply(obj)
		if first.GetResourceVersion() != again.GetResourceVersion() || watchcache.Of(first, nil).Trace != watchcache.Of(again, nil).Trace {
			t.Errorf("%s: the second apply made version %s of %s", obj.GetKind(), again.GetResourceVersion(), first.GetResourceVersion())
		}
	}
}

// mutator is an admission webhook that writes over a field of what is applied, and adds one.
func (w *world) mutator() {
	w.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		var review struct {
			Request struct{ UID string }
		}
		_ = json.Unmarshal(body, &review)
		patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"replace","path":"/data/key","value":"theirs"},{"op":"add","path":"/data/more","value":"x"}]`))
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true,"patchType":"JSONPatch","patch":%q}}`,
			review.Request.UID, patch)
	}))
	w.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	hook := parse(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: mutate.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  matchPolicy: Equivalent
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  clientConfig: {url: %[2]q, caBundle: %[3]q}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
`, w.Namespace, server.URL, ca))
	hooks := w.Dynamic.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"})
	if _, err := hooks.Create(w.Context(), hook, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = hooks.Delete(w.Context(), w.Namespace, metav1.DeleteOptions{}) })
	probe := 0
	w.eventually("the webhook is asked", func() bool {
		probe++
		live := w.applyAs("probe", configMap(fmt.Sprintf("probe-%d", probe), "ours"))
		value, _, _ := unstructured.NestedString(live.Object, "data", "key")
		return value == "theirs"
	})
}

// TestAWebhookThatWritesOverOurFieldsDoesNotMakeTheTraceFlap shows that an object which never is what we want it to be
// still is as we left it, so that it is not healed over and over.
func TestAWebhookThatWritesOverOurFieldsDoesNotMakeTheTraceFlap(t *testing.T) {
	w := newWorld(t)
	w.mutator()
	left := watchcache.Of(w.apply(configMap("a", "ours")), nil)
	if live := w.trace(configMap("a", "")); live != left.Trace {
		t.Errorf("the answer's trace is %q, the live one %q", left.Trace, live)
	}
	w.follow("ConfigMap")
	w.patch(configMap("a", ""), "theirs", `{"metadata":{"annotations":{"a":"b"}}}`)
	if live := w.trace(configMap("a", "")); live != left.Trace {
		t.Errorf("after another's change the trace is %q, it was %q", live, left.Trace)
	}
}

// Another process under our name sets the same fields to other values: managedFields tell that by their time alone.
func TestTheTraceTellsTwoAppliesOfTheSameFieldsApart(t *testing.T) {
	applied := func(at string) *unstructured.Unstructured {
		return parse(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, managedFields: [{manager: plural, operation: Apply, apiVersion: v1,
			time: "` + at + `", fieldsType: FieldsV1, fieldsV1: {"f:data": {"f:key": {}}}}]}}`)
	}
	metadata := func(at string) metav1.Object {
		brief := &metav1.PartialObjectMetadata{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied(at).Object, brief); err != nil {
			t.Fatal(err)
		}
		return brief
	}
	const first, second = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
	if one, two := watchcache.Of(applied(first), nil).Trace, watchcache.Of(applied(second), nil).Trace; one == "" || one == two {
		t.Errorf("of the objects the traces are %q and %q", one, two)
	}
	if one, two := watchcache.OfMetadata(metadata(first)).Trace, watchcache.OfMetadata(metadata(second)).Trace; one == "" || one == two {
		t.Errorf("of the metadata the traces are %q and %q", one, two)
	}
}
