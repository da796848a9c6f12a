package sync_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/internal/budget"
)

func TestAPollBecomesAHealthyService(t *testing.T) {
	w := newWorld(t)
	web := w.configMap("web", "one")
	w.hub.asks("", web)
	w.start()
	s := w.becomes(web, api.Phase_HEALTHY)
	if s.GetAppliedKey() != web.GetKey() || s.GetObjects() != 1 || s.GetReady() != 1 || s.GetMessage() != "" || len(s.GetProblems()) != 0 {
		t.Errorf("status = %v", s)
	}
	if got := w.live("web"); got != "one" {
		t.Errorf("value = %q", got)
	}
	said := w.hub.said()
	last := said[len(said)-1]
	if last.GetRoot() != "1" || last.GetAgentVersion() != "v1" || last.GetKubernetesVersion() != "v1.35.0" || last.GetBoot() == "" {
		t.Errorf("report = %v", last)
	}
	for i := 1; i < len(said); i++ {
		if said[i].GetSequence() <= said[i-1].GetSequence() {
			t.Errorf("report %d has number %d after %d", i, said[i].GetSequence(), said[i-1].GetSequence())
		}
	}
}

func TestBytesThatAreNotTheBundleAreNeverApplied(t *testing.T) {
	w := newWorld(t)
	web, other := w.configMap("web", "one"), w.configMap("other", "foreign")
	var right []byte
	w.hub.set(func() {
		right = w.hub.bundles[web.GetBundle()]
		w.hub.bundles[web.GetBundle()] = w.hub.bundles[other.GetBundle()]
	})
	w.hub.asks("", web)
	w.start()
	if s := w.becomes(web, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "verify bundle") {
		t.Errorf("message = %q", s.GetMessage())
	}
	if w.live("web") != "" || w.live("other") != "" {
		t.Error("something was applied")
	}
	w.hub.set(func() { w.hub.bundles[web.GetBundle()] = right })
	w.becomes(web, api.Phase_HEALTHY)
}

func TestTheLastGoodIsHealedWhileTheNewestDoesNotRender(t *testing.T) {
	w := newWorld(t)
	good := w.configMap("web", "one")
	w.hub.asks("", good)
	w.start()
	w.becomes(good, api.Phase_HEALTHY)
	broken := w.service("web", map[string]string{"cm.yaml": "kind: [\n"})
	w.hub.asks("", broken)
	if s := w.becomes(broken, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "cm.yaml") || s.GetAppliedKey() != good.GetKey() {
		t.Errorf("status = %v", s)
	}
	w.healed("web", "one")
}

func TestAHeldServiceKeepsRunningWhatItHas(t *testing.T) {
	w := newWorld(t)
	good := w.configMap("web", "one")
	w.hub.asks("", good)
	w.start()
	w.becomes(good, api.Phase_HEALTHY)
	held := &api.Deployment{Service: "web", Hold: "its path vanished"}
	w.hub.asks("", held)
	if s := w.becomes(held, api.Phase_HELD); s.GetMessage() != "its path vanished" || s.GetAppliedKey() != good.GetKey() {
		t.Errorf("status = %v", s)
	}
	w.healed("web", "one")
}

func TestAnEmptyRenderDeletesNothing(t *testing.T) {
	w := newWorld(t)
	good := w.configMap("web", "one")
	w.hub.asks("", good)
	w.start()
	w.becomes(good, api.Phase_HEALTHY)
	empty := w.service("web", map[string]string{"README.md": "moved\n"})
	w.hub.asks("", empty)
	w.eventually("the emptied service does not move on", func() bool {
		s := w.hub.status("web")
		return s.GetKey() == empty.GetKey() && (s.GetPhase() == api.Phase_HELD || s.GetPhase() == api.Phase_FAILED)
	})
	if got := w.live("web"); got != "one" {
		t.Errorf("value = %q", got)
	}
}

func TestANewerKeyStopsARunningPass(t *testing.T) {
	w := newWorld(t)
	second := w.configMap("web", "two")
	w.hub.set(func() { w.hub.stalled[second.GetBundle()] = true })
	w.hub.asks("", w.configMap("web", "one"))
	w.start()
	w.eventually("the first runs", func() bool { return w.live("web") == "one" })
	w.hub.asks("", second)
	w.eventually("the second poll is taken in", func() bool {
		said := w.hub.said()
		return len(said) > 0 && said[len(said)-1].GetRoot() == "2"
	})
	third := w.configMap("web", "three")
	w.hub.asks("", third)
	w.becomes(third, api.Phase_HEALTHY)
	w.neverFailed()
}

