package e2e

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/needs"
)

var update = flag.Bool("update", false, "write testdata/breakages anew")

// breakage is a mistake that is committed, and what each of the places where people look has to say of it: the cause, where it
// is, and the command or the edit that mends it. Each text is a regular expression.
type breakage struct {
	files map[string]string
	// says is by place. Of a place that cannot know, it names what does: an image is looked for by clusters alone.
	says map[string][]string
	// phase is what agents make of it; empty where the hub refuses the commit.
	phase v1.Phase
	// reason is in what they say of it in the end, which takes them a while where pods are tried again.
	reason string
}

// The files of the service that is broken.
const (
	webService = "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata:\n  name: web\nspec:\n" +
		"  source: {path: apps/web}\n  namespace: web\n  clusters: {names: [edge-1]}\n"
	webDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "ghcr.io/stefanprodan/podinfo:6.7.0"}]
`
	webPage = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndata: {web: hello}\n"
)

func breakages() map[string]breakage {
	deployment := func(old, with string) map[string]string {
		return map[string]string{"apps/web/deployment.yaml": strings.Replace(webDeployment, old, with, 1)}
	}
	depends := func(service, on string) string {
		return strings.Replace(strings.Replace(webService, "name: web", "name: "+service, 1), "path: apps/web", "path: apps/"+service, 1) +
			"  dependsOn: [{service: " + on + "}]\n"
	}
	const (
		here  = `written in apps/web/deployment\.yaml:\d+`
		undo  = `plural (undo|service rollback web)`
		sound = `fleet is sound` // says who cannot know: what a cluster has already, and which images there are
		set   = `set nosuch in spec\.parameters of service web, or take it out of the template`
		setAt = `which is set at services/web\.yaml:9:\d+: change it there, or the template`
		offer = `mend apps/web/deployment\.yaml:\d+, commit and push; or take its last change back: plural undo \S+`
	)
	return map[string]breakage{
		"yaml": {
			files: map[string]string{"services/web.yaml": webService + "  bad: [\n"},
			says: same([]string{`services/web\.yaml:9`, `not YAML`, `check the indentation`}, "validate", "diff", "status", "why",
				"console"),
		},
		"cycle": {
			files: map[string]string{
				"services/web.yaml": depends("web", "podinfo"), "services/other.yaml": depends("other", "web"),
				"apps/other/page.yaml": webPage, "services/podinfo.yaml": depends("podinfo", "other"),
			},
			says: same([]string{`services/\w+\.yaml:9`, `dependency cycle: `, `remove one of these dependencies`}, "validate", "diff",
				"status", "why", "console"),
		},
		"field": {
			files: deployment("replicas:", "replicsa:"), phase: v1.Failed,
			says: map[string][]string{
				"validate": {`apps/web/deployment\.yaml:5`, `spec\.replicsa: unknown field`, `fix: did you mean replicas\?`},
				"diff": {
					`Deployment\.apps web/web`, `spec\.replicsa: \+ 1`,
					`mistake: apps/web/deployment\.yaml:5: .*spec\.replicsa: unknown field; did you mean replicas`,
				},
				"status":  {`edge-1 +failed`, `Deployment web: \.spec\.replicsa: unknown field`, `kubectl explain deployment`, undo},
				"why":     {`\.spec\.replicsa: unknown field`, here, offer},
				"console": {`edge-1`, `\.spec\.replicsa: unknown field`, `kubectl explain`, undo},
			},
		},
		"api": {
			files: deployment("apps/v1", "apps/v1beta1"), phase: v1.Failed,
			says: map[string][]string{
				"validate": {`apps/web/deployment\.yaml:1`, `gone since Kubernetes 1\.16`, `fix: write apiVersion: apps/v1`},
				"diff": {
					`Deployment\.apps web/web`, `apiVersion: apps/v1 → apps/v1beta1`,
					`mistake: apps/web/deployment\.yaml:1: .*gone since Kubernetes 1\.16; write apiVersion: apps/v1`,
				},
				"status":  {`edge-1 +failed`, `Kubernetes 1\.16 removed it`, `write apiVersion: apps/v1`, undo},
				"why":     {`Kubernetes 1\.16 removed it: write apiVersion: apps/v1`, here, offer},
				"console": {`edge-1`, `Kubernetes 1\.16 removed it`, `write apiVersion: apps/v1`, undo},
			},
		},
		"immutable": {
			files: map[string]string{"apps/web/deployment.yaml": strings.ReplaceAll(webDeployment, "app: web", "app: web2")}, phase: v1.Failed,
			says: map[string][]string{
				"validate": {sound},
				"diff": {
					`Deployment\.apps web/web`, `spec\.selector\.matchLabels\.app: web → web2`,
					`warning: apps/web/deployment\.yaml:6: .*refuse to change this field; take the change back, or .*plural\.sh/recreate=allow`,
				},
				"status":  {`edge-1 +failed`, `spec\.selector.*field is immutable`, `plural\.sh/recreate=allow`, undo},
				"why":     {`spec\.selector.*field is immutable`, here, offer},
				"console": {`edge-1`, `field is immutable`, `plural\.sh/recreate=allow`, undo},
			},
		},
		"definition": {
			files: map[string]string{"apps/web/monitor.yaml": "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: web}\nspec: {}\n"},
			phase: v1.Failed,
			says: map[string][]string{
				"validate": {
					`warning: apps/web/monitor\.yaml:1`, `nothing in this fleet defines ServiceMonitor of monitoring\.coreos\.com/v1`,
					`add a service that brings its CustomResourceDefinition`,
				},
				"diff": {
					`added ServiceMonitor\.monitoring\.coreos\.com web`,
					`warning: apps/web/monitor\.yaml:1: .*nothing in this fleet defines .*; add a service that brings its CustomResourceDefinition`,
				},
				"status": {
					`edge-1 +failed`, `does not serve ServiceMonitor of monitoring\.coreos\.com/v1`,
					`install its CustomResourceDefinition`, undo,
				},
				"why":     {`does not serve ServiceMonitor`, `written in apps/web/monitor\.yaml:1`, `mend apps/web/monitor\.yaml:1, .*plural undo \S+`},
				"console": {`edge-1`, `does not serve ServiceMonitor`, `install its CustomResourceDefinition`, undo},
			},
		},
		// Whether an image is there, the cluster alone knows.
		"image": {
			files: deployment("podinfo:6.7.0", "podinfo:6.7.1-sim.pull-error"), phase: v1.Progressing, reason: "ImagePullBackOff",
			says: map[string][]string{
				"validate": {sound},
				"diff":     {`Deployment\.apps web/web`, `image: ghcr\.io/stefanprodan/podinfo:6\.7\.0 → ghcr\.io/stefanprodan/podinfo:6\.7\.1-sim\.pull-error`},
				"status":   {`edge-1 +progressing`, `ImagePullBackOff|ErrImagePull`, `podinfo:6\.7\.1-sim\.pull-error`, `next  plural why web says what to mend; plural service rollback web`},
				"why":      {`ImagePullBackOff|ErrImagePull`, `podinfo:6\.7\.1-sim\.pull-error`, here, offer},
				"console":  {`edge-1`, `ImagePullBackOff|ErrImagePull`, `podinfo:6\.7\.1-sim\.pull-error`, undo},
			},
		},
		// A namespace that is not there is made. One that no cluster takes stays what it is: a mistake.
		"namespace": {
			files: map[string]string{"apps/web/elsewhere.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: Not_A_Name}\n"},
			phase: v1.Failed,
			says: map[string][]string{
				"validate": {
					`apps/web/elsewhere\.yaml:3`, `metadata\.namespace: no namespace can be called so`, `fix: write at most 63 lower case letters`,
				},
				"diff": {
					`added ConfigMap Not_A_Name/web`,
					`mistake: apps/web/elsewhere\.yaml:3: .*no namespace can be called so; write at most 63 lower case letters`,
				},
				"status":  {`edge-1 +failed`, `Namespace.* "?Not_A_Name"?`, undo},
				"why":     {`Not_A_Name`, `written in apps/web/elsewhere\.yaml:3`, `mend apps/web/elsewhere\.yaml:3, .*plural undo \S+`},
				"console": {`edge-1`, `Not_A_Name`, undo},
			},
		},
		"template": {
			files: map[string]string{"apps/web/page.yaml.tmpl": strings.Replace(webPage, "hello", "{{ .parameters.nosuch }}", 1)}, phase: v1.Failed,
			says: map[string][]string{
				"validate": {`apps/web/page\.yaml\.tmpl:4`, `no entry for key "nosuch"`, set},
				"diff":     {`apps/web/page\.yaml\.tmpl:4`, `no entry for key "nosuch"`, set},
				"status":   {`edge-1 +failed`, `apps/web/page\.yaml\.tmpl:4`, `no entry for key "nosuch"`, set, undo},
				"why":      {`no entry for key "nosuch"`, set, `mend apps/web/page\.yaml\.tmpl:4, commit and push; or .*plural undo \S+`},
				"console":  {`edge-1`, `apps/web/page\.yaml\.tmpl:4`, `no entry for key "nosuch"`, set, undo},
			},
		},
		// The template is as it should be, and what the service sets for it is not.
		"parameter": {
			files: map[string]string{
				"services/web.yaml":       webService + "  parameters: {greeting: \"5\"}\n",
				"apps/web/page.yaml.tmpl": strings.Replace(webPage, "hello", "{{ .parameters.greeting }}", 1),
			},
			phase: v1.Failed,
			says: map[string][]string{
				"validate": {`apps/web/page\.yaml\.tmpl:4`, `data\.web: is a number`, `fix: the template has \.parameters\.greeting there, ` + setAt},
				"diff":     {`mistake: apps/web/page\.yaml\.tmpl:4: .*data\.web: is a number`, setAt},
				"status":   {`edge-1 +failed`, `\.data\.web`, undo},
				"why": {
					`\.data\.web`, `written in apps/web/page\.yaml\.tmpl:4, with a value that is set at services/web\.yaml:9`,
					`mend services/web\.yaml:9:\d+ or apps/web/page\.yaml\.tmpl:4, .*plural undo \S+`,
				},
				"console": {`edge-1`, `\.data\.web`, undo},
			},
		},
		"everything": {
			files: map[string]string{"services/web.yaml": "", "services/podinfo.yaml": ""},
			says: map[string][]string{
				"validate": {
					`takes away 2 of 2 services`, `plural service ack --commit`,
					`put them back \(git checkout HEAD -- services/podinfo\.yaml services/web\.yaml\)`,
				},
				"diff":   {`deleted Deployment\.apps|deleted 2 objects`, `takes away 2 of 2 services`, `plural service ack --commit`},
				"status": {`is refused`, `takes away 2 of 2 services`, `next  plural undo \S+, or agree to exactly this: plural service ack --commit`},
				"why": {
					`service "web" was deleted .* by commit`, `takes away 2 of 2 services`,
					`plural undo \S+, or agree to exactly this: plural service ack --commit`,
				},
				"console": {`refused`, `takes away 2 of 2 services`, `plural service ack --commit`},
			},
		},
	}
}

// same is one list of texts for several places.
func same(texts []string, places ...string) map[string][]string {
	all := map[string][]string{}
	for _, place := range places {
		all[place] = texts
	}
	return all
}

// TestEveryPlaceNamesCauseAndPlaceAndWhatMendsIt breaks a fleet as people do, by plain git, and looks at it wherever they look.
func TestEveryPlaceNamesCauseAndPlaceAndWhatMendsIt(t *testing.T) {
	needs.Program(t, "tmux", "tmux")
	l := up(t)
	l.write(map[string]string{"services/web.yaml": webService, "apps/web/deployment.yaml": webDeployment, "apps/web/page.yaml.tmpl": webPage})
	good := l.push("Add web")
	l.converged(good, timeout)
	all := breakages()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			own, b := *l, all[name]
			own.t = t
			shown := map[string]string{}
			own.write(b.files)
			shown["validate"], shown["diff"] = own.look("validate"), own.look("diff")
			commit := own.push("Break " + name)
			own.arrives(commit, &b)
			shown["status"], shown["why"] = own.look("status"), own.look("why", "web")
			shown["console"] = own.console(t, b.phase)
			for _, place := range []string{"validate", "diff", "status", "why", "console"} {
				own.check(name, place, shown[place], b.says[place])
			}
			own.git("checkout", "-q", good, "--", ".")
			own.clear(b.files, good)
			own.converged(own.push("Mend "+name), timeout)
		})
	}
}

// look is all that a command prints, however it ends.
func (l *local) look(args ...string) string {
	out, _ := l.command(filepath.Join(l.bin, "plural"), args...).CombinedOutput()
	return string(out)
}

// arrives waits until the hub has refused the commit, or an agent has said what comes of it.
func (l *local) arrives(commit string, b *breakage) {
	l.t.Helper()
	l.eventually("the commit is told of", timeout, func() bool {
		s := l.status()
		switch {
		case s == nil || s.Head.ID != commit:
			return false
		case b.phase == "":
			return len(s.Refused) > 0
		}
		return s.Commit.ID == commit && slices.ContainsFunc(s.Unhealthy,
			func(d v1.Deployment) bool {
				return d.Service == "web" && d.Phase == b.phase && strings.Contains(d.Message, b.reason)
			})
	})
}

// console is what the console shows of what is wrong: the whole reason of the worst row, or of the refusal.
func (l *local) console(t *testing.T, phase v1.Phase) string {
	t.Helper()
	s := l.sit(t, "tui")
	defer func() { _, _ = s.do("kill-server") }()
	if phase == "" {
		s.sees(`refused`, `edge-1 +podinfo`)
		s.types(":describe")
		s.sees(`:describe`)
		s.keys("Enter")
		s.sees(`the newest commit is refused`, `next +\S`)
		return s.screen()
	}
	s.sees(`edge-1 +web +. ` + string(phase))
	s.keys("d")
	s.sees(`describe edge-1/web`, `reason|message|Deployment|ConfigMap|page`)
	return s.screen()
}

// check compares what is shown with the golden file, and finds the texts in it, wherever a screen wraps its lines.
func (l *local) check(name, place, shown string, texts []string) {
	l.t.Helper()
	flat := strings.Join(strings.Fields(shown), " ")
	for _, text := range texts {
		if !regexp.MustCompile(text).MatchString(flat) && !regexp.MustCompile(text).MatchString(shown) {
			l.t.Errorf("%s says nothing of %s:\n%s", place, text, shown)
		}
	}
	golden := filepath.Join("testdata", "breakages", name+"."+place)
	shown = steady(shown)
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			l.t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(shown), 0o644); err != nil {
			l.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		l.t.Fatal(err)
	}
	if string(want) != shown {
		l.t.Errorf("%s is not %s; where it is to be so, -update\n--- shown\n%s\n--- golden\n%s", place, golden, shown, want)
	}
}

// steady is a text without ids of commits, ages and versions, which are others each time.
func steady(text string) string {
	for _, one := range [][2]string{
		{`\b[0-9a-f]{40}\b`, "COMMIT"},
		{`\b[0-9a-f]{7}\b`, "COMMIT"},
		{`\b\d+[smh](\d+s)?( ago)?\b`, "AGO"},
		{`\bnow\b`, "AGO"},
		{`v1\.\d+\.\d+`, "VERSION"},
		{`version( +)dev-[0-9a-f]{12}`, "version${1}dev"},
		{`for Kubernetes 1\.\d.*`, "for Kubernetes VERSION"}, // and whose it is: it is known once a console has run
		{` +\n`, "\n"},
		{`\bweb-[0-9a-f]{8,10}-[a-z0-9]{5}\b`, "POD"},
		{`  +`, "  "},
		{`\n\n+`, "\n"},
		{`http://127\.0\.0\.1:\d+`, "HUB"}, // its port is another where something else has it
	} {
		text = regexp.MustCompile(one[0]).ReplaceAllString(text, one[1])
	}
	return text
}
