package inventory

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

var publicFields = cmpopts.IgnoreUnexported(Inventory{})

func drawID(t *rapid.T) object.ID {
	label := rapid.StringMatching(`[a-z][a-z0-9-]{0,12}`)
	return object.ID{
		Group:     rapid.SampledFrom([]string{"", "apps", "cert-manager.io"}).Draw(t, "group"),
		Kind:      rapid.SampledFrom([]string{"ConfigMap", "Deployment", "Namespace", "Certificate"}).Draw(t, "kind"),
		Namespace: rapid.OneOf(rapid.Just(""), label).Draw(t, "namespace"),
		Name:      label.Draw(t, "name"),
	}
}

func drawInventory(t *rapid.T) *Inventory {
	text := rapid.StringN(0, 30, -1)
	stage := rapid.Custom(func(t *rapid.T) order.Stage { return order.Stage(rapid.IntRange(0, int(order.Skip)).Draw(t, "stage")) })
	inv := New(rapid.StringMatching(`[a-z][a-z0-9-]{0,20}`).Draw(t, "service"))
	inv.Key, inv.Failed = text.Draw(t, "key"), text.Draw(t, "failed")
	inv.Account = text.Draw(t, "account")
	inv.Settled = rapid.IntRange(0, 30_000).Draw(t, "settled")
	inv.Orphan, inv.Rebuilt = rapid.Bool().Draw(t, "orphan"), rapid.Bool().Draw(t, "rebuilt")
	for range rapid.IntRange(0, 20).Draw(t, "entries") {
		id := drawID(t)
		inv.Entries[id] = Entry{
			ID: id, Version: rapid.SampledFrom([]string{"v1", "v1beta1"}).Draw(t, "version"),
			UID: text.Draw(t, "uid"), Digest: text.Draw(t, "digest"), Trace: text.Draw(t, "trace"),
			Recreating: text.Draw(t, "recreating"),
			Turn: TurnMarks{
				Stage: stage.Draw(t, "stage"), Wave: rapid.IntRange(-9, 9).Draw(t, "wave"),
				NoPrune: rapid.Bool().Draw(t, "no prune"), Keep: rapid.Bool().Draw(t, "keep"),
				PruneLast: rapid.Bool().Draw(t, "prune last"),
			},
		}
	}
	for range rapid.IntRange(0, 5).Draw(t, "hooks") {
		inv.Hooks[HookID{drawID(t), stage.Draw(t, "hook stage")}] = Hook{
			Run: text.Draw(t, "run"), UID: text.Draw(t, "hook uid"), Message: text.Draw(t, "message"),
			State: rapid.SampledFrom([]HookState{"", HookCreated, HookSucceeded, HookFailed}).Draw(t, "state"),
		}
	}
	return inv
}

func TestAnyInventoryIsReadAsItWasWritten(t *testing.T) {
	codec, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		inv := drawInventory(t)
		text, err := encode(inv)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := codec.unpack(codec.pack(text))
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(inv.Service, unpacked, format)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(inv, again, publicFields); diff != "" {
			t.Fatalf("inventory (-written +read):\n%s", diff)
		}
		if twice, err := encode(again); err != nil || !bytes.Equal(text, twice) {
			t.Fatalf("the same inventory has two texts (%v):\n%s\n%s", err, text, twice)
		}
	})
}

