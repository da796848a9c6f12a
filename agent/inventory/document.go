package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

const (
	format   = "plural.sh/inventory/v2"
	formatV1 = "plural.sh/inventory/v1"

	// maxText bounds an inventory before it is compressed, in bytes.
	maxText = 64 << 20
	// maxObjects bounds what is made of a text that was not written here: a few bytes can ask for much memory.
	maxObjects = 200_000
)

// document is the stored form. Texts of format v1 have the first fields of it and of its entries.
type document struct {
	Format   string  `json:"format"`
	Service  string  `json:"service"`
	Key      string  `json:"key,omitempty"`
	Revision string  `json:"revision,omitempty"`
	Settled  int     `json:"settled"`
	Orphan   bool    `json:"orphan,omitempty"`
	Account  string  `json:"account,omitempty"`
	Rebuilt  bool    `json:"rebuilt,omitempty"`
	Failed   string  `json:"failed,omitempty"`
	Entries  []entry `json:"entries"`
	Hooks    []hook  `json:"hooks,omitempty"`
}

type name struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

type entry struct {
	name
	Version    string `json:"version"`
	UID        string `json:"uid,omitempty"`
	Digest     string `json:"digest,omitempty"`
	Trace      string `json:"trace,omitempty"`
	Stage      string `json:"stage,omitempty"` // empty: sync
	Wave       int    `json:"wave,omitempty"`
	NoPrune    bool   `json:"noPrune,omitempty"`
	Keep       bool   `json:"keep,omitempty"`
	PruneLast  bool   `json:"pruneLast,omitempty"`
	Recreating string `json:"recreating,omitempty"`
	Left       bool   `json:"left,omitempty"`
}

type hook struct {
	name
	Stage   string `json:"stage"`
	Run     string `json:"run,omitempty"`
	UID     string `json:"uid,omitempty"`
	State   string `json:"state,omitempty"`
	Message string `json:"message,omitempty"`
}

func nameOf(id object.ID) name { return name{id.Group, id.Kind, id.Namespace, id.Name} }

func (n name) id() object.ID {
	return object.ID{Group: n.Group, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name}
}

// encode gives the same text for the same inventory.
func encode(inv *Inventory) ([]byte, error) {
	doc := document{
		Format: format, Service: inv.Service, Key: inv.Key, Revision: inv.Revision, Settled: inv.Settled, Orphan: inv.Orphan,
		Account: inv.Account, Rebuilt: inv.Rebuilt, Failed: inv.Failed,
		Entries: make([]entry, 0, len(inv.Entries)),
	}
	for _, e := range inv.Sorted() {
		doc.Entries = append(doc.Entries, storedEntry(e))
	}
	for _, id := range slices.SortedFunc(maps.Keys(inv.Hooks), HookID.compare) {
		h := inv.Hooks[id]
		doc.Hooks = append(doc.Hooks, hook{nameOf(id.ID), id.Stage.String(), h.Run, h.UID, string(h.State), h.Message})
	}
	if err := doc.check(); err != nil { // what cannot be read is never written
		return nil, fmt.Errorf("encode: %w", err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if err := checkSize(text); err != nil {
		return nil, fmt.Errorf("%d objects: %w: split service %q", len(inv.Entries), err, inv.Service)
	}
	return text, nil
}

func storedEntry(e Entry) entry {
	out := entry{
		name: nameOf(e.ID), Version: e.Version, UID: e.UID, Digest: e.Digest, Trace: e.Trace, Wave: e.Turn.Wave,
		NoPrune: e.Turn.NoPrune, Keep: e.Turn.Keep, PruneLast: e.Turn.PruneLast, Recreating: e.Recreating, Left: e.Left,
	}
	if e.Turn.Stage != order.Sync {
		out.Stage = e.Turn.Stage.String()
	}
	return out
}

// checkSize also counts what may begin an object.
func checkSize(text []byte) error {
	if len(text) > maxText {
		return fmt.Errorf("more than %d bytes", maxText)
	}
	if bytes.Count(text, []byte("{")) > maxObjects {
		return fmt.Errorf("more than %d objects", maxObjects)
	}
	return nil
}

// decode reads the stored form. It is strict: an inventory that is only partly understood would make objects look
// forgotten.
func decode(service string, text []byte, wanted string) (*Inventory, error) {
	if err := checkSize(text); err != nil {
		return nil, err
	}
	var doc document
	if err := decodeStrictly(text, &doc); err != nil {
		return nil, err
	}
	switch {
	case doc.Format != wanted:
		return nil, fmt.Errorf("format %q: want %q", doc.Format, wanted)
	case doc.Service != service:
		return nil, fmt.Errorf("it is the inventory of service %q", doc.Service)
	}
	if err := doc.check(); err != nil {
		return nil, err
	}
	inv := New(service)
	inv.Key, inv.Revision, inv.Settled, inv.Orphan, inv.Account = doc.Key, doc.Revision, doc.Settled, doc.Orphan, doc.Account
	inv.Rebuilt, inv.Failed = doc.Rebuilt, doc.Failed
	if err := inv.takeEntries(doc.Entries); err != nil {
		return nil, err
	}
	return inv, inv.takeHooks(doc.Hooks)
}

func decodeStrictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the end")
	}
	return nil
}

// check finds what no inventory says.
func (d *document) check() error {
	if d.Settled < 0 {
		return fmt.Errorf("settled is %d", d.Settled)
	}
	for i, e := range d.Entries {
		if e.Version == "" || e.Kind == "" || e.Name == "" {
			return fmt.Errorf("entry %d has no version, kind or name", i)
		}
		if _, known := e.stage(); !known {
			return fmt.Errorf("entry %d: stage is %q", i, e.Stage)
		}
	}
	for i, h := range d.Hooks {
		if h.Kind == "" || h.Name == "" {
			return fmt.Errorf("hook %d has no kind or name", i)
		}
		if _, known := order.ParseStage(h.Stage); !known {
			return fmt.Errorf("hook %d: stage is %q", i, h.Stage)
		}
		switch HookState(h.State) {
		case "", HookCreated, HookSucceeded, HookFailed:
		default:
			return fmt.Errorf("hook %d: state is %q", i, h.State)
		}
	}
	return nil
}

func (e entry) stage() (order.Stage, bool) {
	if e.Stage == "" {
		return order.Sync, true
	}
	return order.ParseStage(e.Stage)
}

func (inv *Inventory) takeEntries(entries []entry) error {
	for i, e := range entries {
		if _, twice := inv.Entries[e.id()]; twice {
			return fmt.Errorf("entry %d: %s stands there twice", i, e.id())
		}
		stage, _ := e.stage()
		inv.Entries[e.id()] = Entry{
			ID: e.id(), Version: e.Version, UID: e.UID, Digest: e.Digest, Trace: e.Trace, Recreating: e.Recreating, Left: e.Left,
			Turn: TurnMarks{Stage: stage, Wave: e.Wave, NoPrune: e.NoPrune, Keep: e.Keep, PruneLast: e.PruneLast},
		}
	}
	return nil
}

func (inv *Inventory) takeHooks(hooks []hook) error {
	for i, h := range hooks {
		stage, _ := order.ParseStage(h.Stage)
		id := HookID{h.id(), stage}
		if _, twice := inv.Hooks[id]; twice {
			return fmt.Errorf("hook %d: %s stands there twice", i, h.id())
		}
		inv.Hooks[id] = Hook{Run: h.Run, UID: h.UID, State: HookState(h.State), Message: h.Message}
	}
	return nil
}
