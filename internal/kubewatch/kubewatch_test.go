package kubewatch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/internal/kubewatch"
	"github.com/pluralsh/plural/test/support/kubetest"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// sink writes down what it hears, and holds what there is.
type sink struct {
	mu    sync.Mutex
	heard []string
	there map[string]string
}

func (s *sink) do(what string, change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, what)
	change()
}

func (s *sink) Replace(items []kubewatch.Item[string], _ string) {
	s.do("replace", func() {
		s.there = map[string]string{}
		for _, item := range items {
			s.there[item.Name] = item.Value
		}
	})
}

func (s *sink) Put(item kubewatch.Item[string]) {
	s.do("put "+item.Name, func() { s.there[item.Name] = item.Value })
}

func (s *sink) Delete(item kubewatch.Item[string]) {
	s.do("delete "+item.Name, func() { delete(s.there, item.Name) })
}

func (s *sink) holds(t *testing.T, want map[string]string) {
	t.Helper()
	eventually(t, fmt.Sprint(want), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return cmp.Equal(want, s.there)
	})
}

func eventually(t *testing.T, what string, yes func() bool) {
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

// run runs a watch until the test ends.
func run(t *testing.T, w *kubewatch.Watch[string]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		w.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// data keeps of a ConfigMap its value.
func data(obj metav1.Object) string {
	whole, _ := obj.(*unstructured.Unstructured)
	value, _, _ := unstructured.NestedString(whole.Object, "data", "key")
	return value
}

func create(t *testing.T, kube *kubetest.Cluster, name, value string, labels map[string]any) {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": labels}, "data": map[string]any{"key": value},
	}}
	if _, err := kube.Dynamic.Resource(configMaps).Namespace(kube.Namespace).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func patch(t *testing.T, kube *kubetest.Cluster, name, patch string) {
	t.Helper()
	client := kube.Dynamic.Resource(configMaps).Namespace(kube.Namespace)
	if _, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// dynamicVia is a client whose requests pass through do.
func dynamicVia(t *testing.T, kube *kubetest.Cluster, do func(*http.Request, http.RoundTripper) (*http.Response, error)) dynamic.Interface {
	t.Helper()
	config := rest.CopyConfig(kube.RESTConfig)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return do(r, rt) })
	})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestASinkHearsWhatThereIsThenWhatChanges(t *testing.T) {
	kube := kubetest.Start(t)
	ours := map[string]any{"ours": "yes"}
	create(t, kube, "one", "1", ours)
	create(t, kube, "theirs", "1", nil)
	s := &sink{}
	run(t, &kubewatch.Watch[string]{
		Source: kubewatch.Objects(kube.Dynamic, configMaps, kube.Namespace), Labels: "ours", Reduce: data, Sink: s,
	})
	s.holds(t, map[string]string{"one": "1"})
	create(t, kube, "two", "2", ours)
	s.holds(t, map[string]string{"one": "1", "two": "2"})
	patch(t, kube, "one", `{"data":{"key":"changed"}}`)
	s.holds(t, map[string]string{"one": "changed", "two": "2"})
	patch(t, kube, "two", `{"metadata":{"labels":null}}`)
	s.holds(t, map[string]string{"one": "changed"})
	if diff := cmp.Diff([]string{"replace", "put two", "put one", "delete two"}, s.heard); diff != "" {
		t.Error(diff)
	}
}

