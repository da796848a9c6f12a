package lookup_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/lookup"
	"github.com/pluralsh/plural/test/support/kubetest"
)

func create(t *testing.T, kube *kubetest.Cluster, group, resource string, object map[string]any) {
	t.Helper()
	objects := kube.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace(kube.Namespace)
	if _, err := objects.Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAChartSeesWhatItsServiceAccountSees(t *testing.T) {
	kube := kubetest.Start(t)
	engine, err := apply.New(kube.RESTConfig, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	look, err := lookup.As(kube.RESTConfig, engine.Kinds(), kube.Namespace+"/default")
	if err != nil {
		t.Fatal(err)
	}
	create(t, kube, "", "configmaps", map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "seen"}, "data": map[string]any{"value": "one"},
	})
	if got, err := look(t.Context(), "v1", "ConfigMap", kube.Namespace, "seen"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("an account without a role gets %v, %v", got, err)
	}
	create(t, kube, "rbac.authorization.k8s.io", "roles", map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "reader"},
		"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get", "list"}}},
	})
	create(t, kube, "rbac.authorization.k8s.io", "rolebindings", map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "reader"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "default", "namespace": kube.Namespace}},
	})
	eventually(t, "the role is in force", func() bool {
		object, err := look(t.Context(), "v1", "ConfigMap", kube.Namespace, "seen")
		value, _, _ := unstructured.NestedString(object, "data", "value")
		return err == nil && value == "one"
	})
	for name, c := range map[string]struct{ version, kind, name string }{
		"no such object":  {"v1", "ConfigMap", "unseen"},
		"no such kind":    {"example.com/v1", "Nothing", "seen"},
		"no such version": {"v7", "ConfigMap", "seen"},
	} {
		if got, err := look(t.Context(), c.version, c.kind, kube.Namespace, c.name); err != nil || len(got) > 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	all, err := look(t.Context(), "v1", "ConfigMap", kube.Namespace, "")
	if items, _ := all["items"].([]any); err != nil || len(items) == 0 {
		t.Errorf("the list is %v, %v", all, err)
	}
	if _, err := look(t.Context(), "v1", "Secret", kube.Namespace, ""); err == nil {
		t.Error("it may list Secrets")
	}
	if _, err := lookup.As(kube.RESTConfig, engine.Kinds(), "default"); err == nil {
		t.Error("an account without a namespace is taken")
	}
}

func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}