func TestDecodeRefusesWhatItDoesNotFullyUnderstand(t *testing.T) {
	const good = `{"format":"plural.sh/inventory/v2","service":"web","settled":1,"entries":[{"version":"v1","kind":"ConfigMap",` +
		`"namespace":"a","name":"b","uid":"c","stage":"pre-sync"}],"hooks":[{"kind":"Job","name":"j","stage":"sync","state":"created"}]}`
	tests := map[string]string{
		"nothing":               ``,
		"cut short":             good[:len(good)-10],
		"text after the end":    good + "{}",
		"a newer format":        strings.Replace(good, "inventory/v2", "inventory/v3", 1),
		"another service":       strings.Replace(good, `"web"`, `"db"`, 1),
		"a field nobody knows":  strings.Replace(good, `"uid"`, `"uuid"`, 1),
		"an entry with no name": strings.Replace(good, `"name":"b",`, "", 1),
		"an entry with no kind": strings.Replace(good, `"kind":"ConfigMap",`, "", 1),
		"an unknown stage":      strings.Replace(good, `"pre-sync"`, `"pre-sink"`, 1),
		"a hook with no stage":  strings.Replace(good, `"stage":"sync",`, "", 1),
		"an unknown state":      strings.Replace(good, `"created"`, `"creating"`, 1),
		"a negative count":      strings.Replace(good, `"settled":1`, `"settled":-1`, 1),
		"the same entry twice":  strings.Replace(good, `"pre-sync"}`, `"pre-sync"},{"version":"v2","kind":"ConfigMap","namespace":"a","name":"b"}`, 1),
		"the same hook twice":   strings.Replace(good, `"created"}`, `"created"},{"kind":"Job","name":"j","stage":"sync"}`, 1),
		"what asks for memory":  strings.Replace(good, `"entries":[`, `"entries":[`+strings.Repeat("{},", maxObjects), 1),
	}
	if _, err := decode("web", []byte(good), format); err != nil {
		t.Fatalf("a good inventory: %v", err)
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if inv, err := decode("web", []byte(text), format); err == nil {
				t.Errorf("got %+v, want an error", inv)
			}
		})
	}
}

func TestWhatCouldNotBeReadIsNotWritten(t *testing.T) {
	inv := New("web")
	id := object.ID{Kind: "ConfigMap", Name: "a"}
	inv.Entries[id] = Entry{ID: id}
	if _, err := encode(inv); err == nil {
		t.Error("an entry without a version was written")
	}
	delete(inv.Entries, id)
	inv.Hooks[HookID{id, order.Sync}] = Hook{Message: strings.Repeat("{", maxObjects)}
	if _, err := encode(inv); err == nil || !strings.Contains(err.Error(), `split service "web"`) {
		t.Errorf("error %v: want one that says what to do", err)
	}
}

func TestASmallTextThatUnpacksToAHugeOneIsRefused(t *testing.T) {
	bomb := func(options ...zstd.EOption) []byte {
		var out bytes.Buffer
		z, err := zstd.NewWriter(&out, options...)
		if err != nil {
			t.Fatal(err)
		}
		for range maxText/(1<<20) + 1 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	codec, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	one := bomb()
	small := codec.pack(make([]byte, maxText/2))
	for name, packed := range map[string][]byte{
		"one frame":    one,
		"three frames": bytes.Repeat(small, 3),
		"cut short":    one[:len(one)/2],
		"nothing":      []byte("no zstd"),
	} {
		t.Run(name, func(t *testing.T) {
			if text, err := codec.unpack(packed); err == nil {
				t.Errorf("%d bytes became %d", len(packed), len(text))
			}
		})
	}
}

func TestTheIndexOfChunksIsReadStrictly(t *testing.T) {
	const good = `{"format":"plural.sh/inventory-chunks/v1","service":"web","chunks":[{"name":"plural-chunk-web-00","sha256":"b"}]}`
	if _, err := decodeIndex("web", good); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing":         "",
		"no chunks":       strings.Replace(good, `{"name":"plural-chunk-web-00","sha256":"b"}`, "", 1),
		"too many chunks": strings.Replace(good, `{"name"`, strings.Repeat(`{"name":"plural-chunk-web-00"},`, maxChunks)+`{"name"`, 1),
		"somebody else's": strings.Replace(good, "plural-chunk-web-00", "plural-chunk-db-00", 1),
		"a path":          strings.Replace(good, "web-00", "web-../../secrets", 1),
		"another service": strings.Replace(good, "web", "db", 1),
		"a newer format":  strings.Replace(good, "v1", "v2", 1),
		"unknown field":   strings.Replace(good, "sha256", "sha512", 1),
		"too long":        good + strings.Repeat(" ", maxChunk),
	} {
		t.Run(name, func(t *testing.T) {
			if chunks, err := decodeIndex("web", text); err == nil {
				t.Errorf("got %v", chunks)
			}
		})
	}
}

func TestABudgetIsMeasuredAgainstWhatASettledPassLeft(t *testing.T) {
	inv := large(10)
	for _, test := range []struct{ settled, deletions, want int }{
		{0, 5, 10}, {8, 5, 8}, {8, 9, 9},
	} {
		inv.Settled = test.settled
		if got := inv.Total(test.deletions); got != test.want {
			t.Errorf("settled %d, %d deletions: total %d, want %d", test.settled, test.deletions, got, test.want)
		}
	}
}

