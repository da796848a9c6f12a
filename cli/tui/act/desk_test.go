package act_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/test/support/needs"
)

func TestEachActionIsACommandThatAPersonCouldType(t *testing.T) {
	needs.Program(t, "kubectl", "kubernetes-client")
	pod := pane.Subject{
		Kind: pane.KindObject, Name: "web-1", Cluster: "edge-1", Service: "web",
		Object: &v1.Object{Kind: "Pod", Resource: "pods", Namespace: "shop", Name: "web-1"},
	}
	source := pane.Subject{Kind: pane.KindSource, Name: "podinfo"}
	pkg := pane.Subject{Kind: pane.KindPackage, Name: "redis"}
	for name, tt := range map[string]struct {
		key  string
		on   []pane.Subject
		want []string
	}{
		"sync deployments": {
			"S",
			[]pane.Subject{onCluster("web", "edge-1"), onCluster("api", "edge-1"), onCluster("web", "edge-2")},
			[]string{"service sync web --cluster edge-1 --cluster edge-2 --wait=false", "service sync api --cluster edge-1 --wait=false"},
		},
		"sync a service": {"S", []pane.Subject{service("web")}, []string{"service sync web --wait=false"}},
		"sync clusters":  {"S", []pane.Subject{clusterOf("a"), clusterOf("b")}, []string{"cluster sync a", "cluster sync b"}},
		"sync a source":  {"S", []pane.Subject{source}, []string{"source sync podinfo"}},
		"restart":        {"R", []pane.Subject{onCluster("web", "edge-1")}, []string{"service restart web --cluster edge-1"}},
		"suspend, on all clusters": {
			"u",
			[]pane.Subject{onCluster("web", "edge-1"), onCluster("web", "edge-2"), suspended(service("api"))},
			[]string{"service suspend web --wait=false"},
		},
		"resume": {
			"u", []pane.Subject{suspended(onCluster("web", "edge-1"))}, []string{"service resume web --wait=false"},
		},
		"agree on a cluster": {
			"a",
			[]pane.Subject{held(onCluster("web", "edge-1")), onCluster("api", "b")},
			[]string{"service ack web --cluster edge-1 --wait=false"},
		},
		"agree for a service": {"a", []pane.Subject{held(service("web"))}, []string{"service ack web --wait=false"}},
		"agree to removals": {
			"a", []pane.Subject{held(clusterOf("edge-1"))}, []string{"service ack --cluster-removals edge-1 --wait=false"},
		},
		"upgrade": {
			"U", []pane.Subject{pkg, {Kind: pane.KindPackage, Name: "web"}}, []string{"package upgrade redis web"},
		},
		"delete services": {
			"delete",
			[]pane.Subject{service("web"), service("api")},
			[]string{"service delete web --confirm=web --wait=false", "service delete api --confirm=api --wait=false"},
		},
		"delete objects": {
			"delete",
			[]pane.Subject{pod, object("apps", "deployments", "Deployment")},
			[]string{
				"kubectl edge-1 --namespace shop delete pods/web-1 --wait=false --ignore-not-found",
				"kubectl edge-1 --namespace shop delete deployments.apps/web --wait=false --ignore-not-found",
			},
		},
		"restart an object": {
			"R", []pane.Subject{object("apps", "deployments",
				"Deployment")}, []string{"kubectl edge-1 --namespace shop rollout restart deployments.apps/web"},
		},
		"restart a pod":        {"R", []pane.Subject{pod}, []string{"kubectl edge-1 --namespace shop delete pods/web-1 --wait=false --ignore-not-found"}},
		"delete packages":      {"delete", []pane.Subject{pkg}, []string{"package remove redis"}},
		"undo":                 {"z", nil, []string{"undo --wait=false"}},
		"undo a commit":        {"z", []pane.Subject{{Kind: pane.KindCommit, Name: "3f2c91a"}}, []string{"undo 3f2c91a --wait=false"}},
		"log in":               {"L", nil, []string{"auth login"}},
		"edit a deployment":    {"e", []pane.Subject{onCluster("web", "edge-1")}, []string{"service edit web --ask --wait=false"}},
		"edit a cluster":       {"e", []pane.Subject{clusterOf("edge-1")}, []string{"cluster edit edge-1 --ask --wait=false"}},
		"a shell at an object": {"X", []pane.Subject{pod}, []string{"kube shell edge-1"}},
		"a shell at a cluster": {"X", []pane.Subject{clusterOf("edge-1")}, []string{"kube shell edge-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			for _, a := range c.desk.Actions() {
				if !slices.Contains(a.Binding.Keys(), tt.key) || !a.Applies(tt.on) {
					continue
				}
				commands, err := a.Commands(tt.on)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, args := range commands {
					got = append(got, strings.Join(args, " "))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
				return
			}
			t.Fatal("no action applies")
		})
	}
}

