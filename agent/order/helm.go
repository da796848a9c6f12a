package order

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pluralsh/plural/agent/object"
)

// readHelm reads the words of Helm that say how an object is deleted.
func (r *reader) readHelm(turn *Turn) {
	const annotation = "helm.sh/resource-policy"
	policy, _ := r.text(annotation)
	switch strings.ToLower(policy) {
	case "": // what a template leaves of a value that is not set
	case "keep":
		turn.NoPrune, turn.Keep = true, true
	default:
		r.fail(annotation, policy, "keep")
	}
}

const helmHookWords = "one or more of pre-install, post-install, pre-upgrade, post-upgrade, pre-delete, post-delete, " +
	"pre-rollback, post-rollback, test and crd-install"

func (r *reader) helmHooks() hooks {
	const annotation = "helm.sh/hook"
	words, found := r.words(annotation)
	if !found {
		return hooks{}
	}
	h := hooks{found: true, family: Helm, stages: map[Stage]string{}}
	for _, word := range words {
		switch strings.ToLower(word) {
		case "pre-install":
			h.add(PreSync, "install")
		case "pre-upgrade":
			h.add(PreSync, "upgrade")
		case "post-install":
			h.add(PostSync, "install")
		case "post-upgrade":
			h.add(PostSync, "upgrade")
		case "pre-delete":
			h.add(PreDelete, "")
		case "post-delete":
			h.add(PostDelete, "")
		case "test", "test-success":
			h.add(Test, "")
		case "crd-install":
			h.plain = true
		case "pre-rollback", "post-rollback": // never happens: to go back is a sync of an older commit
		default:
			r.fail(annotation, word, helmHookWords)
		}
	}
	if len(words) == 0 {
		r.fail(annotation, "", helmHookWords)
	}
	return h
}

// add notes an event. Install and upgrade together are every sync.
func (h hooks) add(stage Stage, only string) {
	if known, twice := h.stages[stage]; twice && known != only {
		only = ""
	}
	h.stages[stage] = only
}

// helmKinds are the kinds in the order in which Helm installs them; others come after them, by name.
func helmKinds() []string {
	return []string{
		"PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "PodDisruptionBudget",
		"ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim",
		"CustomResourceDefinition", "ClusterRole", "ClusterRoleList", "ClusterRoleBinding", "ClusterRoleBindingList", "Role",
		"RoleList", "RoleBinding", "RoleBindingList", "Service", "DaemonSet", "Pod", "ReplicationController", "ReplicaSet",
		"Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress", "APIService",
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
	}
}

// compareHelmHooks sorts hooks of one weight as Helm does: by name, and of one name by kind.
func compareHelmHooks(a, b object.ID) int {
	place := func(id object.ID) int {
		kinds := helmKinds()
		if i := slices.Index(kinds, id.Kind); i >= 0 {
			return i
		}
		return len(kinds)
	}
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(place(a), place(b)), cmp.Compare(a.Kind, b.Kind), a.Compare(b))
}
