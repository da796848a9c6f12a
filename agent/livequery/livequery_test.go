package livequery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/events"
	"github.com/pluralsh/plural/agent/livequery"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// world is what people look at: a namespace of a real API server, with the engine that applies a service there.
type world struct {
	*testing.T
	*kubetest.Cluster
	engine  *apply.Engine
	views   *livequery.Views
	service string
	// warnings are what the agent has read of Events.
	warnings *events.Reader
	watches  atomic.Int64 // open watches of the views
	whole    sync.Map     // paths that the views asked whole objects of
	refuse   atomic.Value // string: the resource that the views may not see
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newWorld(t *testing.T, idle time.Duration) *world {
	t.Helper()
	cluster := kubetest.Start(t)
	w := &world{T: t, Cluster: cluster, service: cluster.Namespace}
	w.refuse.Store("nothing")
	var err error
	if w.engine, err = apply.New(cluster.RESTConfig, apply.Options{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(cluster.RESTConfig)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return w.note(r, rt) })
	})
	objects, errObjects := dynamic.NewForConfig(config)
	meta, errMetadata := metadata.NewForConfig(config)
	if err := errors.Join(errObjects, errMetadata); err != nil {
		t.Fatal(err)
	}
	w.warnings = events.New(cluster.Dynamic, w.engine.Kinds(), slog.New(slog.DiscardHandler))
	w.views = livequery.New(livequery.Options{
		Objects: objects, Metadata: meta, Kinds: w.engine.Kinds(), Services: w.engine, Said: w.warnings.Said, Idle: idle,
		Mask: func(service, text string) string {
			if service == "" { // as while some service has not been opened
				return ""
			}
			return strings.ReplaceAll(text, "0/7", "*** of "+service)
		},
	})
	w.keep(w.engine.Run)
	w.keep(w.views.Run)
	return w
}

// keep runs something for as long as the test.
func (w *world) keep(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run(ctx)
	}()
	w.Cleanup(func() {
		cancel()
		<-ended
	})
}

func (w *world) note(r *http.Request, rt http.RoundTripper) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/"+w.refuse.Load().(string)) {
		r = r.Clone(r.Context())
		r.Header.Set("Impersonate-User", "nobody")
	}
	if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		w.whole.Store(r.URL.Path, true)
	}
	response, err := rt.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") == "" {
		return response, err
	}
	w.watches.Add(1)
	context.AfterFunc(r.Context(), func() { w.watches.Add(-1) })
	return response, nil
}

func parse(text string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		panic(err)
	}
	return obj
}

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
`

const settings = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: value}}`

// apply makes the service hold exactly these objects.
func (w *world) apply(key string, objects ...string) {
	w.Helper()
	var parsed []*unstructured.Unstructured
	for _, text := range objects {
		parsed = append(parsed, parse(text))
	}
	w.eventually("the service is applied", func() bool {
		result, err := w.engine.Apply(w.Context(), apply.Request{
			Service: w.service, Namespace: w.Namespace, Key: key, Heal: true, Prune: true, Budget: "100%",
			Objects: func(context.Context) ([]*unstructured.Unstructured, error) { return parsed, nil },
		})
		if err != nil {
			w.Fatal(err)
		}
		return result.Done
	})
}

func (w *world) client(resource string) dynamic.ResourceInterface {
	gv := schema.GroupVersion{Version: "v1"}
	if resource == "deployments" || resource == "replicasets" {
		gv.Group = "apps"
	}
	return w.Dynamic.Resource(gv.WithResource(resource)).Namespace(w.Namespace)
}

