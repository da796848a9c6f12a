package channel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

const extension = "/apis/echo.example.com/v1"

// echoServer answers for an API group that is served by somebody else: with what arrived there.
func echoServer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == extension {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"echo.example.com/v1","resources":[
			{"name":"echoes","singularName":"echo","namespaced":false,"kind":"Echo","verbs":["get","create"]}]}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	heard := map[string]any{
		"method": r.Method, "target": r.RequestURI, "body": string(body), "user": r.Header["X-Remote-User"], "groups": r.Header["X-Remote-Group"],
		"accept": r.Header["Accept"], "custom": r.Header["X-Custom"], "cookie": r.Header["Cookie"], "authorization": r.Header["Authorization"],
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header()["X-Many"] = []string{"one", "two"}
	w.Header().Set("Trailer", "X-After")
	if strings.Contains(r.URL.Path, "teapot") {
		w.WriteHeader(http.StatusTeapot)
	}
	_ = json.NewEncoder(w).Encode(heard) // whoever asked has gone
	w.Header().Set("X-After", "the body")
}

// extend registers the echo server with the cluster.
func (w *world) extend() {
	w.Helper()
	w.aggregate("echo", "echo.example.com", "v1", http.HandlerFunc(echoServer))
}

// aggregate has somebody else serve an API group of the cluster, until the test ends.
func (w *world) aggregate(service, group, version string, handler http.Handler) {
	w.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	w.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	w.Cleanup(func() { w.awaitGone(group) }) // others may ask for all that is served
	create := func(group, version, resource, namespace, text string) {
		object := &unstructured.Unstructured{}
		decode(w.T, text, &object.Object)
		client := w.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
		if _, err := client.Namespace(namespace).Create(w.Context(), object, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() {
			_ = client.Namespace(namespace).Delete(context.WithoutCancel(w.Context()), object.GetName(), metav1.DeleteOptions{}) // else it is in nobody's way
		})
	}
	create("", "v1", "services", w.Namespace, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q},
		"spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": %d}]}}`, service, port))
	create("apiregistration.k8s.io", "v1", "apiservices", "", fmt.Sprintf(`{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": {"name": "%[2]s.%[1]s"}, "spec": {"group": %[1]q, "version": %[2]q, "groupPriorityMinimum": 100, "versionPriority": 100,
		"insecureSkipTLSVerify": true, "service": {"namespace": %[3]q, "name": %[4]q, "port": %[5]d}}}`, group, version, w.Namespace, service, port))
	eventually(w.T, "the API is served by the extension", func() bool {
		return w.direct.do(w.T, w.direct.client, get("/apis/"+group+"/"+version)).Status == http.StatusOK
	})
}

// awaitGone waits until a group is not served any more.
func (w *world) awaitGone(group string) {
	w.Helper()
	found, err := discovery.NewDiscoveryClientForConfig(w.direct.config)
	if err != nil {
		w.Fatal(err)
	}
	eventually(w.T, "the API is gone", func() bool {
		groups, err := found.ServerGroups()
		return err == nil && !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group })
	})
}

// What an API server passes on to another server arrives there as it does directly, and so does the answer.
func TestAggregatedAPIsAreTheSame(t *testing.T) {
	w := newWorld(t)
	w.extend()
	for _, r := range []request{
		get(extension), get(extension + "/echoes"), get(extension + "/echoes/a?b=c&b=d&e"), get(extension + "/echoes/%C3%A9+%20,:@"),
		get(extension+"/echoes/a", "Accept", "x/y", "X-Custom", "1"),
		get(extension + "/echoes/teapot"),
		{method: http.MethodHead, target: extension + "/echoes/a"},
		step(http.MethodPost, extension+"/echoes", jsonType, `{"some": "body"}`),
		step(http.MethodPost, extension+"/echoes", "application/octet-stream", strings.Repeat("\x00\x01\r\n", 100_000)),
		step(http.MethodDelete, extension+"/echoes/a", "", ""),
	} {
		w.same(t, r)
	}
	// What is for the hub does not go on to others.
	r := get(extension+"/echoes/a", "Cookie", "session=secret")
	if got := w.through.do(t, w.through.client, r); !strings.Contains(got.Body, `"authorization":null`) || !strings.Contains(got.Body, `"cookie":null`) {
		t.Errorf("the extension hears %s", got.Body)
	}
}
