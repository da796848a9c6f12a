package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
)

// TestDeployEngine is what one cluster's people see of how services are applied, judged, tested and let go: each story from a
// commit to what plural says of it. The stories share a fleet, each has services of its own, and the last ones take them away.
func TestDeployEngine(t *testing.T) {
	s := oneCluster(t)
	story := func(name string, tell func(*testing.T, *site)) {
		t.Run(name, func(t *testing.T) {
			fleet, own := *s.local, *s
			own.local, fleet.t = &fleet, t
			tell(t, &own)
		})
	}
	story("deletions beyond the budget wait for a person", deletionsWait)
	story("an object moves from one service to another", objectMoves)
	story("a service waits for another's health and version", dependenciesHold)
	story("rules in CEL and Lua decide waves", rulesDecideWaves)
	story("hooks and waves of Argo CD", argoOrder)
	story("a chart with definitions, hooks, lookups and a record", chartWithEverything)
	story("remote bases, files and charts of a kustomization", remotesRender)
	story("tests of every kind pass", testsPass)
	story("a failed test takes the version before back", gateHolds)
	story("fields belong to whom the service says", fieldsBelong)
	story("an account and namespaces bound a service", boundsHold)
	story("diff and why tell what a person needs", diffAndWhy)
	story("an agent that lost its disk renders by a plugin", pluginRenders)
	story("services beyond the budget go when a person agrees", servicesGo)
}

// settings ends a service's file.
func settings(name string, lines ...string) string {
	return service(name, "apps/"+name) + strings.Join(lines, "")
}

func deletionsWait(t *testing.T, s *site) {
	files := map[string]string{"services/many.yaml": settings("many"), "apps/many/none.yaml": "# nothing\n"}
	for i := range 25 {
		name := fmt.Sprintf("many-%02d", i)
		files["apps/many/"+name+".yaml"] = configMap(name, "x")
	}
	s.deploy("Add many objects", files)
	s.healthy("many")

	token := s.waits("take twenty away", 20, 0, 20)
	s.says(s.run("service", "get", "many"), "waits for an agreement: 20 objects on "+only, token, "plural service ack many")
	if n := s.count(configMaps, "many"); n != 25 {
		t.Errorf("%d of 25 objects are there while deletions wait", n)
	}
	s.says(s.run("service", "ack", "many", "--yes"), "observed")
	s.eventually("twenty objects go", timeout, func() bool { return s.count(configMaps, "many") == 5 })
	s.healthy("many")

	if again := s.waits("take the rest away", 5, 20, 25); again == token {
		t.Errorf("the same token %s for other objects", again)
	}
	if n := s.count(configMaps, "many"); n != 5 {
		t.Errorf("%d of 5 objects are there while an empty render waits", n)
	}
	s.says(s.run("service", "get", "many"), "the render is empty")
	s.run("service", "ack", "many", "--yes")
	s.eventually("all objects go", timeout, func() bool { return s.count(configMaps, "many") == 0 })
	s.healthy("many")
}

// waits takes some of the many objects out of the repo, and returns the token of what is held then.
func (s *site) waits(message string, count, from, to int) string {
	s.t.Helper()
	files := map[string]string{}
	for i := from; i < to; i++ {
		files[fmt.Sprintf("apps/many/many-%02d.yaml", i)] = ""
	}
	s.deploy(message, files)
	d := s.becomes("many", "is held", func(d *v1.Deployment) bool { return d.Phase == v1.Held && d.Held != nil })
	if d.Held.Count != count || !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(d.Held.Token) {
		s.t.Errorf("held is %+v", d.Held)
	}
	return d.Held.Token
}

func objectMoves(t *testing.T, s *site) {
	s.deploy("Add two services", map[string]string{
		"services/from.yaml": settings("from"), "apps/from/moves.yaml": configMap("moves", "x"), "apps/from/stays.yaml": configMap("from", "x"),
		"services/to.yaml": settings("to"), "apps/to/cm.yaml": configMap("to", "x"),
	})
	s.healthy("from", "to")
	uid := s.get(configMaps, "moves").GetUID()
	s.deploy("Move an object", map[string]string{"apps/from/moves.yaml": "", "apps/to/moves.yaml": configMap("moves", "x")})
	s.healthy("from", "to")
	moved := s.get(configMaps, "moves")
	if moved == nil || moved.GetUID() != uid || moved.GetLabels()["plural.sh/service"] != "to" {
		t.Errorf("what moved was %s, is %v", uid, moved)
	}
}

