// Package removedapi owns the API versions that Kubernetes removed, and their successors.
//
// It refuses to know what a cluster serves, and what any version looks like.
//
// It is a table: whoever meets a kind that a cluster does not serve asks for it here, to tell a removal from a definition that is
// missing.
package removedapi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Removal is the end of a version of an API.
type Removal struct {
	// Minor is the minor version of Kubernetes that serves it no more.
	Minor int
	// Successor is the group and version that has the kind since; empty: nothing took its place.
	Successor string
}

// String says which version removed it.
func (r Removal) String() string { return fmt.Sprintf("Kubernetes 1.%d removed it", r.Minor) }

// Fix says what follows it.
func (r Removal) Fix() string {
	if r.Successor == "" {
		return "nothing took its place: remove the object"
	}
	return "write apiVersion: " + r.Successor
}

// Removed says which version of Kubernetes removed a kind, if one did.
func Removed(kind schema.GroupVersionKind) (Removal, bool) {
	for _, row := range removals() {
		if row.version == kind.GroupVersion().String() && (len(row.kinds) == 0 || slices.Contains(row.kinds, kind.Kind)) {
			return Removal{row.minor, row.successor}, true
		}
	}
	return Removal{}, false
}

// Group says whether Kubernetes itself has, or had, the API group: groups of CustomResourceDefinitions have a dot in their names.
func Group(group string) bool {
	return !strings.Contains(group, ".") || slices.ContainsFunc(removals(), func(row removal) bool {
		return strings.HasPrefix(row.version, group+"/")
	})
}

// removal is the end of some kinds of a version, or of all.
type removal struct {
	version   string
	kinds     []string
	minor     int
	successor string
}

