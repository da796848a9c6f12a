package apply_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
)

func TestPruneDeletesWhatTheRenderNoLongerHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web, settings := deployment("web", "nginx:1"), configMap("settings", "1")
	w.apply(web, settings)

	w.expect(w.apply(settings), "unchanged ConfigMap/settings", "deleted Deployment/web")

	if w.exists(web) {
		t.Error("the deployment is still there")
	}
	w.expect(w.apply(settings), "unchanged ConfigMap/settings")
}

func TestPruneKeepsObjectsWhenRenderIsEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := configMaps("a", 3)
	w.apply(objects...)

	req := w.request()
	req.Budget = "100%"
	result := w.pass(req)

	w.expect(result, "kept ConfigMap/a-002", "kept ConfigMap/a-001", "kept ConfigMap/a-000")
	if result.Held == nil || !strings.Contains(result.Held.Message, "the render is empty") {
		t.Fatalf("held %+v does not say why", result.Held)
	}
	w.mustExist(objects...)

	req.Acknowledged = []string{result.Held.Token}
	w.expect(w.pass(req), "deleted ConfigMap/a-002", "deleted ConfigMap/a-001", "deleted ConfigMap/a-000")
}

func TestPruneKeepsObjectsWhenOneObjectFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := configMaps("a", 2)
	w.apply(objects...)
	bad := configMap("bad", "1")
	bad.SetName("Not_A_Name")

	w.expect(w.apply(objects[0], bad), "Invalid ConfigMap/Not_A_Name", "unchanged ConfigMap/a-000", "kept ConfigMap/a-001")
	w.mustExist(objects...)
}

func TestPruneWaitsWhenTheBudgetIsExceededAndNeverByRepetition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, replacement := configMaps("old", 12), configMaps("new", 12)
	w.apply(old...)

	var held *apply.Held
	for range 3 {
		held = w.apply(replacement...).Held
		want := "12 deletions wait: the deletion budget of 50% allows 10 of 12 objects: plural service ack " + w.service
		if held == nil || held.Message != want || len(held.Names) != 12 {
			t.Fatalf("held %+v, want %q", held, want)
		}
	}
	w.mustExist(old...)

	req := w.request(replacement[1:]...)
	req.Acknowledged = []string{held.Token}
	if result := w.pass(req); result.Held == nil || result.Held.Token == held.Token {
		t.Errorf("what was agreed to lets other objects go: %+v", result.Held)
	}
	w.mustExist(old...)

	req = w.request(replacement...)
	req.Acknowledged = []string{"0123456789ab", held.Token}
	if result := w.pass(req); result.Held != nil || w.exists(old[0]) {
		t.Errorf("agreed deletions still wait: %+v", result.Held)
	}
	w.mustExist(replacement...)
}

func TestPruneLeavesObjectsThatAreNoLongerTheServicesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stripped, anew, moved, stays := configMap("stripped", "1"), configMap("anew", "1"), configMap("moved", "1"), configMap("stays", "1")
	w.apply(stripped, anew, moved, stays)
	w.patch(stripped, `{"metadata":{"labels":{"plural.sh/service":null}}}`)
	w.patch(moved, `{"metadata":{"labels":{"plural.sh/service":"another"}}}`)
	w.delete(anew)
	copied := anew.DeepCopy()
	copied.SetLabels(map[string]string{object.ServiceLabel: w.service})
	w.create(copied)

	result := w.apply(stays)

	w.expect(result, "unchanged ConfigMap/stays", "kept ConfigMap/stripped", "kept ConfigMap/moved", "kept ConfigMap/anew")
	w.mustExist(stripped, anew, moved)
	for i, reason := range []string{"", "taken off", `"another"`, "created it anew"} {
		if !strings.Contains(result.Objects[i].Message, reason) {
			t.Errorf("message %q does not say %q", result.Objects[i].Message, reason)
		}
	}
	w.expect(w.apply(stays), "unchanged ConfigMap/stays", "kept ConfigMap/stripped", "kept ConfigMap/anew")
}

