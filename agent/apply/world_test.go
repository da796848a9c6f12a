package apply_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// world is one service on a real API server, in a namespace of its own, and the eyes of somebody who looks past the
// engine.
type world struct {
	testing.TB
	config    *rest.Config
	objects   dynamic.Interface
	engine    *apply.Engine
	namespace string
	service   string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	cluster := kubetest.Start(t)
	w := &world{
		TB: t, config: cluster.RESTConfig, objects: cluster.Dynamic,
		namespace: cluster.Namespace, service: cluster.Namespace,
	}
	w.engine = w.newEngine(nil)
	w.removeLater(w.inventory())
	return w
}

// newEngine returns an engine whose requests pass through wrap.
func (w *world) newEngine(wrap func(http.RoundTripper) http.RoundTripper) *apply.Engine {
	w.Helper()
	config := rest.CopyConfig(w.config)
	config.Wrap(wrap)
	engine, err := apply.New(config, apply.Options{DigestKey: []byte("of this test")})
	if err != nil {
		w.Fatal(err)
	}
	w.run(engine)
	return engine
}

// run keeps an engine's watches until the test ends.
func (w *world) run(engine *apply.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.Cleanup(stop)
	return stop
}

// request asks for objects, under a key that is made of them.
func (w *world) request(objects ...*unstructured.Unstructured) apply.Request {
	sum := sha256.New()
	for _, obj := range objects {
		text, err := obj.MarshalJSON()
		if err != nil {
			w.Fatal(err)
		}
		sum.Write(text)
	}
	return apply.Request{
		Service: w.service, Namespace: w.namespace, Key: hex.EncodeToString(sum.Sum(nil)[:8]), Prune: true, Heal: true,
		Objects: func(context.Context) ([]*unstructured.Unstructured, error) { return objects, nil },
	}
}

// settles calls the engine as an agent does, until everything is done.
func (w *world) settles(req apply.Request) *apply.Result {
	w.Helper()
	var result *apply.Result
	w.eventually("a pass that is done", func() bool {
		result = w.pass(req)
		return result.Done
	})
	return result
}

func lines(result *apply.Result) []string {
	var got []string
	for _, o := range result.Objects {
		line := fmt.Sprintf("%s %s/%s", o.Action, o.GVK.Kind, o.Name)
		if o.Err != nil {
			line = fmt.Sprintf("%s %s/%s", o.Err.Reason, o.GVK.Kind, o.Name)
		}
		got = append(got, line)
	}
	return got
}

// apply runs one pass that must be carried through.
func (w *world) apply(objects ...*unstructured.Unstructured) *apply.Result {
	w.Helper()
	return w.pass(w.request(objects...))
}

func (w *world) pass(req apply.Request) *apply.Result {
	w.Helper()
	result, err := w.engine.Apply(w.Context(), req)
	if err != nil {
		w.Fatal(err)
	}
	return result
}

// expect compares "action kind/name" lines with a result.
func (w *world) expect(result *apply.Result, want ...string) {
	w.Helper()
	got := lines(result)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("result (-want +got):\n%s", diff)
		for _, o := range result.Objects {
			w.Logf("%s/%s: %s %v", o.GVK.Kind, o.Name, o.Message, o.Err)
		}
	}
}

func (w *world) resource(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	resource := strings.ToLower(obj.GetKind()) + "s"
	gvr := obj.GroupVersionKind().GroupVersion().WithResource(resource)
	namespace := obj.GetNamespace()
	switch obj.GetKind() {
	case "Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicyBinding":
		return w.objects.Resource(gvr)
	case "ValidatingAdmissionPolicy":
		return w.objects.Resource(gvr.GroupVersion().WithResource("validatingadmissionpolicies"))
	}
	if namespace == "" {
		namespace = w.namespace
	}
	return w.objects.Resource(gvr).Namespace(namespace)
}

