package act_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/adrg/xdg"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/test/support/needs"
)

// object is one of service web on cluster edge-1.
func object(group, resource, kind string) pane.Subject {
	return pane.Subject{
		Kind: pane.KindObject, Name: "web", Cluster: "edge-1", Service: "web",
		Object: &v1.Object{Group: group, Version: "v1", Resource: resource, Kind: kind, Namespace: "shop", Name: "web", Applied: true},
	}
}

// atCluster is a console whose hub leads to cluster edge-1, where one object is so.
func atCluster(t *testing.T, live string) *console {
	t.Helper()
	needs.Program(t, "kubectl", "kubernetes-client")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	xdg.Reload()
	t.Cleanup(xdg.Reload)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/kube/token":
			_ = json.NewEncoder(w).Encode(v1.KubeToken{Token: "cluster", Expires: time.Now().Add(time.Hour)})
		case live != "" && strings.HasPrefix(r.URL.Path, "/k8s/edge-1/") && r.Header.Get("Authorization") == "Bearer cluster":
			_, _ = w.Write([]byte(live))
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(hub.Close)
	c := newConsole(t)
	var err error
	if c.world.Hub, err = client.New(hub.URL, "person", "test"); err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	deployed = `{"metadata": {"managedFields": [{"manager": "plural", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}, "spec": {"replicas": 2,
		"template": {"spec": {"containers": [{"name": "web", "ports": [{"containerPort": 80}, {"containerPort": 9090}]}]}}}}`
	scaledByOthers = `{"metadata": {"managedFields": [{"manager": "plural", "fieldsV1": {"f:spec": {"f:selector": {}}}}]}, "spec": {"replicas": 3}}`
	twoContainers  = `{"spec": {"containers": [{"name": "web"}, {"name": "proxy"}]}}`
)

func TestScalingSaysThatGitPutsItBackAndOffersToChangeGit(t *testing.T) {
	c := atCluster(t, deployed)
	write(t, filepath.Join(c.world.Repo.Root(), "plural.yaml"), "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: acme}\n"+
		"spec: {repo: {url: https://git.example.com/fleet.git}}\n")
	if err := os.MkdirAll(filepath.Join(c.world.Repo.Root(), "services"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(c.world.Repo.Root(), "services", "web.yaml"), "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: web}\n"+
		"spec: {source: {path: apps/web}, clusters: {names: []}, parameters: {replicas: \"2\", port: \"2\"}}\n")
	c.list.subjects = []pane.Subject{object("apps", "deployments", "Deployment")}
	c.press("s")
	if c.asked.Mark != "replicas of web: " || c.asked.Value != "2" {
		t.Fatalf("asked %+v, told %v", c.asked, c.told)
	}
	c.do(c.asked.Then("5"))
	screen := c.draw(120, 24)
	for _, want := range []string{
		"for service web: its agent puts that back", "plural kubectl edge-1 --namespace shop scale deployments.apps/web --replicas=5", "y/N",
		"ctrl+g does this instead: plural service set web replicas=5",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q in\n%s", want, screen)
		}
	}
	c.do(c.stack[0].Update(tea.KeyPressMsg{Code: 'g', Mod: tea.ModCtrl}))
	if screen := c.draw(120, 24); !strings.Contains(screen, "Set replicas=5 of web? y/N") || !strings.Contains(screen, "+  suspend: true") {
		t.Errorf("got\n%s", screen)
	}
	c.press("y")
	if got := c.commands(); got[len(got)-1] != "source sync . --no-wait" && !strings.HasPrefix(got[len(got)-1], "service set web replicas=5") {
		t.Errorf("ran %q", got)
	}
}

func TestScalingWhatGitDoesNotSayIsDoneAfterAYes(t *testing.T) {
	c := atCluster(t, scaledByOthers)
	c.list.subjects = []pane.Subject{object("apps", "deployments", "Deployment")}
	c.press("s")
	c.do(c.asked.Then("0"))
	if screen := c.draw(120, 24); strings.Contains(screen, "puts that back") {
		t.Errorf("got\n%s", screen)
	}
	c.press("n")
	if c.commands() != nil {
		t.Errorf("ran %q", c.commands())
	}
	c.press("s")
	c.do(c.asked.Then("0"))
	c.press("y")
	if got := c.commands(); len(got) != 1 || got[0] != "kubectl edge-1 --namespace shop scale deployments.apps/web --replicas=0" {
		t.Errorf("ran %q", got)
	}
	if log := c.desk.Log(); log.Len() != 1 || log.At(0).Line != "plural kubectl edge-1 --namespace shop scale deployments.apps/web --replicas=0" {
		t.Errorf("the log has %+v", log.At(0))
	}
}

