package sync_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/servicetest"
	"github.com/pluralsh/plural/agent/store"
	agentsync "github.com/pluralsh/plural/agent/sync"
	"github.com/pluralsh/plural/api"
)

// tested gives a deployment tests of these names; those that begin with "gate" gate.
func tested(names ...string) func(*api.Deployment) {
	return func(d *api.Deployment) {
		for _, name := range names {
			d.Tests = append(d.Tests, &api.Test{
				Name: name, Gate: strings.HasPrefix(name, "gate"),
				Http: &api.HttpTest{Service: d.GetService(), Port: "80"},
			})
		}
	}
}

// outcomes are what was reported of tests, by name.
func outcomes(s *api.ServiceReport) map[string]api.TestReport_Outcome {
	all := make(map[string]api.TestReport_Outcome)
	for _, t := range s.GetTests() {
		all[t.GetName()] = t.GetOutcome()
	}
	return all
}

func TestTestsRunOnceForAKeyAndAreRememberedOverARestart(t *testing.T) {
	w := newWorld(t)
	web := w.configMap("web", "one", tested("smoke", "gate"))
	w.hub.asks("", web)
	stop := w.start()
	s := w.becomes(web, api.Phase_HEALTHY)
	for _, test := range s.GetTests() {
		if test.GetOutcome() != api.TestReport_PASSED || test.GetKey() != web.GetKey() || test.GetLog() != "printed by "+test.GetName() || test.GetFinishedUnixMs() == 0 {
			t.Errorf("test = %v", test)
		}
	}
	if len(s.GetTests()) != 2 {
		t.Errorf("status = %v", s)
	}
	w.healed("web", "one")
	stop()
	w.hub.set(func() { w.hub.reports = nil })
	w.start()
	if s := w.becomes(web, api.Phase_HEALTHY); len(s.GetTests()) != 2 {
		t.Errorf("status = %v", s)
	}
	w.healed("web", "one")
	for _, name := range []string{"smoke", "gate"} {
		if n := w.tester.times(web.GetKey(), name); n != 1 {
			t.Errorf("%s ran %d times", name, n)
		}
	}
	second := w.configMap("web", "two", tested("smoke", "gate"))
	w.hub.asks("", second)
	w.becomes(second, api.Phase_HEALTHY)
	if n := w.tester.times(second.GetKey(), "smoke"); n != 1 {
		t.Errorf("smoke ran %d times for the second key", n)
	}
}

func TestAServiceIsUnderWayWhileItsTestsRunAndNothingWaitsForThem(t *testing.T) {
	w := newWorld(t)
	w.tester.set(func() { w.tester.stalls["slow"] = true })
	var all []*api.Deployment
	for i := range 6 { // more than there are places for passes, or for tests
		all = append(all, w.configMap("slow-"+strconv.Itoa(i), "one", tested("slow")))
	}
	w.hub.asks("", all...)
	w.start()
	for _, d := range all {
		s := w.becomes(d, api.Phase_PROGRESSING)
		if s.GetMessage() != "tests run: slow" || s.GetAppliedKey() != d.GetKey() {
			t.Errorf("status = %v", s)
		}
	}
	web := w.configMap("web", "one")
	w.hub.asks("", append(all, web)...)
	w.becomes(web, api.Phase_HEALTHY)
	w.healed("slow-0", "one")
	w.tester.set(func() {
		if w.tester.most > 4 {
			t.Errorf("%d tests ran at once", w.tester.most)
		}
	})
	// A newer key ends the test of the older.
	w.tester.set(func() { w.tester.stalls["slow"] = false })
	for i := range all {
		all[i] = w.configMap("slow-"+strconv.Itoa(i), "two", tested("slow"))
	}
	w.hub.asks("", all...)
	for _, d := range all {
		w.becomes(d, api.Phase_HEALTHY)
	}
}

func TestAFailedTestDegradesAServiceAndKeepsItsKey(t *testing.T) {
	w := newWorld(t)
	w.tester.set(func() { w.tester.fails["smoke"] = "GET / answers 500" })
	web := w.configMap("web", "one", tested("smoke", "gate"))
	w.hub.asks("", web)
	w.start()
	s := w.becomes(web, api.Phase_DEGRADED)
	w.eventually("both were tried", func() bool { return w.tester.times(web.GetKey(), "gate") == 1 })
	if s.GetMessage() != "test smoke failed: GET / answers 500" || s.GetAppliedKey() != web.GetKey() || s.GetQuarantinedKey() != "" {
		t.Errorf("status = %v", s)
	}
	w.healed("web", "one")
}

