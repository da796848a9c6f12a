package replay

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// named is an object whose label v changes with its file.
func named(kind, name string) string {
	return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: " + name + ", labels: {v: one}}\n"
}

// ways are those in which a kustomization names files, by a field of its own or as resources, each with the files. NAME is the
// folder's; "one" is what changes.
func ways() []map[string]string {
	const patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: "
	return []map[string]string{
		{"resources": "sub/y.yaml", "sub/y.yaml": named("ConfigMap", "NAME-sub")},
		{
			"resources": "../common-NAME", "../common-NAME/kustomization.yml": "namePrefix: one-\nresources: [c.yaml]\n",
			"../common-NAME/c.yaml": named("ConfigMap", "NAME-common"), "../common-NAME/unread.yaml": named("ConfigMap", "unread"),
		},
		{
			"": "components: [../part-NAME]\n", "../part-NAME/Kustomization": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{path: p.yaml}]\n",
			"../part-NAME/p.yaml": patch + "{part: one}\n",
		},
		{"": "patches: [{path: p1.yaml}]\n", "p1.yaml": patch + "{a: one}\n"},
		{"": "patchesStrategicMerge: [deep/p2.yaml]\n", "deep/p2.yaml": patch + "{b: one}\n"},
		{"": "patchesJson6902: [{path: p3.json, target: {version: v1, kind: ConfigMap, name: NAME}}]\n", "p3.json": `[{"op": "add", "path": "/metadata/labels/j", "value": "one"}]`},
		{"": "replacements: [{path: r.yaml}]\n", "r.yaml": "source: {kind: ConfigMap, name: NAME, fieldPath: metadata.labels.v}\ntargets: [{select: {kind: ConfigMap, name: NAME}, fieldPaths: [metadata.annotations.one], options: {create: true}}]\n"},
		{"": "configMapGenerator: [{name: NAME-gen, files: [data.txt, key=deep/data2.txt], envs: [one.env]}]\n", "data.txt": "one", "deep/data2.txt": "one", "one.env": "A=one\n"},
		{"": "secretGenerator: [{name: NAME-gen, env: two.env}]\n", "two.env": "A=one\n"},
		{"": "transformers: [t.yaml]\n", "t.yaml": "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: t}\npath: named/by-t.yaml\n", "named/by-t.yaml": patch + "{t: one}\n"},
		{"": "generators: [g.yaml]\n", "g.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: NAME-g}\nname: NAME-g\nfiles: [by-g.txt]\n", "by-g.txt": "one"},
		{"": "configurations: [conf.yaml]\nnamePrefix: pre-\n", "conf.yaml": "namePrefix: [{path: metadata/name, kind: one}]\n"},
		{"": "crds: [crd.json]\n", "crd.json": `{"one.Thing": {"Schema": {"description": "one"}}}`},
		{"resources": "made.yaml", "made.yaml.tmpl": named("ConfigMap", "NAME-{{ .service.name | len }}")},
		{
			"resources": "linked.yaml, linked", "linked.yaml": "link:../else-NAME/l.yaml", "../else-NAME/l.yaml": named("ConfigMap", "NAME-linked"),
			"linked": "link:../else-NAME", "../else-NAME/kustomization.yaml": "resources: [m.yaml]\n", "../else-NAME/m.yaml": named("ConfigMap", "NAME-m"),
		},
	}
}

// someFolders are services that name files in some of the ways, with files that nobody reads, a chart and a folder of manifests.
func someFolders(chance *rand.Rand) map[string]string {
	files := map[string]string{
		"chart/Chart.yaml": "apiVersion: v2\nname: chart\nversion: 1.0.0\n", "chart/values.yaml": "v: one\n", "chart/.helmignore": "/docs/\n*.md\n",
		"chart/templates/a.yaml": named("ConfigMap", "chart") + "data: {v: {{ .Values.v }}, f: {{ .Files.Get \"files/f\" | quote }}, d: {{ .Files.Get \"docs/f\" | quote }}}\n",
		"chart/files/f":          "one", "chart/docs/f": "one", "chart/NOTES.md": "one", "chart/templates/x.yaml": "link:../../plain/deep/a.yaml",
		"plain/deep/a.yaml": named("ConfigMap", "plain"), "plain/deep/README.md": "one", "plain/deep/more": "link:../../stock", "stock/b.json": `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stock", "labels": {"v": "one"}}}`,
	}
	ways := ways()
	for i := range 3 {
		name := fmt.Sprintf("f%d", i)
		kustomization, resources := "", "x.yaml"
		if i > 0 {
			resources += fmt.Sprintf(", ../f%d", chance.IntN(i))
		}
		put := func(file, text string) {
			files[filepath.Join(name, strings.ReplaceAll(file, "NAME", name))] = strings.ReplaceAll(text, "NAME", name)
		}
		put("x.yaml", named("ConfigMap", name))
		put("README.md", "one")
		put("unread/y.yaml", named("ConfigMap", "unread"))
		for _, way := range chance.Perm(len(ways))[:8] {
			for file, text := range ways[way] {
				switch file {
				case "":
					kustomization += text
				case "resources":
					resources += ", " + text
				default:
					put(file, text)
				}
			}
		}
		kustomization += []string{"resources", "Resources"}[i%2] + ": [" + resources + "]\n"
		put("kustomization.yaml", kustomization)
	}
	return files
}

// TestWhateverARenderReadsIsInTheKey changes the files of a made-up repository one by one, and wants each output that changes to
// change its key, and each bundle to render as the whole repository does.
func TestWhateverARenderReadsIsInTheKey(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 7))
	r, files := newRepo(t), someFolders(chance)
	first := r.commit(files)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if changed := strings.ReplaceAll(text, "one", "two"); changed != text {
			r.commit(map[string]string{name: changed})
		}
	}
	o := r.options(first)
	o.Paths = []string{"f0", "f1", "f2", "chart", "plain"}
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.FalseNegatives)+len(result.Incomplete)+len(result.Unrepeatable)+result.Unrendered > 0 {
		t.Errorf("%+v", result)
	}
	if result.OutputsChanged < 30 {
		t.Errorf("%d outputs changed: are the files read at all?", result.OutputsChanged)
	}
}
