package kinds_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// world is a real API server, whose discovery requests are counted.
type world struct {
	*testing.T
	*kubetest.Cluster
	*kinds.Kinds
	asked atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, Cluster: kubetest.Start(t)}
	config := rest.CopyConfig(w.RESTConfig)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/apis" {
				w.asked.Add(1)
			}
			return rt.RoundTrip(r)
		})
	})
	w.Kinds = newKinds(t, config)
	return w
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newKinds(t *testing.T, config *rest.Config) *kinds.Kinds {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return kinds.New(client)
}

func (w *world) with(wanted ...schema.GroupVersionKind) *kinds.Catalog {
	w.Helper()
	c, err := w.With(w.Context(), wanted)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (w *world) apply(res schema.GroupVersionResource, text string) {
	w.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		w.Fatal(err)
	}
	client := w.Dynamic.Resource(res)
	if _, err := client.Apply(w.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = client.Delete(context.WithoutCancel(w.Context()), obj.GetName(), metav1.DeleteOptions{}) })
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

func (w *world) group() string { return w.Namespace + ".example.com" }

func (w *world) thing() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: w.group(), Version: "v1", Kind: "Thing"}
}

func (w *world) define() {
	w.Helper()
	w.apply(definitions, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  scope: Cluster
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object}}
`, w.group()))
}

func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func TestACatalogSaysWhereKindsAreServed(t *testing.T) {
	w := newWorld(t)
	c := w.with()
	for _, tt := range []struct {
		gvk  schema.GroupVersionKind
		want kinds.Resource
	}{
		{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, kinds.Resource{
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true,
		}},
		{schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, kinds.Resource{
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Status: true,
		}},
		{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, kinds.Resource{
			GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespaced: true, Status: true,
		}},
	} {
		if got, ok := c.Exact(tt.gvk); !ok || got != tt.want || !c.Serves(tt.gvk) {
			t.Errorf("%s: %+v", tt.gvk, got)
		}
		if got, ok := c.Find(tt.gvk.GroupKind().WithVersion("v0")); !ok || got != tt.want {
			t.Errorf("%s in an old version: %+v", tt.gvk, got)
		}
		if _, ok := c.Exact(tt.gvk.GroupKind().WithVersion("v0")); ok {
			t.Errorf("%s is served in v0", tt.gvk)
		}
	}
	review := schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"}
	if _, ok := c.Find(review); ok {
		t.Error("a request that only looks like an object counts as one")
	}
	versions := c.Versions()
	for _, want := range []string{"v1", "v1/ConfigMap", "apps/v1", "apps/v1/Deployment", "authentication.k8s.io/v1/TokenReview"} {
		if !slices.Contains(versions, want) {
			t.Errorf("versions lack %s", want)
		}
	}
	if !slices.IsSorted(versions) {
		t.Error("versions are not sorted")
	}
	seen := map[schema.GroupKind]bool{}
	for gvk, res := range c.All() {
		if exact, ok := c.Exact(gvk); !ok || exact != res || seen[gvk.GroupKind()] {
			t.Errorf("all: %s at %v", gvk, res)
		}
		seen[gvk.GroupKind()] = true
	}
	if !seen[schema.GroupKind{Group: "apps", Kind: "Deployment"}] || seen[review.GroupKind()] {
		t.Error("all is not what can be watched")
	}
}

func TestDiscoveryIsAskedOnceForWhatIsServedAndOnceForWhatIsNot(t *testing.T) {
	w := newWorld(t)
	w.with(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	w.with(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	if got := w.asked.Load(); got != 1 {
		t.Errorf("asked %d times for what is served", got)
	}
	for range 3 {
		if w.with(w.thing()).Serves(w.thing()) {
			t.Fatal("the kind is served")
		}
	}
	if got := w.asked.Load(); got != 2 {
		t.Errorf("asked %d times, with one kind missing", got-1)
	}
	w.with(w.thing(), schema.GroupVersionKind{Group: w.group(), Version: "v1", Kind: "Other"})
	if got := w.asked.Load(); got != 3 {
		t.Errorf("asked %d times, with another kind missing", got-2)
	}
	w.define()
	eventually(t, "the kind is found after Forget", func() bool {
		w.Forget()
		return w.with(w.thing()).Serves(w.thing())
	})
	if res, _ := w.with(w.thing()).Exact(w.thing()); res.Namespaced || !res.Status || res.Resource != "things" {
		t.Errorf("%+v", res)
	}
}

func TestFollowTellsOfKindsThatComeAndGo(t *testing.T) {
	w := newWorld(t)
	client, err := metadata.NewForConfig(metadata.ConfigFor(w.RESTConfig))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var changes atomic.Int64
	ended := make(chan error, 1)
	go func() { ended <- w.Follow(ctx, client, func() { changes.Add(1) }) }()
	serves := func() bool { return w.with().Serves(w.thing()) }
	eventually(t, "the first look", func() bool { return w.asked.Load() > 0 })
	if serves() {
		t.Fatal("the kind is served")
	}
	w.define()
	eventually(t, "the new kind is known, unasked", func() bool { return serves() && changes.Load() > 0 })
	eventually(t, "the second look", func() bool { return w.asked.Load() >= 3 })
	asked, told := w.asked.Load(), changes.Load()
	things := w.Dynamic.Resource(definitions)
	if _, err := things.Patch(t.Context(), "things."+w.group(), types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a look after a change of the definition", func() bool { return w.asked.Load() > asked })
	if got := changes.Load(); got != told {
		t.Errorf("told %d times of nothing", got-told)
	}
	if err := things.Delete(t.Context(), "things."+w.group(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the kind is told", func() bool { return !serves() && changes.Load() > told })
	cancel()
	if err := <-ended; err == nil {
		t.Error("Follow ended with no error")
	}
}

func TestAGroupThatNobodyAnswersForIsSilent(t *testing.T) {
	w := newWorld(t)
	w.apply(apiServices, fmt.Sprintf(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.%[1]s}
spec:
  group: %[1]s
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {name: nobody, namespace: %[2]s}
`, w.group(), w.Namespace))
	eventually(t, "the group is silent", func() bool {
		w.Forget()
		c := w.with()
		return c.Silent(w.group()) && !c.Silent("apps") && c.Serves(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	})
}

