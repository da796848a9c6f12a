package deploy

import (
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/test/support/faultproxy"
)

// storyRows are faults that take more than one thing to go wrong.
func storyRows() []row {
	return []row{
		{
			name: "one of a hundred objects is denied", wants: with(strings.Split(manyMaps(100), "\n---\n")...),
			fault:  meeting(http.MethodPatch, `/namespaces/NS/configmaps/map-050\?`, refusal(403, metav1.StatusReasonForbidden, "admission webhook \"x\" denied the request")),
			expect: []string{"Denied ConfigMap/map-050", "created ConfigMap/map-000", "created ConfigMap/map-099", "kept ConfigMap/stale"},
		},
		{
			name: "half of all applies are reset", wants: with(strings.Split(manyMaps(20), "\n---\n")...),
			fault: meeting(http.MethodPatch, `/namespaces/NS/configmaps/`, every(2, faultproxy.Reset())), expect: []string{"done"},
		},
		{
			name: "an annotation is too large", fixed: changed, expect: []string{"Invalid ConfigMap/x", "configured ConfigMap/a", "kept ConfigMap/stale"},
			wants: with(cmFor("x", ", annotations: {big: "+strings.Repeat("x", 300<<10)+"}")),
		},
		{
			name: "a Secret is too large, and its value is not repeated", fixed: changed, expect: []string{"Invalid Secret/big", "configured ConfigMap/a"},
			wants: with("{apiVersion: v1, kind: Secret, metadata: {name: big}, stringData: {password: " + strings.Repeat("hunter2", 200_000) + "}}"),
			then:  func(s *scene) { s.neverSaid("hunter2") },
		},
		{
			name: "a Secret is invalid, and its value is not repeated", fixed: changed, expect: []string{"Invalid Secret/bad", "configured ConfigMap/a"},
			wants: with("{apiVersion: v1, kind: Secret, metadata: {name: bad}, type: kubernetes.io/tls, stringData: {tls.crt: hunter2}}"),
			then:  func(s *scene) { s.neverSaid("hunter2") },
		},
		{
			name: "somebody deletes an object in the middle of a pass", expect: []string{"done"}, anew: []string{"ConfigMap/b"},
			goes: []string{"ConfigMap/stale"}, fault: deleteMeanwhile,
		},
		{
			name: "somebody edits an object in the middle of a pass", expect: []string{"done"}, fault: editMeanwhile,
		},
		{
			name: "somebody takes the label off a wanted object", expect: []string{"done"}, goes: []string{"ConfigMap/a"}, fault: func(s *scene) func() {
				s.edit("ConfigMap", "a", `{"metadata": {"labels": {"plural.sh/service": null}}}`)
				return func() {}
			},
		},
		{
			name: "the service's namespace is being deleted", expect: []string{"ConfigMap/a"}, fault: deleteNamespace,
			goes: []string{"ConfigMap/a", "ConfigMap/b", "ConfigMap/stale"},
		},
		{
			name: "an inventory of an older agent", restart: true, expect: []string{"done"}, goes: []string{"ConfigMap/stale"}, fault: func(s *scene) func() {
				s.olderInventory()
				return func() {}
			},
		},
		{
			name: "an inventory that nobody can read yet", restart: true, expect: []string{"ConfigMap/stale"}, fault: func(s *scene) func() {
				return s.tamper("inventory.json", `{"format": "plural.sh/inventory/v99", "service": "`+s.request.Service+`"}`)
			}, acknowledge: true,
		},
		{
			name: "a conversion webhook does not answer", before: calm + "\n---\n" + strings.TrimSpace(thing) + "\n---\n{apiVersion: NS.example.com/v1, kind: Thing, metadata: {name: x}}",
			wants:  changed + "\n---\n" + strings.TrimSpace(thing) + "\n---\n{apiVersion: NS.example.com/v2, kind: Thing, metadata: {name: x}, size: 2}",
			fixed:  changed + "\n---\n" + strings.TrimSpace(thing) + "\n---\n{apiVersion: NS.example.com/v1, kind: Thing, metadata: {name: x}, size: 2}",
			expect: []string{"Thing/x", "kept ConfigMap/stale"}, fault: brokenConversion,
		},
		{
			name: "the cluster refuses everything for a while", fault: meeting("", ``, refusal(503, metav1.StatusReasonServiceUnavailable, "the server is shutting down")), expect: []string{"error: "},
		},
		{
			name: "an agent starts while the cluster refuses everything", restart: true, fault: meeting("", ``, refusal(503, metav1.StatusReasonServiceUnavailable, "the server is starting")), expect: []string{"error: "},
		},
		{
			name: "tokens are refused for a while", fault: meeting("", ``, refusal(401, metav1.StatusReasonUnauthorized, "Unauthorized")), expect: []string{"Unauthorized"},
		},
		{
			name: "reads are stale after a write", restart: true, fault: meeting(http.MethodGet, `/namespaces/NS/`, faultproxy.Stale()), expect: []string{"done"}, unmet: true,
		},
	}
}