func dependenciesHold(t *testing.T, s *site) {
	upstream := filepath.Join(s.home, "library")
	library := *s.local
	library.repo = upstream
	s.git("init", "-q", upstream)
	library.write(map[string]string{"app/cm.yaml": configMap("library", "one")})
	library.git("add", "-A")
	library.git("commit", "-qm", "One")
	library.git("tag", "v1.2.0")
	library.git("tag", "v2.1.0")
	of := func(tag string) string {
		return strings.Replace(settings("library"), "source: {path: apps/library}", "source: {name: library, ref: "+tag+", path: app}", 1)
	}
	judged := `  health: [{kind: ConfigMap, healthy: "self.data.value == 'ready'", message: "'it is ' + self.data.value"}]` + "\n"
	s.deploy("Add services that wait", map[string]string{
		"sources/library.yaml":  "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: library}\nspec: {git: {url: \"file://" + upstream + "\"}}\n",
		"services/library.yaml": of("v1.2.0"),
		"services/base.yaml":    settings("base", judged), "apps/base/cm.yaml": configMap("base", "young"),
		"services/needs-health.yaml": settings("needs-health", "  dependsOn: [{service: base}]\n"), "apps/needs-health/cm.yaml": configMap("needs-health", "x"),
		"services/needs-apply.yaml": settings("needs-apply", "  dependsOn: [{service: base, condition: applied}]\n"), "apps/needs-apply/cm.yaml": configMap("needs-apply", "x"),
		"services/needs-version.yaml": settings("needs-version", "  dependsOn: [{service: library, version: \">=2\"}]\n"), "apps/needs-version/cm.yaml": configMap("needs-version", "x"),
	})
	pending := func(words string) func(*v1.Deployment) bool {
		return func(d *v1.Deployment) bool { return d.Phase == v1.Pending && strings.Contains(d.Message, words) }
	}
	s.becomes("base", "is judged", func(d *v1.Deployment) bool { return strings.Contains(d.Message, "it is young") })
	s.becomes("needs-health", "waits", pending("waits for base to be healthy"))
	s.becomes("needs-version", "waits", pending("waits for library in version >=2, and v1.2.0 runs"))
	s.healthy("needs-apply")
	s.says(s.run("why", "needs-health"), "waits for base", "it is young")

	s.deploy("Let them go on", map[string]string{"apps/base/cm.yaml": configMap("base", "ready"), "services/library.yaml": of("v2.1.0")})
	s.healthy("base", "needs-health", "needs-version")
}

func rulesDecideWaves(t *testing.T, s *site) {
	rules := `  dependsOn: [{service: kinds}]
  health:
  - {kind: Widget.example.org, healthy: self.status.ready, message: "'a widget is ' + self.status.word"}
  - kind: Gadget.example.org
    lua: |
      if obj.status ~= nil and obj.status.ready then return {status = "Healthy"} end
      return {status = "Progressing", message = "a gadget is not ready"}
`
	widget := "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w, annotations: {plural.sh/wave: \"-2\"}}\n---\n"
	gadget := "apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: g, annotations: {plural.sh/wave: \"-1\"}}\n---\n"
	s.deploy("Judge custom objects", map[string]string{
		"services/kinds.yaml": settings("kinds"), "apps/kinds/kinds.yaml": definition("Widget") + definition("Gadget"),
		"services/judged.yaml": settings("judged", rules), "apps/judged/all.yaml": widget + gadget + configMap("last", "x"),
	})
	says := func(words string) func(*v1.Deployment) bool {
		return func(d *v1.Deployment) bool { return d.Phase == v1.Progressing && strings.Contains(d.Message, words) }
	}
	s.becomes("judged", "waits for the widget", says("Widget.example.org demo/w"))
	s.patch(custom("widgets"), "w", `{"status": {"ready": false, "word": "young"}}`, "status")
	s.becomes("judged", "waits for the widget", says("a widget is young"))
	if s.get(custom("gadgets"), "g") != nil {
		t.Error("the second wave did not wait for the first")
	}
	s.patch(custom("widgets"), "w", `{"status": {"ready": true}}`, "status")
	s.becomes("judged", "waits for the gadget", says("a gadget is not ready"))
	if s.get(configMaps, "last") != nil {
		t.Error("the third wave did not wait for the second")
	}
	s.patch(custom("gadgets"), "g", `{"status": {"ready": true}}`, "status")
	s.healthy("judged")
}

