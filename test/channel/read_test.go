package channel

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What is asked of an API server before anything else, and what it says of itself.
func TestDiscoveryIsTheSame(t *testing.T) {
	w := newWorld(t)
	aggregated := "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, r := range []request{
		get("/"), get("/version"), get("/healthz"), get("/livez?verbose"), get("/readyz"), get("/readyz/etcd"),
		get("/api"), get("/apis"), get("/api/v1"), get("/apis/apps"), get("/apis/apps/v1"), get("/apis/nothing.example/v1"),
		get("/api", "Accept", aggregated), get("/apis", "Accept", aggregated),
		get("/apis", "Accept", "application/vnd.kubernetes.protobuf"),
		get("/openapi/v2"), get("/openapi/v2", "Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
		get("/openapi/v3"), get("/openapi/v3/apis/apps/v1"), get("/openapi/v3/api/v1", "Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"),
		get("/openapi/v3/apis/apps/v1?hash=OLD"), // leads to the one of now
		get("/.well-known/openid-configuration"), get("/openid/v1/jwks"),
		get("/nothing"), get("/metrics/slis"),
		{method: http.MethodHead, target: "/version"},
		{method: http.MethodOptions, target: "/api/v1/pods"},
	} {
		w.same(t, r)
	}
}

func TestReadsAreTheSame(t *testing.T) {
	w := newWorld(t)
	w.configMaps(t, 40, strings.Repeat("payload ", 600))
	all := configMaps(w.Namespace)
	long := strings.Repeat("a-label-value,", 600)
	// Lists say which revision of the whole cluster they are of: it is named, so that it is one.
	at := "?resourceVersionMatch=Exact&resourceVersion=" + w.revision(t)
	for _, r := range []request{
		get(all + at), get(all + at + "&limit=7"), get(all + "/cm-0001"), get(all + "/cm-0001?pretty=true"),
		get(all+at, "Accept", "application/vnd.kubernetes.protobuf"),
		get(all+at, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
		get(all+at, "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
		get(all+at, "Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
		get(all+"/cm-0001", "Accept", "application/yaml"),
		get(all+"/cm-0001", "Accept", "application/cbor"),
		get(all+"/cm-0001", "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
		get(all+at, "Accept-Encoding", "gzip"),
		get(all+at, "Accept-Encoding", "br, deflate"),
		get(all + at + "&labelSelector=one+in+(" + long + "b)"),
		get(all + at + "&fieldSelector=metadata.name%3Dcm-0003"),
		get("/api/v1/namespaces/" + w.Namespace),
		get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Adiscovery"),
		get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:discovery"),
		get(all + "/%C3%A9t%C3%A9"), get(all + "/with%20space"), get(all + "/a:b@c+d,e=f~g!h"),
		{method: http.MethodHead, target: all + "/cm-0001"},
		{method: http.MethodHead, target: all + "/none"},
		{method: http.MethodOptions, target: all},
		get(all+"/cm-0001", "If-None-Match", `"1"`),
		get("/api/v1/nodes/simulated-1"),
	} {
		w.same(t, r)
	}
}

func TestErrorsAreTheSame(t *testing.T) {
	w := newWorld(t)
	w.configMaps(t, 1, "x")
	all := configMaps(w.Namespace)
	post := func(target, contentType, body string) request {
		return request{method: http.MethodPost, target: target, header: headers("Content-Type", contentType), body: body}
	}
	patch := func(contentType, body string) request {
		return request{method: http.MethodPatch, target: all + "/cm-0000", header: headers("Content-Type", contentType), body: body}
	}
	for _, test := range []struct {
		code int
		request
	}{
		{404, get(all + "/none")},
		{404, get("/api/v1/namespaces/none-such/configmaps/x")},
		{404, get("/apis/nothing.example/v1/things")},
		{405, request{method: http.MethodPut, target: all}},
		{405, post("/api/v1/nodes/simulated-1", "application/json", "{}")},
		{406, get(all, "Accept", "text/csv")},
		{409, post(all, "application/json", `{"metadata": {"name": "cm-0000"}}`)},
		{409, request{method: http.MethodPut, target: all + "/cm-0000", body: `{"metadata": {"name": "cm-0000", "resourceVersion": "1"}}`}},
		{409, request{method: http.MethodDelete, target: all + "/cm-0000", body: `{"preconditions": {"uid": "other"}}`}},
		{422, post(all, "application/json", `{"metadata": {"name": "Not A Name"}}`)},
		{422, patch("application/json-patch+json", `[{"op": "remove", "path": "/none"}]`)},
		{400, post(all, "application/json", `{"metadata": {"name": "x", "namespace": "other"}}`)},
		{400, post(all, "application/json", `{`)},
		{400, post(all+"?fieldValidation=Strict", "application/json", `{"metadata": {"name": "x"}, "unknown": 1}`)},
		{400, get(all + "?limit=x")},
		{400, get(all + "?continue=nonsense")},
		{400, get(all + "?resourceVersion=nonsense")},
		{400, get(all + "?labelSelector=%3D%3D")},
		{415, post(all, "text/plain", "x")},
		{415, patch("application/octet-stream", "x")},
		{404, get("/api/v1/namespaces/" + w.Namespace + "/pods/none/log")},
		{404, get("/api/v1/namespaces/" + w.Namespace + "/pods/none/exec?command=true")},
		{413, post(all, "application/json", `{"metadata": {"name": "big"}, "data": {"x": "`+strings.Repeat("x", 4<<20)+`"}}`)},
	} {
		if got := w.same(t, test.request); got.Status != test.code && !(test.code == 413 && got.Status == 500) {
			t.Errorf("%s %s: %d, want %d: %.300s", test.method, test.target, got.Status, test.code, got.Body)
		}
	}
}

// A revision that is yet to come is waited for, and then there is an error.
func TestRevisionOfTheFutureIsTheSame(t *testing.T) {
	w := newWorld(t)
	future := get("/api/v1/namespaces?resourceVersion=999999999")
	want, got := w.direct.do(t, w.direct.client, future), w.through.do(t, w.through.client, future)
	if want.Status != http.StatusGatewayTimeout {
		t.Errorf("%d: %s", want.Status, want.Body)
	}
	for _, a := range []*answer{&want, &got} {
		a.Body = regexp.MustCompile(`current: \d+`).ReplaceAllString(a.Body, "current: ...")
		unframe(a)
	}
	report(t, future, want, got)
}

// Lists of thousands come in chunks, whose tokens are good on either side.
func TestLargeListsAreTheSame(t *testing.T) {
	const objects, chunk = 5000, 1000
	w := newWorld(t)
	w.configMaps(t, objects, "x")
	all := configMaps(w.Namespace)
	at := "&resourceVersionMatch=Exact&resourceVersion=" + w.revision(t)
	w.same(t, get(all+"?x=y"+at))
	seen, next := 0, fmt.Sprintf("%s?limit=%d%s", all, chunk, at)
	for next != "" {
		var list metav1.PartialObjectMetadataList
		decode(t, w.same(t, get(next)).Body, &list)
		seen += len(list.Items)
		if next = ""; list.Continue != "" {
			next = fmt.Sprintf("%s?limit=%d&continue=%s", all, chunk, list.Continue)
		}
	}
	if seen != objects+1 { // the namespace has one of its own
		t.Errorf("the chunks have %d of %d objects", seen, objects+1)
	}
}

// Somebody without any right in the cluster is told so by the cluster, in the same words.
func TestWhoOneIsIsTheSame(t *testing.T) {
	w := newWorld(t)
	review := request{
		method: http.MethodPost, target: "/apis/authentication.k8s.io/v1/selfsubjectreviews", header: headers("Content-Type", "application/json"),
		body: `{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}`,
	}
	for _, s := range []side{w.direct, w.through} {
		var got struct {
			Status struct {
				UserInfo struct {
					Username string
					Groups   []string
					Extra    map[string][]string
				}
			}
		}
		decode(t, s.do(t, s.client, review).Body, &got)
		user := got.Status.UserInfo
		if user.Username != operator || fmt.Sprint(user.Groups) != fmt.Sprint([]string{operators, "system:authenticated"}) {
			t.Errorf("%s: the cluster sees %q of %q", s.name, user.Username, user.Groups)
		}
		if requests := user.Extra["plural.sh/request-id"]; s.mount != "" && (len(requests) != 1 || requests[0] == "") {
			t.Errorf("the cluster is not told of the request: %v", user.Extra)
		}
	}
}

// configMaps creates n of them, cm-0000 and so on, beside the one that every namespace has.
func (w *world) configMaps(t *testing.T, n int, payload string) {
	t.Helper()
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for i := worker; i < n; i += 8 {
				object := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap",
					"metadata": map[string]any{"name": fmt.Sprintf("cm-%04d", i), "labels": map[string]any{"one": "a-label-value"}},
					"data":     map[string]any{"payload": payload},
				}}
				if _, err := w.Dynamic.Resource(configMapsResource).Namespace(w.Namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	// The namespace gets one of its own, which must not come in between.
	eventually(t, "the namespace has its own ConfigMap", func() bool {
		_, err := w.Dynamic.Resource(configMapsResource).Namespace(w.Namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil
	})
}

// revision is the newest of the ConfigMaps.
func (w *world) revision(t *testing.T) string {
	t.Helper()
	list, err := w.Dynamic.Resource(configMapsResource).Namespace(w.Namespace).List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return list.GetResourceVersion()
}
