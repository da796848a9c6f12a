package watchcache_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// world is one service, in a namespace of its own on a real API server, and an Observer.
type world struct {
	testing.TB
	*kubetest.Cluster
	*watchcache.Observer
	metadata metadata.Interface
	service  string

	mu   sync.Mutex
	told map[string]int // "service Kind.group namespace/name"
}

func newWorld(t testing.TB) *world { return newWorldVia(t, nil) }

// newWorldVia lets adjust change the Observer's options before it runs.
func newWorldVia(t testing.TB, adjust func(*rest.Config, *watchcache.Options)) *world {
	t.Helper()
	cluster := kubetest.Start(t)
	w := &world{TB: t, Cluster: cluster, service: cluster.Namespace, told: map[string]int{}}
	w.metadata = w.metadataClient(cluster.RESTConfig)
	config := rest.CopyConfig(cluster.RESTConfig)
	o := watchcache.Options{Changed: func(service string, id object.ID) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told[service+" "+id.String()]++
	}}
	if adjust != nil {
		adjust(config, &o)
	}
	var err error
	if o.Objects, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	o.Metadata = w.metadataClient(config)
	w.Observer = watchcache.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

func (w *world) metadataClient(config *rest.Config) metadata.Interface {
	w.Helper()
	client, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		w.Fatal(err)
	}
	return client
}

func (w *world) catalog() *kinds.Catalog {
	w.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(w.RESTConfig)
	if err != nil {
		w.Fatal(err)
	}
	catalog, err := kinds.New(client).Refresh(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return catalog
}

// follow follows kinds, named as "Deployment.apps", which must succeed.
func (w *world) follow(names ...string) {
	w.Helper()
	for gk, err := range w.Follow(w.Context(), w.resources(names...)) {
		w.Fatalf("follow %s: %v", gk, err)
	}
}

func (w *world) resources(names ...string) map[schema.GroupKind]kinds.Resource {
	w.Helper()
	catalog, out := w.catalog(), map[schema.GroupKind]kinds.Resource{}
	for _, name := range names {
		gk := schema.ParseGroupKind(name)
		res, ok := catalog.Find(gk.WithVersion("none"))
		if !ok {
			w.Fatalf("no kind %s", name)
		}
		out[gk] = res
	}
	return out
}

func (w *world) resource(obj *unstructured.Unstructured) (dynamic.ResourceInterface, schema.GroupVersionResource) {
	res := obj.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(obj.GetKind()) + "s")
	if obj.GetKind() == "CustomResourceDefinition" || obj.GetKind() == "Namespace" {
		return w.Dynamic.Resource(res), res
	}
	return w.Dynamic.Resource(res).Namespace(w.Namespace), res
}

// apply applies an object as the engine does.
func (w *world) apply(obj *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	return w.applyAs(object.Manager, w.labelled(obj))
}

func (w *world) labelled(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj = obj.DeepCopy()
	obj.SetLabels(map[string]string{object.ServiceLabel: w.service})
	return obj
}

func (w *world) applyAs(manager string, obj *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	client, _ := w.resource(obj)
	live, err := client.Apply(w.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		w.Fatal(err)
	}
	return live
}

func (w *world) patch(obj *unstructured.Unstructured, manager, patch string, subresources ...string) *unstructured.Unstructured {
	w.Helper()
	client, _ := w.resource(obj)
	live, err := client.Patch(w.Context(), obj.GetName(), types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: manager}, subresources...)
	if err != nil {
		w.Fatal(err)
	}
	return live
}

func (w *world) delete(obj *unstructured.Unstructured) {
	w.Helper()
	client, _ := w.resource(obj)
	if err := client.Delete(w.Context(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) id(obj *unstructured.Unstructured) object.ID {
	id := object.Of(obj)
	if id.Namespace == "" && !id.IsDefinition() && !id.IsNamespace() {
		id.Namespace = w.Namespace
	}
	return id
}

func (w *world) facts(obj *unstructured.Unstructured) watchcache.Facts {
	f, _ := w.Get(w.id(obj))
	return f
}

// tells counts how often a service was told of an object.
func (w *world) tells(service string, obj *unstructured.Unstructured) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told[service+" "+w.id(obj).String()]
}

// toldOnce waits until a service was told of an object that is new. Facts are there before they are told.
func (w *world) toldOnce(service string, obj *unstructured.Unstructured) int {
	w.Helper()
	w.eventually("an object is told", func() bool { return w.tells(service, obj) > 0 })
	return w.tells(service, obj)
}

func (w *world) eventually(what string, yes func() bool) {
	w.Helper()
	eventually(w, what, yes)
}

func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// reached waits until the watch has seen the object in this version, or a later one of its own.
func (w *world) reached(live *unstructured.Unstructured) watchcache.Facts {
	w.Helper()
	w.eventually("the watch is at "+live.GetResourceVersion(), func() bool {
		return w.facts(live).ResourceVersion == live.GetResourceVersion()
	})
	return w.facts(live)
}

func parse(text string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		panic(err)
	}
	return obj
}

func configMap(name, value string) *unstructured.Unstructured {
	return parse(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {key: %q}}`, name, value))
}

func deployment(name, image string) *unstructured.Unstructured {
	return parse(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
      - name: main
        image: %[2]q
        ports: [{containerPort: 8080}, {containerPort: 80}]
`, name, image))
}