func argoOrder(t *testing.T, s *site) {
	wave := func(n string) string { return `argocd.argoproj.io/sync-wave: "` + n + `"` }
	all := job("argo-pre", "argocd.argoproj.io/hook: PreSync") +
		job("argo-post", "argocd.argoproj.io/hook: PostSync") +
		job("argo-gone", "argocd.argoproj.io/hook: PostSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded") +
		job("argo-fail", "argocd.argoproj.io/hook: SyncFail") +
		job("argo-second", wave("2")) + job("argo-first", wave("-1"))
	s.deploy("Add hooks and waves", map[string]string{"services/argo.yaml": settings("argo"), "apps/argo/all.yaml": all})
	s.healthy("argo")
	s.ran("argo-pre", "argo-first", "argo-second", "argo-post")
	for _, name := range []string{"argo-gone", "argo-fail"} {
		if s.get(jobs, name) != nil {
			t.Errorf("%s is there", name)
		}
	}
	pre, first := s.get(jobs, "argo-pre").GetUID(), s.get(jobs, "argo-first").GetUID()
	s.deploy("Add an object", map[string]string{"apps/argo/cm.yaml": configMap("argo", "x")})
	s.healthy("argo")
	if s.get(jobs, "argo-pre").GetUID() == pre || s.get(jobs, "argo-first").GetUID() != first {
		t.Error("a new revision runs hooks again, and nothing else")
	}
}

func chartWithEverything(t *testing.T, s *site) {
	const hook = `"helm.sh/hook": `
	templates := job("chart-pre", hook+`"pre-install,pre-upgrade"`) +
		job("chart-first", hook+"pre-install, "+`"helm.sh/hook-weight": "-5", "helm.sh/hook-delete-policy": before-hook-creation`) +
		job("chart-post", hook+`"post-install"`) + job("chart-test", hook+`"test"`) +
		"apiVersion: example.org/v1\nkind: Gizmo\nmetadata: {name: gizmo}\n---\n" +
		configMap("chart", `{{ (lookup "v1" "ConfigMap" "demo" "seen").data.value | quote }}`)
	s.deploy("Let an account see", map[string]string{
		"services/chart-account.yaml": settings("chart-account"), "apps/chart-account/all.yaml": account("chart"), "apps/chart-account/seen.yaml": configMap("seen", "found"),
	})
	s.healthy("chart-account")
	s.deploy("Add a chart", map[string]string{
		"services/chart.yaml":         settings("chart", "  serviceAccount: chart\n  dependsOn: [{service: chart-account}]\n  helm: {lookup: true, record: true}\n", "  tests: [{name: hooks, timeout: 1m, helm: {}}]\n"),
		"apps/chart/Chart.yaml":       "apiVersion: v2\nname: chart\nversion: 1.2.3\n",
		"apps/chart/crds/gizmos.yaml": definition("Gizmo"), "apps/chart/templates/all.yaml": templates,
	})
	s.healthy("chart")
	s.ran("chart-first", "chart-pre", "chart-post", "chart-test")
	if got := s.field(configMaps, "chart", "data", "value"); got != "found" {
		t.Errorf("the chart found %q", got)
	}
	if s.get(custom("gizmos"), "gizmo") == nil {
		t.Error("the object of the chart's own kind is not there")
	}
	if got := s.field(secrets, "sh.helm.release.v1.chart.v1", "type"); got != "helm.sh/release.v1" {
		t.Errorf("the release's record is of type %q", got)
	}
	post := s.get(jobs, "chart-post").GetUID()
	s.deploy("Upgrade the chart", map[string]string{"apps/chart/Chart.yaml": "apiVersion: v2\nname: chart\nversion: 1.3.0\n"})
	s.healthy("chart")
	if s.get(jobs, "chart-post").GetUID() != post {
		t.Error("a hook of installs ran at an upgrade")
	}
}

