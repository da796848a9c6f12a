package resolve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/workspace/fleet"
)

const chartYAML = "apiVersion: v2\nname: web\nversion: 1.0.0\n"

// resolved is the service web, of a chart in the installation repo, on the cluster prod.
func resolved(t *testing.T, workspace, spec string) Deployment {
	t.Helper()
	snap := worktree(t, map[string]string{
		"plural.yaml":         workspace,
		"clusters/prod.yaml":  cluster("prod", "{tags: {env: prod, domain: example.com}}"),
		"web/Chart.yaml":      chartYAML,
		"services/web.yaml":   service("web", "{source: {path: web}, clusters: {matchLabels: {env: prod}}"+spec+"}"),
		"services/db.yaml":    service("db", "{source: {name: charts, ref: 1.14.2}, helm: {chart: db}, clusters: {matchLabels: {env: prod}}}"),
		"sources/charts.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: charts}\nspec: {helm: {url: \"https://example.com\"}}\n",
	})
	list, err := For(load(t, snap), "prod", repos{"": snap})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d deployments, %v", len(list), err)
	}
	return list[1]
}

func TestHowAServiceIsAppliedIsNotInItsKey(t *testing.T) {
	before := resolved(t, workspaceYAML, "")
	for name, spec := range map[string]string{
		"account":      ", serviceAccount: deployer",
		"namespaces":   ", allowedNamespaces: [default]",
		"dependencies": `, dependsOn: [{service: db, condition: applied, version: ">=1"}]`,
		"sync":         ", sync: {onDelete: orphan, conflicts: fail, recreate: [Job.batch], fields: [{pointer: /a, policy: own}], acknowledged: [3f2a9c0d11aa]}",
		"health":       `, health: [{kind: Pod, healthy: "true"}]`,
		"tests":        `, tests: [{name: a, http: {service: web, port: 80, path: "/{{ .cluster.name }}"}}]`,
		"nothing":      ", helm: {lookup: false}",
		"suspension":   ", suspend: true",
	} {
		if after := resolved(t, workspaceYAML, spec); after.Hold != nil || after.Key != before.Key {
			t.Errorf("%s: key %q, was %q; hold %v", name, after.Key, before.Key, after.Hold)
		}
	}
}

func TestAnAgreementForOneClusterIsGoodThereAlone(t *testing.T) {
	snap := worktree(t, map[string]string{
		"plural.yaml":        workspaceYAML,
		"clusters/prod.yaml": cluster("prod", "{tags: {env: any}}"), "clusters/dev.yaml": cluster("dev", "{tags: {env: any}}"),
		"web/Chart.yaml": chartYAML,
		"services/web.yaml": service("web", `
  source: {path: web}
  clusters: {matchLabels: {env: any}}
  sync: {acknowledged: ["012345678901", "3f2a9c0d11aa@prod"]}
`),
	})
	f, on := load(t, snap), map[string]Deployment{}
	for _, cluster := range []string{"prod", "dev"} {
		list, err := For(f, cluster, repos{"": snap})
		if err != nil || len(list) != 1 || list[0].Hold != nil {
			t.Fatalf("%v, %v", list, err)
		}
		on[cluster] = list[0]
	}
	prod, dev := on["prod"], on["dev"]
	if diff := cmp.Diff([][]string{{"012345678901", "3f2a9c0d11aa"}, {"012345678901"}},
		[][]string{prod.Acknowledged, dev.Acknowledged}); diff != "" {
		t.Error(diff)
	}
	if prod.Key != dev.Key || prod.Variant == dev.Variant {
		t.Errorf("keys %q and %q, variants %q and %q: one plan would share them", prod.Key, dev.Key, prod.Variant, dev.Variant)
	}
}

func TestWhatAChartsRenderDoesIsInItsKey(t *testing.T) {
	keys := map[string]string{}
	for _, spec := range []string{
		"", ", helm: {record: true}", ", helm: {skipCRDs: true}", ", helm: {record: true, skipCRDs: true}",
		", helm: {lookup: true}, serviceAccount: one", ", helm: {lookup: true}, serviceAccount: two",
	} {
		d := resolved(t, workspaceYAML, spec)
		if d.Hold != nil {
			t.Fatalf("%s: %v", spec, d.Hold)
		}
		if other, taken := keys[d.Key]; taken {
			t.Errorf("%q and %q have one key", spec, other)
		}
		keys[d.Key] = spec
	}
}