// neverSaid wants none of what the passes say now to repeat a value.
func (s *scene) neverSaid(value string) {
	s.Helper()
	for _, line := range s.said {
		if strings.Contains(line, value) {
			s.Errorf("a pass repeats a secret: %.200s", line)
		}
	}
}

// deleteMeanwhile deletes b when a is applied.
func deleteMeanwhile(s *scene) func() {
	return s.proxy.Add(faultproxy.Rule{Method: http.MethodPatch, Path: s.path(onA), Times: 1, Fault: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if err := s.of("ConfigMap").Delete(s.Context(), "b", metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
		next.ServeHTTP(w, r)
	}})
}

// editMeanwhile edits a when it is applied.
func editMeanwhile(s *scene) func() {
	return s.proxy.Add(faultproxy.Rule{Method: http.MethodPatch, Path: s.path(onA), Times: 1, Fault: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		s.edit("ConfigMap", "a", `{"data": {"value": "theirs"}}`)
	}})
}

// deleteNamespace deletes the scene's namespace, which cannot go until the fault is lifted.
func deleteNamespace(s *scene) func() {
	s.others("{apiVersion: v1, kind: ConfigMap, metadata: {name: stuck, finalizers: [example.com/block]}}")
	s.must(s.of("Namespace").Delete(s.Context(), s.namespace, metav1.DeleteOptions{}))
	return func() { s.edit("ConfigMap", "stuck", `{"metadata": {"finalizers": null}}`) }
}

// tamper puts a text in the place of what the stored inventory holds.
func (s *scene) tamper(key, text string) func() {
	s.Helper()
	maps := s.cluster.Dynamic.Resource(configMaps).Namespace("plural-system")
	stored, err := maps.Get(s.Context(), s.inventory(), metav1.GetOptions{})
	s.must(err)
	delete(stored.Object, "binaryData")
	stored.Object["data"] = map[string]any{key: text}
	_, err = maps.Update(s.Context(), stored, metav1.UpdateOptions{})
	s.must(err)
	return func() {}
}

// olderInventory stores what the first release would have: plain text, with less in it.
func (s *scene) olderInventory() {
	s.Helper()
	entries := []map[string]any{}
	for _, name := range []string{"a", "b", "stale"} {
		uid := s.live()["ConfigMap/"+name]
		entries = append(entries, map[string]any{"version": "v1", "kind": "ConfigMap", "namespace": s.namespace, "name": name, "uid": uid})
	}
	text, err := json.Marshal(map[string]any{"format": "plural.sh/inventory/v1", "service": s.request.Service, "settled": 3, "entries": entries})
	s.must(err)
	s.tamper("inventory.json", string(text))
}

// brokenConversion gives the scene's kind a second version, and a webhook between the two that does not exist.
func brokenConversion(s *scene) func() {
	name := "things." + s.namespace + ".example.com"
	crds := s.cluster.Dynamic.Resource(definitions)
	crd, err := crds.Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	second := map[string]any{"name": "v2", "served": true, "storage": false, "schema": versions[0].(map[string]any)["schema"]}
	s.must(unstructured.SetNestedSlice(crd.Object, append(versions, second), "spec", "versions"))
	s.must(unstructured.SetNestedMap(crd.Object, map[string]any{
		"strategy": "Webhook",
		"webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig":             map[string]any{"service": map[string]any{"namespace": s.namespace, "name": "nobody"}},
		},
	}, "spec", "conversion"))
	_, err = crds.Update(s.Context(), crd, metav1.UpdateOptions{FieldManager: "somebody"})
	s.must(err)
	return func() {}
}