func TestPruneKeepsProtectedKindsUntilTheirAnnotationAllowsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespace := manifest(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + w.namespace + `-data}}`)
	claim := manifest(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	crd, custom := w.definition()
	w.removeLater(namespace)
	stays := configMap("stays", "1")
	w.apply(namespace, crd, custom, claim, stays)

	kept := []string{
		"unchanged ConfigMap/stays", "kept PersistentVolumeClaim/data",
		"kept CustomResourceDefinition/" + crd.GetName(), "kept Namespace/" + namespace.GetName(),
	}
	w.expect(w.apply(stays), slices.Insert(slices.Clone(kept), 1, "deleted Thing/one")...)
	w.expect(w.apply(stays), kept...)

	w.patch(claim, `{"metadata":{"annotations":{"plural.sh/prune":"allow"}}}`)
	w.eventually("the annotated claim to be deleted", func() bool {
		return slices.Contains(lines(w.apply(stays)), "deleted PersistentVolumeClaim/data")
	})
	w.mustExist(namespace, crd)
}

func TestPruneOffKeepsEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := configMaps("a", 2)
	w.apply(objects...)
	req := w.request(objects[0])
	req.Prune = false

	w.expect(w.pass(req), "unchanged ConfigMap/a-000", "kept ConfigMap/a-001")
	w.mustExist(objects...)
}

func TestPruneKeepsAnEntryUntilItsFinalizersAreDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, stays := configMap("slow", "1"), configMap("stays", "1")
	w.apply(slow, stays)
	w.patch(slow, `{"metadata":{"finalizers":["example.com/wait"]}}`)

	for range 2 {
		result := w.apply(stays)
		w.expect(result, "unchanged ConfigMap/stays", "deleted ConfigMap/slow")
		if got := result.Objects[1].Message; got != "waits for finalizers example.com/wait" {
			t.Errorf("message %q", got)
		}
	}
	w.patch(slow, `{"metadata":{"finalizers":null}}`)
	w.eventually("the entry to go", func() bool {
		return slices.Equal(lines(w.apply(stays)), []string{"unchanged ConfigMap/stays"})
	})
	if w.exists(slow) {
		t.Error("the entry went before its object")
	}
}

func TestPruneForgetsObjectsWhoseKindIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crd, custom := w.definition()
	w.create(crd)
	stays := configMap("stays", "1")
	w.eventually("the kind to be served", func() bool { return w.apply(custom, stays).Complete() })
	w.delete(crd)

	w.eventually("the entry to go", func() bool {
		result := w.apply(stays)
		return result.Complete() && len(result.Objects) == 1
	})
}

func TestPruneFindsObjectsWhoseVersionIsNoLongerServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crd, custom := w.definition()
	stays := configMap("stays", "1")
	w.apply(crd, custom, stays)
	schema := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	older := map[string]any{"name": "v1", "served": false, "storage": false, "schema": schema}
	newer := map[string]any{"name": "v2", "served": true, "storage": true, "schema": schema}
	must(0, unstructured.SetNestedSlice(crd.Object, []any{newer, older}, "spec", "versions"))
	w.apply(crd, custom, stays)
	v2 := custom.DeepCopy()
	v2.SetAPIVersion(strings.Replace(custom.GetAPIVersion(), "/v1", "/v2", 1))
	w.eventually("the old version to go", func() bool {
		_, err := w.resource(custom).List(t.Context(), metav1.ListOptions{})
		return err != nil
	})
	w.mustExist(v2)

	w.eventually("the object to be deleted in its new version", func() bool {
		w.apply(crd, stays)
		return !w.exists(v2)
	})
}

func TestRemoveDeletesAServiceAndItsInventory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web, settings := deployment("web", "nginx:1"), configMap("settings", "1")
	claim := manifest(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	foreign := configMap("foreign", "1")
	w.apply(web, settings, claim, foreign)
	w.patch(foreign, `{"metadata":{"labels":{"plural.sh/service":"another"}}}`)
	if services := must(w.engine.Services(t.Context())); !slices.Contains(services, w.service) {
		t.Errorf("services %q do not hold %q", services, w.service)
	}

	result, err := w.engine.Remove(t.Context(), apply.Removal{Service: w.service})
	if err != nil {
		t.Fatal(err)
	}

	w.expect(result, "deleted Deployment/web", "kept PersistentVolumeClaim/data", "deleted ConfigMap/settings", "kept ConfigMap/foreign")
	w.mustExist(claim, foreign)
	if w.exists(web) || w.exists(settings) || w.exists(w.inventory()) {
		t.Error("something of the service is left")
	}
	if services := must(w.engine.Services(t.Context())); slices.Contains(services, w.service) {
		t.Errorf("services %q still hold %q", services, w.service)
	}
	if again, err := w.engine.Remove(t.Context(), apply.Removal{Service: w.service}); err != nil || len(again.Objects) > 0 {
		t.Errorf("removing again: %+v, %v", again, err)
	}
}