func TestAFailedGateGoesBackAndAnotherKeyLiftsIt(t *testing.T) {
	w := newWorld(t)
	first := w.configMap("web", "one", tested("gate"))
	w.hub.asks("", first)
	stop := w.start()
	w.becomes(first, api.Phase_HEALTHY)
	w.tester.set(func() { w.tester.fails["gate"] = "no answer" })
	second := w.configMap("web", "two", tested("gate"))
	w.hub.asks("", second)
	quarantine := func() {
		t.Helper()
		s := w.becomes(second, api.Phase_FAILED)
		w.eventually("the key before is applied again", func() bool {
			s = w.hub.status("web")
			return w.live("web") == "one" && s.GetAppliedKey() == first.GetKey()
		})
		if s.GetQuarantinedKey() != second.GetKey() || s.GetMessage() != "in quarantine: test gate failed: no answer" ||
			outcomes(s)["gate"] != api.TestReport_FAILED {
			t.Errorf("status = %v", s)
		}
	}
	quarantine()
	w.healed("web", "one")
	stop()
	w.hub.set(func() { w.hub.reports = nil })
	stop = w.start()
	quarantine()
	stop()
	w.hub.set(func() { w.hub.away, w.hub.reports = true, nil }) // nor does a hub that is away bring it back
	w.start()
	w.healed("web", "one")
	if n := w.tester.times(second.GetKey(), "gate"); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
	w.tester.set(func() { delete(w.tester.fails, "gate") })
	third := w.configMap("web", "three", tested("gate"))
	w.hub.set(func() { w.hub.away = false })
	w.hub.asks("", third)
	if s := w.becomes(third, api.Phase_HEALTHY); s.GetQuarantinedKey() != "" || w.live("web") != "three" {
		t.Errorf("status = %v", s)
	}
}

// A pass that began before the gate failed knows nothing of it, and used to end in rest: what ran before came back with the next news.
func TestAGateThatFailsDuringAPassGoesBackAfterIt(t *testing.T) {
	w := newWorld(t)
	first, second := w.configMap("web", "one", tested("gate")), w.configMap("web", "two", tested("gate"))
	trial := &heldTrial{tester: w.tester, key: second.GetKey(), begun: make(chan struct{}), goesOn: make(chan struct{})}
	w.checks = trial
	var watch atomic.Bool
	passing, passes := make(chan struct{}), make(chan struct{})
	w.held = func(apply.Request) {
		if watch.CompareAndSwap(true, false) {
			close(passing)
			<-passes
		}
	}
	w.hub.asks("", first)
	w.start()
	w.becomes(first, api.Phase_HEALTHY)

	w.tester.set(func() { w.tester.fails["gate"] = "no answer" })
	w.hub.asks("", second)
	<-trial.begun
	watch.Store(true)
	w.delete("web") // which a pass of the second key heals
	<-passing
	close(trial.goesOn)
	w.eventually("the second key is in quarantine", func() bool { return w.hub.status("web").GetQuarantinedKey() == second.GetKey() })
	close(passes)
	w.eventually("the key before is applied again", func() bool {
		return w.live("web") == "one" && w.hub.status("web").GetAppliedKey() == first.GetKey()
	})
}

// heldTrial has tests of one key wait.
type heldTrial struct {
	*tester
	key           string
	begun, goesOn chan struct{}
}

func (h *heldTrial) Run(ctx context.Context, target servicetest.Target, test servicetest.Test) servicetest.Result {
	if target.Key == h.key {
		close(h.begun)
		<-h.goesOn
	}
	return h.tester.Run(ctx, target, test)
}

