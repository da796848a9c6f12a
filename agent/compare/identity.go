package compare

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

// Identify is an object's id with the namespace in which it will be, as far as that can be told without a cluster: kinds
// that Kubernetes does not bring are left as they are.
func Identify(o *unstructured.Unstructured, namespace string) object.ID {
	id := object.Of(o)
	if id.Namespace == "" && builtIn(id.Group) && !clusterScoped(id.Group, id.Kind) {
		id.Namespace = namespace
	}
	return id
}

// builtIn says whether a group is one of Kubernetes itself.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") &&
		slices.Contains([]string{
			"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
			"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
			"flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io",
			"scheduling.k8s.io", "storage.k8s.io",
		}, group)
}

// clusterScoped says whether a kind of Kubernetes itself lies outside of namespaces.
func clusterScoped(group, kind string) bool {
	switch group {
	case "":
		return slices.Contains([]string{"Namespace", "Node", "PersistentVolume", "ComponentStatus"}, kind)
	case "networking.k8s.io":
		return slices.Contains([]string{"IngressClass", "IPAddress", "ServiceCIDR"}, kind)
	case "rbac.authorization.k8s.io":
		return strings.HasPrefix(kind, "ClusterRole")
	case "resource.k8s.io":
		return slices.Contains([]string{"DeviceClass", "ResourceSlice", "DeviceTaintRule"}, kind)
	case "storage.k8s.io":
		return kind != "CSIStorageCapacity"
	}
	return slices.Contains([]string{
		"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
		"certificates.k8s.io", "flowcontrol.apiserver.k8s.io", "node.k8s.io", "scheduling.k8s.io",
	}, group)
}

// stays says why an object outlives its place in the render.
func stays(id object.ID, o *unstructured.Unstructured, after Side) string {
	if after.Kept != "" {
		return after.Kept
	}
	turns, err := order.Of(o)
	if err != nil || len(turns) == 0 {
		turns = []order.Turn{{}}
	}
	switch {
	case slices.ContainsFunc(turns, func(t order.Turn) bool { return t.Hook }):
		return "a hook goes when its own policy says so"
	case turns[0].Pause, turns[0].NoPrune && !after.Gone, turns[0].Keep && after.Gone:
		return "its annotations say so"
	case id.Protected() && o.GetAnnotations()[object.PruneAnnotation] != "allow":
		return "a " + id.Kind + " is deleted only with the annotation " + object.PruneAnnotation + "=allow on it"
	}
	return ""
}
