// Package inventory owns the record of the objects that each service has in a cluster.
//
// It refuses to know what the recorded objects hold, and who applies or deletes them.
//
// Data passes through like this: an Inventory is loaded from the cluster it speaks of (store.go), where it is a
// ConfigMap with compressed text, or one that names several of them (chunk.go). Whoever loaded it changes its entries and
// saves it, on top of what was loaded or not at all. The text is strict (document.go): what is only partly understood is
// an *Error, never a smaller inventory, since what an inventory no longer names looks forgotten.
package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

// Entry is one object that a service owns, or is about to.
type Entry struct {
	object.ID
	// Version is the API version that the object was applied with last.
	Version string
	// UID is empty from the moment the entry is written until the object was seen.
	UID string
	// Digest is of the manifest as it was sent; empty: unknown.
	Digest string
	// Trace is of what the last apply left in the object's managed fields; empty: unknown.
	Trace string
	// Turn is what matters when the object goes.
	Turn TurnMarks
	// Recreating is the uid that is being deleted so that the object can be made anew, else empty.
	Recreating string
	// Left says that the newest render that was looked at does not hold the object, which is still there.
	Left bool
}

// GroupVersionKind is what the object was applied as.
func (e Entry) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
}

// TurnMarks is the part of an object's turn that is needed when the render no longer holds the object.
type TurnMarks struct {
	Stage     order.Stage
	Wave      int
	NoPrune   bool
	Keep      bool
	PruneLast bool
}

// Marks are what is kept of a turn.
func Marks(turn order.Turn) TurnMarks {
	return TurnMarks{
		Stage: turn.Stage, Wave: turn.Wave,
		NoPrune: turn.NoPrune, Keep: turn.Keep, PruneLast: turn.PruneLast,
	}
}

// HookID names one run of one object: an object with hooks of several stages has one for each.
type HookID struct {
	object.ID
	Stage order.Stage
}

// compare sorts in apply order, then by stage.
func (id HookID) compare(other HookID) int {
	return cmp.Or(order.Compare(id.ID, other.ID), cmp.Compare(id.Stage, other.Stage))
}

// Hook is how far a hook came.
type Hook struct {
	Run   string // key of the render that it ran for
	UID   string
	State HookState
	// Message says how it does. While it is about to be created it is the proof that the object will carry, by which it is known
	// again should the answer be lost; empty then where an older agent wrote it, which made no proofs.
	Message string
}

// HookState is empty for a hook that is about to be created.
type HookState string

// The states of a hook that exists, or did.
const (
	HookCreated   HookState = "created"
	HookSucceeded HookState = "succeeded"
	HookFailed    HookState = "failed"
)

// Inventory is what one service owns in the cluster. It belongs to one goroutine at a time.
type Inventory struct {
	Service string
	// Key is of the render that was applied completely last; empty: none was.
	Key string
	// Revision is what hooks ran for on the way to Key.
	Revision string
	// Settled is how many entries the last pass left that applied everything and held nothing back. Budgets are measured
	// against it, so that a pass that was held does not raise what the next one may delete.
	Settled int
	// Orphan says that the objects stay when the service goes.
	Orphan bool
	// Account is the service account that the objects were applied as, and are removed as; empty: the agent's own.
	Account string
	// Rebuilt says that the entries were found by their labels, so that nothing may be pruned by them unasked.
	Rebuilt bool
	// Failed is the key of the render whose sync failed and whose SyncFail hooks ran; empty: none.
	Failed  string
	Entries map[object.ID]Entry
	Hooks   map[HookID]Hook

	// stored is what stands in the cluster.
	stored stored
}

// New is the inventory of a service that owns nothing yet.
func New(service string) *Inventory {
	return &Inventory{Service: service, Entries: map[object.ID]Entry{}, Hooks: map[HookID]Hook{}}
}

// Rebuild is an inventory of what was found in the cluster. It takes the place of the one that damage speaks of, when it
// is saved; nil: none is stored.
func Rebuild(service string, entries []Entry, damage *Error) *Inventory {
	inv := New(service)
	inv.Rebuilt = true
	for _, e := range entries {
		inv.Entries[e.ID] = e
	}
	if damage != nil {
		inv.stored = stored{version: damage.version, chunked: true}
	}
	return inv
}

// Stored reports whether the inventory, as it was at some time, stands in the cluster.
func (inv *Inventory) Stored() bool { return inv.stored.version != "" }

// Total is what a deletion budget is a share of when so many deletions are due. Some of them may be of objects that no
// settled pass ever counted, hence the maximum: all of everything is never more than 100%.
func (inv *Inventory) Total(deletions int) int {
	if inv.Settled == 0 {
		return len(inv.Entries)
	}
	return max(inv.Settled, deletions)
}

// Sorted returns the entries, in apply order.
func (inv *Inventory) Sorted() []Entry {
	return slices.SortedFunc(maps.Values(inv.Entries), func(a, b Entry) int { return order.Compare(a.ID, b.ID) })
}

// IsInventory reports whether an object is where inventories are kept, so that no service may own it.
func IsInventory(id object.ID) bool {
	return id.Group == "" && id.Kind == "ConfigMap" && id.Namespace == object.SystemNamespace &&
		(strings.HasPrefix(id.Name, headPrefix) || strings.HasPrefix(id.Name, chunkPrefix))
}
