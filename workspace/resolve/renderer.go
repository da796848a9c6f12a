package resolve

import (
	"fmt"
	"path"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

const (
	rendererRaw       = "raw"
	rendererKustomize = "kustomize"
	rendererHelm      = "helm"
)

// templateSuffix marks files of a bundle that the render fills in first, and sees without it.
const templateSuffix = ".tmpl"

// detect tells the renderer from the service or, unmistakably, from the files at its path.
func detect(snap *snapshot.Snapshot, dir string, spec fleet.ServiceSpec) (string, *fault) {
	kustomize := kustomizationFile(snap, dir) != "" || anyOf(snap, dir, templateSuffix, kustomizationNames()) != ""
	chart := anyOf(snap, dir, "", []string{"Chart.yaml"}) != ""
	renderer := spec.Renderer
	if renderer == "" && spec.Helm != nil {
		renderer = rendererHelm
	}
	switch {
	case renderer == "" && kustomize && chart:
		return "", &fault{field: "spec.source.path", message: fmt.Sprintf("%q holds both a kustomization and a chart", dir), fix: "say which with renderer: kustomize or renderer: helm"}
	case renderer == rendererKustomize && !kustomize:
		return "", &fault{field: "spec.source.path", message: fmt.Sprintf("no kustomization.yaml in %q", dir), fix: "correct the path or the renderer"}
	case renderer == rendererHelm && !chart:
		return "", &fault{field: "spec.source.path", message: fmt.Sprintf("no Chart.yaml in %q", dir), fix: "name the folder of the chart"}
	case renderer != "":
		return renderer, nil
	case kustomize:
		return rendererKustomize, nil
	case chart:
		return rendererHelm, nil
	}
	return rendererRaw, nil
}

func kustomizationNames() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

// kustomizationFile is the path of a folder's kustomization, or "".
func kustomizationFile(snap *snapshot.Snapshot, dir string) string {
	return anyOf(snap, dir, "", kustomizationNames())
}

// anyOf is the path of the first of the files that is there, or "".
func anyOf(snap *snapshot.Snapshot, dir, suffix string, names []string) string {
	for _, name := range names {
		file := path.Join(dir, name+suffix)
		if _, mode, err := snap.Hash(file); err == nil && mode.IsRegular() {
			return file
		}
	}
	return ""
}
