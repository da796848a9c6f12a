package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	inventoryFormat = "plural.sh/inventory/v1"
	// maxInventory keeps a ConfigMap, with its metadata, inside what the API server accepts.
	maxInventory = 1_000_000
)

// entry is one object that a service owns, or is about to. UID is empty from the moment the entry is written until the
// object was seen; Version is the one it was last applied with.
type entry struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

func (e entry) id() ID { return ID{e.Group, e.Kind, e.Namespace, e.Name} }

func (e entry) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
}

// inventory is what one service owns in the cluster. It belongs to the one pass that loaded it.
type inventory struct {
	service string
	entries map[ID]entry
	// settled is how many entries the last pass left that applied everything and held nothing back. Budgets are
	// measured against it, so that a pass that was held does not raise what the next one may delete.
	settled int
	// stored is the text that stands in the cluster, version its resourceVersion; both empty when there is none.
	stored, version string
}

// document is the stored form.
type document struct {
	Format  string  `json:"format"`
	Service string  `json:"service"`
	Settled int     `json:"settled"`
	Entries []entry `json:"entries"`
}

// claim adds an object, or notes the version it is now applied with.
func (inv *inventory) claim(id ID, version string) {
	known := inv.entries[id]
	inv.entries[id] = entry{id.Group, version, id.Kind, id.Namespace, id.Name, known.UID}
}

// confirm notes the uid of an object that was applied.
func (inv *inventory) confirm(id ID, uid string) {
	known := inv.entries[id]
	known.UID = uid
	inv.entries[id] = known
}

// sorted returns the entries, in apply order.
func (inv *inventory) sorted(o ordering) []entry {
	return slices.SortedFunc(maps.Values(inv.entries), func(a, b entry) int { return o.compare(a.id(), b.id()) })
}

// total is what a deletion budget is a share of when so many deletions are due. Some of them may be of objects that no
// settled pass ever counted, hence the maximum: all of everything is never more than 100%.
func (inv *inventory) total(deletions int) int {
	if inv.settled == 0 {
		return len(inv.entries)
	}
	return max(inv.settled, deletions)
}

// encode gives the same text for the same inventory.
func (inv *inventory) encode() (string, error) {
	text, err := json.Marshal(document{inventoryFormat, inv.service, inv.settled, inv.sorted(newOrdering())})
	if err != nil {
		return "", fmt.Errorf("encode inventory: %w", err)
	}
	if len(text) > maxInventory {
		return "", fmt.Errorf("encode inventory: %d objects take %d bytes, and a ConfigMap holds %d: split service %q",
			len(inv.entries), len(text), maxInventory, inv.service)
	}
	return string(text), nil
}

// decode reads the stored form. It is strict: an inventory that is only partly understood would make objects look
// forgotten.
func decode(service, text string) (*inventory, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	var doc document
	if err := decoder.Decode(&doc); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the end")
	}
	if doc.Format != inventoryFormat {
		return nil, fmt.Errorf("format %q: want %q", doc.Format, inventoryFormat)
	}
	if doc.Service != service {
		return nil, fmt.Errorf("it is the inventory of service %q", doc.Service)
	}
	if doc.Settled < 0 {
		return nil, fmt.Errorf("settled is %d", doc.Settled)
	}
	inv := &inventory{service: service, entries: map[ID]entry{}, settled: doc.Settled, stored: text}
	for i, e := range doc.Entries {
		if e.Version == "" || e.Kind == "" || e.Name == "" {
			return nil, fmt.Errorf("entry %d has no version, kind or name", i)
		}
		if _, twice := inv.entries[e.id()]; twice {
			return nil, fmt.Errorf("entry %d: %s stands there twice", i, e.id())
		}
		inv.entries[e.id()] = e
	}
	return inv, nil
}
