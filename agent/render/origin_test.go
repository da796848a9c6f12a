package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
)

func origins(t *testing.T, in render.Input) map[string]string {
	t.Helper()
	out := mustRender(t, newRenderer(t), in)
	if len(out.Origins) != len(out.Objects) {
		t.Fatalf("%d origins of %d objects", len(out.Origins), len(out.Objects))
	}
	found := map[string]string{}
	for i, object := range out.Objects {
		found[object.GetName()] = out.Origins[i].String()
	}
	return found
}

func TestEveryObjectOfARawServiceHasItsFileAndLine(t *testing.T) {
	got := origins(t, input(render.Raw, tree("-- app/a.yaml --\n# words\n"+configMap("a")+"---\n\n"+configMap("b")+
		"-- app/l.yaml --\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: l}}\n"+
		"-- app/t.yaml.tmpl --\n"+configMap("{{ .service.name }}"))))
	want := map[string]string{"a": "app/a.yaml:2", "b": "app/a.yaml:7", "l": "app/l.yaml:1", "web": "app/t.yaml.tmpl:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
}

func TestEveryObjectOfAChartHasItsTemplate(t *testing.T) {
	got := origins(t, input(render.HelmChart, tree(chart+
		"-- app/charts/s/Chart.yaml --\n{apiVersion: v2, name: s, version: 1.0.0}\n-- app/charts/s/templates/s.yaml --\n"+configMap("sub"))))
	want := map[string]string{
		"things.example.org": "app/crds/crd.yaml", "web-shop": "app/templates/config.yaml", "test": "app/templates/test.yaml",
		"migrate": "app/templates/migrate.yaml", "uninstall": "app/templates/uninstall.yaml", "sub": "app/charts/s/templates/s.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
}

const overlay = `
-- base/kustomization.yaml --
resources: [cm.yaml]
-- base/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: base}
-- app/kustomization.yaml --
namePrefix: my-
resources:
- ../base
- mine.yaml
configMapGenerator:
- {name: gen, literals: [a=b], options: {disableNameSuffixHash: true}}
-- app/mine.yaml.tmpl --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .service.name }}}
`

func TestEveryObjectOfAKustomizationHasItsFile(t *testing.T) {
	got := origins(t, input(render.Kustomize, tree(overlay)))
	want := map[string]string{"my-base": "base/cm.yaml:1", "my-web": "app/mine.yaml.tmpl:1", "my-gen": "app/kustomization.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
}

func TestAnObjectOfAKustomizationHasTheLineOfItsDocumentWhereThatIsCertain(t *testing.T) {
	const maps = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    name: other\n  name: "
	got := origins(t, input(render.Kustomize, tree("-- app/kustomization.yaml --\nnamePrefix: my-\nnameSuffix: \"-1\"\nresources: [all.yaml, flow.yaml, list.yaml]\n"+
		"-- app/all.yaml --\n# words\n\n"+maps+"\"a\" # so\n---\n"+maps+"ab\n---\n# more\n"+maps+"'other'\n"+
		"---\napiVersion: v1\nkind: Secret\nmetadata: {labels: {name: b}, name: abc}\n"+
		"-- app/flow.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: flow}}\n---\n"+maps+"\"o\"\n"+
		"-- app/list.yaml --\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: item}}\n")))
	want := map[string]string{
		"my-a-1": "app/all.yaml:3", "my-abc-1": "app/all.yaml:25", "my-ab-1": "app/all.yaml:10", "my-other-1": "app/all.yaml:18",
		"my-flow-1": "app/flow.yaml", "my-o-1": "app/flow.yaml", "my-item-1": "app/list.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
}

// A patch that fails without annotations must go on failing, and one that replaces them all must replace no more.
func TestOriginsAreLeftOutWhereTheyCouldShow(t *testing.T) {
	r := newRenderer(t)
	object := "-- app/x.yaml --\n" + configMap("x")
	failing := input(render.Kustomize, tree(object+"-- app/kustomization.yaml --\nresources: [x.yaml]\npatches:\n- target: {name: x}\n"+
		"  patch: '[{op: add, path: /metadata/annotations/a, value: b}]'\n"))
	failure(t, r, failing)
	for name, kustomization := range map[string]string{
		"a flow mapping":      "{resources: [x.yaml]}\n",
		"an indented mapping": "  resources: [x.yaml]\n",
		"the author's wish":   "resources: [x.yaml]\nbuildMetadata: [managedByLabel]\n",
		"a replacement of metadata": "resources: [x.yaml]\nreplacements:\n- source: {kind: ConfigMap, fieldPath: metadata.annotations}\n" +
			"  targets: [{select: {name: none}, fieldPaths: [spec.x]}]\n",
		"a patch of metadata": "resources: [x.yaml]\npatches:\n- target: {name: x}\n  patch: '[{op: add, path: /metadata/annotations, value: {a: b}}]'\n",
	} {
		in := input(render.Kustomize, tree(object+"-- app/kustomization.yaml --\n"+kustomization))
		if out, err := r.Render(t.Context(), in); err != nil {
			t.Logf("%s: %v", name, err)
		} else if len(out.Origins) != 1 || out.Origins[0] != (render.Origin{}) {
			t.Errorf("%s: origins %v", name, out.Origins)
		}
	}
}
