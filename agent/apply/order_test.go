package apply

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrderPutsWhatOthersNeedFirst(t *testing.T) {
	want := []ID{
		{Kind: "Namespace", Name: "web"},
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "things.x.io"},
		{Kind: "ServiceAccount", Namespace: "web", Name: "a"},
		{Group: "rbac.authorization.k8s.io", Kind: "Role", Namespace: "web", Name: "a"},
		{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding", Namespace: "web", Name: "a"},
		{Kind: "ConfigMap", Namespace: "db", Name: "z"},
		{Kind: "ConfigMap", Namespace: "web", Name: "a"},
		{Kind: "ConfigMap", Namespace: "web", Name: "b"},
		{Kind: "Secret", Namespace: "web", Name: "a"},
		{Kind: "Service", Namespace: "web", Name: "a"},
		{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "a"},
		{Group: "batch", Kind: "Job", Namespace: "web", Name: "a"},
		{Group: "x.io", Kind: "Namespace", Name: "not the real one"},
		{Group: "x.io", Kind: "Thing", Namespace: "web", Name: "a"},
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration", Name: "a"},
	}
	order := newOrdering()
	for range 20 {
		got := slices.Clone(want)
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, order.compare)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
	}
	var lengths []int
	for _, run := range byRank(order, want, func(id ID) ID { return id }) {
		lengths = append(lengths, len(run))
	}
	if diff := cmp.Diff([]int{1, 1, 1, 1, 1, 4, 1, 1, 1, 2, 1}, lengths); diff != "" {
		t.Errorf("lengths of ranks (-want +got):\n%s", diff)
	}
}
