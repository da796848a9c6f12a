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

// position is a kind's turn among the kinds: its rank, then its order within the rank.
type position struct{ rank, order int }

// placeOf lists the kinds that are applied together, first to last. A kind with no place of its own is a custom one: it
// comes after the workloads, some of which may serve it, and before what intercepts requests. A custom kind that has
// the name of a built-in one takes that one's place, except for the two barriers.
func placeOf(id object.ID) position {
	switch id.Kind {
	case "PriorityClass":
		return position{2, 0}
	case "RuntimeClass":
		return position{2, 1}
	case "StorageClass":
		return position{2, 2}
	case "IngressClass":
		return position{2, 3}
	case "ResourceQuota":
		return position{2, 4}
	case "LimitRange":
		return position{2, 5}
	case "ServiceAccount":
		return position{3, 0}
	case "ClusterRole":
		return position{4, 0}
	case "Role":
		return position{4, 1}
	case "ClusterRoleBinding":
		return position{5, 0}
	case "RoleBinding":
		return position{5, 1}
	case "ConfigMap":
		return position{6, 0}
	case "Secret":
		return position{6, 1}
	case "PersistentVolume":
		return position{6, 2}
	case "PersistentVolumeClaim":
		return position{6, 3}
	case "Service":
		return position{7, 0}
	case "NetworkPolicy":
		return position{7, 1}
	case "PodDisruptionBudget":
		return position{7, 2}
	case "DaemonSet":
		return position{8, 0}
	case "Pod":
		return position{8, 1}
	case "ReplicationController":
		return position{8, 2}
	case "ReplicaSet":
		return position{8, 3}
	case "Deployment":
		return position{8, 4}
	case "StatefulSet":
		return position{8, 5}
	case "HorizontalPodAutoscaler":
		return position{9, 0}
	case "Job":
		return position{9, 1}
	case "CronJob":
		return position{9, 2}
	case "Ingress":
		return position{9, 3}
	case "APIService":
		return position{11, 0}
	case "MutatingWebhookConfiguration":
		return position{11, 1}
	case "ValidatingWebhookConfiguration":
		return position{11, 2}
	case "MutatingAdmissionPolicy":
		return position{11, 3}
	case "MutatingAdmissionPolicyBinding":
		return position{11, 4}
	case "ValidatingAdmissionPolicy":
		return position{11, 5}
	case "ValidatingAdmissionPolicyBinding":
		return position{11, 6}
	}
	switch {
	case id.IsNamespace():
		return position{RankNamespace, 0}
	case id.IsDefinition():
		return position{RankDefinition, 0}
	default:
		return position{10, 0}
	}
}

// Compare sorts by rank of the kind, then kind, namespace and name: the order in which objects are applied and reported.
func Compare(a, b object.ID) int {
	pa, pb := placeOf(a), placeOf(b)
	return cmp.Or(cmp.Compare(pa.rank, pb.rank), cmp.Compare(pa.order, pb.order), a.Compare(b))
}

// Rank is the place of an object's kind among those that follow each other, from 0.
func Rank(id object.ID) int { return placeOf(id).rank }
