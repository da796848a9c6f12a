package health

import (
	"maps"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// amended are the kinds of which kstatus says what would hold up a sync that could go on, or let one go on that must not.
func amended(obj *unstructured.Unstructured, verdict Status) Status {
	switch obj.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return job(obj, verdict)
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return deployment(obj, verdict)
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return claim(obj, verdict)
	case schema.GroupKind{Kind: "Pod"}:
		return pod(obj, verdict)
	}
	return verdict
}

// job takes back kstatus's "current" from a Job that runs but is not done. A suspended Job waits for a person, so it is
// healthy.
func job(obj *unstructured.Unstructured, verdict Status) Status {
	suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend")
	switch {
	case suspended && verdict.Phase == Progressing:
		return Status{Healthy, "suspended"}
	case suspended, verdict.Phase != Healthy, condition(obj, "Complete"):
		return verdict
	}
	return Status{Progressing, verdict.Message}
}

// deployment does not wait for a paused one: whoever paused it will say when it goes on.
func deployment(obj *unstructured.Unstructured, verdict Status) Status {
	if paused, _, _ := unstructured.NestedBool(obj.Object, "spec", "paused"); paused && verdict.Phase == Progressing {
		return Status{Healthy, "paused"}
	}
	return verdict
}

// claim does not wait for a volume: with a storage class that binds for the first consumer, that consumer may be in the
// next wave, and would never come. A volume that is lost does not come back.
func claim(obj *unstructured.Unstructured, verdict Status) Status {
	switch phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase {
	case "Pending":
		return Status{Healthy, "waits for a volume or for its first consumer"}
	case "Lost":
		return Status{Degraded, "its volume is lost"}
	}
	return verdict
}

// pod takes back kstatus's "current" from a Pod that ended in failure, and from one that runs and is meant to end: as a hook,
// it is not done yet.
func pod(obj *unstructured.Unstructured, verdict Status) Status {
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	policy, _, _ := unstructured.NestedString(obj.Object, "spec", "restartPolicy")
	switch {
	case phase == "Failed":
		return Status{Degraded, verdict.Message}
	case phase == "Running" && verdict.Phase == Healthy && (policy == "Never" || policy == "OnFailure"):
		return Status{Progressing, "it runs, and has not ended"}
	}
	return verdict
}

// readable is the object as kstatus understands it. It knows no DaemonSet whose pods are replaced when somebody deletes
// them, and would wait for that person.
func readable(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apps", Kind: "DaemonSet"}) {
		return obj
	}
	strategy, _, _ := unstructured.NestedString(obj.Object, "spec", "updateStrategy", "type")
	seen, ok := obj.Object["status"].(map[string]any)
	if strategy != "OnDelete" || !ok {
		return obj
	}
	changed := maps.Clone(obj.Object)
	seen = maps.Clone(seen)
	seen["updatedNumberScheduled"] = seen["desiredNumberScheduled"]
	changed["status"] = seen
	return &unstructured.Unstructured{Object: changed}
}

func phase(s status.Status) Phase {
	switch s {
	case status.CurrentStatus:
		return Healthy
	case status.InProgressStatus, status.TerminatingStatus:
		return Progressing
	case status.FailedStatus:
		return Degraded
	default:
		return Unknown
	}
}

// condition reports whether the named condition is True.
func condition(obj *unstructured.Unstructured, name string) bool {
	conditions, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		fields, ok := c.(map[string]any)
		if ok && fields["type"] == name && fields["status"] == "True" {
			return true
		}
	}
	return false
}