func TestAMendedTestLiftsTheQuarantineOfItsKey(t *testing.T) {
	w := newWorld(t)
	w.tester.set(func() { w.tester.fails["gate"] = "wrong port" })
	web := w.configMap("web", "one", tested("gate"))
	w.hub.asks("", web)
	w.start()
	if s := w.becomes(web, api.Phase_FAILED); s.GetQuarantinedKey() != web.GetKey() {
		t.Errorf("status = %v", s)
	}
	mended := w.configMap("web", "one", tested("gate-2"))
	w.hub.asks("", mended)
	if s := w.becomes(mended, api.Phase_HEALTHY); s.GetQuarantinedKey() != "" {
		t.Errorf("status = %v", s)
	}
}

// lastWord is a store at whose first word of a quarantine the agent is killed: what comes later never happens.
type lastWord struct {
	agentsync.Store
	said chan struct{}
	once sync.Once
}

func (s *lastWord) SaveMemory(service string, m store.Memory) error {
	err := s.Store.SaveMemory(service, m)
	if m.Quarantined != "" {
		s.once.Do(func() { close(s.said) })
		select {} // until the test's process ends
	}
	return err
}

// The agent was killed after it had put a key into quarantine, and before it went back.
func TestAnAgentThatWasKilledGoesBackFromAQuarantinedKey(t *testing.T) {
	w := newWorld(t)
	first := w.configMap("web", "one")
	w.hub.asks("", first)
	stop := w.start()
	w.becomes(first, api.Phase_HEALTHY)
	stop()
	second := w.configMap("web", "two", tested("gate"))
	w.tester.set(func() { w.tester.fails["gate"] = "no" })
	w.hub.asks("", second)
	killed := &lastWord{said: make(chan struct{})}
	w.abandoned(killed)
	<-killed.said
	if w.live("web") != "two" {
		t.Errorf("value = %q", w.live("web"))
	}
	w.start()
	w.eventually("the key before is applied again", func() bool { return w.live("web") == "one" })
	if n := w.tester.times(second.GetKey(), "gate"); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
}

// A dependant waits for tests that gate, and for no others.
func TestADependantWaitsForTheTestsThatGate(t *testing.T) {
	w := newWorld(t)
	w.tester.set(func() { w.tester.stalls["gate"], w.tester.fails["smoke"] = true, "no" })
	db := w.configMap("db", "one", tested("gate"))
	cache := w.configMap("cache", "one", tested("smoke"))
	web := w.configMap("web", "one", func(d *api.Deployment) { d.DependsOn = []string{"db"} })
	ui := w.configMap("ui", "one", func(d *api.Deployment) { d.DependsOn = []string{"cache"} })
	w.hub.asks("", db, cache, web, ui)
	w.start()
	w.becomes(cache, api.Phase_DEGRADED)
	w.becomes(ui, api.Phase_HEALTHY)
	w.becomes(db, api.Phase_PROGRESSING)
	w.eventually("it says what it waits for", func() bool { return w.hub.status("web").GetMessage() == "waits for the tests of db" })
	w.tester.set(func() { w.tester.stalls["gate"] = false })
	db = w.configMap("db", "two", tested("gate"))
	w.hub.asks("", db, cache, web, ui)
	w.becomes(web, api.Phase_HEALTHY)
}

func TestAChartsOwnTestsAreHandedOverAndNeverApplied(t *testing.T) {
	w := newWorld(t)
	hook := strings.Replace(manifest("probe", "x"), "name: probe", `name: probe, annotations: {"helm.sh/hook": test}`, 1)
	web := w.service("web", map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "templates/cm.yaml": manifest("web", "one"), "templates/probe.yaml": hook,
	}, func(d *api.Deployment) {
		d.Renderer = render.HelmChart
		d.Tests = []*api.Test{{Name: "own", Helm: &api.HelmTest{}}}
	})
	w.hub.asks("", web)
	stop := w.start()
	w.becomes(web, api.Phase_HEALTHY)
	handed := func() {
		t.Helper()
		w.tester.set(func() {
			if !slices.Equal(w.tester.hooks, []string{"probe"}) {
				t.Errorf("hooks = %v", w.tester.hooks)
			}
		})
	}
	handed()
	if w.live("probe") != "" {
		t.Error("the test was applied")
	}
	stop()
	again := w.service("web", map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "templates/cm.yaml": manifest("web", "one"), "templates/probe.yaml": hook,
	}, func(d *api.Deployment) {
		d.Renderer = render.HelmChart
		d.Tests = []*api.Test{{Name: "own", Helm: &api.HelmTest{Hooks: []string{"probe"}}}}
	})
	w.tester.set(func() { w.tester.hooks = nil })
	w.hub.asks("", again) // the same key, another test, and an agent that rendered nothing yet
	w.start()
	w.eventually("it was tried again", func() bool { return w.tester.times(web.GetKey(), "own") == 2 })
	handed()
}

