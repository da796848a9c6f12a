package render_test

import (
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/render"
)

// mounting makes other files part of an input.
func mounting(in render.Input, mounts ...render.Mount) render.Input {
	in.Mounts = mounts
	return in
}

func TestAChartTakesValuesAndDependenciesFromMounts(t *testing.T) {
	in := input(render.HelmChart, tree(`
-- Chart.yaml --
{apiVersion: v2, name: app, version: 1.0.0, dependencies: [{name: sub, version: 1.0.0}]}
-- templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: top}, data: {who: "{{ .Values.who }}"}}
`))
	in.Path = "."
	in.Helm = &render.Helm{ValuesFiles: []string{"values/prod.yaml"}}
	out := mustRender(t, newRenderer(t), mounting(in,
		render.Mount{At: "values", Path: "envs/prod.yaml", Files: tree("-- envs/prod.yaml --\n{who: everybody, sub: {who: nobody}}\n-- envs/dev.yaml --\nwho: [")},
		render.Mount{At: "charts/sub", Path: ".", Files: tree(`
-- Chart.yaml --
{apiVersion: v2, name: sub, version: 1.0.0}
-- templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: below}, data: {who: "{{ .Values.who }}"}}
`)}))
	if got := text(t, out); !strings.Contains(got, "who: everybody") || !strings.Contains(got, "who: nobody") {
		t.Error(got)
	}
}

func TestAKustomizationAndItsTemplatesReferIntoAMount(t *testing.T) {
	in := with(map[string]string{"who": "world"}, input(render.Kustomize, tree(`
-- app/kustomization.yaml --
resources: [../common/base]
configMapGenerator:
- {name: words, files: [words/word.txt], options: {disableNameSuffixHash: true}}
-- own/kustomization.yaml --
resources: [cm.yaml]
-- own/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: own}}
`)))
	lib := tree(`
-- lib/base/kustomization.yaml --
resources: [cm.yaml, ../../own]
-- lib/base/cm.yaml.tmpl --
{apiVersion: v1, kind: ConfigMap, metadata: {name: based}, data: {hello: {{ .parameters.who }}}}
-- lib/word.txt --
mounted
`)
	out := mustRender(t, newRenderer(t), mounting(in,
		render.Mount{At: "common", Path: "lib", Files: lib}, render.Mount{At: "app/words", Path: "lib/word.txt", Files: lib}))
	got := text(t, out)
	for _, want := range []string{"hello: world", "name: own", "word.txt: |", "mounted"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestAMountHidesNothingAndStaysInside(t *testing.T) {
	files := tree("-- app/a.yaml --\n-- file --\n")
	for at, want := range map[string]string{
		"app": "in the way", "app/a.yaml": "in the way", "file/below": "in the way", "../x": "leaves the repository",
		"/x": "leaves the repository", ".": "leaves the repository", "": "leaves the repository",
	} {
		in := mounting(input(render.Raw, files), render.Mount{At: at, Path: "app", Files: files})
		if e := failure(t, newRenderer(t), in); !strings.Contains(e.Message, want) {
			t.Errorf("at %q: %v", at, e)
		}
	}
}

func TestMountsAreBoundedTogether(t *testing.T) {
	r := newRenderer(t)
	r.Limits.Files = 3
	files := tree("-- app/a.yaml --\n-- app/b.yaml --\n")
	in := mounting(input(render.Raw, files), render.Mount{At: "x", Path: "app", Files: files})
	if e := failure(t, r, in); e.Reason != render.Limit || !strings.Contains(e.Message, "more than 3 files") {
		t.Errorf("%+v", e)
	}
}

func TestAGitLFSPointerIsRefusedWhereverItIsRead(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	r := newRenderer(t)
	for name, in := range map[string]render.Input{
		"app/cm.yaml":      input(render.Raw, tree("-- app/cm.yaml --\n"+pointer)),
		"app/cm.yaml.tmpl": input(render.Raw, tree("-- app/cm.yaml.tmpl --\n"+pointer)),
		"app/big.bin": input(render.Kustomize, tree(
			"-- app/kustomization.yaml --\nconfigMapGenerator: [{name: a, files: [big.bin]}]\n-- app/big.bin --\n"+pointer)),
		"app/kustomization.yaml":         input(render.Kustomize, tree("-- app/kustomization.yaml --\n"+pointer)),
		"app/charts/sub-1.0.0.tgz":       input(render.HelmChart, tree("-- app/Chart.yaml --\n{apiVersion: v2, name: a, version: 1.0.0}\n-- app/charts/sub-1.0.0.tgz --\n"+pointer)),
		"app/values.yaml":                input(render.HelmChart, tree("-- app/Chart.yaml --\n{apiVersion: v2, name: a, version: 1.0.0}\n-- app/values.yaml --\n"+pointer)),
		"values/prod.yaml, a value file": withValues(input(render.HelmChart, tree("-- app/Chart.yaml --\n{apiVersion: v2, name: a, version: 1.0.0}\n-- values/prod.yaml --\n"+pointer)), "values/prod.yaml"),
	} {
		file, _, _ := strings.Cut(name, ",")
		if e := failure(t, r, in); e.File != file || !strings.Contains(e.Message, "Git LFS pointer") {
			t.Errorf("%s: %v", name, e)
		}
	}
}
