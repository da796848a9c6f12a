package servicetest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/servicetest"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
)

const key = "0123456789abcdef0123456789abcdef"

// patience is more than anything here takes on a busy machine.
const patience = 90 * time.Second

// world is a cluster with a service in it.
type world struct {
	*testing.T
	*kubetest.Cluster
	*servicetest.Runner
	target servicetest.Target
}

func start(t *testing.T) *world {
	t.Helper()
	t.Parallel() // each has a namespace of its own, and mostly waits
	cluster := kubetest.Start(t)
	cluster.RESTConfig.WarningHandlerWithContext = rest.NoWarnings{} // Endpoints are looked at on purpose
	objects, err := dynamic.NewForConfig(cluster.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Dynamic = objects
	w := &world{t, cluster, nil, servicetest.Target{Service: cluster.Namespace, Namespace: cluster.Namespace, Key: key}}
	w.restart()
	return w
}

// restart has a Runner that knows nothing of what the one before did.
func (w *world) restart() {
	w.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(w.RESTConfig)
	if err != nil {
		w.Fatal(err)
	}
	if w.Runner, err = servicetest.New(w.RESTConfig, kinds.New(client)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) try(test servicetest.Test) servicetest.Result {
	w.Helper()
	if test.Timeout == 0 {
		test.Timeout = patience
	}
	return w.Runner.Run(w.Context(), w.target, test)
}

func gvr(kind string) schema.GroupVersionResource {
	group := map[string]schema.GroupVersion{
		"jobs":         {Group: "batch", Version: "v1"},
		"roles":        {Group: "rbac.authorization.k8s.io", Version: "v1"},
		"rolebindings": {Group: "rbac.authorization.k8s.io", Version: "v1"},
	}[kind]
	if group.Version == "" {
		group.Version = "v1"
	}
	return group.WithResource(kind)
}

func (w *world) in(kind string) dynamic.ResourceInterface {
	return w.Dynamic.Resource(gvr(kind)).Namespace(w.Namespace)
}

func (w *world) create(kind, text string) *unstructured.Unstructured {
	w.Helper()
	obj, err := w.in(kind).Create(w.Context(), parse(w.T, text), metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return obj
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}

// manifest is a Job as it comes out of a JSON decoder.
func manifest(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// serve puts a handler behind a Service of the world, as a program in a Pod would be, and returns its address.
func (w *world) serve(name string, secure bool, handler http.Handler) string {
	w.Helper()
	at := w.listen(secure, handler)
	w.podAt(name, at.IP.String())
	w.create("services", fmt.Sprintf(
		`{apiVersion: v1, kind: Service, metadata: {name: %[1]s}, spec: {selector: {app: %[1]s}, ports: [{name: web, port: 80, targetPort: %[2]d}]}}`, name, at.Port))
	eventually(w.T, "endpoints of "+name, func() bool {
		endpoints, err := w.in("endpoints").Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		subsets, _, _ := unstructured.NestedSlice(endpoints.Object, "subsets")
		return len(subsets) > 0
	})
	return at.String()
}

// podAt makes a running Pod with an address of ours, on a node of ours: the simulated ones have nothing at their addresses, and the API
// server proxies to addresses of Pods alone.
func (w *world) podAt(name, ip string) {
	w.Helper()
	w.node(nil)
	w.create("pods", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s-0, labels: {app: %[1]s}}
spec: {nodeName: %[2]s, containers: [{name: main, image: none}]}
`, name, w.Namespace))
	w.patchStatus("pods", name+"-0", fmt.Sprintf(
		`{"phase": "Running", "podIP": %[1]q, "podIPs": [{"ip": %[1]q}], "conditions": [{"type": "Ready", "status": "True"}]}`, ip))
}

// node makes a node of the namespace's name that nobody simulates, and whose kubelet, if there is one, has the logs.
func (w *world) node(logs http.Handler) {
	w.Helper()
	nodes := w.Dynamic.Resource(gvr("nodes"))
	_, err := nodes.Create(w.Context(), parse(w.T, `{apiVersion: v1, kind: Node, metadata: {name: `+w.Namespace+`}}`), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := nodes.Delete(context.WithoutCancel(w.Context()), w.Namespace, metav1.DeleteOptions{}); err != nil {
			w.Error(err)
		}
	})
	if logs == nil {
		return
	}
	kubelet := w.listen(true, logs)
	status := fmt.Sprintf(`{"status": {"addresses": [{"type": "InternalIP", "address": %q}], "daemonEndpoints": {"kubeletEndpoint": {"Port": %d}}}}`,
		kubelet.IP, kubelet.Port)
	if _, err := nodes.Patch(w.Context(), w.Namespace, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		w.Fatal(err)
	}
}

// listen serves on an address that the API server reaches.
func (w *world) listen(secure bool, handler http.Handler) *net.TCPAddr {
	w.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(needs.Address(w.T), "0"))
	if err != nil {
		w.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if secure {
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		server.StartTLS()
	} else {
		server.Start()
	}
	w.Cleanup(server.Close)
	return listener.Addr().(*net.TCPAddr)
}

// eventually looks until what is seen is right.
func eventually(t *testing.T, what string, right func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !right() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after %v", what, patience)
		case <-look.C:
		}
	}
}

func (w *world) exists(kind, name string) bool {
	w.Helper()
	_, err := w.in(kind).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	return err == nil
}

func (w *world) list(kind string) []unstructured.Unstructured {
	w.Helper()
	list, err := w.in(kind).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	// On a node that nobody simulates, no kubelet ends a Pod's grace period.
	return slices.DeleteFunc(list.Items, func(obj unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil })
}

func (w *world) patchStatus(kind, name, status string) {
	w.Helper()
	_, err := w.in(kind).Patch(w.Context(), name, types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	if err != nil {
		w.Error(err)
	}
}
