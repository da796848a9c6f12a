package apply

import (
	"cmp"
	"slices"
)

const (
	rankNamespace  = 0
	rankDefinition = 1
)

// ranks lists the kinds that are applied together, first to last. A kind with no rank of its own is a custom one: it
// comes after the workloads, some of which may serve it, and before what intercepts requests.
func ranks() [][]string {
	return [][]string{
		rankNamespace:  {"Namespace"},
		rankDefinition: {"CustomResourceDefinition"},
		{"PriorityClass", "RuntimeClass", "StorageClass", "IngressClass", "ResourceQuota", "LimitRange"},
		{"ServiceAccount"},
		{"ClusterRole", "Role"},
		{"ClusterRoleBinding", "RoleBinding"},
		{"ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim"},
		{"Service", "NetworkPolicy", "PodDisruptionBudget"},
		{"DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "StatefulSet"},
		{"HorizontalPodAutoscaler", "Job", "CronJob", "Ingress"},
		{},
		{
			"APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
			"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		},
	}
}

// place is a kind's turn: its rank, then its order within the rank.
type place struct{ rank, order int }

// ordering gives every kind its place. A custom kind that has the name of a built-in one takes that one's place,
// except for the two barriers, which only the real kinds may enter.
type ordering struct {
	places map[string]place
	custom place
}

func newOrdering() ordering {
	o := ordering{places: map[string]place{}}
	for rank, kinds := range ranks() {
		for order, kind := range kinds {
			o.places[kind] = place{rank, order}
		}
		if len(kinds) == 0 {
			o.custom = place{rank: rank}
		}
	}
	return o
}

func (o ordering) of(id ID) place {
	p, known := o.places[id.Kind]
	barrier := known && p.rank <= rankDefinition
	if !known || barrier && !isNamespace(id) && !isDefinition(id) {
		return o.custom
	}
	return p
}

// compare sorts by place, then kind, namespace and name: the order in which objects are applied and reported.
func (o ordering) compare(a, b ID) int {
	pa, pb := o.of(a), o.of(b)
	return cmp.Or(
		cmp.Compare(pa.rank, pb.rank),
		cmp.Compare(pa.order, pb.order),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

// byRank cuts values, sorted by compare, into runs of one rank each.
func byRank[T any](o ordering, values []T, id func(T) ID) [][]T {
	var runs [][]T
	for start := 0; start < len(values); {
		rank := o.of(id(values[start])).rank
		length := slices.IndexFunc(values[start:], func(v T) bool { return o.of(id(v)).rank != rank })
		if length < 0 {
			length = len(values) - start
		}
		runs = append(runs, values[start:start+length])
		start += length
	}
	return runs
}
