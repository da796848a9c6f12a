// Package health owns the health status of one live object.
//
// It refuses to know where objects come from, who applied them or what a service is; it sends no request. A live
// object, status included, goes in as the API server returned it, and one Status comes out. The first of these that knows
// the object's kind decides:
//
//   - rules of people's own, in a Judge: expressions of CEL, evaluated here within limits, or Lua, which somebody else runs
//   - the catalogue (catalogue.go): rules for kinds that other projects bring
//   - kstatus, for the kinds of Kubernetes itself, amended where a sync would wait for what never comes (builtin.go)
//   - for all other kinds, the conditions and fields that most of them have (generic.go)
package health

import (
	"time"

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
	// Until is when the object becomes Healthy if it has not changed by then, in seconds since 1970; zero: time changes
	// nothing. It is set of an object that is Progressing only because its controller has not written a status yet, if it has
	// one.
	Until int64
}

// At is the verdict on an object that has not changed since it was judged.
func (s Status) At(now time.Time) Status {
	if s.Until != 0 && now.Unix() >= s.Until {
		return Status{Phase: Healthy}
	}
	return s
}

// Of judges one live object by the rules that come with this program. It never fails: a status that makes no sense is
// Unknown, with the reason.
func Of(obj *unstructured.Unstructured) Status {
	kind := obj.GroupVersionKind().GroupKind()
	if obj.GetDeletionTimestamp() != nil {
		return Status{Phase: Progressing, Message: "Resource scheduled for deletion"}
	}
	if e := catalogued(kind); e != nil {
		return e.of(obj)
	}
	if isBuiltIn(kind.Group) {
		return builtIn(obj)
	}
	return generic(obj, time.Now())
}
