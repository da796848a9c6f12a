package render_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pluralsh/plural/agent/render"
)

const (
	chartYAML     = "-- app/Chart.yaml --\napiVersion: v2\nname: a\nversion: 1.0.0\n"
	kustomization = "-- app/kustomization.yaml --\nresources: [x.yaml]\n-- app/x.yaml --\n"
)

// bomb nests n levels of ten aliases each: ten to the n nodes in a few hundred bytes.
func bomb(n int) string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n")
	for i := 1; i < n; i++ {
		alias := fmt.Sprintf("*x%d", i-1)
		fmt.Fprintf(&b, "x%d: &x%d [%s]\n", i, i, strings.Join([]string{alias, alias, alias, alias, alias, alias, alias, alias, alias, alias}, ", "))
	}
	return b.String()
}

func TestM1AliasOfItselfIsRefusedWithItsLine(t *testing.T) {
	r := newRenderer(t)
	cyclic := configMap("a") + "data: &x\n  y: *x\n"
	for name, test := range map[string]struct {
		in   render.Input
		line int
	}{
		"raw":                   {input(render.Raw, tree("-- app/x.yaml --\n"+cyclic)), 5},
		"template":              {input(render.Raw, tree("-- app/x.yaml.tmpl --\n"+cyclic)), 5},
		"kustomize":             {input(render.Kustomize, tree(kustomization+cyclic)), 5},
		"a second document":     {input(render.Kustomize, tree(kustomization+configMap("b")+"---\n"+cyclic)), 9},
		"a file not named YAML": {input(render.Kustomize, tree("-- app/kustomization.yaml --\nresources: [x.txt]\n-- app/x.txt --\n"+cyclic)), 5},
		"a patch": {input(render.Kustomize, tree("-- app/kustomization.yaml --\nresources: [x.yaml]\npatches: [{path: p.yaml}]\n"+
			"-- app/x.yaml --\n"+configMap("a")+"-- app/p.yaml --\n"+cyclic)), 5},
		"an inline patch": {input(render.Kustomize, tree("-- app/kustomization.yaml --\nresources: [x.yaml]\npatches:\n- patch: '{kind: &x {a: *x}}'\n"+
			"-- app/x.yaml --\n"+configMap("a"))), 3},
		"the kustomization":      {input(render.Kustomize, tree("-- app/kustomization.yaml --\ncommonLabels: &x {a: *x}\n")), 1},
		"values":                 {withValues(input(render.HelmChart, tree(chartYAML+"-- x.yaml --\n"+cyclic)), "x.yaml"), 5},
		"the chart's own values": {input(render.HelmChart, tree(chartYAML+"-- app/values.yaml --\n"+cyclic)), 5},
	} {
		t.Run(name, func(t *testing.T) {
			failed := failure(t, r, test.in)
			if failed.Line != test.line || failed.Reason != render.Invalid || !strings.Contains(failed.Message, `"x" contains itself`) {
				t.Errorf("%s: %v, want line %d", failed.Reason, failed, test.line)
			}
			stillRenders(t, r)
		})
	}
}

func TestM1StackOverflowInTheChildIsALimitAndNothingMore(t *testing.T) {
	deep := "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}\n"
	r := newRenderer(t)
	failed := failure(t, r, input(render.Raw, tree("-- app/x.yaml.tmpl --\n"+deep)))
	if failed.Reason == render.Crash || failed.File != "app/x.yaml.tmpl" {
		t.Errorf("%s: %v", failed.Reason, failed)
	}
	stillRenders(t, r)
}

func TestM2R4AliasBombsAreRefusedBeforeTheyGrow(t *testing.T) {
	r := newRenderer(t)
	for _, n := range []int{5, 6, 9} {
		for name, in := range map[string]render.Input{
			"raw":       input(render.Raw, tree("-- app/x.yaml --\n"+bomb(n))),
			"kustomize": input(render.Kustomize, tree(kustomization+bomb(n))),
			"values":    withValues(input(render.HelmChart, tree(chartYAML+"-- x.yaml --\n"+bomb(n))), "x.yaml"),
		} {
			t.Run(fmt.Sprintf("%s n=%d", name, n), func(t *testing.T) {
				start := time.Now()
				failed := failure(t, r, in)
				if took := time.Since(start); took > 20*time.Second {
					t.Errorf("refused after %v", took)
				}
				if failed.Line == 0 || !strings.HasSuffix(failed.File, "x.yaml") || !strings.Contains(failed.Message, "aliases add more than") {
					t.Errorf("%s: %v", failed.Reason, failed)
				}
			})
		}
	}
	t.Run("chart's own values", func(t *testing.T) {
		failed := failure(t, r, input(render.HelmChart, tree(chartYAML+"-- app/values.yaml --\n"+bomb(9))))
		if failed.File != "app/values.yaml" || failed.Line == 0 {
			t.Errorf("%s: %v", failed.Reason, failed)
		}
	})
	stillRenders(t, r)
}

