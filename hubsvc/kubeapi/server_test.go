package kubeapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/test/support/kubetest"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// kubernetes is a world whose cluster is a real API server, reached as agents do. Clients of Kubernetes keep connections.
func kubernetes(t *testing.T) (*world, *kubetest.Cluster) {
	t.Helper()
	kube := kubetest.Start(t)
	handler, err := apiproxy.New(apiproxy.Options{Kube: kube.RESTConfig, Cluster: "edge", Policy: func() apiproxy.Policy { return apiproxy.Policy{} }})
	if err != nil {
		t.Fatal(err)
	}
	return makeWorld(t, handler), kube
}

// config is what a person's kubeconfig says.
func (w *world) config(token string) *rest.Config {
	return &rest.Config{
		Host: w.server.URL + "/k8s/edge", BearerToken: token, Timeout: time.Minute, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(w.server.Certificate())},
	}
}

// bind lets ana do everything to ConfigMaps of the test's namespace; nobody else may do anything.
func bind(t *testing.T, kube *kubetest.Cluster) {
	t.Helper()
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	for resource, text := range map[string]string{
		"roles": `{"kind": "Role", "metadata": {"name": "ana"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]}`,
		"rolebindings": `{"kind": "RoleBinding", "metadata": {"name": "ana"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ana"},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "plural:devs"}]}`,
	} {
		object := new(unstructured.Unstructured)
		if err := json.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetAPIVersion(rbac.String())
		if _, err := kube.Dynamic.Resource(rbac.WithResource(resource)).Namespace(kube.Namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKubernetesClientsWorkAsThePersonTheyAre(t *testing.T) {
	w, kube := kubernetes(t)
	bind(t, kube)
	client, err := dynamic.NewForConfig(w.config("token-ana"))
	if err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(configMaps).Namespace(kube.Namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"}, "data": map[string]any{"a": "1"},
	}}
	var created *unstructured.Unstructured
	w.until("the role is known", func() bool {
		created, err = maps.Create(t.Context(), object, metav1.CreateOptions{})
		return !apierrors.IsForbidden(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: created.GetResourceVersion(), FieldSelector: "metadata.name=settings"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Patch(t.Context(), "settings", types.MergePatchType, []byte(`{"data": {"a": "2"}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if event := <-events.ResultChan(); event.Type != watch.Modified {
		t.Errorf("event is %v", event)
	}
	if err := maps.Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if event := <-events.ResultChan(); event.Type != watch.Deleted {
		t.Errorf("event is %v", event)
	}
	if _, err := maps.Get(t.Context(), "settings", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("error is %v", err)
	}
	// the cluster's own rules decide
	if _, err := client.Resource(configMaps).Namespace("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
	bob, err := dynamic.NewForConfig(w.config("token-bob"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Resource(configMaps).Namespace(kube.Namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
	// a watch of somebody whose token is gone ends, and cannot be begun again
	w.set(func() { delete(w.people, "token-ana") })
	w.Recheck()
	for range events.ResultChan() {
	}
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("error is %v", err)
	}
}

func TestDiscoveryThroughTheHubIsTheClustersOwn(t *testing.T) {
	w, kube := kubernetes(t)
	direct, err := discovery.NewDiscoveryClientForConfig(kube.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	through, err := discovery.NewDiscoveryClientForConfig(w.config("token-ana"))
	if err != nil {
		t.Fatal(err)
	}
	_, want, err := direct.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := through.ServerGroupsAndResources()
	if err != nil || len(got) != len(want) || len(got) == 0 {
		t.Errorf("%d groups, not %d: %v", len(got), len(want), err)
	}
}

func TestAgentRefusesAnIdentityOfAnotherCluster(t *testing.T) {
	kube := kubetest.Start(t)
	handler, err := apiproxy.New(apiproxy.Options{Kube: kube.RESTConfig, Cluster: "another", Policy: func() apiproxy.Policy { return apiproxy.Policy{} }})
	if err != nil {
		t.Fatal(err)
	}
	w := makeWorld(t, handler)
	if resp, body := w.get("/api/v1/namespaces"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("answer is %d %s", resp.StatusCode, body)
	}
}