func TestAnAgentThatIsStoppedReportsNoFailure(t *testing.T) {
	w := newWorld(t)
	web := w.configMap("web", "one")
	w.hub.set(func() { w.hub.stalled[web.GetBundle()] = true })
	w.hub.asks("", web)
	stop := w.start()
	w.eventually("the poll is taken in", func() bool { return len(w.hub.said()) > 0 })
	stop()
	w.neverFailed()
}

// neverFailed looks through all reports: a pass that was stopped is no failure.
func (w *world) neverFailed() {
	w.Helper()
	for _, r := range w.hub.said() {
		for _, s := range r.GetServices() {
			if s.GetPhase() == api.Phase_FAILED {
				w.Errorf("a failure was reported: %v", s)
			}
		}
	}
}

func TestADependentWaitsUntilItsDependencyIsHealthy(t *testing.T) {
	w := newWorld(t)
	early := w.service("early", map[string]string{"cm.yaml": "kind: [\n"})
	late := w.configMap("late", "one", func(d *api.Deployment) { d.DependsOn = []string{"early"} })
	w.hub.asks("", late, early)
	w.start()
	w.becomes(early, api.Phase_FAILED)
	if s := w.becomes(late, api.Phase_PENDING); s.GetMessage() != "waits for early to be healthy" {
		t.Errorf("message = %q", s.GetMessage())
	}
	if w.live("late") != "" {
		t.Error("it did not wait")
	}
	early = w.configMap("early", "one")
	w.hub.asks("", late, early)
	w.becomes(early, api.Phase_HEALTHY)
	w.becomes(late, api.Phase_HEALTHY)
}

func TestServicesThatFailAgainAndAgainLeaveRoom(t *testing.T) {
	w := newWorld(t)
	var all []*api.Deployment
	for i := range 5 { // more than there are places
		d := w.configMap("bad-"+strconv.Itoa(i), "one")
		w.hub.set(func() { delete(w.hub.bundles, d.GetBundle()) })
		all = append(all, d)
	}
	w.hub.asks("", all...)
	w.start()
	for _, d := range all {
		w.becomes(d, api.Phase_FAILED)
	}
	w.hub.set(func() {
		for _, d := range all {
			w.hub.stalled[d.GetBundle()] = true // the next try takes its time
		}
	})
	web := w.configMap("web", "one")
	w.hub.asks("", append(all, web)...)
	w.becomes(web, api.Phase_HEALTHY)
	w.healed("web", "one")
	w.healed("web", "one")
}

func TestARestartedAgentHealsWithoutItsHub(t *testing.T) {
	for _, lost := range []string{"", "root"} {
		t.Run("without "+lost, func(t *testing.T) {
			w := newWorld(t)
			web := w.configMap("web", "one")
			w.hub.asks("", web)
			stop := w.start()
			w.becomes(web, api.Phase_HEALTHY)
			stop()
			if lost != "" {
				if err := os.Remove(filepath.Join(w.dir, lost)); err != nil {
					t.Fatal(err)
				}
			}
			w.hub.set(func() { w.hub.away = true })
			w.delete("web")
			w.start()
			w.eventually("what was deleted is back", func() bool { return w.live("web") == "one" })
			w.healed("web", "one")
		})
	}
}

func TestARemovalWithinTheBudgetHappens(t *testing.T) {
	w := newWorld(t)
	a, b := w.configMap("a", "one"), w.configMap("b", "one")
	w.hub.asks("", a, b)
	w.start()
	w.becomes(a, api.Phase_HEALTHY)
	w.becomes(b, api.Phase_HEALTHY)
	w.hub.asks("", a)
	w.eventually("b is gone", func() bool { return w.live("b") == "" && w.hub.status("b") == nil })
	if w.live("a") != "one" {
		t.Error("a is gone as well")
	}
}

func TestARemovalOverTheBudgetWaitsForAYes(t *testing.T) {
	w := newWorld(t)
	a, b := w.configMap("a", "one"), w.configMap("b", "one")
	w.hub.asks("", a, b)
	w.start()
	w.becomes(a, api.Phase_HEALTHY)
	w.becomes(b, api.Phase_HEALTHY)
	renamed := w.configMap("c", "one") // what is new allows nothing more to go
	w.hub.asks("", renamed)
	gone := &api.Deployment{Service: "a"}
	if s := w.becomes(gone, api.Phase_HELD); !strings.Contains(s.GetMessage(), "2 of the 2 services") {
		t.Errorf("message = %q", s.GetMessage())
	}
	w.becomes(renamed, api.Phase_HEALTHY)
	if w.live("a") != "one" || w.live("b") != "one" {
		t.Error("something was deleted")
	}
	w.hub.asks("100%", renamed)
	w.eventually("both are gone", func() bool { return w.live("a") == "" && w.live("b") == "" && w.hub.status("a") == nil })
}

