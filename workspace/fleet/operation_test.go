package fleet

import (
	"fmt"
	"strings"
	"testing"
)

// whole is a service that uses every field of how it is applied, judged and tried.
const whole = `
  source: {name: charts, ref: ^6.7}
  clusters: {}
  renderer: helm
  namespace: web
  serviceAccount: deployer
  allowedNamespaces: [web, web-jobs]
  dependsOn: [{service: db, condition: applied, version: ">=1.14 <2"}]
  helm: {chart: web, lookup: true, record: true, skipCRDs: true}
  sync:
    onDelete: orphan
    conflicts: yield
    fields:
    - {kind: Deployment.apps, namespace: web, name: web, pointer: /spec/replicas, policy: ignore}
    - {pointer: /spec/template/spec/containers/*/resources, policy: yield}
    - {pointer: /metadata/annotations/example.org~1owner, policy: fail}
    recreate: [Job.batch, StatefulSet.apps]
    acknowledged: [3f2a9c0d11aa, "012345678901"]
  health:
  - {kind: Certificate.cert-manager.io, healthy: self.ok, degraded: self.bad, progressing: "true", message: self.why}
  - {kind: Rollout.argoproj.io, lua: "return {status = 'Healthy'}"}
  tests:
  - name: smoke
    timeout: 30s
    retries: 3
    gate: true
    http:
      {service: web, namespace: web, port: 8080, path: "/healthz", method: POST, scheme: https, headers: {X-Test: "1"},
       body: "{}", status: 204, contains: ok, by: cluster}
  - {name: suite, job: {template: {spec: {containers: [{name: t, image: t}], restartPolicy: Never}}}}
  - {name: manifest, job: {apiVersion: batch/v1, kind: Job, spec: {template: {spec: {}}}}}
  - {name: sane, cel: [{kind: Deployment.apps, version: v1, name: web, expression: "self.status.readyReplicas >= 1", message: "too few"}]}
  - {name: charts-own, helm: {hooks: []}}
`

func wholeRepo(spec string) (*Fleet, error) {
	return Load(repo(map[string]string{
		"sources/charts.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: charts}\nspec: {helm: {url: \"https://example.com\"}}\n",
		"services/db.yaml":    service("db", "{source: {name: charts, ref: 1.14.2}, helm: {chart: db}, clusters: {}}"),
		"services/web.yaml":   service("web", spec),
	}))
}

func TestEveryFieldOfAServiceIsRead(t *testing.T) {
	f, err := wholeRepo(whole)
	if err != nil {
		t.Fatal(err)
	}
	web, _ := f.Service("web")
	s := web.Spec
	if s.ServiceAccount != "deployer" || len(s.AllowedNamespaces) != 2 || !s.Helm.Lookup || !s.Helm.Record || !s.Helm.SkipCRDs {
		t.Errorf("%+v", s)
	}
	if want := (Dependency{"db", "applied", ">=1.14 <2"}); s.DependsOn[0] != want {
		t.Errorf("dependency = %+v", s.DependsOn[0])
	}
	if len(s.Sync.Fields) != 3 || s.Sync.Fields[0] != (FieldRule{"Deployment.apps", "web", "web", "/spec/replicas", "ignore"}) {
		t.Errorf("fields = %+v", s.Sync.Fields)
	}
	if s.Sync.OnDelete != "orphan" || s.Sync.Conflicts != "yield" || len(s.Sync.Recreate) != 2 || s.Sync.Acknowledged[1] != "012345678901" {
		t.Errorf("sync = %+v", s.Sync)
	}
	if s.Health[0] != (HealthRule{"Certificate.cert-manager.io", "self.ok", "self.bad", "true", "self.why", ""}) || s.Health[1].Lua == "" {
		t.Errorf("health = %+v", s.Health)
	}
	smoke := s.Tests[0]
	if smoke.Retries != 3 || !smoke.Gate || smoke.HTTP.Port != "8080" || smoke.HTTP.Status != 204 || smoke.HTTP.Headers["X-Test"] != "1" {
		t.Errorf("test = %+v", smoke)
	}
	if s.Tests[1].Job["template"] == nil || s.Tests[3].CEL[0].Version != "v1" || s.Tests[4].Helm == nil {
		t.Errorf("tests = %+v", s.Tests)
	}
	for _, place := range []string{"spec.tests[3].cel[0].expression", "spec.sync.fields[1].pointer", "spec.dependsOn[0].version"} {
		if web.Place(place).Line < 5 {
			t.Errorf("%s is said to be at %s", place, web.Place(place))
		}
	}
}

