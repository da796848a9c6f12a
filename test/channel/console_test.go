package channel

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
)

// Terminal consoles such as k9s find out what is served, and keep it on disk for their next start.
func TestDiscoveryThatIsKeptOnDiskIsTheSame(t *testing.T) {
	w := newWorld(t)
	type found struct {
		Version   any
		Groups    []*metav1.APIGroup
		Resources []*metav1.APIResourceList
	}
	var seen []found
	for _, s := range []side{w.direct, w.through} {
		dir := t.TempDir()
		var last found
		for _, start := range []string{"first", "second"} {
			client, err := disk.NewCachedDiscoveryClientForConfig(s.config, dir, dir+"/http", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			var now found
			if now.Version, err = client.ServerVersion(); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			if now.Groups, now.Resources, err = client.ServerGroupsAndResources(); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			for _, list := range now.Resources {
				list.TypeMeta = metav1.TypeMeta{} // it is there when it comes from disk
			}
			if start == "second" {
				if diff := cmp.Diff(last, now); diff != "" {
					t.Errorf("%s: what is on disk is not what was found:\n%s", s.name, diff)
				}
			}
			last = now
		}
		if len(last.Groups) < 10 || len(last.Resources) < 10 {
			t.Errorf("%s: %d groups, %d lists of resources", s.name, len(last.Groups), len(last.Resources))
		}
		seen = append(seen, last)
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("(-direct +through):\n%s", diff)
	}
}

// asTable is how consoles ask for lists: as tables if there are any, whatever version, else as they are.
const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

// What is on the screen is the same, of whatever kind, by kind and one by one.
func TestTablesAreTheSame(t *testing.T) {
	w := newWorld(t)
	w.pod(w.Namespace, "web", nil)
	w.configMaps(t, 2, "x")
	in := "/namespaces/" + w.Namespace + "/"
	paths := []string{
		"/api/v1/nodes", "/api/v1/namespaces", "/api/v1" + in + "pods", "/api/v1" + in + "configmaps", "/api/v1" + in + "events",
		"/api/v1" + in + "services", "/api/v1" + in + "secrets", "/api/v1" + in + "serviceaccounts", "/api/v1" + in + "persistentvolumeclaims",
		"/apis/apps/v1" + in + "deployments", "/apis/apps/v1" + in + "statefulsets", "/apis/batch/v1" + in + "cronjobs",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"/apis/apiregistration.k8s.io/v1/apiservices", "/apis/networking.k8s.io/v1" + in + "ingresses",
		"/api/v1" + in + "pods/web", "/api/v1/nodes/simulated-1",
	}
	for _, path := range paths {
		for _, include := range []string{"Metadata", "Object"} {
			r := get(path+"?includeObject="+include+"&limit=500", "Accept", asTable)
			var tables [2]metav1.Table
			for i, s := range []side{w.direct, w.through} {
				got := s.do(t, s.client, r)
				if got.Status != http.StatusOK {
					t.Fatalf("%s: %s: %d: %.300s", s.name, r.target, got.Status, got.Body)
				}
				decode(t, got.Body, &tables[i])
				steady(&tables[i])
			}
			if tables[0].Kind != "Table" || len(tables[0].ColumnDefinitions) == 0 {
				t.Errorf("%s is no table: %v", path, tables[0].TypeMeta)
			}
			if diff := cmp.Diff(tables[0], tables[1]); diff != "" {
				t.Errorf("%s (-direct +through):\n%s", r.target, diff)
			}
		}
	}
}

// steady takes out of a table what changes between two looks at it: ages, revisions, and what stands in whole objects, of which
// others are compared byte for byte.
func steady(table *metav1.Table) {
	table.ResourceVersion, table.RemainingItemCount = "", nil
	for i := range table.Rows {
		row := &table.Rows[i]
		row.Object = runtime.RawExtension{}
		for j, column := range table.ColumnDefinitions {
			if slices.Contains([]string{"Age", "Last Seen", "First Seen", "Created At", "Count"}, column.Name) && j < len(row.Cells) {
				row.Cells[j] = nil
			}
		}
	}
	slices.SortFunc(table.Rows, func(a, b metav1.TableRow) int {
		return strings.Compare(cellsOf(a), cellsOf(b))
	})
}

func cellsOf(row metav1.TableRow) string {
	var all strings.Builder
	for _, cell := range row.Cells {
		if text, ok := cell.(string); ok {
			all.WriteString(text)
		}
		all.WriteByte(0)
	}
	return all.String()
}

// Consoles ask what one may before they show it, and hide what one may not.
func TestWhatOneMayIsTheSame(t *testing.T) {
	w := newWorld(t)
	type answers struct {
		Allowed map[string]bool
		Rules   []string
	}
	var seen []answers
	for _, s := range []side{w.direct, w.through} {
		client := s.dynamicClient(t)
		ask := func(resource string, spec map[string]any, kind string) map[string]any {
			t.Helper()
			review := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}}
			reviews := client.Resource(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: resource})
			got, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			status, _, _ := unstructured.NestedMap(got.Object, "status")
			return status
		}
		got := answers{Allowed: map[string]bool{}}
		for _, verb := range []string{"get", "list", "watch", "delete", "impersonate", "sing"} {
			for _, resource := range []string{"pods", "nodes", "secrets", "users"} {
				status := ask("selfsubjectaccessreviews", map[string]any{"resourceAttributes": map[string]any{
					"verb": verb, "resource": resource, "namespace": w.Namespace,
				}}, "SelfSubjectAccessReview")
				got.Allowed[verb+" "+resource], _ = status["allowed"].(bool)
			}
		}
		rules := ask("selfsubjectrulesreviews", map[string]any{"namespace": w.Namespace}, "SelfSubjectRulesReview")
		for _, kind := range []string{"resourceRules", "nonResourceRules"} {
			list, _ := rules[kind].([]any)
			for _, rule := range list {
				text, err := runtime.Encode(unstructured.UnstructuredJSONScheme, &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Rule", "rule": rule,
				}})
				if err != nil {
					t.Fatal(err)
				}
				got.Rules = append(got.Rules, string(text))
			}
		}
		slices.Sort(got.Rules)
		seen = append(seen, got)
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("(-direct +through):\n%s", diff)
	}
	if !seen[1].Allowed["list pods"] || len(seen[1].Rules) == 0 {
		t.Errorf("the operator may: %+v", seen[1])
	}
}