func TestATestWithAGeneratedNameIsHandedOverWithOne(t *testing.T) {
	w := newWorld(t)
	hook := strings.Replace(manifest("probe", "x"), "name: probe", `generateName: probe-, annotations: {"helm.sh/hook": test}`, 1)
	web := w.service("web", map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "templates/cm.yaml": manifest("web", "one"),
		"templates/probe.yaml": hook + "---\n" + hook,
	}, func(d *api.Deployment) {
		d.Renderer = render.HelmChart
		d.Tests = []*api.Test{{Name: "own", Helm: &api.HelmTest{}}}
	})
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	w.tester.set(func() {
		got := w.tester.hooks
		if len(got) != 2 || got[0] == got[1] || len(got[0]) != len("probe-")+10 || !strings.HasPrefix(got[0], "probe-") {
			t.Errorf("hooks = %v, want two names that begin with probe-", got)
		}
	})
}

func TestNoTestRepeatsWhatWasSealed(t *testing.T) {
	w := newSealedWorld(t)
	w.tester.set(func() { w.tester.fails["smoke"], w.tester.prints = "it answers "+canary, " with "+canary })
	named := w.naming(&api.Secret{Name: "db", Path: "secrets/db.yaml"}, w.sealed("secrets/db.yaml", "prod", "password: "+canary+"\n"))
	web := w.ofOwn("web", map[string]string{"cm.yaml": manifest("web", "one")}, named, tested("smoke"))
	w.hub.asks("", web)
	w.start()
	s := w.becomes(web, api.Phase_DEGRADED)
	if !strings.Contains(s.GetMessage(), "***") || !strings.HasSuffix(s.GetTests()[0].GetLog(), " with ***") {
		t.Errorf("status = %v", s)
	}
	w.silent()
}

// What the wire says of a test reaches the real runner.
func TestAssertionsAreTriedOnLiveObjects(t *testing.T) {
	w := newWorld(t)
	runner, err := servicetest.New(w.config, w.newEngine().Kinds())
	if err != nil {
		t.Fatal(err)
	}
	w.checks = runner
	asserting := func(value string) func(*api.Deployment) {
		return func(d *api.Deployment) {
			d.Tests = []*api.Test{{Name: "sane", Gate: true, Cel: &api.CelTest{Assertions: []*api.CelAssertion{{
				Version: "v1", Kind: "ConfigMap", Name: "web", Expression: `self.data.value == "` + value + `"`, Message: "it is not " + value,
			}}}}}
		}
	}
	first := w.configMap("web", "one", asserting("one"))
	w.hub.asks("", first)
	w.start()
	w.becomes(first, api.Phase_HEALTHY)
	second := w.configMap("web", "two", asserting("three"))
	w.hub.asks("", second)
	if s := w.becomes(second, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "it is not three") {
		t.Errorf("status = %v", s)
	}
	w.eventually("the key before is applied again", func() bool { return w.live("web") == "one" })
}

// A rule that cannot be used keeps the newest deployment out, and the last good one healed.
func TestAHealthRuleThatCannotBeUsedFailsItsService(t *testing.T) {
	w := newWorld(t)
	good := w.configMap("web", "one")
	w.hub.asks("", good)
	w.start()
	w.becomes(good, api.Phase_HEALTHY)
	bad := w.configMap("web", "two", func(d *api.Deployment) { d.Health = []*api.HealthRule{{Kind: "ConfigMap", Healthy: "self.("}} })
	w.hub.asks("", bad)
	if s := w.becomes(bad, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "ConfigMap") {
		t.Errorf("status = %v", s)
	}
	w.healed("web", "one")
}