// account is a service account that may do everything in the namespace, and define kinds.
func account(name string) string {
	return strings.NewReplacer("NAME", name).Replace(`apiVersion: v1
kind: ServiceAccount
metadata: {name: NAME}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME}
rules:
- {apiGroups: ["", batch, example.org], resources: ["*"], verbs: ["*"]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME}
subjects: [{kind: ServiceAccount, name: NAME, namespace: demo}]
`)
}

func testsPass(t *testing.T, s *site) {
	pod, port, start := s.behind("greeter", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello from "+r.URL.Path)
	}))
	greeter := fmt.Sprintf("---\n{apiVersion: v1, kind: Service, metadata: {name: greeter}, spec: {selector: {app: greeter}, ports: [{port: 80, targetPort: %d}]}}\n", port)
	tests := `  tests:
  - {name: greets, timeout: 20s, retries: 5, http: {service: greeter, port: 80, path: /hi, contains: hello from /hi}}
  - {name: ends, timeout: 30s, job: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}
  - {name: holds, cel: [{kind: Service, name: greeter, expression: "self.spec.ports.size() == 1"}]}
  - {name: fails, cel: [{kind: Service, name: greeter, expression: "self.spec.ports.size() == 2", message: one port alone}]}
`
	s.deploy("Test a service", map[string]string{"services/tested.yaml": settings("tested", tests), "apps/tested/all.yaml": pod + greeter})
	s.eventually("the pod is there", timeout, func() bool { return s.get(pods, "greeter") != nil })
	start()
	d := s.becomes("tested", "is tested", func(d *v1.Deployment) bool {
		return len(d.Tests) == 4 && !slices.ContainsFunc(d.Tests, func(t v1.Test) bool { return t.Outcome == v1.TestWaiting || t.Outcome == v1.TestRunning })
	})
	for _, test := range d.Tests {
		if want := map[bool]v1.TestOutcome{true: v1.TestFailed, false: v1.TestPassed}[test.Name == "fails"]; test.Outcome != want || test.Key != d.Key {
			t.Errorf("test %+v, want %s for %s", test, want, d.Key)
		}
	}
	if d.Phase != v1.Degraded || d.AppliedKey != d.Key || d.QuarantinedKey != "" {
		t.Errorf("a test that does not gate failed, and the service is %+v", d)
	}
	s.says(s.run("service", "get", "tested"), "tests: 3/4 passed", "one port alone")
}

func gateHolds(t *testing.T, s *site) {
	gate := `  tests: [{name: good, gate: true, cel: [{kind: ConfigMap, name: gated, expression: "self.data.value != 'bad'", message: it is bad}]}]` + "\n"
	s.deploy("Add a gate", map[string]string{"services/gated.yaml": settings("gated", gate), "apps/gated/cm.yaml": configMap("gated", "good")})
	s.healthy("gated")
	before, _ := s.deployment("gated")

	s.deploy("Break it", map[string]string{"apps/gated/cm.yaml": configMap("gated", "bad")})
	d := s.becomes("gated", "is in quarantine", func(d *v1.Deployment) bool { return d.QuarantinedKey != "" && d.AppliedKey == before.Key })
	if d.QuarantinedKey != d.Key || d.Phase != v1.Failed {
		t.Errorf("the deployment is %+v", d)
	}
	if got := s.field(configMaps, "gated", "data", "value"); got != "good" {
		t.Errorf("the version before is not back: %q", got)
	}
	s.says(s.run("service", "get", "gated"), "in quarantine: test good failed", "it is bad")

	s.deploy("Mend it", map[string]string{"apps/gated/cm.yaml": configMap("gated", "better")})
	s.healthy("gated")
	if d, _ := s.deployment("gated"); d.QuarantinedKey != "" {
		t.Errorf("the quarantine stays: %+v", d)
	}
}