func (w *world) create(resource, text string) *unstructured.Unstructured {
	w.Helper()
	obj, err := w.client(resource).Create(w.Context(), parse(text), metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return obj
}

func (w *world) eventually(what string, yes func() bool) {
	w.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	w.Fatalf("never: %s", what)
}

// screen is what somebody sees who looks.
type screen struct {
	mu       sync.Mutex
	objects  map[string]*tunnelapi.Object
	events   int
	whole    bool
	ended    chan struct{}
	err      error
	close    context.CancelFunc
	hold     chan struct{} // sends wait for it
	largest  int
	snapshot int // objects that came before the end of the snapshot
}

// look looks, until the test or close ends it.
func (w *world) look(req *tunnelapi.ObjectsRequest) *screen {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	s := &screen{objects: map[string]*tunnelapi.Object{}, ended: make(chan struct{}), close: cancel, hold: make(chan struct{})}
	close(s.hold)
	go func() {
		defer close(s.ended)
		s.err = w.views.Objects(ctx, req, s.take)
	}()
	w.Cleanup(func() {
		cancel()
		<-s.ended
	})
	return s
}

func (s *screen) take(e *tunnelapi.ObjectsEvent) error {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	<-hold
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range e.GetChanged() {
		s.objects[o.GetUid()] = proto.CloneOf(o)
	}
	for _, uid := range e.GetDeleted() {
		delete(s.objects, uid)
	}
	if s.whole && e.GetSnapshot() {
		s.err = errors.New("a second snapshot")
	}
	if s.whole = s.whole || e.GetSnapshot(); s.snapshot == 0 && s.whole {
		s.snapshot = len(s.objects)
	}
	s.events++
	s.largest = max(s.largest, proto.Size(e))
	return nil
}

// lines are what is shown: the way down from what nothing owns, with applied objects marked by a star.
func (s *screen) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, o := range s.objects {
		line, at := "", o
		for at != nil {
			line = strings.TrimSuffix(at.GetKind()+"/"+line, "/")
			at = s.objects[at.GetOwner()]
		}
		if o.GetApplied() {
			line += "*"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func (s *screen) find(kind, name string) *tunnelapi.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range maps.Values(s.objects) {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	return nil
}

// tell are the kinds of the objects whose messages have a text.
func (s *screen) tell(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for o := range maps.Values(s.objects) {
		if strings.Contains(o.GetMessage(), text) {
			found = append(found, o.GetKind())
		}
	}
	slices.Sort(found)
	return found
}

func (s *screen) isWhole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole
}

func (w *world) shows(s *screen, want ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%v is shown", want), func() bool { return s.isWhole() && slices.Equal(s.lines(), want) })
}

func kindView(resource, namespace string) *tunnelapi.ObjectsRequest {
	view := &tunnelapi.View{Version: "v1", Resource: resource, Namespace: namespace}
	if resource == "deployments" {
		view.Group = "apps"
	}
	return &tunnelapi.ObjectsRequest{View: view}
}

func TestAServiceIsATreeDownToItsPods(t *testing.T) {
	w := newWorld(t, 0)
	w.apply("k1", web, settings)
	w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: foreign}}`)
	s := w.look(&tunnelapi.ObjectsRequest{Service: w.service})
	w.shows(s, "ConfigMap*", "Deployment*", "Deployment/ReplicaSet", "Deployment/ReplicaSet/Pod", "Deployment/ReplicaSet/Pod")
	w.eventually("the deployment is healthy", func() bool { return s.find("Deployment", "web").GetHealth() == "healthy" })
	deployment := s.find("Deployment", "web")
	if deployment.GetResource() != "deployments" || deployment.GetGroup() != "apps" || deployment.GetVersion() != "v1" ||
		deployment.GetNamespace() != w.Namespace || time.Since(time.UnixMilli(deployment.GetCreatedUnixMs())) > time.Hour {
		t.Errorf("deployment %v", deployment)
	}
	if _, err := w.client("deployments").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.shows(s, "ConfigMap*", "Deployment*", "Deployment/ReplicaSet", "Deployment/ReplicaSet/Pod")
	w.apply("k2", settings, `{apiVersion: v1, kind: ConfigMap, metadata: {name: more}}`)
	w.shows(s, "ConfigMap*", "ConfigMap*")
}

func TestATreeTellsWhatEventsSayOfWhatIsNotWell(t *testing.T) {
	w := newWorld(t, 0)
	w.apply("k1", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {serviceAccountName: nobody, containers: [{name: main, image: none}]}}`, settings)
	s := w.look(&tunnelapi.ObjectsRequest{Service: w.service})
	w.shows(s, "ConfigMap*", "Deployment*", "Deployment/ReplicaSet")
	web := events.Object{ID: object.ID{Group: "apps", Kind: "Deployment", Namespace: w.Namespace, Name: "web"}, UID: s.find("Deployment", "web").GetUid()}
	masked := func(text string) string { return strings.ReplaceAll(text, "nobody", "***") }
	w.eventually("the tree says why", func() bool {
		w.warnings.Of(t.Context(), w.service, []events.Object{web}, masked) // as each pass of the agent does
		return slices.Equal(s.tell(`serviceaccount "***" not found`), []string{"Deployment", "ReplicaSet"})
	})
}