// TestListsAreBounded writes one entry too many into each list of a service.
func TestListsAreBounded(t *testing.T) {
	list := func(n int, entry func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, entry(i))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	tests := map[string]struct {
		spec string
		want string
	}{
		"health": {"  health: " + list(maxHealthRules+1, func(i int) string { return fmt.Sprintf("{kind: A%d, healthy: x}", i) }), "more than 50 rules"},
		"tests":  {"  tests: " + list(maxTests+1, func(i int) string { return fmt.Sprintf("{name: t%d, helm: {}}", i) }), "more than 20 tests"},
		"assertions": {
			"  tests: [{name: a, cel: " + list(maxAssertions+1, func(int) string { return "{kind: Pod, expression: x}" }) + "}]",
			"more than 50 assertions",
		},
		"fields": {"  sync: {fields: " + list(maxFieldRules+1, func(int) string { return "{pointer: /a, policy: own}" }) + "}", "more than 100 policies"},
		"kinds":  {"  sync: {recreate: " + list(maxRecreate+1, func(int) string { return "Job.batch" }) + "}", "more than 50 kinds"},
		"tokens": {"  sync: {acknowledged: " + list(maxTokens+1, func(int) string { return "3f2a9c0d11aa" }) + "}", "more than 10000 tokens"},
		"namespaces": {
			"  allowedNamespaces: " + list(maxNamespaces+1, func(int) string { return "default" }),
			"more than 100 namespaces",
		},
		"dependencies": {"  dependsOn: " + list(maxDependencies+1, func(int) string { return "{service: db}" }), "more than 100 dependencies"},
		"hooks":        {"  tests: [{name: a, helm: {hooks: " + list(maxHooks+1, func(int) string { return "a" }) + "}}]", "more than 50 hooks"},
		"expression":   {"  health: [{kind: Pod, healthy: \"" + strings.Repeat("x", maxExpression+1) + "\"}]", "longer than 8192 bytes"},
		"job":          {"  tests: [{name: a, job: {template: {spec: \"" + strings.Repeat("x", maxJob) + "\"}}}]", "longer than 65536 bytes"},
		"body":         {"  tests: [{name: a, http: {service: a, port: 1, body: \"" + strings.Repeat("x", maxBody+1) + "\"}}]", "longer than 16384 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := wholeRepo("\n  source: {name: charts}\n  clusters: {}\n  helm: {chart: web}\n" + test.spec + "\n")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestWorkspaceHoldsATokenForEachServiceOfALargeFleet(t *testing.T) {
	for _, more := range []int{0, 1} {
		tokens := strings.Repeat(`"3f2a9c0d11aa", `, maxTokens+more)
		_, err := Load(repo(map[string]string{"plural.yaml": strings.Replace(workspaceYAML, "{}", "{acknowledged: ["+tokens+"]}", 1)}))
		if refused := err != nil && strings.Contains(err.Error(), "more than 10000 tokens"); refused != (more > 0) {
			t.Errorf("%d tokens: %v", maxTokens+more, err)
		}
	}
}

// What the hub cannot check is agreed to cluster by cluster.
func TestServiceHoldsATokenForEachClusterOfALargeFleet(t *testing.T) {
	var tokens strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&tokens, `"3f2a9c0d11aa@edge-%d", `, i)
	}
	_, err := wholeRepo("\n  source: {name: charts}\n  clusters: {}\n  helm: {chart: web}\n  sync: {acknowledged: [" +
		tokens.String() + "]}\n")
	if err != nil {
		t.Error(err)
	}
}
