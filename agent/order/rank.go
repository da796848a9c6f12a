package order

import (
	"cmp"

	"github.com/pluralsh/plural/agent/object"
)

// Ranks that nothing after them can do without. Only the real kinds have them.
const (
	RankNamespace  = 0
	RankDefinition = 1
)

// place is a kind's turn among the kinds: its rank, then its order within the rank.
type place struct{ rank, order int }

// placeOf lists the kinds that are applied together, first to last. A kind with no place of its own is a custom one: it
// comes after the workloads, some of which may serve it, and before what intercepts requests. A custom kind that has
// the name of a built-in one takes that one's place, except for the two barriers.
func placeOf(id object.ID) place {
	switch id.Kind {
	case "PriorityClass":
		return place{2, 0}
	case "RuntimeClass":
		return place{2, 1}
	case "StorageClass":
		return place{2, 2}
	case "IngressClass":
		return place{2, 3}
	case "ResourceQuota":
		return place{2, 4}
	case "LimitRange":
		return place{2, 5}
	case "ServiceAccount":
		return place{3, 0}
	case "ClusterRole":
		return place{4, 0}
	case "Role":
		return place{4, 1}
	case "ClusterRoleBinding":
		return place{5, 0}
	case "RoleBinding":
		return place{5, 1}
	case "ConfigMap":
		return place{6, 0}
	case "Secret":
		return place{6, 1}
	case "PersistentVolume":
		return place{6, 2}
	case "PersistentVolumeClaim":
		return place{6, 3}
	case "Service":
		return place{7, 0}
	case "NetworkPolicy":
		return place{7, 1}
	case "PodDisruptionBudget":
		return place{7, 2}
	case "DaemonSet":
		return place{8, 0}
	case "Pod":
		return place{8, 1}
	case "ReplicationController":
		return place{8, 2}
	case "ReplicaSet":
		return place{8, 3}
	case "Deployment":
		return place{8, 4}
	case "StatefulSet":
		return place{8, 5}
	case "HorizontalPodAutoscaler":
		return place{9, 0}
	case "Job":
		return place{9, 1}
	case "CronJob":
		return place{9, 2}
	case "Ingress":
		return place{9, 3}
	case "APIService":
		return place{11, 0}
	case "MutatingWebhookConfiguration":
		return place{11, 1}
	case "ValidatingWebhookConfiguration":
		return place{11, 2}
	case "MutatingAdmissionPolicy":
		return place{11, 3}
	case "MutatingAdmissionPolicyBinding":
		return place{11, 4}
	case "ValidatingAdmissionPolicy":
		return place{11, 5}
	case "ValidatingAdmissionPolicyBinding":
		return place{11, 6}
	}
	switch {
	case id.IsNamespace():
		return place{RankNamespace, 0}
	case id.IsDefinition():
		return place{RankDefinition, 0}
	default:
		return place{10, 0}
	}
}

// Compare sorts by rank of the kind, then kind, namespace and name: the order in which objects are applied and reported.
func Compare(a, b object.ID) int {
	pa, pb := placeOf(a), placeOf(b)
	return cmp.Or(cmp.Compare(pa.rank, pb.rank), cmp.Compare(pa.order, pb.order), a.Compare(b))
}

// Rank is the place of an object's kind among those that follow each other, from 0.
func Rank(id object.ID) int { return placeOf(id).rank }
