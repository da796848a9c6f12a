// Package health owns the verdict on one live object: does it do what it was made for.
//
// It refuses to know where objects come from, who applied them or what a service is; it sends no request. A live
// object, status included, goes in as the API server returned it, and one Status comes out. The rules for the
// built-in kinds, and the conditions that other kinds are expected to follow, are those of kstatus, mapped to four
// phases and amended for a few kinds where a sync would wait for what never comes (builtin.go). A Judge puts rules of
// people's own before them: expressions of CEL, evaluated here within limits, or Lua, which somebody else runs.
package health

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// Of judges one live object by the built-in rules. It never fails: a status that makes no sense is Unknown, with the
// reason.
func Of(obj *unstructured.Unstructured) Status {
	result, err := compute(readable(obj))
	if err != nil {
		return Status{Unknown, fmt.Sprintf("read status: %v", err)}
	}
	verdict := Status{phase(result.Status), result.Message}
	if obj.GetDeletionTimestamp() != nil {
		return verdict
	}
	return amended(obj, verdict)
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