func (w *world) live(obj *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	live, err := w.resource(obj).Get(w.Context(), obj.GetName(), metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return live
}

func (w *world) exists(obj *unstructured.Unstructured) bool {
	w.Helper()
	_, err := w.resource(obj).Get(w.Context(), obj.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	return err == nil
}

// mustExist fails the test for each object that is not there.
func (w *world) mustExist(objects ...*unstructured.Unstructured) {
	w.Helper()
	for _, obj := range objects {
		if !w.exists(obj) {
			w.Errorf("%s/%s is gone", obj.GetKind(), obj.GetName())
		}
	}
}

func (w *world) create(obj *unstructured.Unstructured) {
	w.Helper()
	if _, err := w.resource(obj).Create(w.Context(), obj, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.removeLater(obj)
}

// removeLater cleans up what does not go away with the test's namespace.
func (w *world) removeLater(obj *unstructured.Unstructured) {
	w.Cleanup(func() {
		_ = w.resource(obj).Delete(context.WithoutCancel(w.Context()), obj.GetName(), metav1.DeleteOptions{})
	})
}

func (w *world) delete(obj *unstructured.Unstructured) {
	w.Helper()
	if err := w.resource(obj).Delete(w.Context(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.eventually("deletion of "+obj.GetName(), func() bool { return !w.exists(obj) })
	w.eventually("the watches to see that "+obj.GetName()+" is gone", func() bool {
		_, there, followed := w.engine.Seen(w.id(obj))
		return !there || !followed
	})
}

func (w *world) patch(obj *unstructured.Unstructured, merge string) {
	w.Helper()
	live, err := w.resource(obj).Patch(context.WithoutCancel(w.Context()), obj.GetName(), types.MergePatchType, []byte(merge), metav1.PatchOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.noticed(live)
}

// noticed waits until the engine's watches have come to what somebody else has written.
func (w *world) noticed(live *unstructured.Unstructured) {
	w.Helper()
	w.eventually("the watches to see what became of "+live.GetName(), func() bool {
		facts, there, followed := w.engine.Seen(w.id(live))
		marked := live.GetLabels()[object.ServiceLabel] != ""
		return !followed || !there || marked && number(facts.ResourceVersion) >= number(live.GetResourceVersion())
	})
}

func number(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64) // an API server with etcd counts its writes
	return n
}

// id is what the engine calls an object of the test.
func (w *world) id(obj *unstructured.Unstructured) object.ID {
	id := object.Of(obj)
	if id.Namespace == "" && !slices.Contains(clusterWide(), id.Kind) {
		id.Namespace = w.namespace
	}
	return id
}

// clusterWide are the kinds in these tests that have no namespace.
func clusterWide() []string {
	return []string{
		"Namespace", "CustomResourceDefinition", "ClusterRole", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	}
}

func (w *world) eventually(what string, done func() bool) {
	w.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			w.Fatalf("waited in vain for %s", what)
		}
	}
}

// recorded is the service's inventory as it stands in the cluster.
func (w *world) recorded() (*inventory.Store, *inventory.Inventory) {
	w.Helper()
	store := inventory.NewStore(w.objects, must(metadata.NewForConfig(w.config)))
	return store, must(store.Load(context.WithoutCancel(w.Context()), w.service))
}

// intends has the inventory say something of an object, as an engine left it that another one comes after.
func (w *world) intends(entry inventory.Entry) {
	w.Helper()
	store, inv := w.recorded()
	inv.Key = ""
	inv.Entries[entry.ID] = entry
	if err := store.Save(w.Context(), inv); err != nil {
		w.Fatal(err)
	}
	w.engine = w.newEngine(nil)
}

func (w *world) inventory() *unstructured.Unstructured {
	return manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: plural-system, name: plural-inventory-` + w.service + `}}`)
}

// manifest reads one YAML document; a mistake in it is a mistake of the test.
func manifest(text string) *unstructured.Unstructured {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(data); err != nil {
		panic(err)
	}
	return obj
}

func configMap(name, value string) *unstructured.Unstructured {
	return manifest(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {key: %q}}`, name, value))
}

func configMaps(prefix string, count int) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for i := range count {
		objects = append(objects, configMap(fmt.Sprintf("%s-%03d", prefix, i), "1"))
	}
	return objects
}

func deployment(name, image string) *unstructured.Unstructured {
	return manifest(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: main, image: %[2]q}]}
`, name, image))
}

// definition is a CustomResourceDefinition in a group of the test's own, and an object of its kind.
func (w *world) definition() (crd, custom *unstructured.Unstructured) {
	group := w.namespace + ".example.com"
	crd = manifest(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, group))
	w.removeLater(crd)
	custom = manifest(fmt.Sprintf(`{apiVersion: %s/v1, kind: Thing, metadata: {name: one}, spec: {size: 1}}`, group))
	return crd, custom
}