// A hub that holds a service for a while says nothing of its tests: the key that failed is not tried again when it comes back.
func TestAHoldDoesNotLiftAQuarantine(t *testing.T) {
	w := newWorld(t)
	first := w.configMap("web", "one", tested("gate"))
	w.hub.asks("", first)
	w.start()
	w.becomes(first, api.Phase_HEALTHY)
	w.tester.set(func() { w.tester.fails["gate"] = "no answer" })
	second := w.configMap("web", "two", tested("gate"))
	w.hub.asks("", second)
	w.eventually("the key before is applied again", func() bool {
		s := w.hub.status("web")
		return s.GetQuarantinedKey() == second.GetKey() && s.GetAppliedKey() == first.GetKey() && w.live("web") == "one"
	})
	held := &api.Deployment{Service: "web", Hold: "its source does not answer"}
	w.hub.asks("", held)
	w.becomes(held, api.Phase_HELD)
	w.tester.set(func() { delete(w.tester.fails, "gate") }) // it would pass now
	w.hub.asks("", second)
	if s := w.becomes(second, api.Phase_FAILED); s.GetQuarantinedKey() != second.GetKey() {
		t.Errorf("status = %v", s)
	}
	w.healed("web", "one")
	if n := w.tester.times(second.GetKey(), "gate"); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
}

// What tests left goes before the service does: its own account may be among its objects.
func TestAServiceDoesNotGoBeforeWhatItsTestsLeft(t *testing.T) {
	w := newWorld(t)
	w.tester.set(func() { w.tester.unswept = errors.New("jobs is forbidden") })
	web := w.configMap("web", "one", tested("smoke"))
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	w.hub.asks("100%")
	w.eventually("it says what cannot be deleted", func() bool {
		s := w.hub.status("web")
		return s.GetPhase() == api.Phase_FAILED && s.GetMessage() == "what its tests left cannot be deleted: jobs is forbidden"
	})
	if w.live("web") != "one" {
		t.Error("the service went, and left nobody to delete it")
	}
	w.tester.set(func() { w.tester.unswept = nil })
	w.eventually("it is gone", func() bool { return w.live("web") == "" && w.hub.status("web") == nil })
}

// Each test sweeps before it runs, and a removal that cannot sweep tries again.
func TestANoteOfASweepIsLoggedOnceForADeployment(t *testing.T) {
	w := newWorld(t)
	log := &words{}
	w.log = slog.New(slog.NewTextHandler(log, nil))
	w.tester.set(func() { w.tester.notes = []string{"nobody may list it"} })
	lines := func() int { return strings.Count(log.String(), "nobody may list it") }
	web := w.configMap("web", "one", tested("smoke", "suite"))
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	if n := lines(); n != 1 {
		t.Errorf("two tests of a deployment logged it %d times", n)
	}
	web = w.configMap("web", "two", tested("smoke", "suite"))
	w.hub.asks("", web)
	w.becomes(web, api.Phase_HEALTHY)
	if n := lines(); n != 2 {
		t.Errorf("two deployments logged it %d times", n)
	}
	w.tester.set(func() { w.tester.unswept = errors.New("jobs is forbidden") })
	w.hub.asks("100%")
	w.eventually("it was swept again and again", func() bool {
		w.tester.mu.Lock()
		defer w.tester.mu.Unlock()
		return len(w.tester.swept) > 2
	})
	if n := lines(); n != 3 {
		t.Errorf("the removal logged it %d times", n-2)
	}
}

// Each sweep lists eight kinds, and passes come often while objects vanish.
func TestARemovalSweepsOnceHoweverManyPassesItTakes(t *testing.T) {
	w := newWorld(t)
	web := w.service("web", map[string]string{
		"cm.yaml": strings.Replace(manifest("web", "one"), "name: web", "name: web, finalizers: [plural.sh/of-this-test]", 1),
	}, tested("smoke"))
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	w.hub.asks("100%")
	w.eventually("it is on its way out", func() bool { return w.hub.status("web").GetPhase() == api.Phase_REMOVING })
	_, err := w.objects.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("it is gone", func() bool { return w.live("web") == "" && w.hub.status("web") == nil })
	w.tester.set(func() {
		if len(w.tester.swept) != 1 {
			t.Errorf("it was swept %d times", len(w.tester.swept))
		}
	})
	web = w.configMap("web", "one", tested("smoke")) // it comes back
	w.hub.asks("", web)
	w.becomes(web, api.Phase_HEALTHY)
	w.hub.asks("100%")
	w.eventually("it is gone again", func() bool { return w.live("web") == "" && w.hub.status("web") == nil })
	w.tester.set(func() {
		if len(w.tester.swept) != 2 {
			t.Errorf("it was swept %d times by two removals", len(w.tester.swept))
		}
	})
}

