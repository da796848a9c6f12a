package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/pluralsh/plural/api/v1"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	jobs       = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	owned      = []schema.GroupVersionResource{configMaps, deployments, jobs, services}
)

// bomb is a YAML document whose aliases, written out, are depth powers of ten.
func bomb(depth int) string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i <= depth; i++ {
		previous, this := string(rune('0'+i-1)), string(rune('0'+i))
		text += "a" + this + ": &a" + this + " [" + strings.TrimSuffix(strings.Repeat("*a"+previous+", ", 10), ", ") + "]\n"
	}
	return text
}

const head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: podinfo-bad\n"

// badCommits pushes one bad commit after the other. Each has to be refused as a whole, or its service held, with a reason
// that names the place; no object may change, no process may die; the next good commit converges with no help.
func badCommits(t *testing.T, l *local) {
	tests := map[string]struct {
		files map[string]string
		// refused is what the hub says when it refuses the commit; else failed is what agents say of the service.
		refused, failed string
	}{
		"an unknown field":         {files: map[string]string{"services/bad.yaml": service("bad", "apps/podinfo") + "  nmaespace: x\n"}, refused: "services/bad.yaml:8"},
		"YAML that does not parse": {files: map[string]string{"services/bad.yaml": "apiVersion: [\n"}, refused: "services/bad.yaml"},
		"a dependency cycle": {files: map[string]string{
			"services/bad.yaml":   service("bad", "apps/podinfo") + "  dependsOn: [{service: worse}]\n",
			"services/worse.yaml": service("worse", "apps/podinfo") + "  dependsOn: [{service: bad}]\n",
		}, refused: "worse"},
		"a missing path":          {files: map[string]string{"services/bad.yaml": service("bad", "apps/nowhere")}, refused: "services/bad.yaml:5"},
		"an emptied folder":       {files: map[string]string{"apps/podinfo": ""}, refused: "services/podinfo.yaml:8"},
		"no services at all":      {files: map[string]string{"services": ""}, refused: "deletion budget"},
		"M1 in a service's file":  {files: map[string]string{"services/bad.yaml": "x: &x {a: *x}\n"}, refused: "services/bad.yaml"},
		"M2 in a service's file":  {files: map[string]string{"services/bad.yaml": bomb(6)}, refused: "services/bad.yaml"},
		"M1 in a manifest":        {files: map[string]string{"apps/podinfo/deployment.yaml": head + "data: &x {a: *x}\n"}, failed: "apps/podinfo/deployment.yaml:5"},
		"M2 in a manifest":        {files: map[string]string{"apps/podinfo/deployment.yaml": head + bomb(6)}, failed: "apps/podinfo/deployment.yaml"},
		"M14 in a parameter":      {files: map[string]string{"services/bad.yaml": service("bad", "apps/podinfo") + "  parameters: {x: \"{{ range until 30000000 }}x{{ end }}\"}\n"}, refused: "services/bad.yaml:8"},
		"M14 in a template":       {files: map[string]string{"apps/podinfo/more.yaml.tmpl": head + "data:\n  a: \"{{ range until 30000000 }}x{{ end }}\"\n", "apps/podinfo/kustomization.yaml": "resources: [deployment.yaml, service.yaml, more.yaml]\n"}, failed: "more.yaml"},
		"M14 in a chart":          {files: map[string]string{"apps/chart/templates/cm.yaml": "{{ range until 30000000 }}{{ repeat 1000 \"x\" }}{{ end }}"}, failed: "chart"},
		"a render of nothing":     {files: map[string]string{"apps/podinfo/kustomization.yaml": "resources: []\n"}, failed: "podinfo"},
		"a resource on the web":   {files: map[string]string{"apps/podinfo/kustomization.yaml": "resources: [deployment.yaml, \"http://127.0.0.1:1/x.yaml\"]\n"}, refused: "apps/podinfo/kustomization.yaml:1"},
		"an object of no kind":    {files: map[string]string{"apps/podinfo/service.yaml": "metadata: {name: x}\n"}, failed: "apps/podinfo"},
		"a kind nobody has heard": {files: map[string]string{"apps/podinfo/service.yaml": "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: x}\n"}, failed: "Nothing"},
	}
	before, pids := l.inventory(), l.parts()
	good := l.git("rev-parse", "HEAD")
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		test := tests[name]
		t.Run(name, func(t *testing.T) {
			own := *l
			own.t = t
			own.write(test.files)
			commit := own.push(name)
			if test.refused != "" {
				own.refused(commit, test.refused)
			} else {
				own.failed(commit, test.failed)
			}
			if after := own.inventory(); !equal(before, after) {
				t.Errorf("objects were %v, are %v", before, after)
			}
			own.git("checkout", "-q", good, "--", ".")
			own.git("clean", "-fdq")
			own.clear(test.files, good)
			own.converged(own.push("Mend: "+name), timeout)
		})
	}
	for name, p := range l.parts() {
		if p.PID != pids[name].PID {
			t.Errorf("%s died: it was %d, is %d", name, pids[name].PID, p.PID)
		}
	}
}

// clear deletes the files that the good commit does not have.
func (l *local) clear(files map[string]string, good string) {
	l.t.Helper()
	for name := range files {
		if l.git("ls-tree", good, "--", name) == "" {
			l.write(map[string]string{name: ""})
		}
	}
}

// refused waits until the hub refuses the commit for a reason that plural status tells.
func (l *local) refused(commit, reason string) {
	l.t.Helper()
	l.eventually("the hub refuses the commit for "+reason, timeout, func() bool {
		s := l.status()
		if s == nil || s.Head.ID != commit || len(s.Refused) == 0 {
			return false
		}
		return strings.Contains(l.run("status"), reason)
	})
	if s := l.status(); s.Commit.ID == commit || s.Deployments[v1.Healthy] != s.Deployments.Total() {
		l.t.Errorf("the last good commit is not served whole: %+v", s)
	}
}

// failed waits until an agent tells why it cannot bring the commit in.
func (l *local) failed(commit, reason string) {
	l.t.Helper()
	l.eventually("agents say "+reason, timeout, func() bool {
		s := l.status()
		if s == nil || s.Commit.ID != commit {
			return false
		}
		bad := slices.IndexFunc(s.Unhealthy, func(d v1.Deployment) bool { return d.Phase == v1.Failed || d.Phase == v1.Held })
		return bad >= 0 && strings.Contains(l.run("status"), reason)
	})
}

func equal(a, b map[string][]string) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]string])
}
