// Package channel owns what is checked of the reverse channel as a whole, on real programs.
//
// It refuses to know how the parts work. The same is done twice, at a cluster's API server directly and through the hub,
// and what comes back is compared byte for byte: whatever Kubernetes' own clients do must go through the hub unchanged. Where
// the hub differs on purpose, that stands in the lists of compare_test.go and refused_test.go, and nowhere else.
package channel

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// patience bounds whatever is waited for.
const patience = time.Minute

// Whom clusters see when the hub's operator asks.
const (
	operator  = tunnelapi.Prefix + "operator"
	operators = tunnelapi.Prefix + "operators"
)

// side is one of the two ways to a cluster.
type side struct {
	name   string
	config *rest.Config // as the hub's operator
	client *http.Client // HTTP/2, answers as they come: neither decompressed nor redirected
	one    *http.Client // the same by HTTP/1.1
	base   string       // URL without a slash at its end
	mount  string       // path of base
}

// world is a cluster with both ways to it.
type world struct {
	*testing.T
	*kubetest.Cluster
	direct, through side
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, Cluster: kubetest.Start(t)}
	w.grant(operators, "cluster-admin")
	direct := rest.CopyConfig(w.RESTConfig)
	direct.Impersonate = rest.ImpersonationConfig{UserName: operator, Groups: []string{operators}}
	w.direct, w.through = w.side("direct", direct), w.side("through", hub(t, w.Cluster))
	return w
}

func (w *world) side(name string, config *rest.Config) side {
	w.Helper()
	config.DisableCompression, config.QPS, config.Timeout = true, -1, 0
	base, err := url.Parse(config.Host)
	if err != nil {
		w.Fatal(err)
	}
	s := side{name: name, config: config, base: strings.TrimSuffix(config.Host, "/"), mount: strings.TrimSuffix(base.Path, "/")}
	s.client = w.httpClient(config)
	old := rest.CopyConfig(config)
	old.NextProtos = []string{"http/1.1"}
	s.one = w.httpClient(old)
	return s
}

func (w *world) httpClient(config *rest.Config) *http.Client {
	w.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		w.Fatal(err)
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// each runs a test by each way. The two have a namespace of their own.
func (w *world) each(test func(t *testing.T, s side, namespace string)) {
	w.Helper()
	for _, s := range []side{w.direct, w.through} {
		w.Run(s.name, func(t *testing.T) { test(t, s, kubetest.Start(t).Namespace) })
	}
}

// grant binds a group to a role of the whole cluster. It stays as long as the cluster: others may rely on it.
func (w *world) grant(group, role string) {
	w.Helper()
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": map[string]any{"name": strings.ReplaceAll(group, ":", "-")},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}},
	}}
	bindings := w.Dynamic.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"})
	if _, err := bindings.Apply(w.Context(), binding.GetName(), binding, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		w.Fatalf("grant %s: %v", role, err)
	}
}

// dynamicClient is client-go's.
func (s side) dynamicClient(t testing.TB) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// pod creates a pod of the simulated node and waits until it runs.
func (w *world) pod(namespace, name string, annotations map[string]any) {
	w.Helper()
	pods := w.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "annotations": annotations, "labels": map[string]any{"app": name}},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "none"}}},
	}}
	if _, err := pods.Create(w.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	eventually(w.T, "the pod runs", func() bool {
		pod, err := pods.Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		return phase == "Running"
	})
}

// eventually looks until what is seen is right.
func eventually(t testing.TB, what string, right func() bool) {
	t.Helper()
	deadline := time.After(patience)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !right() {
		select {
		case <-deadline:
			t.Fatalf("%s: not after %v", what, patience)
		case <-look.C:
		}
	}
}

// configMaps is the path of a namespace's ConfigMaps.
func configMaps(namespace string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/configmaps", namespace)
}
