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
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	server := httptest.NewUnstartedServer(http.HandlerFunc(echoServer))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	w.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port
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
	create("", "v1", "services", w.Namespace, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"},
		"spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": %d}]}}`, port))
	create("apiregistration.k8s.io", "v1", "apiservices", "", fmt.Sprintf(`{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": {"name": "v1.echo.example.com"}, "spec": {"group": "echo.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
		"insecureSkipTLSVerify": true, "service": {"namespace": %q, "name": "echo", "port": %d}}}`, w.Namespace, port))
	eventually(w.T, "the API is served by the extension", func() bool {
		return w.direct.do(w.T, w.direct.client, get(extension)).Status == http.StatusOK
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
