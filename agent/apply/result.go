package apply

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/health"
)

// Action is what a pass did to one object.
type Action string

const (
	// Created objects were not there before.
	Created Action = "created"
	// Configured objects were there, and something of them was changed.
	Configured Action = "configured"
	// Unchanged objects already were what the render wants.
	Unchanged Action = "unchanged"
	// Deleted objects were asked to go; a message says so when they are still waiting for their finalizers.
	Deleted Action = "deleted"
	// Kept objects are in the inventory but not in the render, and still there; the message says why.
	Kept Action = "kept"
	// Failed objects have an error.
	Failed Action = "failed"
)

// ObjectResult tells what happened to one object. Err is set exactly when Action is Failed. Health is that of the live
// object, and zero for objects that were deleted, kept or not reached.
type ObjectResult struct {
	GVK       schema.GroupVersionKind
	Namespace string
	Name      string
	Action    Action
	Err       *Error
	Health    health.Status
	Message   string
}

// Result is one pass: the render's objects in the order they were applied, then those it no longer holds.
type Result struct {
	Objects []ObjectResult
	// Held says why deletions wait for a person, and what to do about it. Empty when none wait.
	Held string
}

// Complete reports whether no object failed.
func (r *Result) Complete() bool {
	for i := range r.Objects {
		if r.Objects[i].Action == Failed {
			return false
		}
	}
	return true
}

func failed(gvk schema.GroupVersionKind, id ID, err *Error) ObjectResult {
	return ObjectResult{
		GVK: gvk, Namespace: id.Namespace, Name: id.Name, Action: Failed, Err: err,
		Health: health.Status{Phase: health.Unknown},
	}
}

func kept(e entry, message string) ObjectResult {
	return ObjectResult{GVK: e.gvk(), Namespace: e.Namespace, Name: e.Name, Action: Kept, Message: message}
}