func TestDefaultsOfTheWorkspaceAreFilledIn(t *testing.T) {
	defaults := strings.Replace(workspaceYAML, "spec: {}", `spec:
  defaults:
    sync:
      onDelete: orphan
      conflicts: yield
      selfHeal: false
      recreate: [Job.batch]
      fields: [{pointer: /last, policy: fail}]`, 1)
	d := resolved(t, defaults, ", sync: {conflicts: own, fields: [{pointer: /first, policy: own}]}, serviceAccount: deployer, namespace: web")
	want := Operation{
		Prune: true, DeletionBudget: "50%", OnDelete: "orphan", Conflicts: "own", Recreate: []string{"Job.batch"},
		Fields: []fleet.FieldRule{{Pointer: "/first", Policy: "own"}, {Pointer: "/last", Policy: "fail"}}, ServiceAccount: "web/deployer",
	}
	if diff := cmp.Diff(want, d.Operation); diff != "" {
		t.Error(diff)
	}
	if d := resolved(t, defaults, ", suspend: true"); !d.Suspended {
		t.Error("the service is not suspended")
	}
	if d := resolved(t, defaults, ", sync: {recreate: []}, serviceAccount: ops/deployer"); len(d.Recreate) != 0 || d.ServiceAccount != "ops/deployer" || d.Suspended {
		t.Errorf("%+v", d.Operation)
	}
}

func TestTestsAreFilledInForTheCluster(t *testing.T) {
	const tests = `, parameters: {host: "web.{{ .cluster.tags.domain }}"}, tests: [
  {name: http, http: {service: web, port: 80, path: "/{{ .cluster.name }}", headers: {Host: "{{ .parameters.host }}"}, body: "{{ .cluster.name }}", contains: "{{ .cluster.name }}"}},
  {name: job, job: {template: {spec: {containers: [{name: a, args: ["{{ .cluster.name }}"]}]}}}},
  {name: cel, cel: [{kind: Pod, name: "{{ .cluster.name }}", expression: "self.metadata.name == '{{ .cluster.name }}'"}]}]`
	d := resolved(t, workspaceYAML, tests)
	if d.Hold != nil {
		t.Fatal(d.Hold)
	}
	h := d.Tests[0].HTTP
	if h.Path != "/prod" || h.Headers["Host"] != "web.example.com" || h.Body != "prod" || h.Contains != "prod" {
		t.Errorf("http = %+v", h)
	}
	job := []any{"prod"}
	containers := d.Tests[1].Job["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
	if diff := cmp.Diff(job, containers[0].(map[string]any)["args"]); diff != "" {
		t.Error(diff)
	}
	if a := d.Tests[2].CEL[0]; a.Name != "prod" || a.Expression != "self.metadata.name == 'prod'" {
		t.Errorf("cel = %+v", a)
	}
	if d.Variant == "" {
		t.Error("it is not told apart from the same deployment on another cluster")
	}
	if d := resolved(t, workspaceYAML, ", tests: [{name: a, helm: {}}]"); d.Variant != "" || len(d.Tests) != 1 {
		t.Errorf("variant = %q of tests that every cluster has", d.Variant)
	}
	held := resolved(t, workspaceYAML, `, tests: [{name: a, http: {service: web, port: 80, path: "/{{ .cluster.tags.zone }}"}}]`)
	if held.Hold == nil || !strings.Contains(held.Hold.Message, "spec.tests[0].http.path") || held.Hold.Line != 4 {
		t.Errorf("hold = %v", held.Hold)
	}
}

// called are snapshots with the names that their upstreams have for them.
type called struct {
	repos
	version string
}

func (c called) Version(string, string) string { return c.version }

func TestVersionIsWhatTheSourceCallsIt(t *testing.T) {
	any := worktree(t, map[string]string{"a": "b"})
	tests := map[string]struct {
		src         Sources
		source, ref string
		want        string
	}{
		"the installation repo":       {called{version: "1.0.0"}, "", "", ""},
		"what the upstream says":      {called{version: "6.7.1"}, "charts", "web@^6", "6.7.1"},
		"a tag that is no version":    {called{version: "stable"}, "images", "stable", "stable"},
		"an exact version":            {repos{"charts": any}, "charts", "web@6.7.1", "6.7.1"},
		"a range says nothing":        {repos{"charts": any}, "charts", "web@^6", ""},
		"a git tag that is a version": {repos{"apps": any}, "apps", "v1.2.3", "v1.2.3"},
		"a git tag in full":           {repos{"apps": any}, "apps", "refs/tags/v1.2.3", "v1.2.3"},
		"a branch":                    {called{repos: repos{"apps": any}}, "apps", "main", ""},
	}
	for name, test := range tests {
		if got := versionOf(test.src, test.source, test.ref); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
