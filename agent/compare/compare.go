// Package compare owns the difference between two renders of a fleet.
//
// It refuses to know where renditions come from, and how differences are printed. Nothing here reads a file or a clock.
//
// Objects takes the objects of one service before and after and gives a Change for each that differs, field by field, with
// the values masked that nobody is to see. Of gathers the changes of all services and clusters: the same change is one
// Group, however many objects and clusters it reaches, and the groups that reach most come first.
package compare

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

// Action is what happens to an object or to one of its fields.
type Action string

// The actions there are. Reordered is of lists alone; Moved is of objects that another service renders now; Refused is of
// objects that a cluster does not take.
const (
	Added     Action = "added"
	Changed   Action = "changed"
	Deleted   Action = "deleted"
	Reordered Action = "reordered"
	Moved     Action = "moved"
	Refused   Action = "refused"
)

// Side is what a service renders to on one of the two sides.
type Side struct {
	Objects []*unstructured.Unstructured
	// Namespace is where objects go that name none.
	Namespace string
	// Sealed are values that were sealed in git.
	Sealed []string
	// Gone says, of the side after, that the service itself goes, and Kept why its objects stay whatever is rendered; empty when
	// they do not.
	Gone bool
	Kept string
}

// Change is what happens to one object.
type Change struct {
	object.ID
	Action Action
	// Fields are what differs in an object that is changed or moved, by path.
	Fields []Field
	// From is the service that an object moves from.
	From string
	// Stays says why an object that is deleted from the render is not deleted from clusters; empty when it is.
	Stays string
	// Notes are what else there is to say of it: whose fields it takes, why it is refused.
	Notes []string
	// before and after are the whole object in clear; nil on the side where there is none.
	before, after *unstructured.Unstructured
	// hide masks each side.
	hide [2]masker
	// home is the namespace of the side that has the object, for objects that name none.
	home string
}

// Field is one place in an object whose value differs. A value is nil on the side where there is none.
type Field struct {
	// Path reads "spec.containers[web].args[2]", with keys that are no plain words as ["a.b/c"].
	Path   string `json:"path"`
	Action Action `json:"action"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
}

// Objects compares what a service rendered to with what it renders to, sorted by id. Values of Secrets and what was sealed are
// shown as ***(digits); the digits are a digest keyed by key, so that they differ where the values do.
func Objects(before, after Side, key []byte) []Change {
	hide := [2]masker{{key, before.Sealed}, {key, after.Sealed}}
	old, now := index(before), index(after)
	var changes []Change
	for _, id := range names(old, now) {
		c := Change{ID: id, Action: Changed, before: old[id], after: now[id], hide: hide, home: after.Namespace}
		switch {
		case c.before == nil:
			c.Action = Added
		case c.after == nil:
			c.Action, c.Stays, c.home = Deleted, stays(id, c.before, after), before.Namespace
		default:
			if c.Fields = c.fields(); len(c.Fields) == 0 {
				continue
			}
		}
		changes = append(changes, c)
	}
	return changes
}

func index(s Side) map[object.ID]*unstructured.Unstructured {
	all := make(map[object.ID]*unstructured.Unstructured, len(s.Objects))
	for _, o := range s.Objects {
		if turns, err := order.Of(o); err == nil && turns[0].LocalOnly {
			continue // it never goes to a cluster
		}
		all[Identify(o, s.Namespace)] = o
	}
	return all
}

// IDs are the objects of one side that go to clusters, in no order, named as Identify does.
func IDs(s Side) []object.ID { return slices.Collect(maps.Keys(index(s))) }

func names(sides ...map[object.ID]*unstructured.Unstructured) []object.ID {
	var all []object.ID
	for _, side := range sides {
		for id := range side {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, object.ID.Compare)
	return slices.Compact(all)
}

// fields compares the two sides of an object. Its name is the same on both by now, even where only one spells out the
// namespace.
func (c *Change) fields() []Field {
	w := walker{
		hide: func(side int, path []string, value any) any { return c.hide[side].field(c.ID, path, value) },
		name: func(text string) string { return c.hide[1].name(c.hide[0].name(text)) },
	}
	w.compare(nil, withoutName(c.before.Object), withoutName(c.after.Object))
	return w.found
}

// withoutName is an object without what its id says.
func withoutName(object map[string]any) map[string]any {
	plain := make(map[string]any, len(object))
	for key, value := range object {
		plain[key] = value
	}
	if metadata, ok := plain["metadata"].(map[string]any); ok {
		rest := make(map[string]any, len(metadata))
		for key, value := range metadata {
			if key != "name" && key != "namespace" {
				rest[key] = value
			}
		}
		plain["metadata"] = rest
	}
	return plain
}

// Masked is the object before and after as people may see it; nil on the side where there is none.
func (c *Change) Masked() (before, after map[string]any) {
	sides := [2]map[string]any{}
	for i, o := range []*unstructured.Unstructured{c.before, c.after} {
		if o != nil {
			sides[i], _ = c.hide[i].field(c.ID, nil, o.Object).(map[string]any) // a map stays one
		}
	}
	return sides[0], sides[1]
}