func TestWhatAnObjectSaysOfItselfIsMasked(t *testing.T) {
	w := newWorld(t, 0)
	w.apply("k1", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 7
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {serviceAccountName: nobody, containers: [{name: main, image: none}]}}`)
	for name, view := range map[string]*tunnelapi.ObjectsRequest{"tree": {Service: w.service}, "kind": kindView("deployments", w.Namespace)} {
		s := w.look(view)
		w.eventually("the "+name+" shows it masked", func() bool {
			return strings.Contains(s.find("Deployment", "web").GetMessage(), "*** of "+w.service)
		})
	}
}

func TestAServiceThatHasNothingIsAnEmptyTree(t *testing.T) {
	w := newWorld(t, 0)
	s := w.look(&tunnelapi.ObjectsRequest{Service: "nobody-knows-it"})
	w.shows(s)
}

func TestWhatMayNotBeSeenIsLeftOutOfATree(t *testing.T) {
	w := newWorld(t, 0)
	w.refuse.Store("pods")
	w.apply("k1", web)
	w.shows(w.look(&tunnelapi.ObjectsRequest{Service: w.service}), "Deployment*", "Deployment/ReplicaSet")
}

func TestAKindIsFollowedInOneNamespace(t *testing.T) {
	w := newWorld(t, 0)
	first := w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}`)
	s := w.look(kindView("configmaps", w.Namespace))
	w.shows(s, "ConfigMap", "ConfigMap") // and kube-root-ca.crt
	if err := w.client("configmaps").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}`)
	w.eventually("the new one takes its place", func() bool { return s.find("ConfigMap", "one").GetUid() == string(second.GetUID()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[string(first.GetUID())] != nil || len(s.objects) != 2 {
		t.Errorf("shown: %v", s.objects)
	}
}

func TestNothingOfSecretsAndConfigMapsIsAskedFor(t *testing.T) {
	w := newWorld(t, 0)
	w.create("secrets", `{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {a: canary-1}}, stringData: {a: canary-2}}`)
	for _, resource := range []string{"secrets", "configmaps"} {
		s := w.look(kindView(resource, w.Namespace))
		w.eventually("they are shown", s.isWhole)
		s.mu.Lock()
		if text := fmt.Sprint(s.objects); strings.Contains(text, "canary") {
			t.Errorf("shown: %s", text)
		}
		s.mu.Unlock()
	}
	w.whole.Range(func(path, _ any) bool {
		if text := path.(string); strings.HasSuffix(text, "/secrets") || strings.HasSuffix(text, "/configmaps") {
			t.Errorf("whole objects of %s were asked for", text)
		}
		return true
	})
}

func TestLookersShareAWatchAndTheLastOneEndsIt(t *testing.T) {
	w := newWorld(t, 50*time.Millisecond)
	one, two := w.look(kindView("configmaps", w.Namespace)), w.look(kindView("configmaps", w.Namespace))
	w.eventually("both see", func() bool { return one.isWhole() && two.isWhole() })
	if got := w.views.Tables(); got != 1 {
		t.Errorf("%d tables for two readers of one kind", got)
	}
	w.eventually("it is watched", func() bool { return w.watches.Load() == 1 })
	one.close()
	<-one.ended
	w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: later}}`)
	w.eventually("the other still sees", func() bool { return two.find("ConfigMap", "later") != nil })
	two.close()
	w.eventually("nothing is watched any more", func() bool { return w.views.Tables() == 0 && w.watches.Load() == 0 })
}

func TestALookerWhoComesBackFindsTheTable(t *testing.T) {
	w := newWorld(t, time.Hour)
	one := w.look(kindView("configmaps", w.Namespace))
	w.eventually("it is seen", one.isWhole)
	one.close()
	<-one.ended
	w.eventually("it is watched", func() bool { return w.watches.Load() == 1 })
	w.refuse.Store("configmaps") // nothing new can be listed
	again := w.look(kindView("configmaps", w.Namespace))
	w.eventually("it is seen at once", again.isWhole)
}

