package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

func TestEqualDeploymentsGiveEqualETags(t *testing.T) {
	parameters := func(backwards bool) map[string]string {
		m := map[string]string{}
		for i := range 100 {
			if backwards {
				i = 99 - i
			}
			m[fmt.Sprint("p", i)] = "v"
		}
		return m
	}
	one, other := deployment("web", "b1-web"), deployment("web", "b1-web")
	one.Parameters, other.Parameters = parameters(false), parameters(true)
	want := newRoot(t, "a", one).ETag()
	for range 20 {
		if got := newRoot(t, "a", other).ETag(); got != want {
			t.Fatalf("%s and %s", got, want)
		}
	}
}

func TestETagChangesWithWhatTheAgentMustKnowAndNothingElse(t *testing.T) {
	tests := map[string]struct {
		change func(*resolve.Deployment)
		same   bool
	}{
		"key":             {change: func(d *resolve.Deployment) { d.Key = "d1-other" }},
		"prune":           {change: func(d *resolve.Deployment) { d.Prune = false }},
		"self-healing":    {change: func(d *resolve.Deployment) { d.SelfHeal = false }},
		"deletion budget": {change: func(d *resolve.Deployment) { d.DeletionBudget = "1" }},
		"dependencies":    {change: func(d *resolve.Deployment) { d.DependsOn = []fleet.Dependency{{Service: "db"}} }},
		"version":         {change: func(d *resolve.Deployment) { d.Version = "1.2.3" }},
		"account":         {change: func(d *resolve.Deployment) { d.ServiceAccount = "web/deployer" }},
		"namespaces":      {change: func(d *resolve.Deployment) { d.AllowedNamespaces = []string{"web"} }},
		"on delete":       {change: func(d *resolve.Deployment) { d.OnDelete = "orphan" }},
		"conflicts":       {change: func(d *resolve.Deployment) { d.Conflicts = "fail" }},
		"fields": {change: func(d *resolve.Deployment) {
			d.Fields = []fleet.FieldRule{{Pointer: "/spec/replicas", Policy: "ignore"}}
		}},
		"recreate":  {change: func(d *resolve.Deployment) { d.Recreate = []string{"Job.batch"} }},
		"agreement": {change: func(d *resolve.Deployment) { d.Acknowledged = []string{"3f2a9c0d11aa"} }},
		"health":    {change: func(d *resolve.Deployment) { d.Health = []fleet.HealthRule{{Kind: "Pod", Healthy: "true"}} }},
		"tests": {change: func(d *resolve.Deployment) {
			d.Tests = []fleet.Test{{Name: "t", HTTP: &fleet.HTTPTest{Service: "web"}}}
		}},
		"chart's lookup": {change: func(d *resolve.Deployment) { d.Helm = &resolve.Helm{Lookup: true} }},
		// What tells deployments apart inside of the hub is in what they are filled in with.
		"variant":         {change: func(d *resolve.Deployment) { d.Variant = "one" }, same: true},
		"hold":            {change: func(d *resolve.Deployment) { d.Key, d.Bundle, d.Hold = "", "", &resolve.Problem{Message: "gone"} }},
		"helm values":     {change: func(d *resolve.Deployment) { d.Helm = &resolve.Helm{Release: "web", ValuesJSON: []byte("{}")} }},
		"secrets":         {change: func(d *resolve.Deployment) { d.Secrets = []resolve.Secret{{Name: "db", Path: "db.yaml"}} }},
		"secrets' bundle": {change: func(d *resolve.Deployment) { d.SecretsBundle = "b1-secrets" }},
		"whose files":     {change: func(d *resolve.Deployment) { d.OwnRepository = true }},
		// A commit that touches other folders changes nothing but this.
		"commit": {change: func(d *resolve.Deployment) { d.Commit = "c2" }, same: true},
	}
	before := newRoot(t, "a", deployment("web", "b1-web")).ETag()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := deployment("web", "b1-web")
			test.change(&d)
			if same := newRoot(t, "a", d).ETag() == before; same != test.same {
				t.Errorf("same = %v", same)
			}
		})
	}
	envelopes := []*api.Envelope{{Group: "prod", Epoch: 1, Path: ".plural/groups/prod/members/clusters/a.age", Sealed: []byte("sealed")}}
	if newRootWith(t, "a", envelopes, deployment("web", "b1-web")).ETag() == before {
		t.Error("an envelope is not in the root")
	}
	for what, change := range map[string]func(*gateway.Terms){
		"agreements":   func(t *gateway.Terms) { t.Acknowledged = []string{"3f2a9c0d11aa"} },
		"health rules": func(t *gateway.Terms) { t.Health = []fleet.HealthRule{{Kind: "Pod", Healthy: "true"}} },
	} {
		others, d := terms, deployment("web", "b1-web")
		change(&others)
		if root, err := gateway.NewEncoder(others).Root("a", []*resolve.Deployment{&d}, nil); err != nil || root.ETag() == before {
			t.Errorf("the workspace's %s are not in the root: %v", what, err)
		}
	}
	if newRoot(t, "b", deployment("web", "b1-web")).ETag() == before {
		t.Error("two clusters have the same root")
	}
}

func TestAnAgreementForOneClusterIsInNoOthersPoll(t *testing.T) {
	agreed := terms
	agreed.Acknowledged = []string{"3f2a9c0d11aa@a"}
	plain := newRoot(t, "b", deployment("web", "b1-web")).ETag()
	d := deployment("web", "b1-web")
	root, err := gateway.NewEncoder(agreed).Root("b", []*resolve.Deployment{&d}, nil)
	if err != nil || root.ETag() != plain {
		t.Errorf("b hears of what was agreed to for a: %v", err)
	}
	agreed.Acknowledged = []string{"3f2a9c0d11aa@b"}
	bound, err := gateway.NewEncoder(agreed).Root("b", []*resolve.Deployment{&d}, nil)
	if err != nil {
		t.Fatal(err)
	}
	agreed.Acknowledged = []string{"3f2a9c0d11aa"}
	if root, err = gateway.NewEncoder(agreed).Root("b", []*resolve.Deployment{&d}, nil); err != nil || root.ETag() != bound.ETag() {
		t.Errorf("b does not hear of what was agreed to for it as it knows it: %v", err)
	}
}

func TestRootLargerThanAPollCanCarryIsRefused(t *testing.T) {
	d := deployment("web", "b1-web")
	d.Parameters = map[string]string{"p": strings.Repeat("x", 17<<20)}
	_, err := gateway.NewEncoder(terms).Root("edge-1", []*resolve.Deployment{&d}, nil)
	if err == nil || !strings.Contains(err.Error(), "edge-1") {
		t.Errorf("Root: %v", err)
	}
}