// TestASilentGroupKeepsWhatWasKnown plays an API server whose extension stops answering.
func TestASilentGroupKeepsWhatWasKnown(t *testing.T) {
	var silent atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/api"):
			fmt.Fprint(rw, `{"kind":"APIVersions","versions":[]}`)
		case strings.HasSuffix(r.URL.Path, "/apis"):
			fmt.Fprint(rw, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"x.io","versions":[{"groupVersion":"x.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"x.io/v1","version":"v1"}}]}`)
		case silent.Load():
			http.Error(rw, "gone fishing", http.StatusServiceUnavailable)
		default:
			fmt.Fprint(rw, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"x.io/v1","resources":[
				{"name":"things","kind":"Thing","verbs":["get","list","watch","patch"]},{"name":"things/status","kind":"Thing","verbs":["get","patch"]}]}`)
		}
	}))
	defer server.Close()
	k := newKinds(t, &rest.Config{Host: server.URL})
	before, err := k.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	silent.Store(true)
	after, err := k.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	thing := schema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: "Thing"}
	was, _ := before.Exact(thing)
	is, ok := after.Find(thing.GroupKind().WithVersion("v0"))
	if !ok || is != was || !is.Status || before.Silent("x.io") || !after.Silent("x.io") || !slices.Equal(before.Versions(), after.Versions()) {
		t.Errorf("before %+v in %v, after %+v in %v", was, before.Versions(), is, after.Versions())
	}
	for gvk := range after.All() {
		if gvk != thing {
			t.Errorf("all holds %s", gvk)
		}
	}
	server.Close()
	if _, err := k.Refresh(t.Context()); err == nil {
		t.Error("nobody answers, and that is no error")
	}
	if c, err := k.With(t.Context(), []schema.GroupVersionKind{thing}); err != nil || c != after {
		t.Errorf("what is known is not used: %v", err)
	}
}
