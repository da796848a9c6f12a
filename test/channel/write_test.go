package channel

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var configMapsResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
}

// story is a series of requests in the namespace NAMESPACE.
type story []request

func step(method, target, contentType, body string) request {
	r := request{method: method, target: target, body: body, header: http.Header{}}
	if contentType != "" {
		r.header.Set("Content-Type", contentType)
	}
	return r
}

// play plays a story by each way, each in a namespace of its own, and compares what came back but for what each object has
// of its own.
func (w *world) play(t *testing.T, s story) {
	t.Helper()
	var told [2][]answer
	for i, by := range []side{w.direct, w.through} {
		namespace := w.namespace(t)
		for _, r := range s {
			r.target = strings.ReplaceAll(r.target, "NAMESPACE", namespace)
			r.body = strings.ReplaceAll(r.body, "NAMESPACE", namespace)
			got := by.do(t, by.client, r)
			got.Body, got.Length = alike(got.Body, namespace), 0
			got.Header.Del("Content-Length") // of revisions that have other lengths
			told[i] = append(told[i], got)
		}
	}
	for i, r := range s {
		if told[0][i].Status >= 400 {
			t.Errorf("%s %s: %d: %.500s", r.method, r.target, told[0][i].Status, told[0][i].Body)
		}
		report(t, r, told[0][i], told[1][i])
	}
}

// namespace makes one more.
func (w *world) namespace(t *testing.T) string {
	t.Helper()
	namespaces := w.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	made, err := namespaces.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "story-"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetName()
}

const (
	jsonType      = "application/json"
	yamlType      = "application/yaml"
	jsonPatch     = "application/json-patch+json"
	mergePatch    = "application/merge-patch+json"
	strategicType = "application/strategic-merge-patch+json"
	applyType     = "application/apply-patch+yaml"
)

func TestWritesAreTheSame(t *testing.T) {
	w := newWorld(t)
	maps := configMaps("NAMESPACE")
	deployments := "/apis/apps/v1/namespaces/NAMESPACE/deployments"
	// Of a kind that no controller writes to in between.
	templates := "/api/v1/namespaces/NAMESPACE/podtemplates"
	template := `{"metadata": {"name": "web"}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}}}`
	deployment := `{"metadata": {"name": "web"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template":
		{"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}}}}`
	for name, s := range map[string]story{
		"create, read, update, delete": {
			step(http.MethodPost, maps, jsonType, `{"metadata": {"name": "a"}, "data": {"k": "v"}}`),
			step(http.MethodPost, maps, yamlType, "metadata: {name: b}\ndata: {k: \"v\"}\n"),
			step(http.MethodPost, maps+"?dryRun=All&fieldManager=me", jsonType, `{"metadata": {"generateName": "fixed", "name": "c"}}`),
			step(http.MethodPost, maps+"?fieldValidation=Warn", jsonType, `{"metadata": {"name": "d"}, "unknown": 1}`),
			get(maps + "/a"),
			step(http.MethodPut, maps+"/a", jsonType, `{"metadata": {"name": "a"}, "data": {"k": "other"}}`),
			step(http.MethodDelete, maps+"/a", "", ""),
			step(http.MethodDelete, maps+"/b?propagationPolicy=Foreground", jsonType, `{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}`),
			step(http.MethodDelete, maps+"?labelSelector=x%3Dy", "", ""),
		},
		"patches": {
			step(http.MethodPost, templates+"?fieldManager=me", jsonType, template),
			step(http.MethodPatch, templates+"/web?fieldManager=me", jsonPatch, `[{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]`),
			step(http.MethodPatch, templates+"/web?fieldManager=me", mergePatch, `{"metadata": {"annotations": {"a": null, "c": "d"}}}`),
			step(http.MethodPatch, templates+"/web?fieldManager=me", strategicType,
				`{"template": {"spec": {"containers": [{"name": "side", "image": "side"}]}}}`),
			step(http.MethodPatch, templates+"/web?fieldManager=me&dryRun=All", mergePatch, `{"metadata": {"labels": {"x": "y"}}}`),
		},
		"apply": {
			step(http.MethodPatch, maps+"/a?fieldManager=me", applyType, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: \"v\", l: \"w\"}\n"),
			step(http.MethodPatch, maps+"/a?fieldManager=me", applyType, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: \"v\"}\n"),
			step(http.MethodPatch, maps+"/a?fieldManager=you&force=true", applyType,
				`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "yours"}}`),
		},
		"subresources": {
			step(http.MethodPost, deployments, jsonType, deployment),
			get(deployments + "/web/scale"),
			step(http.MethodPatch, deployments+"/web/scale", mergePatch, `{"spec": {"replicas": 0}}`),
			step(http.MethodPost, "/api/v1/namespaces/NAMESPACE/serviceaccounts", jsonType, `{"metadata": {"name": "somebody"}}`),
			step(http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", jsonType,
				`{"spec": {"resourceAttributes": {"namespace": "NAMESPACE", "verb": "get", "resource": "pods"}}}`),
		},
	} {
		t.Run(name, func(t *testing.T) { w.play(t, s) })
	}
}