func TestWhatNeedsNoCareIsDoneAtOnce(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{onCluster("web", "edge-1")}
	c.press("S")
	if diff := cmp.Diff([]string{"service sync web --cluster edge-1 --wait=false"}, c.commands()); diff != "" {
		t.Error(diff)
	}
	if c.last() != "sync edge-1/web: observed: --wait=false" || c.list.unmarked != 1 {
		t.Errorf("told %q, unmarked %d times", c.last(), c.list.unmarked)
	}
	e := c.desk.Log().At(0)
	if e.Ending != act.Done || e.Line != "plural service sync web --cluster edge-1 --wait=false" || e.Commit != "" {
		t.Errorf("remembered %+v", e)
	}
}

func TestACommandThatFailsIsToldWithWhatMendsIt(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{service("broken")}
	c.press("S")
	want := pane.Told{Text: "sync broken: service broken is not there; plural service list", Bad: true}
	if diff := cmp.Diff(want, c.told[len(c.told)-1]); diff != "" {
		t.Error(diff)
	}
	if e := c.desk.Log().At(0); e.Ending != act.Failed || !strings.Contains(e.Output, "cause: services/ has no broken.yaml") {
		t.Errorf("remembered %+v", e)
	}
}

func TestANameThatACommandWouldReadAsSomethingElseIsGivenToNone(t *testing.T) {
	for name, on := range map[string]pane.Subject{
		"a flag":            service("--kubeconfig=/tmp/x"),
		"several":           onCluster("web", "edge-1,edge-2"),
		"a cluster":         onCluster("web", "-h"),
		"a word and more":   clusterOf("edge 1"),
		"a line break":      service("web\nrm"),
		"a commit":          {Kind: pane.KindCommit, Name: "--redo"},
		"a deployment's":    {Kind: pane.KindDeployment, Cluster: "edge-1", Service: "--all"},
		"an object's place": {Kind: pane.KindObject, Cluster: "--context=x", Object: &v1.Object{Kind: "Pod", Name: "web-1"}},
	} {
		for _, key := range []string{"S", "R", "u", "a", "delete", "z", "e", "X"} {
			c := newConsole(t)
			c.list.subjects = []pane.Subject{on}
			c.press(key)
			if ran := c.commands(); ran != nil {
				t.Errorf("%s, %s: ran %q", name, key, ran)
			}
		}
	}
}

