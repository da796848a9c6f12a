package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/expr"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// The test binary is the renderer's child, as the product's binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// bracesPackage puts one text and a list of them wherever a Service is a template, beside what is filled in for each cluster.
const bracesPackage = header + `kind: Package
metadata: {name: x}
spec:
  version: 1.0.0
  questions:
  - {name: text, type: string}
  - {name: texts, type: list}
  - {name: short, type: string}
  - {name: secret, type: secret}
  steps:
  - name: chart
    helm:
      path: chart
      values:
        texts: ["${answers.texts}", {below: "${answers.texts}"}]
        map: "${{'k': answers.text}}"
        mixed: "{${answers.text}{}{{ .cluster.name }} {{- .parameters.gone | default \"<${answers.short}>\" -}} {${answers.text} "
        shut: "${answers.secret}"
        partly: ["${answers.text}", "${answers.secret}"]
  - name: files
    manifests: {path: manifests, parameters: {text: "${answers.text}", mixed: "{{ .cluster.name }}{${answers.text}"}}
  - name: both
    service:
      spec:
        source: {path: chart}
        parameters: {text: "${answers.text}"}
        helm: "${{'values': {'texts': answers.texts, 'map': {'k': '{{ .cluster.name }}'}}}}"
        tests:
        - {name: t, http: {service: s, port: 80, path: "/", body: "${answers.short}", headers: {x: "${answers.short}-{{ .cluster.name }}"}}}
`

const bracesChart = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {values: {{ .Values | toJson | quote }}}\n"

const bracesManifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: files}\ndata:\n  text: {{ .parameters.text | quote }}\n  mixed: {{ .parameters.mixed | quote }}\n"

// rendered is what each service has in its ConfigMap on the management cluster, with the deployments by name.
func rendered(t *testing.T, text string, texts []string) (maps map[string]map[string]string, d map[string]*resolve.Deployment) {
	t.Helper()
	values, err := json.Marshal(map[string]any{"text": text, "texts": texts, "short": short(text)})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := json.Marshal(map[string]any{"secret": "secret " + text})
	if err != nil {
		t.Fatal(err)
	}
	repo := start()
	for name, content := range map[string]string{
		"package.yaml": header + "kind: Installation\nmetadata: {name: x}\n", "values.yaml": asYAML(values), "values.secret.yaml": asYAML(secret),
		"payload/package.yaml": bracesPackage, "payload/chart/Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n",
		"payload/chart/templates/map.yaml": bracesChart, "payload/manifests/map.yaml.tmpl": bracesManifest,
	} {
		repo["packages/x/"+name] = file(content)
	}
	all, err := All(world(t, repo), nil)
	if err != nil {
		t.Fatalf("%.100q: %v", text, err)
	}
	changes := map[string][]byte{}
	for _, c := range all {
		for name, content := range c.Files {
			changes[name] = content
		}
	}
	opened := overlay.New(repo, changes)
	dir := t.TempDir()
	if err := os.CopyFS(dir, sealed(t, opened)); err != nil {
		t.Fatal(err)
	}
	var from snapshots
	if from.own, err = snapshot.Worktree(dir); err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Load(from.own.FS())
	if err != nil {
		t.Fatal(err)
	}
	list, err := resolve.For(f, "home", from)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	maps, d = map[string]map[string]string{}, map[string]*resolve.Deployment{}
	for n := range list {
		one := &list[n]
		if one.Hold != nil {
			t.Fatalf("%.100q: %s: %v", text, one.Service, one.Hold)
		}
		in := render.Input{
			Renderer: one.Renderer, Path: one.Path, Namespace: "default", Service: one.Service, Parameters: one.Parameters, Files: opened,
		}
		if one.Helm != nil {
			in.Helm = &render.Helm{Release: one.Helm.Release, ValuesJSON: one.Helm.ValuesJSON, ValuesFiles: one.Helm.ValuesFiles}
		}
		out, err := (&render.Renderer{Command: []string{program, "render-child"}}).Render(context.Background(), in)
		if err != nil || len(out.Objects) != 1 {
			t.Fatalf("%.100q: %s: %v", text, one.Service, err)
		}
		data := map[string]string{}
		for key, value := range out.Objects[0].Object["data"].(map[string]any) {
			data[key] = value.(string)
		}
		maps[one.Service], d[one.Service] = data, one
	}
	return maps, d
}

// short is a text that fits into a test of a service.
func short(text string) string { return text[:min(len(text), 500)] }

// asYAML is JSON as YAML takes it.
func asYAML(text []byte) string { return strings.ReplaceAll(string(text), "\x7f", `\u007f`) }

// sealed is a repository with its secrets as git has them.
func sealed(t *testing.T, opened *overlay.FS) *overlay.FS {
	t.Helper()
	changes := map[string][]byte{}
	for _, name := range []string{"packages/x/values.secret.yaml", "packages/x/chart.values.secret.yaml"} {
		changes[name] = []byte(sealedHead)
	}
	return overlay.New(opened, changes)
}