func TestNoServiceMayOwnAnInventory(t *testing.T) {
	id := func(namespace, name string) object.ID {
		return object.ID{Kind: "ConfigMap", Namespace: namespace, Name: name}
	}
	for want, ids := range map[bool][]object.ID{
		true:  {id(object.SystemNamespace, "plural-inventory-web"), id(object.SystemNamespace, "plural-chunk-web-1")},
		false: {id(object.SystemNamespace, "web"), id("web", "plural-inventory-web"), {Kind: "Secret", Namespace: object.SystemNamespace, Name: "plural-inventory-web"}},
	} {
		for _, id := range ids {
			if IsInventory(id) != want {
				t.Errorf("%s: want %v", id, want)
			}
		}
	}
}

// large is an inventory like those of real services: every object has a uid, a digest and a trace of its own.
func large(n int) *Inventory {
	inv := New("web")
	inv.Key, inv.Settled = strings.Repeat("k", 43), n
	kinds := []struct{ group, version, kind string }{
		{"apps", "v1", "Deployment"}, {"", "v1", "ServiceAccount"}, {"", "v1", "Service"}, {"networking.k8s.io", "v1", "Ingress"},
	}
	for i := range n {
		kind := kinds[i%len(kinds)]
		id := object.ID{Group: kind.group, Kind: kind.kind, Namespace: "team", Name: fmt.Sprintf("service-%05d", i/len(kinds))}
		noise := func(n int) string { return random(i*7+n, n) }
		inv.Entries[id] = Entry{
			ID: id, Version: kind.version, Digest: noise(22), Trace: noise(23), UID: fmt.Sprintf("%x-%x", noise(8), noise(10)),
			Turn: TurnMarks{Stage: order.Sync},
		}
	}
	return inv
}

// random is a text that does not compress and is the same in every run.
func random(seed, length int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	state := uint64(seed)*0x9E3779B97F4A7C15 + uint64(length)
	text := make([]byte, length)
	for i := range text {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		text[i] = letters[state%64]
	}
	return string(text)
}

func BenchmarkEncode20000(b *testing.B) {
	inv := large(20_000)
	codec, err := newCodec()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		text, err := encode(inv)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(codec.pack(text))), "packed_bytes")
		b.ReportMetric(float64(len(text)), "text_bytes")
	}
}

func BenchmarkDecode20000(b *testing.B) {
	text, err := encode(large(20_000))
	if err != nil {
		b.Fatal(err)
	}
	codec, err := newCodec()
	if err != nil {
		b.Fatal(err)
	}
	packed := codec.pack(text)
	for b.Loop() {
		text, err := codec.unpack(packed)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := decode("web", text, format); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzDecodePacked(f *testing.F) {
	codec, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	text, err := encode(large(3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(codec.pack(text))
	f.Add(codec.pack([]byte(`{"format":"plural.sh/inventory/v2","service":"web","settled":0,"entries":null}`)))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, packed []byte) {
		if text, err := codec.unpack(packed); err == nil {
			if len(text) > maxText {
				t.Fatalf("%d bytes", len(text))
			}
			checkDecode(t, text)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"format":"plural.sh/inventory/v2","service":"web","settled":1,"entries":[{"version":"v1","kind":"A","name":"b","wave":3}]}`))
	f.Add([]byte(`{"format":"plural.sh/inventory/v2","service":"web","entries":[],"hooks":[{"kind":"Job","name":"j","stage":"sync"}]}`))
	f.Add([]byte(`{"format":"plural.sh/inventory-chunks/v1","service":"web","chunks":[{"name":"plural-chunk-web-00","sha256":"b"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		checkDecode(t, text)
		if chunks, err := decodeIndex("web", string(text)); err == nil && (len(chunks) == 0 || len(chunks) > maxChunks) {
			t.Errorf("%d chunks", len(chunks))
		}
	})
}

// checkDecode wants what is read to be written as something that reads the same.
func checkDecode(t *testing.T, text []byte) {
	inv, err := decode("web", text, format)
	if err != nil {
		return
	}
	encoded, err := encode(inv)
	if err != nil {
		t.Fatalf("encode what was decoded: %v", err)
	}
	again, err := decode("web", encoded, format)
	if err != nil {
		t.Fatalf("decode what was encoded: %v", err)
	}
	if diff := cmp.Diff(inv, again, publicFields); diff != "" {
		t.Errorf("inventory (-decoded +again):\n%s", diff)
	}
}