func TestAStoppedReaderHoldsUpNobodyAndSeesTheNewestAfterwards(t *testing.T) {
	w := newWorld(t, 0)
	stopped, other := w.look(kindView("configmaps", w.Namespace)), w.look(kindView("configmaps", w.Namespace))
	w.eventually("both see", func() bool { return stopped.isWhole() && other.isWhole() })
	hold := make(chan struct{})
	stopped.mu.Lock()
	stopped.hold = hold
	stopped.mu.Unlock()
	w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}`)
	var last string
	for i := range 20 {
		obj, err := w.client("configmaps").Patch(t.Context(), "one", types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = obj.GetResourceVersion()
	}
	w.eventually("the other sees the last", func() bool { return other.find("ConfigMap", "one").GetResourceVersion() == last })
	close(hold)
	w.eventually("so does the stopped one", func() bool { return stopped.find("ConfigMap", "one").GetResourceVersion() == last })
	stopped.mu.Lock()
	defer stopped.mu.Unlock()
	if stopped.events > 5 {
		t.Errorf("%d events for 21 changes while it was stopped", stopped.events)
	}
}

func TestChangesAreSentSomeTimesASecondAtTheMost(t *testing.T) {
	w := newWorld(t, 0)
	s := w.look(kindView("configmaps", w.Namespace))
	w.eventually("it is seen", s.isWhole)
	started := time.Now()
	for i := range 50 {
		w.create("configmaps", fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}`, i))
	}
	w.eventually("all are seen", func() bool { return len(s.lines()) == 51 })
	most := 2 + int(time.Since(started)/(200*time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events-1 > most {
		t.Errorf("%d events in %v", s.events, time.Since(started))
	}
}

func TestWhatCannotBeLookedAtIsATypedError(t *testing.T) {
	w := newWorld(t, 0)
	w.refuse.Store("secrets")
	for _, tt := range []struct {
		name string
		req  *tunnelapi.ObjectsRequest
		code codes.Code
		says string
	}{
		{"nothing named", &tunnelapi.ObjectsRequest{}, codes.InvalidArgument, "either a service or a kind"},
		{"both named", &tunnelapi.ObjectsRequest{Service: "a", View: &tunnelapi.View{}}, codes.InvalidArgument, "either a service or a kind"},
		{"unknown kind", kindView("unicorns", ""), codes.NotFound, `no "unicorns"`},
		{"a namespace of what has none", kindView("nodes", "default"), codes.NotFound, "a namespace only where it has one"},
		{"refused", kindView("secrets", w.Namespace), codes.PermissionDenied, "allow the agent's account get, list and watch of secrets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := w.views.Objects(t.Context(), tt.req, func(*tunnelapi.ObjectsEvent) error { return nil })
			var typed *livequery.Error
			if !errors.As(err, &typed) || typed.Code != tt.code || !strings.Contains(err.Error(), tt.says) || typed.GRPCStatus().Code() != tt.code {
				t.Errorf("error %v", err)
			}
		})
	}
	w.eventually("what failed is not kept", func() bool { return w.views.Tables() == 0 })
}

func TestWhatIsServedNoLongerEndsTheView(t *testing.T) {
	w := newWorld(t, 0)
	group := w.Namespace + ".example.com"
	definitions := w.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	crd := parse(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`, group))
	if _, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is served", func() bool {
		catalog, err := w.engine.Kinds().Refresh(t.Context())
		return err == nil && catalog.Serves(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"})
	})
	s := w.look(&tunnelapi.ObjectsRequest{View: &tunnelapi.View{Group: group, Resource: "things"}})
	w.eventually("it is seen", s.isWhole)
	if err := definitions.Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	var typed *livequery.Error
	if !errors.As(s.err, &typed) || typed.Code != codes.NotFound {
		t.Errorf("error %v", s.err)
	}
}

func TestTheAgentsEndEndsEveryView(t *testing.T) {
	w := newWorld(t, 0)
	meta, err := metadata.NewForConfig(w.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	v := livequery.New(livequery.Options{Objects: w.Dynamic, Metadata: meta, Kinds: w.engine.Kinds(), Services: w.engine})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = v.Run(ctx)
	}()
	results := make(chan error, 2)
	for _, req := range []*tunnelapi.ObjectsRequest{kindView("deployments", w.Namespace), {Service: w.service}} {
		seen := make(chan struct{})
		go func() {
			once := sync.OnceFunc(func() { close(seen) })
			results <- v.Objects(t.Context(), req, func(*tunnelapi.ObjectsEvent) error {
				once()
				return nil
			})
		}()
		<-seen
	}
	cancel()
	for range 2 {
		var typed *livequery.Error
		if err := <-results; !errors.As(err, &typed) || typed.Code != codes.Unavailable {
			t.Errorf("error %v", err)
		}
	}
	<-ended
	if got := v.Tables(); got != 0 {
		t.Errorf("%d tables are left", got)
	}
}
