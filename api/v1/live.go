package v1

import "time"

// Object is one live object of a cluster. What a Secret or a ConfigMap holds is no part of it.
type Object struct {
	UID     string `json:"uid"`
	Group   string `json:"group,omitempty"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Resource is the kind's name in paths, such as deployments.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Owner is the uid of the object that it hangs below. That one is not in the list when the person may not see it.
	Owner   string       `json:"owner,omitempty"`
	Health  ObjectHealth `json:"health"`
	Message string       `json:"message,omitempty"`
	Created *time.Time   `json:"created,omitempty"`
	// Applied objects are a service's own; others were made by controllers, or by somebody else.
	Applied  bool `json:"applied,omitempty"`
	Deleting bool `json:"deleting,omitempty"`
}

// ObjectHealth says how an object is. It is one of the constants below.
type ObjectHealth string

// How objects are.
const (
	ObjectHealthy     ObjectHealth = "healthy"
	ObjectProgressing ObjectHealth = "progressing"
	ObjectDegraded    ObjectHealth = "degraded"
	ObjectUnknown     ObjectHealth = "unknown"
)

// Words are all that there are.
func (ObjectHealth) Words() []string {
	return []string{string(ObjectHealthy), string(ObjectProgressing), string(ObjectDegraded), string(ObjectUnknown)}
}

// ObjectChanges is the data of the events of a list of objects that is watched. The events are "objects"; after those with
// which it begins comes one named "ready", which has no more to say. "reset" means that the stream ends, and what is shown has
// to be read anew; its data is an Error.
type ObjectChanges struct {
	Changed []Object `json:"changed,omitempty"`
	// Deleted are uids.
	Deleted []string `json:"deleted,omitempty"`
}

// ObjectEvent is what Kubernetes says happened to an object.
type ObjectEvent struct {
	// Time is when it was seen last, First when it was seen first.
	Time  time.Time  `json:"time"`
	First *time.Time `json:"first,omitempty"`
	Count int        `json:"count,omitempty"`
	// Warning is set for what somebody should look at.
	Warning bool   `json:"warning,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Object is the uid; Kind, Namespace and Name say which object that is.
	Object    string `json:"object"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// From is the component that says so.
	From string `json:"from,omitempty"`
}

// Diff is what applying a service's newest deployment would change in a cluster now.
type Diff struct {
	Objects []ObjectDiff `json:"objects"`
	// More counts the objects that did not fit in.
	More int `json:"more,omitempty"`
	// Error says why it cannot be known, such as a render that fails.
	Error string `json:"error,omitempty"`
}

// ObjectDiff is what would change of one object.
type ObjectDiff struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Action is one of the constants below.
	Action ObjectAction `json:"action"`
	Fields []FieldDiff  `json:"fields,omitempty"`
	// More counts the fields that did not fit in. Hidden says that the person may not read objects like this one in the
	// cluster, so that its fields are left out.
	More   int  `json:"more,omitempty"`
	Hidden bool `json:"hidden,omitempty"`
	// Message says why the API server would refuse it, or whose fields it takes.
	Message string `json:"message,omitempty"`
}

// ObjectAction is what would be done to an object. It is one of the constants below.
type ObjectAction string

// What would be done to objects. Failed means that the API server would refuse it.
const (
	ObjectCreated ObjectAction = "created"
	ObjectChanged ObjectAction = "changed"
	ObjectDeleted ObjectAction = "deleted"
	ObjectFailed  ObjectAction = "failed"
)

// Words are all that there are.
func (ObjectAction) Words() []string {
	return []string{string(ObjectCreated), string(ObjectChanged), string(ObjectDeleted), string(ObjectFailed)}
}

// FieldDiff is one place in an object whose value differs. Values are JSON, perhaps cut off; empty where there is none. Those
// of Secrets, and what was sealed, read ***(digits): the digits differ where the values do.
type FieldDiff struct {
	// Path reads spec.containers[web].image.
	Path    string `json:"path"`
	Live    string `json:"live,omitempty"`
	Desired string `json:"desired,omitempty"`
}

// ObjectRef names an object of a cluster.
type ObjectRef struct {
	Group string `json:"group,omitempty"`
	// Version is v1 when it is left out.
	Version   string `json:"version,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Scale asks for a number of replicas.
type Scale struct {
	ObjectRef
	Replicas *int32 `json:"replicas"`
}

// Acted is what came of an action.
type Acted struct {
	Objects []ActedObject `json:"objects"`
}

// ActedObject is what came of an action on one object.
type ActedObject struct {
	ObjectRef
	Done bool `json:"done"`
	// Error says why it was not done.
	Error string `json:"error,omitempty"`
	// Note is worth knowing, such as that the fleet will undo it.
	Note string `json:"note,omitempty"`
}