// removals are all of which Kubernetes' deprecation guide tells, and those that came after it. Tests of kubeschema hold them to the
// life cycles in Kubernetes' own types, and to the versions that are built in.
func removals() []removal {
	return []removal{
		{"extensions/v1beta1", []string{"DaemonSet", "Deployment", "ReplicaSet"}, 16, "apps/v1"},
		{"extensions/v1beta1", []string{"NetworkPolicy"}, 16, "networking.k8s.io/v1"},
		{"extensions/v1beta1", []string{"PodSecurityPolicy"}, 16, ""},
		{"extensions/v1beta1", []string{"Ingress"}, 22, "networking.k8s.io/v1"},
		{"extensions/v1beta1", []string{"DeploymentRollback", "Scale"}, 16, ""},
		{"apps/v1beta1", nil, 16, "apps/v1"},
		{"apps/v1beta2", nil, 16, "apps/v1"},
		{"settings.k8s.io/v1alpha1", nil, 20, ""},
		{"batch/v2alpha1", nil, 21, "batch/v1"},
		{
			"admissionregistration.k8s.io/v1beta1",
			[]string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"},
			22,
			"admissionregistration.k8s.io/v1",
		},
		{"apiextensions.k8s.io/v1beta1", nil, 22, "apiextensions.k8s.io/v1"},
		{"apiregistration.k8s.io/v1beta1", nil, 22, "apiregistration.k8s.io/v1"},
		{"authentication.k8s.io/v1beta1", []string{"TokenReview"}, 22, "authentication.k8s.io/v1"},
		{"authorization.k8s.io/v1beta1", nil, 22, "authorization.k8s.io/v1"},
		{"certificates.k8s.io/v1beta1", []string{"CertificateSigningRequest"}, 22, "certificates.k8s.io/v1"},
		{"coordination.k8s.io/v1beta1", []string{"Lease"}, 22, "coordination.k8s.io/v1"},
		{"networking.k8s.io/v1beta1", []string{"Ingress", "IngressClass"}, 22, "networking.k8s.io/v1"},
		{"rbac.authorization.k8s.io/v1alpha1", nil, 22, "rbac.authorization.k8s.io/v1"},
		{"rbac.authorization.k8s.io/v1beta1", nil, 22, "rbac.authorization.k8s.io/v1"},
		{"scheduling.k8s.io/v1beta1", []string{"PriorityClass"}, 22, "scheduling.k8s.io/v1"},
		{"storage.k8s.io/v1beta1", []string{"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"}, 22, "storage.k8s.io/v1"},
		{"storage.k8s.io/v1alpha1", []string{"CSIStorageCapacity", "VolumeAttachment"}, 24, "storage.k8s.io/v1"},
		{"autoscaling/v2beta1", nil, 25, "autoscaling/v2"},
		{"batch/v1beta1", nil, 25, "batch/v1"},
		{"discovery.k8s.io/v1beta1", nil, 25, "discovery.k8s.io/v1"},
		{"events.k8s.io/v1beta1", nil, 25, "events.k8s.io/v1"},
		{"node.k8s.io/v1beta1", nil, 25, "node.k8s.io/v1"},
		{"policy/v1beta1", []string{"PodDisruptionBudget", "Eviction"}, 25, "policy/v1"},
		{"policy/v1beta1", []string{"PodSecurityPolicy"}, 25, ""},
		{"autoscaling/v2beta2", nil, 26, "autoscaling/v2"},
		{"flowcontrol.apiserver.k8s.io/v1beta1", nil, 26, "flowcontrol.apiserver.k8s.io/v1"},
		{"storage.k8s.io/v1beta1", []string{"CSIStorageCapacity"}, 27, "storage.k8s.io/v1"},
		{"flowcontrol.apiserver.k8s.io/v1beta2", nil, 29, "flowcontrol.apiserver.k8s.io/v1"},
		{"resource.k8s.io/v1alpha2", []string{"ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}, 31, "resource.k8s.io/v1"},
		{"resource.k8s.io/v1alpha2", nil, 31, ""},
		{"networking.k8s.io/v1alpha1", []string{"IPAddress", "ServiceCIDR"}, 31, "networking.k8s.io/v1"},
		{
			"admissionregistration.k8s.io/v1alpha1",
			[]string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
			32,
			"admissionregistration.k8s.io/v1",
		},
		{"authentication.k8s.io/v1alpha1", nil, 32, "authentication.k8s.io/v1"},
		{"coordination.k8s.io/v1alpha1", nil, 32, "coordination.k8s.io/v1beta1"},
		{"flowcontrol.apiserver.k8s.io/v1beta3", nil, 32, "flowcontrol.apiserver.k8s.io/v1"},
		{"resource.k8s.io/v1alpha3", []string{"PodSchedulingContext"}, 32, ""},
		{"authentication.k8s.io/v1beta1", []string{"SelfSubjectReview"}, 33, "authentication.k8s.io/v1"},
		{
			"admissionregistration.k8s.io/v1beta1",
			[]string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
			34,
			"admissionregistration.k8s.io/v1",
		},
		{
			"resource.k8s.io/v1alpha3",
			[]string{"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"},
			34,
			"resource.k8s.io/v1",
		},
		{"certificates.k8s.io/v1alpha1", []string{"PodCertificateRequest"}, 35, "certificates.k8s.io/v1beta1"},
		{"storage.k8s.io/v1alpha1", []string{"VolumeAttributesClass"}, 35, "storage.k8s.io/v1"},
		{"storagemigration.k8s.io/v1alpha1", nil, 35, "storagemigration.k8s.io/v1beta1"},
		{"scheduling.k8s.io/v1alpha1", []string{"Workload"}, 36, "scheduling.k8s.io/v1beta1"},
		{"certificates.k8s.io/v1alpha1", []string{"ClusterTrustBundle"}, 37, "certificates.k8s.io/v1"},
		{"networking.k8s.io/v1beta1", []string{"IPAddress", "ServiceCIDR"}, 37, "networking.k8s.io/v1"},
		{"scheduling.k8s.io/v1alpha2", nil, 37, "scheduling.k8s.io/v1beta1"},
		{"storage.k8s.io/v1beta1", []string{"VolumeAttributesClass"}, 37, "storage.k8s.io/v1"},
	}
}