func TestRemoveKeepsTheInventoryWhileSomethingIsLeaving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := configMap("slow", "1")
	w.apply(slow, configMap("fast", "1"))
	w.patch(slow, `{"metadata":{"finalizers":["example.com/wait"]}}`)

	w.expect(must(w.engine.Remove(t.Context(), apply.Removal{Service: w.service})), "deleted ConfigMap/slow", "deleted ConfigMap/fast")
	w.mustExist(w.inventory())
	w.patch(slow, `{"metadata":{"finalizers":null}}`)
	w.eventually("the removal to end", func() bool {
		return must(w.engine.Remove(t.Context(), apply.Removal{Service: w.service})).Done
	})
	if w.exists(slow) || w.exists(w.inventory()) {
		t.Error("something of the service is left")
	}
}

func TestPruneDeletesInTheBackground(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web, stays := deployment("web", "nginx:1"), configMap("stays", "1")
	w.apply(web, stays)
	sets := w.resource(manifest(`{apiVersion: apps/v1, kind: ReplicaSet}`))
	count := func() int { return len(must(sets.List(t.Context(), metav1.ListOptions{})).Items) }
	w.eventually("a replica set", func() bool { return count() == 1 })

	w.eventually("the deployment to be deleted", func() bool { w.apply(stays); return !w.exists(web) })
	w.eventually("its replica set to follow", func() bool { return count() == 0 })
}

func TestAnInventoryThatCannotBeReadIsMadeAnewAndDeletesNothingUnasked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := configMaps("a", 3)
	w.apply(objects...)
	live := w.live(w.inventory())
	unstructured.RemoveNestedField(live.Object, "binaryData")
	must(0, unstructured.SetNestedField(live.Object, "damaged", "data", "inventory.json"))
	must(w.resource(live).Update(t.Context(), live, metav1.UpdateOptions{}))
	w.engine = w.newEngine(nil) // as after a restart

	result := w.apply(objects[:2]...)

	w.expect(result, "unchanged ConfigMap/a-000", "unchanged ConfigMap/a-001", "kept ConfigMap/a-002")
	if result.Held == nil || !strings.Contains(result.Held.Message, "the inventory was lost") {
		t.Fatalf("held %+v does not say why", result.Held)
	}
	w.mustExist(objects...)

	req := w.request(objects[:2]...)
	req.Acknowledged = []string{result.Held.Token}
	w.expect(w.pass(req), "unchanged ConfigMap/a-000", "unchanged ConfigMap/a-001", "deleted ConfigMap/a-002")
}

// Somebody takes an object away from the service after it was judged, and before it is deleted.
func TestPruneSparesWhatChangesWhileItIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, settings := configMap("mine", "1"), configMap("settings", "1")
	w.apply(mine, settings)
	var meanwhile sync.Once
	w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/mine") {
				meanwhile.Do(func() {
					_, err := w.resource(mine).Patch(r.Context(), "mine", types.MergePatchType,
						[]byte(`{"metadata": {"labels": {"plural.sh/service": null}}}`), metav1.PatchOptions{})
					if err != nil {
						w.Error(err)
					}
				})
			}
			return next.RoundTrip(r)
		})
	})

	w.expect(w.apply(settings), "unchanged ConfigMap/settings", "kept ConfigMap/mine")
	w.mustExist(mine)
}

// The engine died when it had written down what it was about to make, and somebody else made that.
func TestPruneSparesWhatTheEngineNeverApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings, theirs := configMap("settings", "1"), configMap("theirs", "1")
	w.apply(settings)
	theirs.SetLabels(map[string]string{object.ServiceLabel: w.service})
	w.create(theirs)
	w.intends(inventory.Entry{ID: w.id(theirs), Version: "v1"})

	result := w.apply(settings)

	w.expect(result, "unchanged ConfigMap/settings", "kept ConfigMap/theirs")
	if said := result.Objects[len(result.Objects)-1].Message; !strings.Contains(said, "never applied") {
		t.Errorf("it says %q", said)
	}
	w.mustExist(theirs)
}
