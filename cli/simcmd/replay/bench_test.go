package replay

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// BenchmarkReplay prints how many keys a commit changes for each output that it changes: over the newest commits of the clone that
// PLURAL_REPLAY_REPO names, or over those of a repository that is laid out as people lay theirs out.
func BenchmarkReplay(b *testing.B) {
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	o := Options{Repo: os.Getenv("PLURAL_REPLAY_REPO"), From: "HEAD~25", To: "HEAD", Render: []string{program, "render-child"}, Workers: 2}
	if o.Repo == "" {
		r := newRepo(b)
		o.Repo, o.From = r.dir, lived(r)
	}
	for b.Loop() {
		result, err := Run(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		if missed := len(result.FalseNegatives) + len(result.Incomplete); missed > 0 {
			b.Fatalf("%d times a cluster would not have got what the repository renders to: %+v", missed, result)
		}
		//nolint:forbidigo // what make bench reads
		fmt.Printf("bench replay_work_factor %.3f x\nbench replay_outputs_changed %d outputs\n", result.Ratio(), result.OutputsChanged)
	}
}

// lived makes a repository with a folder for each namespace, in it a kustomization that names a file of each application's folder,
// in that one with the manifests, whose base and component are shared; beside them are overlays, a chart, plain manifests, and what
// no renderer reads. Its 30 commits raise versions, as most commits do, or change one of the other files.
func lived(r repo) (first string) {
	files := map[string]string{
		"README.md": "one\n", "components/common/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nlabels: [{pairs: {team: one}}]\n",
		"components/common/README.md": "one\n", "base/web/kustomization.yaml": "resources: [config.yaml]\n", "base/web/config.yaml": named("ConfigMap", "web"),
		"base/web/unused.yaml": named("ConfigMap", "unused"), "base/web/docs/notes.md": "one\n",
		"charts/web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "charts/web/values.yaml": "tag: one\n", "charts/web/.helmignore": "*.md\nci/\n",
		"charts/web/README.md": "one\n", "charts/web/ci/test-values.yaml": "tag: one\n",
		"charts/web/templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {tag: {{ .Values.tag }}}\n",
		"manifests/config.yaml":            named("ConfigMap", "plain"), "manifests/README.md": "one\n", "manifests/diagram.svg": "one\n",
	}
	for _, env := range []string{"prod", "staging"} {
		files["overlays/"+env+"/kustomization.yaml"] = "resources: [../../base/web]\nnamePrefix: " + env + "-\npatches: [{path: patch.yaml}]\n"
		files["overlays/"+env+"/patch.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: one}\n"
		files["overlays/"+env+"/README.md"] = "one\n"
	}
	for _, namespace := range []string{"apps/media", "apps/network"} {
		resources := []string{"namespace.yaml"}
		for i := range 2 {
			app := fmt.Sprintf("%s/app%d/", namespace, i)
			resources = append(resources, fmt.Sprintf("app%d/sync.yaml", i))
			files[app+"sync.yaml"] = named("ConfigMap", fmt.Sprintf("sync%d", i))
			files[app+"app/kustomization.yaml"] = "resources: [release.yaml]\ncomponents: [../../../../components/common]\nconfigMapGenerator: [{name: settings, files: [config/settings.ini]}]\n"
			files[app+"app/release.yaml"] = named("ConfigMap", "release")
			files[app+"app/config/settings.ini"] = "one\n"
			files[app+"app/README.md"] = "one\n"
		}
		files[namespace+"/namespace.yaml"] = named("Namespace", filepath.Base(namespace))
		files[namespace+"/kustomization.yaml"] = "resources: [" + strings.Join(resources, ", ") + "]\n"
	}
	first = r.commit(files)
	var versions, others []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case !strings.Contains(files[name], "one"):
		case strings.HasSuffix(name, "release.yaml") || strings.HasSuffix(name, "patch.yaml") || strings.HasSuffix(name, "values.yaml"):
			versions = append(versions, name)
		default:
			others = append(others, name)
		}
	}
	chance, word := rand.New(rand.NewPCG(1, 2)), regexp.MustCompile(`one|v[0-9]+x`)
	for i := range 30 {
		list := versions
		if i%3 == 0 {
			list = others
		}
		name := list[chance.IntN(len(list))]
		files[name] = word.ReplaceAllString(files[name], fmt.Sprintf("v%dx", i))
		r.commit(map[string]string{name: files[name]})
	}
	return first
}
