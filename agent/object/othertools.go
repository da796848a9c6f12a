package object

import "k8s.io/apimachinery/pkg/runtime/schema"

// Instead is what to do with an object by which Flux or Argo CD are told what to deploy: nothing reads it where they do not run. It
// is empty for all others.
func Instead(kind schema.GroupKind) string {
	const guide = "; docs/guide/moving.md has the commands"
	switch {
	case kind.Group == "helm.toolkit.fluxcd.io", kind.Group == "kustomize.toolkit.fluxcd.io",
		kind.Group == "argoproj.io" && (kind.Kind == "Application" || kind.Kind == "ApplicationSet"):
		return "write a service in its place, or install what reads it" + guide
	case kind.Group == "source.toolkit.fluxcd.io":
		return "write a source in its place, or install what reads it" + guide
	}
	return ""
}