func TestOrdinaryAnchorsRender(t *testing.T) {
	manifest := configMap("a") + "x: &x {labels: {a: b}}\ny: *x\nz: {<<: *x, c: d}\n"
	r := newRenderer(t)
	mustRender(t, r, input(render.Raw, tree("-- app/x.yaml --\n"+manifest)))
	mustRender(t, r, input(render.Kustomize, tree(kustomization+manifest)))
}

func withValues(in render.Input, names ...string) render.Input {
	in.Helm = &render.Helm{ValuesFiles: names}
	return in
}

// What M14 and R9 list: loops that no context can cancel and functions that allocate, in a chart and in a template of ours.
func TestM14R9TemplatesThatNeverEndOrEatMemoryHitALimit(t *testing.T) {
	r := newRenderer(t)
	r.Limits = render.Limits{Memory: 192 << 20, Output: 8 << 20} // the same as the defaults, sooner
	doubled := `{{ $s := "xxxxxxxx" }}` + strings.Repeat(`{{ $s = cat $s $s }}`, 28) + `{{ $s | len }}`
	attacks := map[string]string{
		"until 1e8":   `{{ range until 100000000 }}{{ end }}`,
		"repeat 5e8":  `{{ $s := repeat 500000000 "x" }}{{ $s | upper | len }}`,
		"repeat 1e11": `{{ $s := repeat 100000000000 "x" }}{{ $s | upper | len }}`,
		"28 cats":     doubled,
		"output":      `{{ range until 1000000 }}{{ repeat 100000 "x" }}{{ end }}`,
	}
	recursions := map[string]string{
		"include itself":   `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`,
		"include mutually": `{{ define "a" }}{{ include "b" . }}{{ end }}{{ define "b" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`,
		"tpl of itself":    `{{ define "a" }}{{ tpl "{{ include \"a\" . }}" . }}{{ end }}{{ include "a" . }}`,
		"template itself":  `{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`,
	}
	for name, attack := range attacks {
		t.Run("template "+name, func(t *testing.T) {
			isLimit(t, failure(t, r, input(render.Raw, tree("-- app/x.yaml.tmpl --\n"+attack+"\n"))), "app/x.yaml.tmpl")
		})
		t.Run("chart "+name, func(t *testing.T) {
			isLimit(t, failure(t, r, input(render.HelmChart, tree(chartYAML+"-- app/templates/x.yaml --\n"+attack+"\n"))), "app/templates/x.yaml")
		})
	}
	for name, attack := range recursions {
		t.Run("chart "+name, func(t *testing.T) {
			failed := failure(t, r, input(render.HelmChart, tree(chartYAML+"-- app/templates/x.yaml --\n"+attack+"\n")))
			if failed.Reason == render.Crash || failed.File != "app/templates/x.yaml" {
				t.Errorf("%s: %v", failed.Reason, failed)
			}
		})
	}
	stillRenders(t, r)
}

func TestR9LoopWithoutEndIsKilledAtTheWallLimit(t *testing.T) {
	r := newRenderer(t)
	loop := "{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}\n"
	for file, in := range map[string]render.Input{
		"app/x.yaml.tmpl":      input(render.Raw, tree("-- app/x.yaml.tmpl --\n"+loop)),
		"app/templates/x.yaml": input(render.HelmChart, tree(chartYAML+"-- app/templates/x.yaml --\n"+loop)),
	} {
		failed := failureInAFile(t, r, in)
		isLimit(t, failed, file)
		if want := fmt.Sprintf("longer than %v", r.Limits.Wall); !strings.Contains(failed.Message, want) {
			t.Errorf("%v, want %s", failed, want)
		}
	}
	r.Limits = render.Limits{}
	stillRenders(t, r)
}

