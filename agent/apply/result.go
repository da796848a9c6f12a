package apply

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
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
	// Recreated objects were deleted, so that a later pass makes them anew.
	Recreated Action = "recreated"
	// Deleted objects were asked to go; a message says so when they are still waiting for their finalizers.
	Deleted Action = "deleted"
	// Kept objects are left as they are; the message says why.
	Kept Action = "kept"
	// Waiting objects have not had their turn; the message says what they wait for.
	Waiting Action = "waiting"
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
	// UID is the live object's; empty where there may be none.
	UID     string
	Err     *Error
	Health  health.Status
	Message string
	// Healed says what others had done to an object of a render that was applied before, and that is put back; empty: nothing.
	Healed string
	// Hook is set for what runs once a revision; it is ready when it has ended well.
	Hook bool
}

// ID names the object.
func (r *ObjectResult) ID() object.ID {
	return object.ID{Group: r.GVK.Group, Kind: r.GVK.Kind, Namespace: r.Namespace, Name: r.Name}
}

// Held are deletions that wait for a person.
type Held struct {
	// Token names exactly these objects: a request that acknowledges it lets them go.
	Token string
	// Names are the objects, as object.ID prints them, sorted.
	Names []string
	// Message says why they wait, and what to do about it.
	Message string
}

// Result is one pass: the render's objects in the order they are applied, then those it no longer holds.
type Result struct {
	Objects []ObjectResult
	// Notes say what was done that somebody may wonder about, such as a field taken from another manager.
	Notes []string
	// Held is set when deletions wait for a person.
	Held *Held
	// Waiting says what the next step waits for. Empty: every step was taken, as far as objects did not fail.
	Waiting string
	// Retry is when to call again though nothing changes; zero: no need to.
	Retry time.Duration
	// Done says that all of this render is applied, and nothing failed, waits or is held.
	Done bool
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

// again asks for another call after d, unless an earlier one is asked for.
func (r *Result) again(d time.Duration) {
	if d > 0 && (r.Retry == 0 || d < r.Retry) {
		r.Retry = d
	}
}

// include tells what an earlier turn of the pass did, as far as this one found it done.
func (r *Result) include(earlier *Result) {
	known := make(map[object.ID]*ObjectResult, len(r.Objects))
	for i := range r.Objects {
		known[r.Objects[i].ID()] = &r.Objects[i]
	}
	var gone []ObjectResult
	for i := range earlier.Objects {
		did := &earlier.Objects[i]
		now := known[did.ID()]
		switch {
		case now == nil && did.Action == Deleted:
			gone = append(gone, *did)
		case now != nil && now.Action == Unchanged && (did.Action == Created || did.Action == Configured):
			now.Action, now.Healed = did.Action, did.Healed
		}
	}
	r.Objects = append(r.Objects, gone...)
	r.Notes = append(r.Notes, earlier.Notes...)
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
}

func failed(gvk schema.GroupVersionKind, id object.ID, err *Error) ObjectResult {
	return ObjectResult{
		GVK: gvk, Namespace: id.Namespace, Name: id.Name, Action: Failed, Err: err,
		Health: health.Status{Phase: health.Unknown},
	}
}

func kept(e inventory.Entry, message string) ObjectResult {
	return ObjectResult{GVK: gvkOf(e), Namespace: e.Namespace, Name: e.Name, Action: Kept, Message: message}
}