func TestAnAcknowledgedRemovalHappensAndNoOther(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.configMap("a", "one"), w.configMap("b", "one"), w.configMap("c", "one")
	w.hub.asks("", a, b, c)
	w.start()
	for _, d := range []*api.Deployment{a, b, c} {
		w.becomes(d, api.Phase_HEALTHY)
	}
	w.hub.asks("", c)
	w.becomes(&api.Deployment{Service: "a"}, api.Phase_HELD)
	held := w.hub.last().GetHeld()
	want := &api.Held{Token: budget.Token([]string{"b", "a"}), Count: 2, Names: []string{"a", "b"}}
	if held.GetToken() != want.GetToken() || held.GetCount() != 2 || !slices.Equal(held.GetNames(), want.GetNames()) || held.GetMessage() == "" {
		t.Errorf("held = %v", held)
	}
	if command := "plural service ack --cluster-removals edge-1"; !strings.Contains(held.GetMessage(), command) {
		t.Errorf("message = %q, want it to name %q", held.GetMessage(), command)
	}
	w.hub.acknowledges(budget.Token([]string{"c"}), budget.Token([]string{"a", "b", "c"})) // other sets
	w.hub.asks("", c)
	w.passes(5)
	if w.live("a") != "one" || w.live("b") != "one" {
		t.Error("what nobody agreed to is gone")
	}
	w.hub.acknowledges(held.GetToken())
	w.hub.asks("", c)
	w.eventually("both are gone", func() bool { return w.live("a") == "" && w.live("b") == "" && w.hub.status("a") == nil })
	w.eventually("nothing is held any more", func() bool { return w.hub.last().GetHeld() == nil })
}

// TestServicesThatWereAgreedToByNameGoWhateverElseLeaves is what an agreement to a commit comes to on one of many clusters: the
// commit's own token names services that this cluster never had.
func TestServicesThatWereAgreedToByNameGoWhateverElseLeaves(t *testing.T) {
	w := newWorld(t)
	var all []*api.Deployment
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, w.configMap(name, "one"))
	}
	w.hub.asks("", all...)
	w.start()
	for _, d := range all {
		w.becomes(d, api.Phase_HEALTHY)
	}
	w.hub.acknowledges(budget.Token([]string{"a", "b", "elsewhere"}), budget.Token([]string{"a"}), budget.Token([]string{"b"}), budget.Token([]string{"elsewhere"}))
	w.hub.asks("", all[4]) // and c and d, of which nobody knew: 2 of the 3 that are left
	w.eventually("a and b are gone", func() bool { return w.live("a") == "" && w.live("b") == "" })
	w.becomes(&api.Deployment{Service: "c"}, api.Phase_HELD)
	w.becomes(&api.Deployment{Service: "d"}, api.Phase_HELD)
	if held := w.hub.last().GetHeld(); held.GetToken() != budget.Token([]string{"c", "d"}) || !slices.Equal(held.GetNames(), []string{"c", "d"}) {
		t.Errorf("held = %v", held)
	}
	w.hub.asks("", all[3], all[4])
	w.eventually("c goes within the budget", func() bool { return w.live("c") == "" })
	if w.live("d") != "one" || w.live("e") != "one" {
		t.Error("what is asked for is gone")
	}
}

func TestAcknowledgedDeletionsHappen(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{}
	for i := range 12 {
		name := "cm-" + strconv.Itoa(i)
		files[name+".yaml"] = manifest(name, "one")
	}
	web := w.service("web", files)
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	small := w.service("web", map[string]string{"cm-0.yaml": manifest("cm-0", "one")})
	w.hub.asks("", small)
	s := w.becomes(small, api.Phase_HELD)
	if s.GetHeld().GetCount() != 11 || len(s.GetHeld().GetNames()) != 11 || s.GetHeld().GetToken() == "" {
		t.Errorf("status = %v", s)
	}
	agreed := w.service("web", map[string]string{"cm-0.yaml": manifest("cm-0", "one")}, func(d *api.Deployment) {
		d.Sync.Acknowledged = []string{s.GetHeld().GetToken()}
	})
	w.hub.asks("", agreed)
	if s := w.becomes(agreed, api.Phase_HEALTHY); s.GetHeld() != nil {
		t.Errorf("status = %v", s)
	}
	w.eventually("they are gone", func() bool { return w.live("cm-11") == "" })
}