func TestNothingIsChangedThatWasNotShownAndAgreedTo(t *testing.T) {
	const look = "service suspend web --wait=false --dry-run"
	for name, tt := range map[string]struct {
		keys []string
		ran  []string
	}{
		"a look alone": {[]string{"u"}, []string{look}},
		"no":           {[]string{"u", "n"}, []string{look}},
		"enter is no":  {[]string{"u", "enter"}, []string{look}},
		"yes": {
			[]string{"u", "y"}, []string{look, look, "service suspend web --wait=false"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			c.list.subjects = []pane.Subject{service("web")}
			c.press(tt.keys...)
			if diff := cmp.Diff(tt.ran, c.commands()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatBecameAnotherChangeSinceItWasShownIsNotMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "change")
	write(t, file, "+  suspend: true")
	c := newConsole(t, "ACT_TEST_CHANGE="+file)
	c.list.subjects = []pane.Subject{service("web")}
	c.press("u")
	write(t, file, "-  everything")
	c.press("y")
	if slices.Contains(c.commands(), "service suspend web --wait=false") {
		t.Error("it was made")
	}
	if want := "suspend web: it would do something else by now than what was shown; look at it again"; c.last() != want {
		t.Errorf("told %q", c.last())
	}
}

func TestWhatCannotBeDoneCannotBeAgreedTo(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{service("broken")}
	c.press("u", "y")
	if diff := cmp.Diff([]string{"service suspend broken --wait=false --dry-run"}, c.commands()); diff != "" {
		t.Error(diff)
	}
	if len(c.stack) != 1 || !strings.Contains(c.draw(80, 24), "error: service broken is not there") {
		t.Errorf("shown: %s", c.draw(80, 24))
	}
}

func TestADeletionTakesTheNameTyped(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{service("web")}
	c.press("delete", "w", "e", "x", "enter")
	if len(c.stack) != 1 || c.last() != `"wex" is not "web": nothing was done` {
		t.Errorf("told %q", c.last())
	}
	c.press("backspace", "b", "enter")
	if got := c.commands(); got[len(got)-1] != "service delete web --confirm=web --wait=false" {
		t.Errorf("ran %q", got)
	}
}

func TestWhatWantsToBeConfirmedTakesThatTypedAndNothingIsRunBefore(t *testing.T) {
	const look = "undo 4f9c2a1 --wait=false --dry-run"
	c := newConsole(t)
	c.list.subjects = []pane.Subject{{Kind: pane.KindCommit, Name: "4f9c2a1"}}
	c.press("z", "y", "enter")
	if diff := cmp.Diff([]string{look}, c.commands()); diff != "" {
		t.Errorf("before it was typed: %s", diff)
	}
	for _, want := range []string{"this takes back who can open or do what: access/ada.yaml", "type 4f9c2a1: y"} {
		if screen := c.draw(80, 24); !strings.Contains(screen, want) {
			t.Errorf("no %q in %s", want, screen)
		}
	}
	c.press("backspace", "4", "f", "9", "c", "2", "a", "1", "enter")
	want := []string{look, "undo 4f9c2a1 --wait=false --confirm=4f9c2a1 --dry-run", "undo 4f9c2a1 --wait=false --confirm=4f9c2a1", "source sync . --no-wait"}
	if diff := cmp.Diff(want, c.commands()); diff != "" {
		t.Error(diff)
	}
}

func TestWhatDeletesInProductionTakesTheNameTyped(t *testing.T) {
	for env, want := range map[string]string{"prod": "type edge-1/web: y", "dev": "y/N"} {
		c := newConsole(t)
		c.world.Fleet.Apply(model.Batch{Clusters: v1.Changes[v1.Cluster]{Items: []v1.Cluster{{Name: "edge-1", Tags: map[string]string{"env": env}}}}})
		c.list.subjects = []pane.Subject{held(onCluster("web", "edge-1"))}
		c.press("a")
		if env == "prod" {
			c.press("y")
		}
		if screen := c.draw(80, 24); !strings.Contains(screen, want) || len(c.commands()) != 1 {
			t.Errorf("%s: no %q in %s\nran %q", env, want, screen, c.commands())
		}
	}
}

func TestMoreThanTwentyTakeTheirNumberTyped(t *testing.T) {
	c := newConsole(t)
	for i := range 21 {
		c.list.subjects = append(c.list.subjects, onCluster("web", "edge-"+string(rune('a'+i))))
	}
	c.press("S", "y", "enter")
	if c.commands() != nil || c.last() != `"y" is not "21": nothing was done` {
		t.Errorf("ran %q, told %q", c.commands(), c.last())
	}
	c.press("backspace", "2", "1", "enter")
	if got := c.commands(); len(got) != 1 || strings.Count(got[0], "--cluster") != 21 {
		t.Errorf("ran %q", got)
	}
}

func TestSeveralAreDoneOneAfterTheOtherPastFailures(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{service("web"), service("broken"), service("api")}
	c.press("S")
	if len(c.stack) != 1 || c.commands() != nil {
		t.Fatal("nobody was asked")
	}
	c.press("y")
	want := []string{"service sync web --wait=false", "service sync broken --wait=false", "service sync api --wait=false"}
	if diff := cmp.Diff(want, c.commands()); diff != "" {
		t.Error(diff)
	}
	if want := "sync 3 services: 2 of 3 done, 1 failed; @ shows what they said"; c.last() != want {
		t.Errorf("told %q", c.last())
	}
	if got := c.draw(100, 24); !strings.Contains(got, "service broken is not there; plural service list") {
		t.Errorf("shown:\n%s", got)
	}
}

func TestStoppedBetweenTwoTheRestDoesNotBegin(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{service("web"), service("api"), service("db")}
	c.press("S")
	agreed := c.stack[0].Update(pressed("y"))
	if got := c.desk.Busy(); got != "sync 3 services: 1 of 3" {
		t.Errorf("busy with %q", got)
	}
	if told, stopped := c.desk.Stop(); !stopped || told != "sync 3 services: stops after this command; again ends that too" {
		t.Errorf("told %q", told)
	}
	c.do(agreed)
	if diff := cmp.Diff([]string{"service sync web --wait=false"}, c.commands()); diff != "" {
		t.Error(diff)
	}
	if want := "sync 3 services: 1 of 3 done, 2 not begun"; c.last() != want {
		t.Errorf("told %q", c.last())
	}
	if _, stopped := c.desk.Stop(); stopped || c.desk.Busy() != "" {
		t.Error("something is still under way")
	}
}

func TestStoppedTwiceTheCommandAtWorkEnds(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	c := newConsole(t, "ACT_TEST_READY="+ready)
	c.list.subjects = []pane.Subject{service("slow")}
	cmd, _ := c.desk.Key(pressed("S"), &c.list)
	waitFor(t.Context(), t, ready)
	if told, stopped := c.desk.Stop(); !stopped ||
		told != "sync slow: stopped; what the cluster or the hub was asked for already goes on there" {
		t.Error("there was nothing to stop")
	}
	c.do(cmd)
	if e := c.desk.Log().At(0); e.Ending != act.Stopped || e.Told != "interrupted" {
		t.Errorf("remembered %+v", e)
	}
}

func TestTheConsolesEndIsThatOfItsCommands(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	c := newConsole(t, "ACT_TEST_READY="+ready)
	c.list.subjects = []pane.Subject{service("slow")}
	if _, ok := c.desk.Key(pressed("S"), &c.list); !ok {
		t.Fatal("no action")
	}
	waitFor(t.Context(), t, ready)
	c.desk.Close() // would wait for ever for a command that goes on
}

func TestCommitsAreMadeOneAtATimeAndRemembered(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{suspended(service("web"))}
	c.press("u")
	first := c.stack[0].Update(pressed("y"))
	c.stack = nil
	c.list.subjects = []pane.Subject{suspended(service("api"))}
	c.press("u")
	second := c.stack[0].Update(pressed("y"))
	if got := c.desk.Busy(); got != "resume web, and 1 more" || c.desk.Log().Len() != 1 {
		t.Errorf("busy with %q, begun %d", got, c.desk.Log().Len())
	}
	c.stack = append(c.stack, c.stack[0]) // both go back
	c.do(first)
	c.do(second)
	var api, web *act.Entry
	for i := range c.desk.Log().Len() {
		switch e := c.desk.Log().At(i); {
		case strings.Contains(e.Line, "api"):
			api = e
		case strings.Contains(e.Line, "web"):
			web = e
		}
	}
	head, err := c.world.Repo.Head()
	if err != nil {
		t.Fatal(err)
	}
	if api.Commit != head || web.Commit == "" || web.Commit == head {
		t.Errorf("web %s, api %s, head %s", web.Commit, api.Commit, head)
	}
}

func TestTheHubIsToldOfACommitAndOfNothingElse(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{service("web")}
	c.press("z", "y")
	c.press("u", "y") // commits nothing here
	const tell = "source sync . --no-wait"
	want := []string{
		"undo --wait=false --dry-run", "undo --wait=false --dry-run", "undo --wait=false", tell,
		"service suspend web --wait=false --dry-run", "service suspend web --wait=false --dry-run", "service suspend web --wait=false",
	}
	if diff := cmp.Diff(want, c.commands()); diff != "" {
		t.Error(diff)
	}
	if c.told[0].Text != "undo the fleet's last commit: observed: --wait=false" || len(c.told) != 2 {
		t.Errorf("told %v", c.told)
	}
}

func TestWhatAPersonMayNotDoIsNotOfferedAndTheKeySaysWhy(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*pane.World)
		key    string
		want   string
	}{
		"read-only": {func(w *pane.World) { w.ReadOnly = true }, "S", "sync now: this console only reads (--read-only)"},
		"not that verb": {
			func(w *pane.World) { w.Fleet.Me = &v1.Me{Name: "ann", Verbs: []string{"view"}} }, "S", "sync now: ann may not sync the fleet",
		},
		"no edits": {
			func(w *pane.World) { w.Fleet.Me = &v1.Me{Verbs: []string{"view", "sync"}} }, "u", "suspend: you may not edit the fleet",
		},
		"logged in already": {func(*pane.World) {}, "L", "log in: the hub knows you"},
		"a token of the environment": {func(w *pane.World) {
			w.Fleet.State.LoggedOut, w.TokenFrom = true, "PLURAL_TOKEN"
		}, "L", "log in: start the console anew with another PLURAL_TOKEN"},
		"no hub": {func(w *pane.World) { w.Hub = nil }, "S", "sync now: there is no hub to ask"},
		"no clone": {
			func(w *pane.World) { w.Repo = nil }, "u",
			"suspend: the installation repo is not here: start the console in its folder, or with -C",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			tt.change(c.world)
			c.list.subjects = []pane.Subject{service("web")}
			c.press(tt.key)
			if c.last() != tt.want || c.commands() != nil || len(c.stack) > 0 {
				t.Errorf("told %q, ran %q", c.last(), c.commands())
			}
			for _, b := range c.desk.Offered(c.list.subjects) {
				if slices.Contains(b.Keys(), tt.key) {
					t.Error("it is offered")
				}
			}
		})
	}
}

