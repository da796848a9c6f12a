package apply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeRefusesWhatItDoesNotFullyUnderstand(t *testing.T) {
	const good = `{"format":"plural.sh/inventory/v1","service":"web","settled":1,"entries":[{"version":"v1","kind":"ConfigMap","namespace":"a","name":"b","uid":"c"}]}`
	tests := map[string]string{
		"nothing":               ``,
		"cut short":             good[:len(good)-10],
		"text after the end":    good + "{}",
		"a newer format":        strings.Replace(good, "inventory/v1", "inventory/v2", 1),
		"another service":       strings.Replace(good, `"web"`, `"db"`, 1),
		"a field nobody knows":  strings.Replace(good, `"uid"`, `"uuid"`, 1),
		"an entry with no name": strings.Replace(good, `"name":"b",`, "", 1),
		"an entry with no kind": strings.Replace(good, `"kind":"ConfigMap",`, "", 1),
		"a negative count":      strings.Replace(good, `"settled":1`, `"settled":-1`, 1),
		"the same entry twice":  strings.Replace(good, `"c"}`, `"c"},{"version":"v2","kind":"ConfigMap","namespace":"a","name":"b"}`, 1),
	}
	if _, err := decode("web", good); err != nil {
		t.Fatalf("a good inventory: %v", err)
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if inv, err := decode("web", text); err == nil {
				t.Errorf("got %+v, want an error", inv)
			}
		})
	}
}

func TestEncodeRefusesMoreThanAConfigMapHolds(t *testing.T) {
	inv := &inventory{service: "web", entries: map[ID]entry{}}
	for range 4_000 {
		inv.claim(ID{Kind: "ConfigMap", Namespace: "a", Name: strings.Repeat("x", 240) + string(rune('a'+len(inv.entries)))}, "v1")
	}
	if _, err := inv.encode(); err == nil || !strings.Contains(err.Error(), `split service "web"`) {
		t.Errorf("error %v: want one that says what to do", err)
	}
}

func FuzzDecodeInventory(f *testing.F) {
	f.Add(`{"format":"plural.sh/inventory/v1","service":"web","settled":1,"entries":[{"version":"v1","kind":"A","name":"b"}]}`)
	f.Add(`{"format":"plural.sh/inventory/v1","service":"web","entries":[{"group":"x","version":"v1","kind":"A","namespace":"n","name":"b","uid":"u"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		inv, err := decode("web", text)
		if err != nil {
			return
		}
		encoded, err := inv.encode()
		if err != nil {
			return // no input that the property speaks of
		}
		again, err := decode("web", encoded)
		if err != nil {
			t.Fatalf("decode what was encoded: %v", err)
		}
		if diff := cmp.Diff(inv.entries, again.entries); diff != "" {
			t.Errorf("entries (-decoded +again):\n%s", diff)
		}
	})
}
