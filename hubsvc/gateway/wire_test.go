package gateway

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

func TestAgentsAreToldHowAServiceIsAppliedJudgedAndTried(t *testing.T) {
	said, err := wire(&resolve.Deployment{
		Service: "web", Version: "6.7.1", Helm: &resolve.Helm{Release: "web", Lookup: true, Record: true, SkipCRDs: true},
		Operation: resolve.Operation{
			DependsOn: []fleet.Dependency{{Service: "db", Condition: "applied", Version: ">=1.14 <2"}},
			Prune:     true, Suspended: true, OnDelete: "orphan", Conflicts: "fail", DeletionBudget: "10", Recreate: []string{"Job.batch"},
			Fields:       []fleet.FieldRule{{Kind: "Deployment.apps", Namespace: "a", Name: "b", Pointer: "/spec/replicas", Policy: "ignore"}},
			Acknowledged: []string{"3f2a9c0d11aa"}, ServiceAccount: "web/deployer", AllowedNamespaces: []string{"web"},
			Health: []fleet.HealthRule{
				{Kind: "Certificate.cert-manager.io", Healthy: "h", Degraded: "d", Progressing: "p", Message: "m"}, {Kind: "Pod", Lua: "l"},
			},
			Tests: []fleet.Test{
				{Name: "http", Timeout: "30s", Retries: 3, Gate: true, HTTP: &fleet.HTTPTest{
					Service: "web", Namespace: "ns", Port: "http", Path: "/", Method: "POST", Scheme: "https",
					Headers: map[string]string{"A": "b"}, Body: "x", Status: 204, Contains: "y", By: "cluster",
				}},
				{Name: "spec", Job: map[string]any{"template": map[string]any{}}},
				{Name: "job", Job: map[string]any{"metadata": map[string]any{"name": "j"}, "spec": map[string]any{"template": map[string]any{}}}},
				{Name: "cel", CEL: []fleet.CELAssertion{{Kind: "Deployment.apps", Version: "v1", Namespace: "ns", Name: "n", Expression: "e", Message: "m"}, {Kind: "Pod", Selector: "a=b", Expression: "e"}}},
				{Name: "helm", Helm: &fleet.HelmTest{Hooks: []string{"a"}}},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &api.Deployment{
		Service: "web", Version: "6.7.1", DependsOn: []string{"db"},
		Dependencies: []*api.Dependency{{Service: "db", Condition: "applied", Version: ">=1.14 <2"}},
		Helm:         &api.Helm{Release: "web", Lookup: true, ReleaseRecord: true, SkipCrds: true},
		Sync: &api.Sync{
			Prune: true, Suspended: true, OnDelete: "orphan", Conflicts: "fail", DeletionBudget: "10", Recreate: []string{"Job.batch"}, Acknowledged: []string{"3f2a9c0d11aa"},
			Fields: []*api.FieldRule{{Group: "apps", Kind: "Deployment", Namespace: "a", Name: "b", Pointer: "/spec/replicas", Policy: "ignore"}},
		},
		ServiceAccount: "web/deployer", AllowedNamespaces: []string{"web"},
		Health: []*api.HealthRule{
			{Group: "cert-manager.io", Kind: "Certificate", Healthy: "h", Degraded: "d", Progressing: "p", Message: "m"}, {Kind: "Pod", Lua: "l"},
		},
		Tests: []*api.Test{
			{Name: "http", TimeoutMs: 30_000, Retries: 3, Gate: true, Http: &api.HttpTest{
				Service: "web", Namespace: "ns", Port: "http", Path: "/", Method: "POST", Scheme: "https",
				Headers: map[string]string{"A": "b"}, Body: "x", Status: 204, Contains: "y", By: "cluster",
			}},
			{Name: "spec", Job: &api.JobTest{ManifestJson: []byte(`{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{}}}`)}},
			{Name: "job", Job: &api.JobTest{ManifestJson: []byte(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"template":{}}}`)}},
			{Name: "cel", Cel: &api.CelTest{Assertions: []*api.CelAssertion{
				{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "ns", Name: "n", Expression: "e", Message: "m"}, {Kind: "Pod", Selector: "a=b", Expression: "e"},
			}}},
			{Name: "helm", Helm: &api.HelmTest{Hooks: []string{"a"}}},
		},
	}
	if diff := cmp.Diff(want, said, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}