// failureInAFile gives a render a second, and more where a busy machine has not come to a file by then.
func failureInAFile(t *testing.T, r *render.Renderer, in render.Input) *render.Error {
	t.Helper()
	r.Limits.Wall = time.Second
	failed := failure(t, r, in)
	for failed.File == "" && r.Limits.Wall < time.Minute {
		r.Limits.Wall *= 2
		failed = failure(t, r, in)
	}
	return failed
}

func isLimit(t *testing.T, failed *render.Error, file string) {
	t.Helper()
	if failed.Reason != render.Limit || failed.File != file {
		t.Errorf("%s: %v; want a Limit in %s", failed.Reason, failed, file)
	}
}

func TestOutputAndCountsAreLimited(t *testing.T) {
	r := newRenderer(t)
	r.Limits = render.Limits{Objects: 3, Output: 2 << 10, Input: 64 << 10, Files: 5, Document: 8 << 10}
	many := strings.Repeat(configMap("x")+"---\n", 4)
	crowd := fstest.MapFS{}
	for i := range 6 {
		crowd[fmt.Sprintf("app/%d", i)] = &fstest.MapFile{}
	}
	for name, files := range map[string]fstest.MapFS{
		"objects":  tree("-- app/x.yaml --\n" + many),
		"output":   tree("-- app/x.yaml --\n" + configMap("a") + "data: {a: " + strings.Repeat("x", 4<<10) + "}\n"),
		"document": tree("-- app/x.yaml --\n" + configMap("a") + "#" + strings.Repeat("x", 9<<10) + "\n"),
		"input":    tree("-- app/x.yaml --\n" + configMap("a") + "-- app/y --\n" + strings.Repeat("x", 65<<10)),
		"files":    crowd,
	} {
		t.Run(name, func(t *testing.T) {
			if failed := failure(t, r, input(render.Raw, files)); failed.Reason != render.Limit {
				t.Errorf("%s: %v", failed.Reason, failed)
			}
		})
	}
	r.Limits = render.Limits{}
	stillRenders(t, r)
}

// listener counts the connections that nobody may make.
func listener(t *testing.T) (address string, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), connections
}

func TestR17WhatNoAPIServerTakesIsRefusedByName(t *testing.T) {
	r := newRenderer(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, test := range map[string]struct{ manifest, want string }{
		"object":      {"apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: a}\nspec: " + long(1540<<10) + "\n", "Thing/a has more than 1536 KiB"},
		"annotations": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {b: " + long(257<<10) + "}}\n", "the annotations of ConfigMap/a have more than 256 KiB"},
		"ConfigMap":   {configMap("a") + "data: {b: " + long(1025<<10) + "}\n", "the data of ConfigMap/a has more than 1024 KiB"},
		"Secret":      {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {b: " + long(1025<<10) + "}\n", "the data of Secret/a has more than 1024 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			failed := failure(t, r, input(render.Raw, tree("-- app/x.yaml --\n"+test.manifest)))
			if isLimit(t, failed, "app/x.yaml"); !strings.HasPrefix(failed.Message, test.want) {
				t.Errorf("%v, want %s", failed, test.want)
			}
		})
	}
	encoded := "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {b: " + long(1300<<10) + "}\n" // 975 KiB once decoded
	mustRender(t, r, input(render.Raw, tree("-- app/x.yaml --\n"+encoded)))
	r.Limits.Objects = 1_000
	failed := failure(t, r, input(render.Raw, tree("-- app/x.yaml --\n"+strings.Repeat(configMap("x")+"---\n", 50_000))))
	if isLimit(t, failed, "app/x.yaml"); !strings.Contains(failed.Message, "more than 1000 documents") {
		t.Error(failed)
	}
}

