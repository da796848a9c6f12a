package removedapi_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/internal/removedapi"
)

func TestARemovedVersionIsToldFromAKindThatADefinitionBrings(t *testing.T) {
	for _, tt := range []struct {
		group, version, kind string
		minor                int
		successor            string
	}{
		{"apps", "v1beta1", "Deployment", 16, "apps/v1"},
		{"extensions", "v1beta1", "Ingress", 22, "networking.k8s.io/v1"},
		{"policy", "v1beta1", "PodDisruptionBudget", 25, "policy/v1"},
		{"policy", "v1beta1", "PodSecurityPolicy", 25, ""},
		{"flowcontrol.apiserver.k8s.io", "v1beta1", "FlowSchema", 26, "flowcontrol.apiserver.k8s.io/v1"},
		{"apps", "v1", "Deployment", 0, ""},
		{"", "v1", "ConfigMap", 0, ""},
		{"monitoring.coreos.com", "v1", "ServiceMonitor", 0, ""},
	} {
		removal, ok := removedapi.Removed(schema.GroupVersionKind{Group: tt.group, Version: tt.version, Kind: tt.kind})
		if ok != (tt.minor != 0) || removal.Minor != tt.minor || removal.Successor != tt.successor {
			t.Errorf("%s of %s/%s: %+v, %t; want %d, %s", tt.kind, tt.group, tt.version, removal, ok, tt.minor, tt.successor)
		}
	}
}

func TestGroupsOfKubernetesAreToldFromThoseOfDefinitions(t *testing.T) {
	for group, own := range map[string]bool{
		"": true, "apps": true, "storage.k8s.io": true, "gateway.networking.k8s.io": false, "monitoring.coreos.com": false,
	} {
		if removedapi.Group(group) != own {
			t.Errorf("%q: %t, want %t", group, !own, own)
		}
	}
}