func TestWhatChangesAClusterInProductionTakesTheNameTyped(t *testing.T) {
	for key, word := range map[string]string{"s": "scale", "R": "restart", "delete": "delete"} {
		c := atCluster(t, scaledByOthers)
		c.world.Fleet.Apply(model.Batch{Clusters: v1.Changes[v1.Cluster]{Items: []v1.Cluster{{
			Name: "edge-1",
			Tags: map[string]string{"env": "prod"},
		}}}})
		c.list.subjects = []pane.Subject{object("apps", "deployments", "Deployment")}
		c.press(key)
		if key == "s" {
			c.do(c.asked.Then("1"))
		}
		c.press("y", "enter")
		if screen := c.draw(120, 24); !strings.Contains(screen, "type Deployment/web: y") || c.commands() != nil {
			t.Errorf("%s: ran %q, shows\n%s", word, c.commands(), screen)
		}
	}
}

func TestADeletionOfWhatGitAsksForSaysThatItComesBack(t *testing.T) {
	c := atCluster(t, "")
	c.list.subjects = []pane.Subject{object("apps", "deployments", "Deployment")}
	c.press("delete")
	if screen := c.draw(120, 24); !strings.Contains(screen, "Deployment/web: git asks for it, and its agent makes it again") {
		t.Errorf("got\n%s", screen)
	}
}

func TestTheContainerOfAShellAndThePortToForwardAreAskedFor(t *testing.T) {
	pod := object("", "pods", "Pod")
	c := atCluster(t, twoContainers)
	c.list.subjects = []pane.Subject{pod}
	c.press("s")
	if c.asked.Mark != "container of web: " || strings.Join(c.asked.Words, " ") != "web proxy" || c.asked.Value != "web" {
		t.Errorf("asked %+v", c.asked)
	}
	c.do(c.asked.Then("nosuch"))
	if c.last() != `shell in pod: web has no container "nosuch"` || c.commands() != nil {
		t.Errorf("told %q, ran %q", c.last(), c.commands())
	}
	c = atCluster(t, deployed)
	c.list.subjects = []pane.Subject{object("apps", "deployments", "Deployment")}
	c.press("F")
	if c.asked.Value != "8080:80" || strings.Join(c.asked.Words, " ") != "8080:80 9090:9090" {
		t.Errorf("asked %+v", c.asked)
	}
	for _, wrong := range []string{"", "0", "80:", "70000", "a:b", "1:2:3", "--help"} {
		c.do(c.asked.Then(wrong))
		if !strings.Contains(c.last(), "is no port: 8080:80") {
			t.Errorf("%q: told %q", wrong, c.last())
		}
	}
}

func TestAForwardedPortGoesOnUntilItIsEnded(t *testing.T) {
	c := atCluster(t, deployed)
	c.list.subjects = []pane.Subject{object("apps", "deployments", "Deployment")}
	c.press("F")
	came := make(chan tea.Msg, 10)
	for _, cmd := range c.asked.Then("8080:80")().(tea.BatchMsg) {
		go func() { came <- cmd() }()
	}
	next := func() {
		t.Helper()
		select {
		case msg := <-came:
			if told, ok := msg.(pane.Told); ok {
				c.told = append(c.told, told)
				return
			}
			cmd, _ := c.desk.Update(msg)
			c.do(cmd)
		case <-time.After(20 * time.Second):
			t.Fatal("nothing came")
		}
	}
	next() // that it begins
	next() // that it listens
	forwards, err := c.desk.Panes()["forwards"](c.world, pane.Subject{}, "")
	if err != nil {
		t.Fatal(err)
	}
	draw := func() string { return strings.Join(forwards.Draw(160, 10), "\n") }
	if screen := draw(); !strings.Contains(screen, "running") || !strings.Contains(screen, "127.0.0.1:8080") || c.desk.Busy() != "" {
		t.Fatalf("busy with %q:\n%s", c.desk.Busy(), screen)
	}
	c.do(forwards.Update(pressed("delete")))
	next()
	if screen := draw(); !strings.Contains(screen, "stopped") || !strings.Contains(screen, "ended by hand") {
		t.Errorf("got\n%s", screen)
	}
}

func TestAReadOnlyConsoleChangesNoCluster(t *testing.T) {
	c := atCluster(t, deployed)
	c.world.ReadOnly = true
	for _, key := range []string{"s", "F", "R", "delete"} {
		for _, s := range []pane.Subject{object("apps", "deployments", "Deployment"), object("", "pods", "Pod")} {
			c.list.subjects = []pane.Subject{s}
			c.press(key)
			if !strings.HasSuffix(c.last(), "this console only reads (--read-only)") || len(c.stack) > 0 || c.asked.Then != nil {
				t.Errorf("%s: told %q", key, c.last())
			}
		}
	}
}

func TestAnObjectWhoseNameKubectlWouldReadAsAFlagIsGivenToNobody(t *testing.T) {
	c := atCluster(t, "")
	s := object("", "pods", "Pod")
	s.Object.Namespace = "--kubeconfig=/tmp/x"
	c.list.subjects = []pane.Subject{s}
	c.press("delete")
	if !strings.Contains(c.last(), "is no name of an object") || len(c.stack) > 0 {
		t.Errorf("told %q", c.last())
	}
}