func TestCustomResourcesAreTheSame(t *testing.T) {
	w := newWorld(t)
	const group = "conformance.example.com"
	definition := `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.` + group + `"},
		"spec": {"group": "` + group + `", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"}, "versions": [
		{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
		"additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}], "schema": {"openAPIV3Schema": {"type": "object", "properties":
		{"spec": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}}, "status": {"type": "object", "properties": {"n": {"type": "integer"}}}}}}}]}}`
	definitions := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	created := w.through.do(t, w.through.client, step(http.MethodPost, definitions, jsonType, definition))
	if created.Status != http.StatusCreated {
		t.Fatalf("%d: %s", created.Status, created.Body)
	}
	t.Cleanup(func() {
		resource := w.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		_ = resource.Delete(context.WithoutCancel(t.Context()), "things."+group, metav1.DeleteOptions{}) // nothing else relies on it
	})
	things := "/apis/" + group + "/v1/namespaces/NAMESPACE/things"
	eventually(t, "the kind is served", func() bool {
		return w.direct.do(t, w.direct.client, get(strings.ReplaceAll(things, "NAMESPACE", w.Namespace))).Status == http.StatusOK
	})
	thing := func(n int) string {
		return fmt.Sprintf(`{"apiVersion": "%s/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"n": %d}}`, group, n)
	}
	w.play(t, story{
		step(http.MethodPost, things, jsonType, thing(1)),
		step(http.MethodPatch, things+"/a", mergePatch, `{"spec": {"n": 2}}`),
		step(http.MethodPatch, things+"/a/status", mergePatch, `{"status": {"n": 2}}`),
		step(http.MethodPatch, things+"/a/scale", mergePatch, `{"spec": {"replicas": 3}}`),
		step(http.MethodPatch, things+"/a?fieldManager=me&force=true", applyType, thing(4)),
		get(things+"/a", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
		step(http.MethodDelete, things+"/a", "", ""),
	})
	ours := strings.ReplaceAll(things, "NAMESPACE", w.Namespace)
	if got := w.same(t, step(http.MethodPost, ours, jsonType, thing(10))); got.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d: %s", got.Status, got.Body)
	}
	// A revision before the kind was served is forgotten.
	if got := w.same(t, get(ours+"?watch=1&resourceVersion=1&timeoutSeconds=5")); !strings.Contains(got.Body, `"code":410`) {
		t.Errorf("%d: %s", got.Status, got.Body)
	}
}

// Bytes that look like something else on the way arrive as they are.
func TestBodiesOfAllKindsAreTheSame(t *testing.T) {
	w := newWorld(t)
	for name, content := range map[string]string{
		"nothing": "", "newlines": "\r\n\r\n0\r\n\r\n", "frames": "\x00\x00\x00\x05hello", "unicode": "été ☃ 漢", "long": strings.Repeat("0123456789abcdef", 50_000),
	} {
		t.Run(name, func(t *testing.T) {
			quoted, err := json.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			body := `{"metadata": {"name": "content"}, "data": {"content": ` + string(quoted) + `}}`
			w.play(t, story{step(http.MethodPost, configMaps("NAMESPACE"), jsonType, body), get(configMaps("NAMESPACE") + "/content")})
		})
	}
}
