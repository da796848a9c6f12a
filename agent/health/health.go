// Package health owns the verdict on one live object: does it do what it was made for.
//
// It refuses to know where objects come from, who applied them or what a service is; it sends no request. A live
// object, status included, goes in as the API server returned it, and one Status comes out. The rules for the
// built-in kinds, and the conditions that other kinds are expected to follow, are those of kstatus; this package
// only maps them to four phases, and is stricter about Jobs: a Job is healthy when it has done its work.
package health

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Phase is the verdict in one word. The zero value means that nobody looked.
type Phase string

const (
	// Healthy objects do their work, or have no status to say otherwise.
	Healthy Phase = "Healthy"
	// Progressing objects are on their way, and need nobody.
	Progressing Phase = "Progressing"
	// Degraded objects will not get better by waiting.
	Degraded Phase = "Degraded"
	// Unknown objects have a status that cannot be read, or could not be looked at.
	Unknown Phase = "Unknown"
)

// Status is the verdict on one object. Message says in a line what was seen, or is empty.
type Status struct {
	Phase   Phase
	Message string
}

// Of judges one live object. It never fails: a status that makes no sense is Unknown, with the reason.
func Of(obj *unstructured.Unstructured) Status {
	result, err := compute(obj)
	if err != nil {
		return Status{Unknown, fmt.Sprintf("read status: %v", err)}
	}
	verdict := Status{phase(result.Status), result.Message}
	if verdict.Phase == Healthy && isJob(obj) {
		return job(obj, verdict)
	}
	return verdict
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

func isJob(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "batch", Kind: "Job"}
}

// job takes back kstatus's "current" from a Job that runs but is not done. A suspended Job waits for a person, so
// it keeps the verdict.
func job(obj *unstructured.Unstructured, verdict Status) Status {
	if suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend"); suspended || condition(obj, "Complete") {
		return verdict
	}
	return Status{Progressing, verdict.Message}
}

// condition reports whether the named condition is True.
func condition(obj *unstructured.Unstructured, name string) bool {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		fields, ok := c.(map[string]any)
		if ok && fields["type"] == name && fields["status"] == "True" {
			return true
		}
	}
	return false
}