func TestMetadataComesWithoutTheObject(t *testing.T) {
	kube := kubetest.Start(t)
	create(t, kube, "one", "1", map[string]any{"say": "hello"})
	create(t, kube, "two", "1", map[string]any{"say": "hello"})
	client, err := metadata.NewForConfig(kube.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	run(t, &kubewatch.Watch[string]{
		Source: kubewatch.Metadata(client, configMaps, kube.Namespace), Fields: "metadata.name=one", Sink: s,
		Reduce: func(obj metav1.Object) string { return fmt.Sprintf("%T %s", obj, obj.GetLabels()["say"]) },
	})
	s.holds(t, map[string]string{"one": "*v1.PartialObjectMetadata hello"})
}

// TestAWatchOutlivesItsFaults breaks a watch, answers the next try with a fault, and then lets everything pass.
func TestAWatchOutlivesItsFaults(t *testing.T) {
	status := func(code int, reason string) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
			return &http.Response{
				StatusCode: code, Status: fmt.Sprint(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
				Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		}
	}
	stream := func(text string) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			response, err := status(http.StatusOK, "")(r)
			response.Body = io.NopCloser(strings.NewReader(text))
			return response, err
		}
	}
	fail := func(err error) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	for name, fault := range map[string]func(*http.Request) (*http.Response, error){
		"the version is expired":       status(http.StatusGone, "Expired"),
		"an expired event":             stream(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`),
		"an internal error":            status(http.StatusInternalServerError, "InternalError"),
		"too many requests":            status(http.StatusTooManyRequests, "TooManyRequests"),
		"an overloaded proxy":          status(http.StatusBadGateway, "nonsense"),
		"refused for a moment":         status(http.StatusForbidden, "Forbidden"),
		"connections are refused":      fail(syscall.ECONNREFUSED),
		"no network":                   fail(errors.New("no route to host")),
		"an answer that ends at once":  stream(""),
		"an answer that is no stream":  stream("<html>welcome to the hotel</html>"),
		"an event of an unknown shape": stream(`{"type":"MODIFIED","object":[1]}`),
		"half an event":                stream(`{"type":"MODIFIED","object":{"kind":"ConfigMap","meta`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := kubetest.Start(t)
			create(t, kube, "one", "1", nil)
			var broken atomic.Int64
			cancels := make(chan context.CancelFunc, 100)
			client := dynamicVia(t, kube, func(r *http.Request, rt http.RoundTripper) (*http.Response, error) {
				if broken.Load() > 0 {
					broken.Add(-1)
					return fault(r)
				}
				ctx, cancel := context.WithCancel(r.Context())
				cancels <- cancel
				return rt.RoundTrip(r.WithContext(ctx))
			})
			s := &sink{}
			again := make(chan struct{}, 1)
			run(t, &kubewatch.Watch[string]{
				Source: kubewatch.Objects(client, configMaps, kube.Namespace), Fields: "metadata.name!=kube-root-ca.crt", Reduce: data, Sink: s,
				Again: again, Failed: func(*kubewatch.Error) {
					select {
					case again <- struct{}{}:
					default:
					}
				},
			})
			s.holds(t, map[string]string{"one": "1"})
			broken.Store(2)
			(<-cancels)()
			create(t, kube, "two", "2", nil)
			patch(t, kube, "one", `{"data":{"key":"changed"}}`)
			s.holds(t, map[string]string{"one": "changed", "two": "2"})
		})
	}
}

func TestAFailureSaysWhatWasAskedAndWhatToDo(t *testing.T) {
	kube := kubetest.Start(t)
	nobody := rest.CopyConfig(kube.RESTConfig)
	nobody.Impersonate.UserName = "nobody"
	client, err := dynamic.NewForConfig(nobody)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		source            kubewatch.Source
		refused, unserved bool
		fix               string
	}{
		{kubewatch.Objects(client, configMaps, ""), true, false, "allow the agent's account get, list and watch of configmaps"},
		{
			kubewatch.Objects(kube.Dynamic, schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "things"}, ""), false, true,
			"define things.x.io in the cluster",
		},
		{kubewatch.Objects(dynamicVia(t, kube, func(*http.Request, http.RoundTripper) (*http.Response, error) {
			return nil, syscall.ECONNREFUSED
		}), configMaps, ""), false, false, ""},
	} {
		failed := make(chan *kubewatch.Error, 100)
		run(t, &kubewatch.Watch[string]{
			Source: tt.source, Reduce: data, Sink: &sink{}, Failed: func(err *kubewatch.Error) { failed <- err },
		})
		err := <-failed
		if err.Refused() != tt.refused || err.Unserved() != tt.unserved || err.Fix() != tt.fix || err.Verb != "list" {
			t.Errorf("%v: refused %t, unserved %t, fix %q", err, err.Refused(), err.Unserved(), err.Fix())
		}
	}
}