func fieldsBelong(t *testing.T, s *site) {
	names := []string{"healed", "left", "ignored", "contested"}
	files := map[string]string{
		"services/healed.yaml":    settings("healed"),
		"services/left.yaml":      settings("left", "  sync: {selfHeal: false, prune: false}\n"),
		"apps/left/extra.yaml":    configMap("left-extra", "x"),
		"services/ignored.yaml":   settings("ignored", "  sync: {fields: [{kind: Deployment.apps, pointer: /spec/replicas, policy: ignore}]}\n"),
		"services/contested.yaml": settings("contested", "  sync: {conflicts: fail}\n"),
	}
	for _, name := range names {
		files["apps/"+name+"/workload.yaml"] = workload(name)
	}
	s.deploy("Add workloads", files)
	s.healthy(names...)

	replicas := func(name string) string { return s.field(deployments, name, "spec", "replicas") }
	for _, name := range []string{"left", "ignored", "contested", "healed"} {
		s.patch(deployments, name, `{"spec": {"replicas": 3}}`)
	}
	s.eventually("drift is healed", timeout, func() bool { return replicas("healed") == "1" })
	d := s.becomes("contested", "says whose the field is", func(d *v1.Deployment) bool { return d.Phase == v1.Failed && strings.Contains(d.Message, scaler) })
	if !slices.Equal(reasons(d), []string{"Conflict"}) {
		t.Errorf("problems are %+v", d.Problems)
	}
	s.says(s.run("service", "get", "contested"), `spec.replicas belongs to "`+scaler+`"`)
	for _, name := range []string{"left", "ignored", "contested"} {
		if got := replicas(name); got != "3" {
			t.Errorf("%s has %s replicas", name, got)
		}
	}

	s.replace("apps/ignored/workload.yaml", "a:1", "a:2")
	s.replace("services/contested.yaml", "conflicts: fail", "conflicts: yield")
	s.deploy("Change the images", map[string]string{"apps/left/extra.yaml": ""})
	s.healthy("ignored", "left", "contested")
	if image, n := image(s.get(deployments, "ignored")), replicas("ignored"); image != "a:2" || n != "3" {
		t.Errorf("the image is %s, with %s replicas", image, n)
	}
	if got := replicas("contested"); got != "3" {
		t.Errorf("what yields has %s replicas", got)
	}
	if s.get(configMaps, "left-extra") == nil {
		t.Error("a service that does not prune has deleted an object")
	}
}

func boundsHold(t *testing.T, s *site) {
	s.deploy("Bound a service", map[string]string{
		"services/bound-account.yaml": settings("bound-account"),
		"apps/bound-account/all.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: deployer}\n---\n" +
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: deployer}\nrules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [\"*\"]}]\n---\n" +
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: deployer}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}\n" +
			"subjects: [{kind: ServiceAccount, name: deployer, namespace: demo}]\n",
		"services/bound.yaml": settings("bound", "  serviceAccount: deployer\n  allowedNamespaces: [demo]\n  dependsOn: [{service: bound-account}]\n"),
		"apps/bound/all.yaml": configMap("inside", "x") + "---\n" + strings.Replace(configMap("outside", "x"), "metadata:\n", "metadata:\n  namespace: default\n", 1) +
			"---\napiVersion: v1\nkind: Secret\nmetadata: {name: forbidden}\n",
	})
	d := s.becomes("bound", "is told what it may not do", func(d *v1.Deployment) bool {
		return slices.Equal(reasons(d), []string{"Forbidden", "OutOfBounds"})
	})
	if d.Ready != 1 || s.get(configMaps, "inside") == nil {
		t.Errorf("what is allowed is not applied: %+v", d)
	}
	s.says(s.run("service", "get", "bound"), "system:serviceaccount:demo:deployer", "may not touch namespace default")
}

func diffAndWhy(t *testing.T, s *site) {
	s.deploy("Add a service to edit", map[string]string{"services/edited.yaml": settings("edited"), "apps/edited/cm.yaml": configMap("edited", "old")})
	s.healthy("edited")
	s.patch(deployments, "left", `{"spec": {"replicas": 5}}`)

	s.write(map[string]string{"apps/edited/cm.yaml": configMap("edited", "new"), "apps/to/moves.yaml": "", "apps/from/moves.yaml": configMap("moves", "x")})
	s.says(s.run("diff"), "changed ConfigMap demo/edited", "service edited on 1 cluster: "+only, "data.value: old → new",
		"ConfigMap demo/moves", "moves from service to to from")
	s.says(s.run("diff", "--live", "svc/edited", "svc/left"), "data.value: old → new", "changed Deployment.apps demo/left", `belongs to "`+scaler+`"`)
	if got := s.field(configMaps, "edited", "data", "value"); got != "old" {
		t.Errorf("diff --live has changed the cluster: %q", got)
	}
	s.git("checkout", "-q", ".")
	s.git("clean", "-qfd")

	s.says(s.run("why", "edited"), "service edited", "services/edited.yaml:1", "apps/edited", "Add a service to edit")
	s.says(s.run("why", "bound"), "Secret demo/forbidden", "may not touch namespace default")
	s.says(s.run("why", "ConfigMap demo/edited", "--live"),
		"service edited", "apps/edited/cm.yaml:1", "Add a service to edit", "on "+only, "plural  Apply", "data.value")
}

