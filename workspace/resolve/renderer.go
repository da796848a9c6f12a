package resolve

import (
	"fmt"
	"path"

	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	rendererRaw       = "raw"
	rendererKustomize = "kustomize"
	rendererHelm      = "helm"
)

// templateSuffix marks files of a bundle that the render fills in first, and sees without it.
const templateSuffix = ".tmpl"

// detect tells the renderer from the service or, unmistakably, from the files at its path.
func detect(seen *view, dir string, spec fleet.ServiceSpec) (string, *fault) {
	kustomize := kustomizationFile(seen, dir) != "" || anyOf(seen, dir, templateSuffix, kustomizationNames()) != ""
	chart := anyOf(seen, dir, "", []string{"Chart.yaml"}) != ""
	renderer := spec.Renderer
	if renderer == "" && spec.Helm != nil {
		renderer = rendererHelm
	}
	switch {
	case renderer == "" && kustomize && chart:
		return "", &fault{field: "spec.source.path", message: fmt.Sprintf("%q holds both a kustomization and a chart", dir), fix: "say which with renderer: kustomize or renderer: helm"}
	case renderer == rendererKustomize && !kustomize:
		return "", &fault{field: "spec.source.path", message: fmt.Sprintf("no kustomization.yaml in %q", dir), fix: "correct the path or the renderer"}
	case renderer == rendererHelm && !chart && kustomize:
		return "", &fault{
			field: "spec.helm", message: fmt.Sprintf("%q is a kustomization, which takes no values of Helm", dir),
			fix: "take spec.helm and renderer: helm out; a kustomization varies by parameters in files that end in .tmpl, or by patches",
		}
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
func kustomizationFile(seen *view, dir string) string {
	return anyOf(seen, dir, "", kustomizationNames())
}

// anyOf is the path of the first of the files that is there, or "".
func anyOf(seen *view, dir, suffix string, names []string) string {
	for _, name := range names {
		file := path.Join(dir, name+suffix)
		if found, err := seen.find(file); err == nil && found.mode.IsRegular() {
			return file
		}
	}
	return ""
}