func TestR1RemoteReferencesAreRefusedAndNobodyIsCalled(t *testing.T) {
	address, connections := listener(t)
	r := newRenderer(t)
	for name, yaml := range map[string]string{
		"resource over http":      "resources:\n- http://ADDR/x.yaml\n",
		"git base":                "resources:\n- http://ADDR/org/repo.git//base?ref=main\n",
		"git base, ssh":           "resources:\n- git@ADDR:org/repo\n",
		"git base, file":          "resources:\n- file:///etc//?ref=main\n",
		"github without a scheme": "resources:\n- github.com/org/repo/base\n",
		"forced git":              "resources:\n- git::https://ADDR/org/repo\n",
		"component":               "components:\n- https://ADDR/org/repo\n",
		"old base":                "bases:\n- http://ADDR/org/repo//x\n",
		"crds":                    "crds:\n- http://ADDR/crd.json\n",
		"openapi":                 "openapi:\n  path: http://ADDR/openapi.json\n",
		"patch":                   "patches:\n- path: http://ADDR/patch.yaml\n",
		"generator file":          "configMapGenerator:\n- name: a\n  files: [k=http://ADDR/file]\n",
		"configuration":           "configurations:\n- http://ADDR/conf.yaml\n",
		"transformer":             "transformers:\n- http://ADDR/t.yaml\n",
	} {
		t.Run(name, func(t *testing.T) {
			failed := failure(t, r, input(render.Kustomize, tree("-- app/kustomization.yaml --\n"+strings.ReplaceAll(yaml, "ADDR", address))))
			if failed.Reason != render.Refused || failed.Line == 0 || failed.File != "app/kustomization.yaml" ||
				!strings.Contains(failed.Error(), "plural source add NAME") && !strings.Contains(failed.Error(), "file URL") {
				t.Errorf("%s: %v", failed.Reason, failed)
			}
		})
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("the listener saw %d connections", n)
	}
}

func TestR5ProgramsAndChartsInsideKustomizeAreRefused(t *testing.T) {
	r := newRenderer(t)
	function := func(kind string) string {
		return "apiVersion: example.org/v1\nkind: Gen\nmetadata:\n  name: g\n  annotations:\n    config.kubernetes.io/function: |\n      " + kind + "\n"
	}
	for name, files := range map[string]string{
		"exec function":      "-- app/kustomization.yaml --\ngenerators: [g.yaml]\n-- app/g.yaml --\n" + function("exec: {path: /bin/true}"),
		"container function": "-- app/kustomization.yaml --\ngenerators: [g.yaml]\n-- app/g.yaml --\n" + function("container: {image: x}"),
		"go plugin":          "-- app/kustomization.yaml --\ntransformers: [g.yaml]\n-- app/g.yaml --\napiVersion: example.org/v1\nkind: Gen\nmetadata: {name: g}\n",
		"inflation":          "-- app/kustomization.yaml --\nhelmCharts:\n- {name: x, repo: https://example.org}\n",
		"inflation by file":  "-- app/kustomization.yaml --\ngenerators: [g.yaml]\n-- app/g.yaml --\napiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: g}\nname: x\n",
	} {
		t.Run(name, func(t *testing.T) {
			failed := failure(t, r, input(render.Kustomize, tree(files)))
			if failed.Reason != render.Refused || failed.File == "" {
				t.Errorf("%s: %v", failed.Reason, failed)
			}
		})
	}
}

func TestR6KustomizationCannotReadBesideItsFolder(t *testing.T) {
	failed := failure(t, newRenderer(t), input(render.Kustomize, tree(`
-- app/kustomization.yaml --
configMapGenerator: [{name: x, files: [../other/secret]}]
-- other/secret --
hunter2
`)))
	if strings.Contains(failed.Error(), "hunter2") || !strings.Contains(failed.Error(), "security") {
		t.Errorf("%s: %v", failed.Reason, failed)
	}
}

func TestR7ValuesFilesOutsideTheRepositoryAreRefused(t *testing.T) {
	for _, name := range []string{"../values.yaml", "/etc/passwd", "file:///etc/passwd", "http://127.0.0.1/values.yaml", "a/../../x"} {
		failed := failure(t, newRenderer(t), withValues(input(render.HelmChart, tree(chartYAML)), name))
		if failed.Reason != render.Refused {
			t.Errorf("%s: %v", failed.Reason, failed)
		}
	}
	failed := failure(t, newRenderer(t), withValues(input(render.HelmChart, tree(chartYAML)), "values/*.yaml"))
	if failed.Reason != render.Invalid || failed.File != "values/*.yaml" {
		t.Errorf("%s: %v", failed.Reason, failed)
	}
}