// Who deleted what, and by whose rights, is news until the service is gone.
func TestNotesOfASweepStayWithARemoval(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{}
	for _, name := range []string{"web", "late"} {
		finalized := name + ", finalizers: [plural.sh/of-this-test]"
		files[name+".yaml"] = strings.Replace(manifest(name, "one"), "name: "+name, "name: "+finalized, 1)
	}
	web := w.service("web", files, tested("smoke"))
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	says := func(what string, phase api.Phase, message string, notes ...string) {
		t.Helper()
		w.eventually(what, func() bool {
			s := w.hub.status("web")
			return s.GetPhase() == phase && strings.Contains(s.GetMessage(), message) && slices.Equal(s.GetNotes(), notes)
		})
	}
	release := func(name string) {
		t.Helper()
		patch := []byte(`{"metadata": {"finalizers": null}}`)
		_, err := w.objects.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.tester.set(func() { w.tester.unswept, w.tester.notes = errors.New("jobs is forbidden"), []string{"one went"} })
	w.hub.asks("100%")
	says("a sweep that failed", api.Phase_FAILED, "jobs is forbidden", "one went")
	w.tester.set(func() { w.tester.unswept, w.tester.notes = nil, []string{"two went"} })
	says("the sweep after it", api.Phase_REMOVING, "/web is being deleted", "one went", "two went")
	release("web")
	says("a pass that need not sweep", api.Phase_REMOVING, "/late is being deleted", "one went", "two went")
	release("late")
	w.eventually("it is gone", func() bool { return w.hub.status("web") == nil })
}

func TestAServiceGoesWhenItsTestUnderWayHasEnded(t *testing.T) {
	w := newWorld(t)
	lingers := make(chan struct{})
	w.tester.set(func() { w.tester.stalls["gate"], w.tester.lingers = true, lingers })
	web := w.configMap("web", "one", tested("gate"))
	w.hub.asks("", web, w.configMap("other", "one"))
	w.start()
	w.eventually("it is tried", func() bool { return w.tester.times(web.GetKey(), "gate") == 1 })
	other := w.configMap("other", "two")
	w.hub.asks("100%", other)
	w.becomes(other, api.Phase_HEALTHY)
	if w.live("web") != "one" {
		t.Error("it went while its test ran")
	}
	close(lingers)
	w.eventually("it is gone", func() bool { return w.live("web") == "" })
	w.tester.set(func() {
		if len(w.tester.swept) == 0 || w.tester.swept[0].Namespace != web.GetNamespace() {
			t.Errorf("what the test left was swept in %v", w.tester.swept)
		}
	})
}

// Newer deployments may have been tried that never became good, and somewhere else.
func TestWhatTestsLeftIsSweptWhereverTheyRan(t *testing.T) {
	type changes = []func(*api.Deployment)
	in := func(namespace string) func(*api.Deployment) {
		return func(d *api.Deployment) { d.AllowedNamespaces = []string{d.GetNamespace(), namespace} }
	}
	here := []string(nil)
	for _, c := range []struct {
		name string
		// good, and newer ones, whose tests never end, are what was applied before its removal.
		good           changes
		newer          []changes
		held, restarts bool
		want           [][]string // allowed namespaces
	}{
		{name: "only the newest has tests", newer: []changes{{in("default"), tested("gate")}}, want: [][]string{{"default"}}},
		{
			name: "both have, in other places", good: changes{tested("smoke")}, newer: []changes{{in("default"), tested("gate")}},
			want: [][]string{here, {"default"}},
		},
		{name: "both have, in the same", good: changes{tested("smoke")}, newer: []changes{{tested("gate")}}, want: [][]string{here}},
		{
			name: "each of three has, and the newest has none", good: changes{tested("smoke")},
			newer: []changes{{in("default"), tested("gate")}, {in("kube-public"), tested("gate")}, {in("kube-system")}},
			want:  [][]string{here, {"default"}, {"kube-public"}},
		},
		{
			name: "the newest was held then", newer: []changes{{in("default"), tested("gate")}}, held: true,
			want: [][]string{{"default"}},
		},
		{
			name: "the agent was restarted while it was held", newer: []changes{{in("default"), tested("gate")}}, held: true,
			restarts: true, want: [][]string{{"default"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.tester.set(func() { w.tester.stalls["gate"] = true })
			good := w.configMap("web", "good", c.good...)
			w.hub.asks("", good)
			stop := w.start()
			w.becomes(good, api.Phase_HEALTHY)
			for i, changes := range c.newer {
				value := fmt.Sprintf("newer-%d", i)
				newer := w.configMap("web", value, changes...)
				w.hub.asks("", newer)
				w.eventually("it is tried, if it can be", func() bool {
					return w.live("web") == value && w.tester.times(newer.GetKey(), "gate") == len(newer.GetTests())
				})
			}
			if c.held {
				held := &api.Deployment{Service: "web", Hold: "its source does not answer"}
				w.hub.asks("", held)
				w.becomes(held, api.Phase_HELD)
			}
			if c.restarts {
				stop()
				w.start()
			}
			w.hub.asks("100%")
			w.eventually("it is gone", func() bool { return w.live("web") == "" && w.hub.status("web") == nil })
			w.tester.set(func() {
				var got [][]string
				for _, target := range w.tester.swept {
					var others []string
					for _, namespace := range target.Namespaces {
						if namespace != w.ns {
							others = append(others, namespace)
						}
					}
					if got = append(got, others); target.Namespace != w.ns {
						t.Errorf("it was swept in %q", target.Namespace)
					}
				}
				if !cmp.Equal(got, c.want) {
					t.Errorf("besides its own namespace it was swept in %q, want %q", got, c.want)
				}
			})
		})
	}
}

// Its last words on disk are that nothing asks for it.
func TestARemovalThatIsInterruptedByARestartSweepsAfterIt(t *testing.T) {
	w := newWorld(t)
	w.tester.set(func() { w.tester.stalls["gate"], w.tester.unswept = true, errors.New("jobs is forbidden") })
	web := w.configMap("web", "one", tested("gate"))
	w.hub.asks("", web)
	stop := w.start()
	w.eventually("it is tried, and never good", func() bool { return w.tester.times(web.GetKey(), "gate") == 1 })
	w.hub.asks("100%")
	w.eventually("it cannot be swept", func() bool { return w.hub.status("web").GetPhase() == api.Phase_FAILED })
	stop()
	w.tester.set(func() { w.tester.unswept, w.tester.swept = nil, nil })
	w.start()
	w.eventually("it is gone", func() bool { return w.live("web") == "" && w.hub.status("web") == nil })
	w.tester.set(func() {
		if len(w.tester.swept) != 1 || w.tester.swept[0].Namespace != w.ns {
			t.Errorf("what the test left was swept in %v", w.tester.swept)
		}
	})
}

func TestWhatTestsLeftIsSweptWhereAnOlderAgentWroteDownNoPlaces(t *testing.T) {
	w := newWorld(t)
	web := w.configMap("web", "one", tested("smoke"))
	w.hub.asks("", web)
	stop := w.start()
	w.becomes(web, api.Phase_HEALTHY)
	stop()
	disk := w.disk()
	memories, err := disk.Memories()
	memory := memories["web"]
	if err != nil || len(memory.Tried) != 1 {
		t.Fatalf("it remembers %v, %v", memory.Tried, err)
	}
	memory.Tried = nil
	if err := disk.SaveMemory("web", memory); err != nil {
		t.Fatal(err)
	}
	_ = disk.Close()
	w.start()
	w.hub.asks("100%")
	w.eventually("it is gone", func() bool { return w.live("web") == "" && w.hub.status("web") == nil })
	w.tester.set(func() {
		if len(w.tester.swept) != 1 || w.tester.swept[0].Namespace != w.ns {
			t.Errorf("what the test left was swept in %v", w.tester.swept)
		}
	})
}
