package render_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/needs"
)

// The test binary is its own child, as the product's binary is.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == pluginName {
		os.Exit(plugin())
	}
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func newRenderer(t testing.TB) *render.Renderer {
	t.Helper()
	return &render.Renderer{Command: needs.Child(t, "render-child")}
}

// tree is the files of a txtar archive.
func tree(archive string) fstest.MapFS {
	files := fstest.MapFS{}
	for _, file := range txtar.Parse([]byte(archive)).Files {
		files[file.Name] = &fstest.MapFile{Data: file.Data}
	}
	return files
}

func input(renderer string, files fs.FS) render.Input {
	return render.Input{Renderer: renderer, Path: "app", Namespace: "shop", Service: "web", Files: files}
}

func with(parameters map[string]string, in render.Input) render.Input {
	in.Parameters = parameters
	return in
}

func mustRender(t testing.TB, r *render.Renderer, in render.Input) *render.Output {
	t.Helper()
	out, err := r.Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func text(t testing.TB, out *render.Output) string {
	t.Helper()
	var b bytes.Buffer
	if err := render.WriteYAML(&b, out.Objects); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// failure renders and returns the typed error it must end with.
func failure(t testing.TB, r *render.Renderer, in render.Input) *render.Error {
	t.Helper()
	out, err := r.Render(t.Context(), in)
	var failed *render.Error
	if !errors.As(err, &failed) {
		t.Fatalf("rendered %v with error %v, want a render.Error", out, err)
	}
	return failed
}

// stillRenders proves that what came before took nothing with it.
func stillRenders(t *testing.T, r *render.Renderer) {
	t.Helper()
	out := mustRender(t, r, input(render.Raw, tree("-- app/ok.yaml --\n"+configMap("ok"))))
	if len(out.Objects) != 1 {
		t.Fatalf("the next render gave %d objects, want 1", len(out.Objects))
	}
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

func TestRawRendersEveryManifestBelowThePathInOrder(t *testing.T) {
	out := mustRender(t, newRenderer(t), with(map[string]string{"color": "red"}, input(render.Raw, tree(`
-- app/b.yaml --
# only a comment
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b1}
data: {"on": "yes", big: 9007199254740993}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b2}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b3}}
-- app/a/deep.yml --
apiVersion: v1
kind: ConfigMap
metadata: {name: deep}
-- app/c.json --
{
	"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
-- app/d.yaml.tmpl --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .service.name }}-{{ .parameters.color | upper }}, namespace: {{ .namespace }}}
-- app/.hidden/x.yaml --
not: a manifest
-- app/README.md --
# words
-- other/x.yaml --
not: a manifest
`))))
	want := `apiVersion: v1
kind: ConfigMap
metadata:
  name: deep
---
apiVersion: v1
data:
  big: 9007199254740993
  "on": "yes"
kind: ConfigMap
metadata:
  name: b1
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: b2
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: b3
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: c
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web-RED
  namespace: shop
`
	if diff := cmp.Diff(want, text(t, out)); diff != "" {
		t.Errorf("render (-want +got):\n%s", diff)
	}
}

const chart = `
-- app/Chart.yaml --
apiVersion: v2
name: shop
version: 1.0.0
-- app/values.yaml --
color: red
size: 1
-- app/crds/crd.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
-- app/templates/_helpers.tpl --
{{- define "name" }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
-- app/templates/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "name" . }}
  namespace: {{ .Release.Namespace }}
data:
  color: {{ .Values.color }}
  size: {{ .Values.size | quote }}
  kube: {{ .Capabilities.KubeVersion }}
  has: {{ .Capabilities.APIVersions.Has "example.org/v1" | quote }}
  file: {{ .Files.Get "note" | trim }}
-- app/templates/test.yaml --
apiVersion: v1
kind: Pod
metadata: {name: test, annotations: {helm.sh/hook: test}}
-- app/templates/uninstall.yaml --
apiVersion: batch/v1
kind: Job
metadata: {name: uninstall, annotations: {helm.sh/hook: "pre-delete,post-delete"}}
-- app/templates/migrate.yaml --
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: "pre-install, pre-upgrade"}}
-- app/templates/rollback.yaml --
apiVersion: batch/v1
kind: Job
metadata: {name: rollback, annotations: {helm.sh/hook: "pre-rollback, post-rollback"}}
-- app/templates/NOTES.txt --
Enjoy.
-- app/note --
hello
-- values/prod.yaml --
color: green
size: 2
-- values/large.yaml.tmpl --
size: {{ .parameters.size }}
`

func TestHelmRendersAsAFirstInstallWould(t *testing.T) {
	in := with(map[string]string{"size": "3"}, input(render.HelmChart, tree(chart)))
	in.KubeVersion, in.APIVersions = "v1.35.4", []string{"v1", "example.org/v1"}
	in.Helm = &render.Helm{Release: "rel", ValuesFiles: []string{"values/prod.yaml", "values/large.yaml"}, ValuesJSON: []byte(`{"color":"blue"}`)}
	want := `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.org
---
apiVersion: v1
data:
  color: blue
  file: hello
  has: "true"
  kube: v1.35.4
  size: "3"
kind: ConfigMap
metadata:
  name: rel-shop
  namespace: shop
---
apiVersion: batch/v1
kind: Job
metadata:
  annotations:
    helm.sh/hook: pre-install, pre-upgrade
  name: migrate
---
apiVersion: v1
kind: Pod
metadata:
  annotations:
    helm.sh/hook: test
  name: test
---
apiVersion: batch/v1
kind: Job
metadata:
  annotations:
    helm.sh/hook: pre-delete,post-delete
  name: uninstall
`
	if diff := cmp.Diff(want, text(t, mustRender(t, newRenderer(t), in))); diff != "" {
		t.Errorf("render (-want +got):\n%s", diff)
	}
}

func TestR14HelmWarnsOfFunctionsThatAnswerDifferentlyEachTime(t *testing.T) {
	files := tree(chart)
	files["app/templates/secret.yaml"] = &fstest.MapFile{Data: []byte(
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: {{ randAlphaNum 8 | quote }}}\n")}
	out := mustRender(t, newRenderer(t), input(render.HelmChart, files))
	want := []string{"app/templates/secret.yaml: calls randAlphaNum, so each render differs"}
	if diff := cmp.Diff(want, out.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestR14OurTemplatesHaveNoFunctionsThatAnswerDifferentlyEachTime(t *testing.T) {
	r := newRenderer(t)
	for _, call := range []string{"now", "randAlphaNum 8", `genCA "x" 1`, "uuidv4", `htpasswd "a" "b"`, "shuffle \"abc\"", `ago "1"`} {
		failed := failure(t, r, input(render.Raw, tree("-- app/x.yaml.tmpl --\n\n{{ "+call+" }}\n")))
		if failed.Line != 2 || !strings.Contains(failed.Message, "not defined") {
			t.Errorf("%s: %v", call, failed)
		}
	}
	in := input(render.Raw, tree("-- app/x.yaml.tmpl --\n"+configMap(`{{ $d := dict "d" "4" "b" "2" "a" "1" }}{{ keys $d | join "" }}-{{ values $d | join "" }}-{{ range .parameters }}{{ . }}{{ end }}`)))
	in.Parameters = map[string]string{"d": "4", "b": "2", "a": "1", "c": "3"}
	if got := mustRender(t, r, in).Objects[0].GetName(); got != "abd-124-1234" {
		t.Errorf("maps are walked as %q", got)
	}
}

// What kubectl reads a file with is the oracle: equal, or a clear error, and never a silent change.
func TestR15RawYAMLMeansWhatKubectlTakesItFor(t *testing.T) {
	r := newRenderer(t)
	for name, test := range map[string]struct {
		data    string
		refused bool
	}{
		"numbers":             {"a: 9007199254740993\nb: 1.5\nc: 0o17\nd: 017\ne: 0x1F\nf: 1_000\ng: 1e3\nh: -0\n", false},
		"a huge integer":      {"a: 123456789012345678901234567890\n", false},
		"a huge float":        {"a: 1e999\n", false},
		"words for booleans":  {"a: yes\nb: no\nc: on\nd: off\ne: y\nf: true\ng: ~\n", false},
		"sexagesimal":         {"a: 1:30\nb: 190:20:30\n", false},
		"dates":               {"a: 2001-12-14\nb: 2001-12-14t21:59:43.10-05:00\n", false},
		"a byte order mark":   {"\uFEFFa: b\n", false},
		"carriage returns":    {"a: |\r\n  x\r\n  y\r\nb: c\r\n", false},
		"a separator in text": {"a: |\n  x\n  ---\n  y\n", false},
		"keys of other types": {"1: a\ntrue: b\n1.5: c\n", false},
		"a merge":             {"x: &x {a: b}\ny: {<<: *x, c: d}\n", false},
		"an override":         {"x: &x {a: b}\ny: {<<: *x, a: d}\n", false},
		"binary":              {"a: !!binary aGVsbG8=\nb: !!str 1\n", false},
		"UTF-16":              {"\xff\xfea\x00:\x00", true},
		"a directive":         {"%YAML 1.1\n---\na: b\n", true},
		"a tab":               {"a:\n\tb: c\n", true},
		"a key that is a map": {"? {a: b}\n: c\n", true},
		"a key twice":         {"a: b\na: c\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := "apiVersion: v1\nkind: Thing\nmetadata: {name: x}\nspec:\n  " + strings.ReplaceAll(strings.TrimSuffix(test.data, "\n"), "\n", "\n  ") + "\n"
			if strings.HasPrefix(test.data, "\uFEFF") || test.refused && name != "a key twice" {
				manifest = test.data
			}
			if !test.refused && manifest == test.data {
				manifest += "apiVersion: v1\nkind: Thing\nmetadata: {name: x}\n"
			}
			out, err := r.Render(t.Context(), input(render.Raw, fstest.MapFS{"app/x.yaml": {Data: []byte(manifest)}}))
			var failed *render.Error
			if errors.As(err, &failed) && failed.File == "app/x.yaml" && failed.Reason == render.Invalid {
				if !test.refused {
					t.Errorf("refused: %v", failed)
				}
				return
			}
			if err != nil || test.refused {
				t.Fatalf("rendered %v with error %v", out, err)
			}
			var want any
			if err := yaml.NewYAMLOrJSONDecoder(strings.NewReader(strings.TrimPrefix(manifest, "\uFEFF")), 4096).Decode(&want); err != nil {
				t.Fatalf("kubectl refuses it: %v", err)
			}
			ours, err := json.Marshal(out.Objects[0].Object)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var a, b any
			if json.Unmarshal(ours, &a) != nil || json.Unmarshal(theirs, &b) != nil || !cmp.Equal(a, b) {
				t.Errorf("ours   %s\ntheirs %s", ours, theirs)
			}
		})
	}
}

func TestKustomizeBuildsOverlaysAndTemplates(t *testing.T) {
	in := input(render.Kustomize, tree(`
-- base/kustomization.yaml --
resources: [cm.yaml]
-- base/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: base}
-- app/kustomization.yaml --
namePrefix: my-
resources: [../base, mine.yaml]
configMapGenerator:
- {name: gen, files: [slack.tmpl]}
generatorOptions: {disableNameSuffixHash: true}
-- app/slack.tmpl --
{{ .not.ours }}
-- app/mine.yaml.tmpl --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .service.name }}}
`))
	want := `apiVersion: v1
kind: ConfigMap
metadata:
  name: my-base
---
apiVersion: v1
data:
  slack.tmpl: |
    {{ .not.ours }}
kind: ConfigMap
metadata:
  name: my-gen
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: my-web
`
	if diff := cmp.Diff(want, text(t, mustRender(t, newRenderer(t), in))); diff != "" {
		t.Errorf("render (-want +got):\n%s", diff)
	}
}

func TestRenderOfTheSameInputIsTheSame(t *testing.T) {
	r, in := newRenderer(t), with(map[string]string{"size": "3"}, input(render.HelmChart, tree(chart)))
	if diff := cmp.Diff(text(t, mustRender(t, r, in)), text(t, mustRender(t, r, in))); diff != "" {
		t.Errorf("two renders differ:\n%s", diff)
	}
}

func TestBadInputNamesItsPlace(t *testing.T) {
	r := newRenderer(t)
	for _, test := range []struct {
		name, renderer, files, want string
	}{
		{"R15 YAML syntax", render.Raw, "-- app/x.yaml --\n" + configMap("a") + "---\nkind: x\n  bad: [\n", "app/x.yaml:6: invalid YAML: "},
		{"R15 tab", render.Raw, "-- app/x.yaml --\nkind: X\nmetadata:\n\tname: x\n", "app/x.yaml:3: invalid YAML: "},
		{"R15 second document without separator", render.Raw, "-- app/x.yaml --\n" + configMap("a") + "...\n" + configMap("b"), "app/x.yaml:1: a second document begins"},
		{"R16 duplicate key in raw", render.Raw, "-- app/x.yaml --\n" + configMap("a") + "data: {}\nkind: Secret\n", `app/x.yaml:5: the key "kind" stands here already, in line 2`},
		{"R16 duplicate key in kustomize", render.Kustomize, "-- app/kustomization.yaml --\nresources: [x.yaml]\n-- app/x.yaml --\n" + configMap("a") + "data:\n  a: b\n  a: c\n", `app/x.yaml:6: the key "a" stands here already, in line 5`},
		{"R16 duplicate key in a template of a kustomization", render.Kustomize, "-- app/kustomization.yaml --\nresources: [x.yaml]\n-- app/x.yaml.tmpl --\n" + configMap("a") + "data:\n  a: b\n  a: c\n", `app/x.yaml.tmpl:6: the key "a" stands here already, in line 5`},
		{"R18 twice", render.Raw, "-- app/x.yaml --\n" + configMap("a") + "---\n" + configMap("a"), "app/x.yaml:5: ConfigMap/a stands in this service twice: first in app/x.yaml:1"},
		{"R18 twice by the default namespace", render.Raw, "-- app/x.yaml --\n" + configMap("a") + "---\n" + configMap("a, namespace: shop"), "app/x.yaml:5: ConfigMap/a stands in this service twice"},
		{"R19 no kind", render.Raw, "-- app/x.yaml --\n---\napiVersion: v1\nmetadata: {name: a}\n", "app/x.yaml:2: an object has no kind"},
		{"R19 no apiVersion", render.Raw, "-- app/x.yaml --\nkind: ConfigMap\nmetadata: {name: a}\n", "app/x.yaml:1: ConfigMap/a has no apiVersion"},
		{"R19 no name", render.Raw, "-- app/x.yaml --\napiVersion: v1\nkind: ConfigMap\n", "app/x.yaml:1: a ConfigMap has no metadata.name"},
		{"R19 null item", render.Raw, "-- app/x.yaml --\napiVersion: v1\nkind: List\nitems: [null]\n", "app/x.yaml:1: item 1 of the list is null"},
		{"R19 list in list", render.Raw, "-- app/x.yaml --\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: [{kind: A}]}]\n", "app/x.yaml:1: A/ has no apiVersion"},
		{"R20 generateName", render.Raw, "-- app/x.yaml --\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n", "app/x.yaml:1: a Pod has a generateName"},
		{"values among manifests", render.Raw, "-- app/values.yaml --\n\nimage: nginx\n", `app/values.yaml:2: is not a Kubernetes object: it has neither apiVersion nor kind: correct it; or, if it is no manifest, have the service leave it out: exclude: ["/values.yaml"]`},
		{"a dashboard among manifests", render.Raw, "-- app/boards/cpu.json --\n[{\"panels\": []}]\n", `app/boards/cpu.json:1: is not a Kubernetes object: it is of type array: correct it; or, if it is no manifest, have the service leave it out: exclude: ["/boards/cpu.json"]`},
		{"a template of no manifest", render.Raw, "-- app/x.yaml.tmpl --\na: b\n", `app/x.yaml:1: is not a Kubernetes object: it has neither apiVersion nor kind: correct it; or, if it is no manifest, have the service leave it out: exclude: ["/x.yaml.tmpl"]`},
		{"R20 generateName beside an annotation that is no hook", render.Raw, "-- app/x.yaml --\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, annotations: {plural.sh/hook: null}}\n", "app/x.yaml:1: a Pod has a generateName"},
		{"kustomization among manifests", render.Raw, "-- app/sub/kustomization.yaml --\nkind: Kustomization\n", "app/sub/kustomization.yaml: a kustomization is no manifest: make this folder a service with renderer: kustomize"},
		{"chart among manifests", render.Raw, "-- app/sub/Chart.yaml --\nname: a\n", "app/sub/Chart.yaml: a chart is no manifest: make"},
		{"text", render.Raw, "-- app/x.yaml --\njust words\n", "app/x.yaml:1: is not a Kubernetes object"},
		{"missing parameter", render.Raw, "-- app/x.yaml.tmpl --\na: b\nc: {{ .parameters.nope }}\n", "app/x.yaml.tmpl:2: template: executing"},
		{"missing parameter in a parameter", render.Raw, "-- app/x.yaml.tmpl --\nc: {{ $.parameters.nope.deep }}\n", "app/x.yaml.tmpl:1: template: executing \"app/x.yaml.tmpl\" at <$.parameters.nope.deep>: map has no entry for key \"nope\": set nope.deep in spec.parameters of service web, or take it out of the template"},
		{"parameter of an item", render.Raw, "-- app/x.yaml.tmpl --\n{{ with .service }}{{ .parameters.nope }}{{ end }}\n", "app/x.yaml.tmpl:1: template: executing \"app/x.yaml.tmpl\" at <.parameters.nope>: map has no entry for key \"parameters\": templates have .parameters, .secrets, .service.name and .namespace; within range and with, write $ before them"},
		{"template syntax", render.Raw, "-- app/x.yaml.tmpl --\n{{ if }}\n", "app/x.yaml.tmpl:1: template: missing value for if"},
		{"template asks the environment", render.Raw, "-- app/x.yaml.tmpl --\n\n{{ env \"HOME\" }}\n", `app/x.yaml.tmpl:2: template: function "env" not defined`},
		{"kustomize without kustomization", render.Kustomize, "-- app/x.yaml --\n", "app: there is no kustomization.yaml"},
		{"kustomize resource missing", render.Kustomize, "-- app/kustomization.yaml --\nresources:\n- gone.yaml\n", `app/kustomization.yaml:2: "gone.yaml" does not exist`},
		{"kustomization that asks for nothing", render.Kustomize, "-- app/kustomization.yaml --\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", "app/kustomization.yaml: kustomization.yaml is empty"},
		{"kustomization unknown field", render.Kustomize, "-- app/kustomization.yaml --\nresource: []\n", "app/kustomization.yaml: "},
		{"chart missing", render.HelmChart, "-- app/x.yaml --\n", "app/Chart.yaml: load chart: Chart.yaml file is missing"},
		{"chart dependency missing", render.HelmChart, "-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\ndependencies:\n- {name: redis, version: 1.x, repository: https://example.org}\n", "app/Chart.yaml: dependencies are not in charts/: redis: run helm dependency update and commit charts/; or mount them: plural source add redis --helm https://example.org, and in the Service's spec mounts: [{source: {name: redis, ref: \"1.x\"}, chart: redis, at: \"app/charts/redis\"}]"},
		{"chart dependency of a registry", render.HelmChart, "-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\ndependencies:\n- {name: redis, version: 1.2.3, repository: \"oci://example.org/charts\"}\n", "app/Chart.yaml: dependencies are not in charts/: redis: run helm dependency update and commit charts/; or mount them: plural source add redis --oci oci://example.org/charts/redis, and in the Service's spec mounts: [{source: {name: redis, ref: \"1.2.3\"}, at: \"app/charts/redis\"}]"},
		{"chart values are bad YAML", render.HelmChart, "-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\n-- app/values.yaml --\na: b\nb: [\n", "app/values.yaml:"},
		{"chart template fails", render.HelmChart, "-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\n-- app/templates/x.yaml --\n\n{{ fail \"choose one\" }}\n", "app/templates/x.yaml:2: "},
		{"chart template does not parse", render.HelmChart, "-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\n-- app/templates/x.yaml --\n\n{{ nope }}\n", "app/templates/x.yaml:2: "},
		{"chart prints no object", render.HelmChart, "-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\n-- app/templates/x.yaml --\n{{ 1 }}\n", "app/templates/x.yaml: is not a Kubernetes object"},
		{"chart wants another Kubernetes", render.HelmChart, "-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\nkubeVersion: '>= 9.0'\n", "app/Chart.yaml: the chart wants Kubernetes >= 9.0 and the cluster has v1."},
		{"no such folder", render.Raw, "-- other/x.yaml --\n", "app: there is no such folder"},
		{"unknown renderer", "jsonnet", "-- app/x.yaml --\n", `unknown renderer "jsonnet": raw, kustomize or helm`},
	} {
		t.Run(test.name, func(t *testing.T) {
			failed := failure(t, r, input(test.renderer, tree(test.files)))
			if !strings.HasPrefix(failed.Error(), test.want) || failed.Reason != render.Invalid {
				t.Errorf("%s: %v\nwant Invalid: %s…", failed.Reason, failed, test.want)
			}
		})
	}
}

func TestNoCommandIsMadeOfWhatAChartCallsItsDependency(t *testing.T) {
	r := newRenderer(t)
	for name, dependency := range map[string]string{
		"a shell's words in the address": "{name: redis, version: 1.x, repository: \"https://example.org/$(id)\"}",
		"a shell's words in the name":    "{name: \"redis; id\", version: 1.x, repository: \"https://example.org\"}",
		"a folder":                       "{name: redis, version: 1.x, repository: \"file://../redis\"}",
		"a name of one machine":          "{name: redis, version: 1.x, repository: \"@stable\"}",
	} {
		chart := "-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\ndependencies:\n- " + dependency + "\n"
		if failed := failure(t, r, input(render.HelmChart, tree(chart))); failed.Fix != "run helm dependency update and commit charts/" {
			t.Errorf("%s: %v", name, failed)
		}
	}
}

func TestSymlinkIsRefused(t *testing.T) {
	files := fstest.MapFS{"app/x.yaml": {Data: []byte("/etc/passwd"), Mode: fs.ModeSymlink}}
	failed := failure(t, newRenderer(t), input(render.Raw, files))
	if failed.Reason != render.Refused || failed.File != "app/x.yaml" {
		t.Errorf("%s: %v", failed.Reason, failed)
	}
}

func TestPathOutsideTheRepositoryIsRefused(t *testing.T) {
	in := input(render.Raw, fstest.MapFS{})
	in.Path = "../app"
	if failed := failure(t, newRenderer(t), in); failed.Reason != render.Invalid {
		t.Errorf("%s: %v", failed.Reason, failed)
	}
}

func TestControlCharactersDoNotReachTheReader(t *testing.T) {
	files := tree("-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\n-- app/templates/x.yaml --\n{{ fail \"\\x1b[2J\" }}\n")
	if got := failure(t, newRenderer(t), input(render.HelmChart, files)).Error(); strings.Contains(got, "\x1b") {
		t.Errorf("message %q holds an escape character", got)
	}
}

func TestCancelKillsTheChildAndSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := newRenderer(t).Render(ctx, input(render.Raw, tree("-- app/x.yaml.tmpl --\n{{ range until 2000000 }}{{ range until 1000000 }}{{ end }}{{ end }}\n")))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}
