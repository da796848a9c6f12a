package inventory

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// world is one API server with a service name that no other test has.
type world struct {
	*kubetest.Cluster
	service string
	store   *Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Start(t)
	w := &world{Cluster: cluster, service: cluster.Namespace}
	w.store = w.storeBy(t, nil)
	t.Cleanup(func() {
		// The test's own context has ended by now.
		w.configMaps().DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: inventoryLabel + "=" + w.service})
	})
	return w
}

// storeBy makes a store whose requests all go through a transport.
func (w *world) storeBy(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *Store {
	t.Helper()
	config := rest.CopyConfig(w.RESTConfig)
	if wrap != nil {
		config.Wrap(wrap)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	store := NewStore(objects, meta)
	store.chunk = smallChunk
	return store
}

// smallChunk makes inventories in chunks of a few ConfigMaps that are quickly written.
const smallChunk = 2000

func (w *world) configMaps() dynamic.ResourceInterface {
	return w.Dynamic.Resource(configMaps()).Namespace(object.SystemNamespace)
}

// names lists what the cluster holds of the service's inventory.
func (w *world) names(t *testing.T) []string {
	t.Helper()
	list, err := w.store.metadata.Resource(configMaps()).Namespace(object.SystemNamespace).
		List(t.Context(), metav1.ListOptions{LabelSelector: inventoryLabel + "=" + w.service})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

func (w *world) load(t *testing.T, store *Store) *Inventory {
	t.Helper()
	inv, err := store.Load(t.Context(), w.service)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func (w *world) save(t *testing.T, inv *Inventory) *Inventory {
	t.Helper()
	if err := w.store.Save(t.Context(), inv); err != nil {
		t.Fatal(err)
	}
	return inv
}

// small is an inventory that fits into one ConfigMap.
func (w *world) small(key string) *Inventory {
	inv := New(w.service)
	inv.Key = key
	id := object.ID{Kind: "ConfigMap", Namespace: "web", Name: "a"}
	inv.Entries[id] = Entry{ID: id, Version: "v1", UID: key}
	return inv
}

// fill makes an inventory too large for one ConfigMap.
func fill(inv *Inventory, key string) *Inventory {
	inv.Key = key
	id := HookID{ID: object.ID{Kind: "Job", Namespace: "web", Name: "noise"}}
	inv.Hooks[id] = Hook{Message: random(len(key), 3*smallChunk)}
	return inv
}

func (w *world) edit(t *testing.T, name string, change func(*unstructured.Unstructured)) {
	t.Helper()
	obj, err := w.configMaps().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.delete(t, name) // some are immutable
	change(obj)
	obj.SetResourceVersion("")
	if _, err := w.configMaps().Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) delete(t *testing.T, name string) {
	t.Helper()
	if err := w.configMaps().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func wantSame(t *testing.T, what string, want, got *Inventory) {
	t.Helper()
	if diff := cmp.Diff(want, got, publicFields); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAnInventoryIsLoadedAsItWasSaved(t *testing.T) {
	w := newWorld(t)
	fresh := w.load(t, w.store)
	if fresh.Stored() || len(fresh.Entries) > 0 {
		t.Errorf("a service that was never applied has %+v", fresh)
	}
	inv := w.save(t, w.small("k1"))
	if !inv.Stored() {
		t.Error("it was saved, and says that it was not")
	}
	wantSame(t, "loaded", inv, w.load(t, w.store))
	all, damaged, err := w.store.LoadAll(t.Context())
	if err != nil || damaged[w.service] != nil {
		t.Fatal(err, damaged[w.service])
	}
	wantSame(t, "loaded with all others", inv, all[w.service])
	delete(inv.Entries, inv.Sorted()[0].ID)
	w.save(t, inv)
	wantSame(t, "loaded after a change", inv, w.load(t, w.store))
}

func TestAnInventoryCarriesNoMarkOfAService(t *testing.T) {
	w := newWorld(t)
	w.save(t, fill(New(w.service), "k1"))
	if names := w.names(t); len(names) < 3 {
		t.Fatalf("got %v, want a head and chunks", names)
	}
	list, err := w.configMaps().List(t.Context(), metav1.ListOptions{LabelSelector: object.ServiceLabel})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		t.Errorf("%s carries the label %s", item.GetName(), object.ServiceLabel)
	}
}

func TestAnInventoryOf20000ObjectsIsKeptInChunks(t *testing.T) {
	w := newWorld(t)
	w.store.chunk = maxChunk
	inv := large(20_000)
	inv.Service = w.service
	w.save(t, inv)
	if names := w.names(t); len(names) != 3 {
		t.Errorf("got %v, want a head and two chunks", names)
	}
	wantSame(t, "loaded", inv, w.load(t, w.store))
	all, _, err := w.store.LoadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, "loaded with all others", inv, all[w.service])
	for _, e := range inv.Sorted()[10:] {
		delete(inv.Entries, e.ID)
	}
	w.save(t, inv)
	if names := w.names(t); !slices.Equal(names, []string{headPrefix + w.service}) {
		t.Errorf("chunks of an inventory that is small now: %v", names)
	}
	wantSame(t, "loaded", inv, w.load(t, w.store))
}

// recorder counts requests that change something, and ends the world at one of them.
type recorder struct {
	http.RoundTripper
	mu       sync.Mutex
	requests []string
	dieAt    int  // which change is the last that is sent; 0: never
	answered bool // its answer still arrives
}

var errKilled = errors.New("killed")

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	if req.Method != http.MethodGet {
		r.requests = append(r.requests, req.Method+" "+req.URL.Path)
	}
	changes := len(r.requests)
	r.mu.Unlock()
	if r.dieAt > 0 && (changes > r.dieAt || changes == r.dieAt && req.Method == http.MethodGet) {
		return nil, errKilled
	}
	resp, err := r.RoundTripper.RoundTrip(req)
	if err == nil && r.dieAt > 0 && changes == r.dieAt && !r.answered {
		resp.Body.Close()
		return nil, errKilled
	}
	return resp, err
}

func (w *world) recorded(t *testing.T, r *recorder) *Store {
	t.Helper()
	return w.storeBy(t, func(next http.RoundTripper) http.RoundTripper {
		r.RoundTripper = next
		return r
	})
}

func TestSaveSendsNothingWhenNothingChanged(t *testing.T) {
	w := newWorld(t)
	for name, inv := range map[string]*Inventory{"one ConfigMap": w.small("k1"), "chunks": fill(New(w.service), "k1")} {
		t.Run(name, func(t *testing.T) {
			inv.stored = w.load(t, w.store).stored
			w.save(t, inv)
			sent := &recorder{}
			store := w.recorded(t, sent)
			for what, unchanged := range map[string]*Inventory{"as saved": inv, "as loaded": w.load(t, store)} {
				if err := store.Save(t.Context(), unchanged); err != nil || len(sent.requests) > 0 {
					t.Errorf("%s: %v, sent %v", what, err, sent.requests)
				}
			}
		})
	}
}

func TestSaveIsRefusedOnTopOfWhatWasNotLoaded(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		name string
		then func(other *Inventory) error
	}{
		{"somebody else saved first", func(other *Inventory) error {
			other.Key = "theirs"
			return w.store.Save(t.Context(), other)
		}},
		{"somebody else removed it", func(other *Inventory) error { return w.store.Remove(t.Context(), other) }},
	} {
		for size, change := range map[string]func(*Inventory){
			"small": func(inv *Inventory) { inv.Key = "ours" },
			"large": func(inv *Inventory) { fill(inv, "ours") },
		} {
			t.Run(test.name+", "+size, func(t *testing.T) {
				start := w.small("start" + test.name + size)
				start.stored = w.load(t, w.store).stored
				w.save(t, start)
				ours, theirs := w.load(t, w.store), w.load(t, w.store)
				if err := test.then(theirs); err != nil {
					t.Fatal(err)
				}
				change(ours)
				if err := w.store.Save(t.Context(), ours); !errors.Is(err, ErrConflict) {
					t.Errorf("save: %v", err)
				}
				if now := w.load(t, w.store); now.Key == "ours" {
					t.Error("what somebody else saved is gone")
				}
			})
		}
	}
	t.Run("both are the first", func(t *testing.T) {
		if err := w.store.Remove(t.Context(), w.load(t, w.store)); err != nil {
			t.Fatal(err)
		}
		w.save(t, w.small("theirs"))
		if err := w.store.Save(t.Context(), w.small("ours")); !errors.Is(err, ErrConflict) {
			t.Errorf("save: %v", err)
		}
	})
	t.Run("removal", func(t *testing.T) {
		ours, theirs := w.load(t, w.store), w.load(t, w.store)
		theirs.Key = "theirs again"
		w.save(t, theirs)
		if err := w.store.Remove(t.Context(), ours); !errors.Is(err, ErrConflict) {
			t.Errorf("remove: %v", err)
		}
		wantSame(t, "loaded", theirs, w.load(t, w.store))
	})
}

// Whoever is killed may have sent the last request, and may have seen its answer.
func TestASaveThatIsKilledLeavesTheOldInventoryOrTheNew(t *testing.T) {
	w := newWorld(t)
	for _, shape := range []struct {
		name     string
		old, new func(*Inventory) *Inventory
	}{
		{"chunks over chunks", func(inv *Inventory) *Inventory { return fill(inv, "old") }, func(inv *Inventory) *Inventory { return fill(inv, "newer") }},
		{"the first of all", nil, func(inv *Inventory) *Inventory { return fill(inv, "newer") }},
		{"small over chunks", func(inv *Inventory) *Inventory { return fill(inv, "old") }, func(inv *Inventory) *Inventory {
			inv.Key = "newer"
			clear(inv.Hooks)
			return inv
		}},
	} {
		for killedAt := 1; ; killedAt++ {
			finished := true
			for _, answered := range []bool{false, true} {
				name := fmt.Sprintf("%s, killed at change %d, answered %v", shape.name, killedAt, answered)
				t.Run(name, func(t *testing.T) {
					sent := &recorder{dieAt: killedAt, answered: answered}
					old, changed := w.killed(t, sent, shape.old, shape.new)
					finished = finished && len(sent.requests) < killedAt
					w.wantNextSaveToCleanUp(t, w.wantOneOf(t, old, changed))
				})
			}
			if finished || t.Failed() {
				break
			}
		}
	}
}

// killed saves an inventory and changes it, and is killed while it saves that.
func (w *world) killed(t *testing.T, sent *recorder, old, change func(*Inventory) *Inventory) (before, after *Inventory) {
	t.Helper()
	for _, name := range w.names(t) {
		w.delete(t, name)
	}
	if old != nil {
		w.save(t, old(New(w.service)))
	}
	before, after = w.load(t, w.store), change(w.load(t, w.store))
	if err := w.recorded(t, sent).Save(t.Context(), after); err != nil && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	return before, after
}

// wantOneOf returns the inventory as it is found when the world is looked at anew; nil: there is none.
func (w *world) wantOneOf(t *testing.T, before, after *Inventory) *Inventory {
	t.Helper()
	got := w.load(t, w.store)
	all, damaged, err := w.store.LoadAll(t.Context())
	if err != nil || damaged[w.service] != nil {
		t.Fatal(err, damaged[w.service])
	}
	if got.Stored() {
		wantSame(t, "loaded with all others", got, all[w.service])
	}
	want := before
	if got.Key == after.Key {
		want = after
	}
	wantSame(t, "loaded", want, got)
	return all[w.service]
}

func (w *world) wantNextSaveToCleanUp(t *testing.T, next *Inventory) {
	t.Helper()
	if next == nil {
		next = fill(New(w.service), "newer")
	}
	next.Failed = "next"
	w.save(t, next)
	head, err := w.configMaps().Get(t.Context(), headPrefix+w.service, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{head.GetName()}
	if text, found, _ := unstructured.NestedString(head.Object, "data", indexKey); found {
		chunks, err := decodeIndex(w.service, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range chunks {
			want = append(want, c.Name)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, w.names(t)); diff != "" {
		t.Errorf("left after the next save (-want +got):\n%s", diff)
	}
}

func TestARemovalThatIsKilledNeverLeavesADamagedInventory(t *testing.T) {
	w := newWorld(t)
	for killedAt := 1; ; killedAt++ {
		w.save(t, fill(w.load(t, w.store), "old"))
		sent := &recorder{dieAt: killedAt}
		if err := w.recorded(t, sent).Remove(t.Context(), w.load(t, w.store)); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		all, damaged, err := w.store.LoadAll(t.Context())
		if err != nil || damaged[w.service] != nil {
			t.Fatalf("killed at change %d: %v, %v", killedAt, err, damaged[w.service])
		}
		left := w.load(t, w.store)
		if inv := all[w.service]; inv != nil {
			left = inv
		}
		if err := w.store.Remove(t.Context(), left); err != nil {
			t.Fatal(err)
		}
		if names := w.names(t); len(names) > 0 {
			t.Fatalf("killed at change %d: left after the next removal: %v", killedAt, names)
		}
		if len(sent.requests) < killedAt {
			return
		}
	}
}

func TestWhatCannotBeTrustedIsAnErrorThatNamesItAndTheFix(t *testing.T) {
	w := newWorld(t)
	head := headPrefix + w.service
	firstChunk := func() string {
		return slices.MinFunc(slices.DeleteFunc(w.names(t), func(name string) bool { return name == head }), strings.Compare)
	}
	set := func(field, key, value string) func(*unstructured.Unstructured) {
		return func(obj *unstructured.Unstructured) {
			obj.Object[field] = map[string]any{key: base64.StdEncoding.EncodeToString([]byte(value))}
		}
	}
	for _, test := range []struct {
		name   string
		damage func(t *testing.T) (configMap string)
	}{
		{"a chunk is gone", func(t *testing.T) string {
			name := firstChunk()
			w.delete(t, name)
			return name
		}},
		{"a chunk was changed", func(t *testing.T) string {
			name := firstChunk()
			w.edit(t, name, set("binaryData", chunkKey, "else"))
			return name
		}},
		{"a chunk is empty", func(t *testing.T) string {
			name := firstChunk()
			w.edit(t, name, func(obj *unstructured.Unstructured) { delete(obj.Object, "binaryData") })
			return name
		}},
		{"the head is no index", func(t *testing.T) string {
			w.edit(t, head, func(obj *unstructured.Unstructured) { obj.Object["data"] = map[string]any{indexKey: "{}"} })
			return head
		}},
		{"the head is something else", func(t *testing.T) string {
			w.edit(t, head, func(obj *unstructured.Unstructured) { obj.Object["data"] = map[string]any{"config": "mine"} })
			return head
		}},
		{"the head says two things", func(t *testing.T) string {
			w.edit(t, head, set("binaryData", packedKey, "more"))
			return head
		}},
		{"the head is not compressed", func(t *testing.T) string {
			w.edit(t, head, func(obj *unstructured.Unstructured) {
				delete(obj.Object, "data")
				set("binaryData", packedKey, "plain")(obj)
			})
			return head
		}},
		{"the head is of another service", func(t *testing.T) string {
			codec, err := newCodec()
			if err != nil {
				t.Fatal(err)
			}
			text, err := encode(New("other"))
			if err != nil {
				t.Fatal(err)
			}
			w.edit(t, head, func(obj *unstructured.Unstructured) {
				delete(obj.Object, "data")
				set("binaryData", packedKey, string(codec.pack(text)))(obj)
			})
			return head
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range w.names(t) {
				w.delete(t, name)
			}
			w.save(t, fill(New(w.service), "k1"))
			configMap := test.damage(t)
			inv, err := w.store.Load(t.Context(), w.service)
			w.wantDamage(t, inv, err, configMap)
			all, damaged, err := w.store.LoadAll(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.wantDamage(t, all[w.service], damaged[w.service], configMap)
			w.wantRebuilt(t, damaged[w.service])
		})
	}
}

func (w *world) wantDamage(t *testing.T, inv *Inventory, err error, configMap string) {
	t.Helper()
	if inv != nil {
		t.Errorf("an inventory with %d entries was read", len(inv.Entries))
	}
	var damage *Error
	if !errors.As(err, &damage) {
		t.Fatalf("got %v, want an *Error", err)
	}
	if damage.Service != w.service || damage.ConfigMap != configMap {
		t.Errorf("it is about ConfigMap %q of service %q, want %q of %q", damage.ConfigMap, damage.Service, configMap, w.service)
	}
	if text := damage.Error(); !strings.Contains(text, configMap) || !strings.Contains(text, "what carries the label plural.sh/service="+w.service) {
		t.Errorf("it does not say what to do: %s", text)
	}
}

// wantRebuilt puts an inventory in the place of a damaged one, once.
func (w *world) wantRebuilt(t *testing.T, err error) {
	t.Helper()
	var damage *Error
	errors.As(err, &damage)
	entries := slices.Collect(maps.Values(w.small("").Entries))
	first, second := Rebuild(w.service, entries, damage), Rebuild(w.service, entries, damage)
	w.save(t, first)
	got := w.load(t, w.store)
	if !got.Rebuilt || len(got.Entries) != len(entries) {
		t.Errorf("rebuilt is %+v", got)
	}
	if names := w.names(t); len(names) != 1 {
		t.Errorf("left of the damaged one: %v", names)
	}
	second.Key = "second"
	if err := w.store.Save(t.Context(), second); !errors.Is(err, ErrConflict) {
		t.Errorf("the damaged one was replaced twice: %v", err)
	}
}

func TestAChunkThatSomebodyPutThereIsNoPartOfAnInventory(t *testing.T) {
	w := newWorld(t)
	inv := fill(New(w.service), "k1")
	w.save(t, inv)
	chunk := w.names(t)[0]
	for _, name := range w.names(t) {
		if name != chunk {
			w.delete(t, name)
		}
	}
	w.edit(t, chunk, func(obj *unstructured.Unstructured) { obj.Object["binaryData"] = map[string]any{chunkKey: "AAAA"} })
	inv.stored = stored{}
	var damage *Error
	if err := w.store.Save(t.Context(), inv); !errors.As(err, &damage) || damage.ConfigMap != chunk {
		t.Errorf("save: %v, want an error about %s", err, chunk)
	}
	if inv := w.load(t, w.store); inv.Stored() {
		t.Error("the head was written")
	}
}

func TestTheFormatOfOlderAgentsIsRead(t *testing.T) {
	w := newWorld(t)
	w.save(t, w.small("so that the namespace is there"))
	const text = `{"format":"plural.sh/inventory/v1","service":%q,"settled":2,"entries":[` +
		`{"version":"v1","kind":"Namespace","name":"web","uid":"u1"},` +
		`{"group":"apps","version":"v1","kind":"Deployment","namespace":"web","name":"db"}]}`
	w.edit(t, headPrefix+w.service, func(obj *unstructured.Unstructured) {
		delete(obj.Object, "binaryData")
		obj.Object["data"] = map[string]any{textKey: fmt.Sprintf(text, w.service)}
	})
	want := New(w.service)
	want.Settled = 2
	for _, e := range []Entry{
		{ID: object.ID{Kind: "Namespace", Name: "web"}, Version: "v1", UID: "u1"},
		{ID: object.ID{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "db"}, Version: "v1"},
	} {
		e.Turn.Stage = 1
		want.Entries[e.ID] = e
	}
	got := w.load(t, w.store)
	wantSame(t, "loaded", want, got)
	w.save(t, got)
	wantSame(t, "loaded in the new format", want, w.load(t, w.store))
	head, err := w.configMaps().Get(t.Context(), headPrefix+w.service, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if key, err := headKey(head); key != packedKey {
		t.Errorf("it is still %s: %v", key, err)
	}
}

func TestAForeignConfigMapWithTheLabelIsNoInventory(t *testing.T) {
	w := newWorld(t)
	saved := w.save(t, w.small("k1"))
	for name, label := range map[string]string{
		"copy-of-" + w.service:               w.service,               // a backup, say
		"stranger-of-" + w.service:           "stranger-" + w.service, // of a service that has no inventory
		headPrefix + "empty-of-" + w.service: "empty-of-" + w.service,
	} {
		obj := newConfigMap(label, name)
		if _, err := w.configMaps().Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.configMaps().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
	}
	all, damaged, err := w.store.LoadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, "beside a copy", saved, all[w.service])
	for service, want := range map[string]string{
		"stranger-" + w.service: "take the label plural.sh/inventory off it",
		"empty-of-" + w.service: "it is no inventory",
	} {
		if err := damaged[service]; err == nil || all[service] != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("service %s: %v, want it to say %q", service, err, want)
		}
	}
}

// saver saves another inventory before the first chunk is asked for.
type saver struct {
	http.RoundTripper
	once sync.Once
	save func()
}

func (s *saver) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.Contains(req.URL.Path, chunkPrefix) {
		s.once.Do(s.save)
	}
	return s.RoundTripper.RoundTrip(req)
}

func TestLoadSeesOneInventoryWhileAnotherIsSaved(t *testing.T) {
	w := newWorld(t)
	inv := w.save(t, fill(New(w.service), "old"))
	store := w.storeBy(t, func(next http.RoundTripper) http.RoundTripper {
		return &saver{RoundTripper: next, save: func() { w.save(t, fill(inv, "newer")) }}
	})
	if got := w.load(t, store); got.Key != "newer" {
		t.Errorf("got the one with key %q", got.Key)
	}
}

func TestAListOfInventoriesIsReadInPages(t *testing.T) {
	w := newWorld(t)
	const count = listPage + 20
	for i := range count {
		inv := New(fmt.Sprintf("%s-%d", w.service, i))
		inv.Key = "k"
		w.save(t, inv)
	}
	all, _, err := w.store.LoadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if all[fmt.Sprintf("%s-%d", w.service, i)] == nil {
			t.Fatalf("inventory %d is missing", i)
		}
	}
}