func TestTheHubsOperatorMayDoAll(t *testing.T) {
	c := newConsole(t)
	c.world.Fleet.Me = &v1.Me{Operator: true}
	c.list.subjects = []pane.Subject{service("web")}
	var got []string
	for _, b := range c.desk.Offered(c.list.subjects) {
		got = append(got, b.Help().Key+" "+b.Help().Desc)
	}
	want := []string{
		"S sync now", "R restart pods", "u suspend", "del delete", "z undo the last", "Z redo",
		"e edit its file",
		"c copy name", "C copy command",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAKeyThatDoesNotFitSaysSo(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{{Kind: pane.KindSource, Name: "podinfo"}}
	c.press("R")
	if c.last() != "restart pods: not for podinfo" {
		t.Errorf("told %q", c.last())
	}
	if _, ok := c.desk.Key(pressed("R"), nil); ok {
		t.Error("it is taken from a pane that points to nothing")
	}
}

func TestNamesAndCommandsAreCopied(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{onCluster("web", "edge-1"), onCluster("api", "edge-1")}
	c.press("c")
	if c.copied != "edge-1/web\nedge-1/api" || c.last() != "copied edge-1/web, edge-1/api" {
		t.Errorf("copied %q, told %q", c.copied, c.last())
	}
	c.list.subjects = []pane.Subject{{
		Kind: pane.KindObject, Cluster: "edge-1",
		Object: &v1.Object{Group: "apps", Kind: "Deployment", Resource: "deployments", Namespace: "shop", Name: "web"},
	}}
	c.press("C")
	if c.copied != "plural kubectl edge-1 get deployments.apps web -n shop" {
		t.Errorf("copied %q", c.copied)
	}
}

func TestAMessageOfOthersIsNotTaken(t *testing.T) {
	c := newConsole(t)
	if _, ok := c.desk.Update(tea.WindowSizeMsg{}); ok {
		t.Error("it is")
	}
}

func TestScreens(t *testing.T) {
	c := newConsole(t)
	c.list.subjects = []pane.Subject{service("web")}
	c.press("u")
	c.golden("look")
	c.press("n")
	c.list.subjects = []pane.Subject{service("web"), service("api")}
	c.press("delete", "2")
	c.golden("typed")
	c.press("esc")
	c.list.subjects = []pane.Subject{service("web"), service("broken"), service("api")}
	c.press("S", "y")
	c.golden("progress")
	c.stack = nil
	made, err := c.desk.Panes()["commands"](c.world, pane.Subject{}, "")
	if err != nil {
		t.Fatal(err)
	}
	c.stack = []pane.Pane{made}
	c.golden("commands")
	c.press("down", "enter")
	c.golden("output")
}

func TestWhatOthersWroteCannotSteerTheTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "change")
	write(t, file, "+  note: \x1b[2J\u202e")
	c := newConsole(t, "ACT_TEST_CHANGE="+file)
	c.list.subjects = []pane.Subject{service("web")}
	c.press("u")
	if got := c.draw(80, 24); strings.ContainsAny(got, "\x1b\u202e") || !strings.Contains(got, `+  note: \x1b[2J\u202e`) {
		t.Errorf("got %q", got)
	}
	c.list.subjects = []pane.Subject{{Kind: pane.KindEvent, Name: "Pulled\nrm -r x"}}
	c.stack = nil
	c.press("c")
	if c.last() != `copied Pulled rm -r x` {
		t.Errorf("told %q", c.last())
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
