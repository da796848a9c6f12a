package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// isBuiltIn says whether a group is one of Kubernetes itself. Groups of custom resources have a domain; those that Kubernetes'
// own projects define as such have one of theirs, too.
func isBuiltIn(group string) bool {
	switch group {
	case "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
		"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
		"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io",
		"rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io":
		return true
	}
	return !strings.Contains(group, ".")
}

// builtIn judges an object of Kubernetes' own kinds.
func builtIn(obj *unstructured.Unstructured) Status {
	result, err := compute(readable(obj))
	if err != nil {
		return unreadable(err)
	}
	return amended(obj, Status{Phase: phase(result.Status), Message: result.Message})
}

func unreadable(err error) Status {
	return Status{Phase: Unknown, Message: clip(fmt.Sprintf("read status: %v", err))}
}

// compute contains kstatus, which asserts types without asking: a list that holds something else than the kind's
// schema says would otherwise take the whole agent down.
func compute(obj *unstructured.Unstructured) (result *status.Result, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("unexpected shape: %v", cause)
		}
	}()
	return status.Compute(obj)
}

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
	rests, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend")
	switch {
	case rests && verdict.Phase == Progressing:
		return Status{Phase: Healthy, Message: suspended}
	case rests, verdict.Phase != Healthy, isTrue(obj, "Complete"):
		return verdict
	}
	return Status{Phase: Progressing, Message: verdict.Message}
}

// deployment does not wait for a paused one: whoever paused it will say when it goes on.
func deployment(obj *unstructured.Unstructured, verdict Status) Status {
	if paused, _, _ := unstructured.NestedBool(obj.Object, "spec", "paused"); paused && verdict.Phase == Progressing {
		return Status{Phase: Healthy, Message: "paused"}
	}
	return verdict
}

// claim does not wait for a volume: with a storage class that binds for the first consumer, that consumer may be in the
// next wave, and would never come. A volume that is lost does not come back.
func claim(obj *unstructured.Unstructured, verdict Status) Status {
	switch phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase {
	case "Pending":
		return Status{Phase: Healthy, Message: "waits for a volume or for its first consumer"}
	case "Lost":
		return Status{Phase: Degraded, Message: "its volume is lost"}
	}
	return verdict
}

// pod takes back kstatus's "current" from a Pod that ended in failure, and from one that runs and is meant to end: as a hook,
// it is not done yet. What keeps its containers says more than the state of the whole.
func pod(obj *unstructured.Unstructured, verdict Status) Status {
	if said := Containers(obj); said != "" && verdict.Phase != Healthy {
		verdict.Message = said
	}
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	policy, _, _ := unstructured.NestedString(obj.Object, "spec", "restartPolicy")
	switch {
	case phase == "Failed":
		return Status{Phase: Degraded, Message: verdict.Message}
	case phase == "Running" && verdict.Phase == Healthy && (policy == "Never" || policy == "OnFailure"):
		return Status{Phase: Progressing, Message: "it runs, and has not ended"}
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

// isTrue reports whether the named condition is True.
func isTrue(obj *unstructured.Unstructured, name string) bool {
	conditions, _ := conditionsOf(obj)
	return slices.ContainsFunc(conditions, func(c condition) bool { return c.name == name && c.status == "True" })
}