// metricsServer answers as the metrics API's own server does.
func metricsServer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	const usage = `"timestamp":"2026-11-01T12:00:00Z","window":"10s"`
	switch {
	case r.URL.Path == "/apis/metrics.k8s.io/v1beta1":
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.k8s.io/v1beta1","resources":[
			{"name":"nodes","singularName":"","namespaced":false,"kind":"NodeMetrics","verbs":["get","list"]},
			{"name":"pods","singularName":"","namespaced":true,"kind":"PodMetrics","verbs":["get","list"]}]}`)
	case strings.HasSuffix(r.URL.Path, "/nodes"):
		_, _ = io.WriteString(w, `{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
			{"metadata":{"name":"simulated-1"},`+usage+`,"usage":{"cpu":"137m","memory":"1024Ki"}}]}`)
	case strings.HasSuffix(r.URL.Path, "/pods"):
		_, _ = io.WriteString(w, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
			{"metadata":{"name":"web"},`+usage+`,"containers":[{"name":"main","usage":{"cpu":"1m","memory":"5Mi"}}]}]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

func TestMetricsAreTheSame(t *testing.T) {
	w := newWorld(t)
	w.aggregate("metrics", "metrics.k8s.io", "v1beta1", http.HandlerFunc(metricsServer))
	group := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
	var seen []map[string]any
	for _, s := range []side{w.direct, w.through} {
		client, got := s.dynamicClient(t), map[string]any{}
		for name, from := range map[string]struct{ resource, namespace string }{"nodes": {"nodes", ""}, "pods": {"pods", w.Namespace}, "all pods": {"pods", ""}} {
			list, err := client.Resource(group.WithResource(from.resource)).Namespace(from.namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("%s: %s: %v", s.name, name, err)
			}
			got[name] = list.UnstructuredContent()
		}
		if _, err := client.Resource(group.WithResource("pods")).Namespace(w.Namespace).Get(t.Context(), "none", metav1.GetOptions{}); err == nil {
			t.Errorf("%s: there are metrics of a pod that is not there", s.name)
		}
		seen = append(seen, got)
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("(-direct +through):\n%s", diff)
	}
}

// The hub itself tells people which clusters they reach.
func TestTheHubSaysThatTheClusterIsConnected(t *testing.T) {
	w := newWorld(t)
	hub := w.through
	hub.base, hub.mount = strings.TrimSuffix(hub.base, hub.mount), ""
	eventually(t, "the cluster is said to be connected", func() bool {
		var list struct {
			Items []struct {
				Name      string
				Connected bool
			}
		}
		decode(t, hub.do(t, hub.client, get("/v1/clusters")).Body, &list)
		return len(list.Items) == 1 && list.Items[0].Name == clusterName && list.Items[0].Connected
	})
}

// Counters of many kinds follow metadata alone.
func TestMetadataIsFollowedThroughTheHub(t *testing.T) {
	w := newWorld(t)
	w.configMaps(t, 20, "x")
	client, err := metadata.NewForConfig(w.through.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, w.Namespace, nil)
	informer := factory.ForResource(configMapsResource).Informer()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("%v does not come", kind)
		}
	}
	if got := len(informer.GetStore().ListKeys()); got != 21 {
		t.Errorf("the informer has %d of 21 objects", got)
	}
	if err := w.Dynamic.Resource(configMapsResource).Namespace(w.Namespace).Delete(t.Context(), "cm-0007", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the informer has seen the deletion", func() bool {
		_, left, _ := informer.GetStore().GetByKey(w.Namespace + "/cm-0007")
		return !left
	})
	cancel()
	factory.Shutdown()
	for _, o := range informer.GetStore().List() {
		if _, ok := o.(*metav1.PartialObjectMetadata); !ok {
			t.Fatalf("the informer has a %T", o)
		}
	}
}