func TestAnOrphanedServiceLeavesItsObjects(t *testing.T) {
	w := newWorld(t)
	a, b := w.configMap("a", "one"), w.configMap("b", "one", func(d *api.Deployment) { d.Sync.OnDelete = "orphan" })
	w.hub.asks("", a, b)
	w.start()
	w.becomes(a, api.Phase_HEALTHY)
	w.becomes(b, api.Phase_HEALTHY)
	w.hub.asks("", a)
	w.eventually("b is let go", func() bool { return w.hub.status("b") == nil })
	if w.live("b") != "one" {
		t.Error("its object is gone")
	}
}

func TestNothingIsRemovedBeforeTheClusterWasLookedAt(t *testing.T) {
	w := newWorld(t)
	a, b := w.configMap("a", "one"), w.configMap("b", "one")
	w.hub.asks("", a, b)
	w.start()
	w.becomes(a, api.Phase_HEALTHY)
	w.becomes(b, api.Phase_HEALTHY)
	w.blind.Store(true)
	c := w.configMap("c", "one")
	w.hub.asks("", c)
	w.becomes(c, api.Phase_HEALTHY)
	w.healed("c", "one") // time passes
	if w.live("a") != "one" || w.live("b") != "one" {
		t.Error("something was deleted, and nobody knew whether it may be")
	}
	w.blind.Store(false)
	w.becomes(&api.Deployment{Service: "a"}, api.Phase_HELD)
}

func TestAServiceThatComesBackDuringItsRemovalStays(t *testing.T) {
	w := newWorld(t)
	a, b := w.configMap("a", "one"), w.configMap("b", "one")
	w.hub.asks("", a, b)
	w.start()
	w.becomes(a, api.Phase_HEALTHY)
	w.becomes(b, api.Phase_HEALTHY)
	w.finalizers("b", `["example.com/slow"]`)
	w.hub.asks("", a)
	w.becomes(&api.Deployment{Service: "b"}, api.Phase_REMOVING)
	again := w.configMap("b", "two")
	w.hub.asks("", a, again)
	w.eventually("the next poll is taken in", func() bool {
		said := w.hub.said()
		return said[len(said)-1].GetRoot() == "3"
	})
	w.finalizers("b", `[]`)
	w.becomes(again, api.Phase_HEALTHY)
	w.eventually("it is there anew", func() bool { return w.live("b") == "two" })
	w.healed("b", "two")
}

func (w *world) finalizers(name, list string) {
	w.Helper()
	patch := []byte(`{"metadata":{"finalizers":` + list + `}}`)
	if _, err := w.objects.Patch(w.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestWithoutSelfHealAHealthyServiceIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	alone := w.configMap("alone", "one", func(d *api.Deployment) { d.Sync.SelfHeal = false })
	web := w.configMap("web", "one")
	w.hub.asks("", alone, web)
	w.start()
	w.becomes(alone, api.Phase_HEALTHY)
	w.becomes(web, api.Phase_HEALTHY)
	w.delete("alone")
	w.healed("web", "one")
	w.healed("web", "one")
	if w.live("alone") != "" {
		t.Error("it was healed")
	}
}

func TestADiskThatCannotBeWrittenDoesNotStopTheCluster(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"good", "bundles"} { // files where folders belong: also root cannot write below them
		if err := os.WriteFile(filepath.Join(w.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(w.dir, "root"), 0o700); err != nil { // and a folder where a file belongs
		t.Fatal(err)
	}
	w.hub.asks("", w.configMap("web", "one"))
	w.start()
	second := w.configMap("web", "two")
	w.eventually("the first runs", func() bool { return w.live("web") == "one" })
	w.hub.asks("", second)
	w.becomes(second, api.Phase_HEALTHY)
	w.healed("web", "two")
}

func TestAFailingObjectIsNamed(t *testing.T) {
	w := newWorld(t)
	web := w.service("unsound", map[string]string{ // a name that nothing of another test carries
		"good.yaml": manifest("web", "one"),
		"bad.yaml":  "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 99999}]}\n",
	})
	w.hub.asks("", web)
	w.start()
	s := w.becomes(web, api.Phase_FAILED)
	if len(s.GetProblems()) != 1 || s.GetProblems()[0].GetKind() != "Service" || s.GetObjects() != 2 || s.GetReady() != 1 || s.GetAppliedKey() != "" {
		t.Errorf("status = %v", s)
	}
	if w.live("web") != "one" {
		t.Error("the good object was not applied")
	}
}