// pluginRenders lets another agent go on in the place of the first: with plugins, and with an empty disk.
func pluginRenders(t *testing.T, s *site) {
	plugins, kubeconfig := filepath.Join(s.home, "plugins"), filepath.Join(s.home, "kubeconfig")
	s.file(filepath.Join(plugins, "shout"), "#!/bin/sh\nwhile read -r line; do :; done\n"+
		`echo '{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [{"apiVersion": "v1", "kind": "ConfigMap",`+
		` "metadata": {"name": "shouted"}, "data": {"value": "LOUD"}}]}'`+"\n")
	s.replace("plural.yaml", `(?m)^spec:\n`, "spec:\n  plugins: [{name: shout}]\n")
	s.deploy("Render by a plugin", map[string]string{
		"services/shout.yaml": settings("shout", "  renderer: shout\n"), "apps/shout/words.txt": "loud\n",
	})
	s.becomes("shout", "has no plugin", func(d *v1.Deployment) bool { return d.Phase == v1.Failed && strings.Contains(d.Message, `"shout"`) })
	uid := s.get(configMaps, "moves").GetUID()

	s.run("local", "stop", "agent-"+only)
	s.file(kubeconfig, s.run("local", "kubeconfig", only))
	s.agent("--kubeconfig", kubeconfig, "--data", filepath.Join(s.home, "agent"), "--plugins", plugins)
	s.healthy("shout", "to", "argo", "gated")
	if got := s.field(configMaps, "shouted", "data", "value"); got != "LOUD" {
		t.Errorf("the plugin gave %q", got)
	}
	if moved := s.get(configMaps, "moves"); moved == nil || moved.GetUID() != uid {
		t.Errorf("an agent that knew nothing has touched %v", moved)
	}
}

func servicesGo(t *testing.T, s *site) {
	s.deploy("Leave something behind", map[string]string{
		"services/orphaned.yaml": settings("orphaned", "  sync: {onDelete: orphan}\n"), "apps/orphaned/cm.yaml": configMap("orphaned", "x"),
	})
	s.healthy("orphaned")
	uid := s.get(configMaps, "orphaned").GetUID()

	s.git("rm", "-q", "-r", "services")
	s.git("checkout", "HEAD", "--", "services/podinfo.yaml")
	commit := s.deploy("Remove almost all services", nil)
	var token string
	s.eventually("the commit is refused", timeout, func() bool {
		status := s.status()
		if status == nil || status.Head.ID != commit || len(status.Refused) != 1 {
			return false
		}
		token = status.Refused[0].Token
		return true
	})
	if s.get(configMaps, "edited") == nil || token == "" {
		t.Errorf("a refused commit has the token %q, and deletes", token)
	}
	s.says(s.run("service", "ack", "--commit", "--yes"), "observed")
	s.eventually("the services go", timeout, func() bool {
		status := s.status()
		return status != nil && status.Converged() && status.Deployments.Total() == 1
	})
	for _, name := range []string{"edited", "moves", "argo"} {
		if s.get(configMaps, name) != nil {
			t.Errorf("%s is still there", name)
		}
	}
	left := s.get(configMaps, "orphaned")
	if left == nil || left.GetUID() != uid || left.GetLabels()["plural.sh/service"] != "" {
		t.Errorf("what is left behind is %v", left)
	}
	if s.get(custom("gizmos"), "gizmo") != nil || s.get(jobs, "argo-pre") != nil {
		t.Error("custom objects and hooks stay when their service goes")
	}
}
