package act_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/tui/usercommands"
)

func TestOwnCommandsAreGivenWhatTheyAreAboutAsVariables(t *testing.T) {
	pod := pane.Subject{
		Kind: pane.KindObject, Name: "web-1", Cluster: "edge-1", Service: "web",
		Object: &v1.Object{Kind: "Pod", Resource: "pods", Namespace: "shop", Name: "web-1"},
	}
	const script = `echo "$SERVICE" on $CLUSTER`
	for name, tt := range map[string]struct {
		on   pane.Subject
		want string
	}{
		"a deployment": {
			onCluster("web", "edge-1"),
			`plural kube run edge-1 -- env CLUSTER=edge-1 SERVICE=web NAMESPACE=shop KIND=deployment NAME=web sh -c 'echo "$SERVICE" on $CLUSTER'`,
		},
		"an object": {
			pod, `plural kube run edge-1 -- env CLUSTER=edge-1 SERVICE=web NAMESPACE=shop KIND=Pod NAME=web-1 sh -c 'echo "$SERVICE" on $CLUSTER'`,
		},
		"a service, which is on no cluster": {
			service("web"), `env CLUSTER= SERVICE=web NAMESPACE= KIND=service NAME=web sh -c 'echo "$SERVICE" on $CLUSTER'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			c.world.Fleet.Apply(model.Batch{
				Services:    v1.Changes[v1.Service]{Items: []v1.Service{{Name: "web", Namespace: ""}}},
				Deployments: v1.Changes[v1.Deployment]{Items: []v1.Deployment{{Cluster: "edge-1", Service: "web"}}},
			})
			if name == "a deployment" {
				c.world.Fleet.Apply(model.Batch{Services: v1.Changes[v1.Service]{Items: []v1.Service{{Name: "web", Namespace: "shop"}}}})
			}
			c.desk.Add([]usercommands.Command{{Key: "W", Name: "say", Scope: usercommands.Scopes(), Run: script}})
			tt.on.Service = "web"
			c.list.subjects = []pane.Subject{tt.on}
			c.press("W")
			if e := c.desk.Log().At(0); e.Line != tt.want {
				t.Errorf("ran %s\nwant %s", e.Line, tt.want)
			}
		})
	}
}

func TestAnOwnCommandIsRunByItselfAndWhatItSaysIsKept(t *testing.T) {
	c := newConsole(t)
	file := filepath.Join(t.TempDir(), "said")
	c.desk.Add([]usercommands.Command{{Key: "W", Name: "say", Scope: []string{"service"}, Run: `echo "$NAME is a $KIND" | tee ` + file}})
	c.list.subjects = []pane.Subject{service("web")}
	c.press("W")
	if e := c.desk.Log().At(0); e.Ending != act.Done || e.Output != "web is a service" {
		t.Errorf("remembered %+v", e)
	}
	if ran := c.commands(); ran != nil {
		t.Errorf("this program was run: %q", ran)
	}
}

func TestOwnCommandsAreForTheirScopeAndNotForWhoOnlyReads(t *testing.T) {
	c := newConsole(t)
	c.desk.Add([]usercommands.Command{{Key: "W", Name: "say", Scope: []string{"service"}, Run: "true"}})
	offered := func(on pane.Subject) bool {
		for _, b := range c.desk.Offered([]pane.Subject{on}) {
			if slices.Contains(b.Keys(), "W") {
				return true
			}
		}
		return false
	}
	if !offered(service("web")) || offered(clusterOf("edge-1")) {
		t.Error("it is offered elsewhere")
	}
	c.world.ReadOnly = true
	if offered(service("web")) {
		t.Error("it is offered to who only reads")
	}
}

func TestWhatAScriptCouldReadAsMoreThanANameIsGivenToNone(t *testing.T) {
	for name, on := range map[string]pane.Subject{
		"a cluster": onCluster("web", "edge-1$(rm)"),
		"a flag":    service("-rf"),
		"an object": {
			Kind: pane.KindObject, Cluster: "edge-1", Service: "web",
			Object: &v1.Object{Kind: "Pod", Namespace: "shop", Name: "a\nb; rm"},
		},
		"the folder above": {Kind: pane.KindObject, Cluster: "edge-1", Service: "web", Object: &v1.Object{Kind: "Pod", Namespace: "shop", Name: ".."}},
		"a namespace": {
			Kind: pane.KindObject, Cluster: "edge-1", Service: "web", Object: &v1.Object{Kind: "Pod", Namespace: "`rm`", Name: "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			c.desk.Add([]usercommands.Command{{Key: "W", Name: "say", Scope: usercommands.Scopes(), Run: "true"}})
			c.list.subjects = []pane.Subject{on}
			c.press("W")
			if c.desk.Log().Len() > 0 || !strings.Contains(c.last(), "no name") {
				t.Errorf("told %q", c.last())
			}
		})
	}
	if diff := cmp.Diff([]string{"cluster", "service", "deployment", "object", "source", "package", "commit"}, usercommands.Scopes()); diff != "" {
		t.Error(diff)
	}
}