// tokens are what hostile texts are made of.
var tokens = []string{
	"{", "}", "{{", "}}", "{{{", `"`, "`", "'", `\`, "-", " ", "\n", "\t", "a", "/*", "*/", "${", "$", "{{ .cluster.name }}", `{{ "x" }}`, "{{- ",
	" -}}", "define", "ä", "\u2028", "\u202e", "\x00", "\x7f", "%{", "<", "&", "#", ": ", "😀",
}

func hostile(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(tokens[r.IntN(len(tokens))])
	}
	return b.String()
}

func TestWhatAnExpressionGivesReachesTheClusterByteForByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	texts := []string{"", "{", "{{", "}}", "plain", "{{ .cluster.name }}", `{{ "x" }}`, "{{ .gone", " {{- x -}} ", strings.Repeat("{{ä}}", 11_500), strings.Repeat("a", 30_000)}
	for range 5 {
		texts = append(texts, hostile(r))
	}
	for _, text := range texts {
		list := []string{text}
		for range 40 {
			list = append(list, hostile(r))
		}
		got, d := rendered(t, text, list)
		same := func(what string, want, got any) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%.100q: %s: %s", text, what, diff)
			}
		}
		anys := make([]any, len(list))
		for i := range list {
			anys[i] = list[i]
		}
		var chart, both map[string]any
		for service, into := range map[string]*map[string]any{"x-chart": &chart, "x-both": &both} {
			if err := json.Unmarshal([]byte(got[service]["values"]), into); err != nil {
				t.Fatal(err)
			}
		}
		same("list", []any{anys, map[string]any{"below": anys}}, chart["texts"])
		same("map", map[string]any{"k": text}, chart["map"])
		same("mixed", "{"+text+"{}home<"+short(text)+">{"+text+" ", chart["mixed"])
		same("sealed", "secret "+text, chart["shut"])
		same("beside what is sealed", []any{text, "secret " + text}, chart["partly"])
		same("service", anys, both["texts"])
		same("written in an expression", map[string]any{"k": "{{ .cluster.name }}"}, both["map"])
		same("parameters", map[string]string{"text": text, "mixed": "home{" + text}, got["x-files"])
		same("parameters", text, d["x-both"].Parameters["text"])
		same("test", short(text), d["x-both"].Tests[0].HTTP.Body)
		same("header", short(text)+"-home", d["x-both"].Tests[0].HTTP.Headers["x"])
	}
}

func TestAnExpressionInTheCodeOfATemplateIsRefused(t *testing.T) {
	const given = "\x00"
	for written, good := range map[string]bool{
		"{{ .cluster.name }}" + given:            true,
		`{{ default "` + given + `" .x }}`:       true,
		`{{ default "\"` + given + `" .x }}`:     true,
		"{{ default '\"' }}" + given:             true,
		"{{/* \" */}}" + given:                   true,
		"{{ `\"` }}" + given:                     true,
		"{{ .cluster." + given + " }}":           false,
		"{{ `" + given + "` }}":                  false,
		"{{/* " + given + " */}}":                false,
		"{{ '" + given + "' }}":                  false,
		`{{ default "\` + given + `" .x }}`:      false,
		`{{ default "" ` + given + `.x }}`:       false,
		"{{ .x }}{{- `}}` " + given + " -}} yes": false,
	} {
		before, after, _ := strings.Cut(written, given)
		got, err := template([]expr.Part{{Text: before}, {Text: "}} {{", Given: true}, {Text: after}})
		if (err == nil) != good {
			t.Errorf("%q: %q, %v", written, got, err)
		}
	}
}

func TestATemplateInWhatIsSealedIsRefused(t *testing.T) {
	repo := start()
	for name, content := range map[string]string{
		"package.yaml": header + "kind: Installation\nmetadata: {name: x}\n", "values.secret.yaml": "secret: hunter2\n",
		"payload/manifests/a.yaml": "",
		"payload/package.yaml": header + "kind: Package\nmetadata: {name: x}\nspec:\n  version: 1.0.0\n  questions: [{name: secret, type: secret}]\n  steps:\n" +
			"  - name: a\n    manifests: {path: manifests, parameters: {dsn: \"db.{{ .cluster.name }}:${answers.secret}\"}}\n",
	} {
		repo["packages/x/"+name] = &fstest.MapFile{Data: []byte(content)}
	}
	_, err := All(world(t, repo), nil)
	if err == nil || !strings.Contains(err.Error(), errBeside.Error()) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
	if places := fmt.Sprint(err); !slices.ContainsFunc([]string{"payload/package.yaml:9"}, func(s string) bool { return strings.Contains(places, s) }) {
		t.Errorf("no place: %v", err)
	}
}