func TestR8ChartSeesNoEnvironmentNetworkClusterOrForeignFile(t *testing.T) {
	t.Setenv("RENDER_SECRET", "hunter2")
	out := mustRender(t, newRenderer(t), input(render.HelmChart, tree(chartYAML+`
-- app/templates/x.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  dns: {{ getHostByName "example.org" | quote }}
  up: {{ .Files.Get "../secret" | quote }}
  root: {{ .Files.Get "/etc/passwd" | quote }}
  glob: {{ len (.Files.Glob "../**") | quote }}
  cluster: {{ lookup "v1" "Secret" "kube-system" "" | len | quote }}
-- secret --
hunter2
`)))
	for key, want := range map[string]string{"dns": "", "up": "", "root": "", "glob": "0", "cluster": "0"} {
		if got := out.Objects[0].Object["data"].(map[string]any)[key]; got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	for _, call := range []string{`env "RENDER_SECRET"`, `expandenv "$RENDER_SECRET"`} {
		failed := failure(t, newRenderer(t), input(render.HelmChart, tree(chartYAML+"-- app/templates/x.yaml --\n{{ "+call+" }}\n")))
		if !strings.Contains(failed.Error(), "not defined") {
			t.Errorf("%s: %v", call, failed)
		}
	}
}

func TestR10SchemasFetchNothing(t *testing.T) {
	address, connections := listener(t)
	r := newRenderer(t)
	for name, schema := range map[string]string{
		"http": `{"$ref": "http://` + address + `/schema.json"}`,
		"file": `{"$ref": "file:///etc/passwd"}`,
	} {
		t.Run(name, func(t *testing.T) {
			failed := failure(t, r, input(render.HelmChart, tree(chartYAML+"-- app/values.schema.json --\n"+schema+"\n")))
			if failed.Reason == render.Crash || failed.File == "" {
				t.Errorf("%s: %v", failed.Reason, failed)
			}
		})
	}
	t.Run("wide", func(t *testing.T) {
		schema := `{"anyOf": [` + strings.Repeat(`{"type": "string"}, `, 100_000) + `{"type": "string"}]}`
		failed := failureInAFile(t, newRenderer(t), input(render.HelmChart, tree(chartYAML+"-- app/values.schema.json --\n"+schema+"\n")))
		if failed.Reason == render.Crash || failed.File != "app/Chart.yaml" {
			t.Errorf("%s: %v", failed.Reason, failed)
		}
	})
	t.Run("cycle", func(t *testing.T) {
		in := input(render.HelmChart, tree(chartYAML+"-- app/values.schema.json --\n"+`{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}`+"\n"))
		if _, err := r.Render(t.Context(), in); err != nil && !strings.Contains(err.Error(), "app/Chart.yaml") {
			t.Error(err)
		}
	})
	if n := connections.Load(); n != 0 {
		t.Errorf("the listener saw %d connections", n)
	}
	stillRenders(t, r)
}

func TestR12ChartArchivesInsideAChartAreBounded(t *testing.T) {
	r := newRenderer(t)
	nested := archived(t, "deep", nil)
	for range 100 {
		nested = archived(t, "deep", nested)
	}
	for name, archive := range map[string][]byte{
		"200 MiB of zeros": archived(t, "bomb", nil, entryOf{"bomb/files/zeros", make([]byte, 200<<20)}),
		"not an archive":   []byte("words"),
		"truncated":        archived(t, "cut", nil)[:60],
		"path outside":     archived(t, "out", nil, entryOf{"../../etc/passwd", []byte("x")}),
		"itself":           archived(t, "a", nil, entryOf{"a/charts/a/charts/a/Chart.yaml", []byte("apiVersion: [")}),
	} {
		t.Run(name, func(t *testing.T) {
			files := tree(chartYAML)
			files["app/charts/sub.tgz"] = &fstest.MapFile{Data: archive}
			failed := failure(t, r, input(render.HelmChart, files))
			if failed.Reason == render.Crash || failed.File != "app/Chart.yaml" {
				t.Errorf("%s: %v", failed.Reason, failed)
			}
		})
	}
	files := tree(chartYAML)
	files["app/charts/deep.tgz"] = &fstest.MapFile{Data: nested}
	mustRender(t, r, input(render.HelmChart, files))
}

type entryOf struct {
	name string
	data []byte
}

// archived is a chart as helm packages it, with another one inside when sub is not nil.
func archived(t *testing.T, name string, sub []byte, more ...entryOf) []byte {
	t.Helper()
	entries := append([]entryOf{{name + "/Chart.yaml", []byte("apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n")}}, more...)
	if sub != nil {
		entries = append(entries, entryOf{name + "/charts/" + name + ".tgz", sub})
	}
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zipped)
	for _, entry := range entries {
		err := archive.WriteHeader(&tar.Header{Name: entry.name, Mode: 0o644, Size: int64(len(entry.data)), Typeflag: tar.TypeReg})
		_, werr := archive.Write(entry.data)
		if err := errors.Join(err, werr); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
