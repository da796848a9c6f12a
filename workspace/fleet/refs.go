package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/kustomizeurl"
)

// Kind is git, helm, oci or http.
func (s *Source) Kind() string {
	switch {
	case s.Spec.Git != nil:
		return "git"
	case s.Spec.Helm != nil:
		return "helm"
	case s.Spec.OCI != nil:
		return "oci"
	case s.Spec.HTTP != nil:
		return "http"
	}
	return ""
}

// URL is where the upstream is.
func (s *Source) URL() string {
	switch {
	case s.Spec.Git != nil:
		return s.Spec.Git.URL
	case s.Spec.Helm != nil:
		return s.Spec.Helm.URL
	case s.Spec.OCI != nil:
		return s.Spec.OCI.URL
	case s.Spec.HTTP != nil:
		return s.Spec.HTTP.URL
	}
	return ""
}

// Ref is what the upstream is asked for on behalf of a service whose files come from here: a ref of git, "CHART@RANGE", or
// a tag, range or digest of OCI. A file behind http has none.
func (s *Source) Ref(service *Service) string {
	chart := ""
	if service.Spec.Helm != nil {
		chart = service.Spec.Helm.Chart
	}
	return s.ref(service.Spec.Source, chart)
}

// MountRef is what the upstream is asked for on behalf of a mount.
func (s *Source) MountRef(m *Mount) string { return s.ref(m.Source, m.Chart) }

func (s *Source) ref(use SourceRef, chart string) string {
	switch {
	case s.Spec.Git != nil:
		return cmp.Or(use.Ref, s.Spec.Git.Ref)
	case s.Spec.Helm != nil:
		if chart == "" || chart == s.Spec.Helm.Chart {
			return s.Spec.Helm.Chart + "@" + cmp.Or(use.Ref, s.Spec.Helm.Ref)
		}
		return chart + "@" + use.Ref
	case s.Spec.OCI != nil:
		return cmp.Or(use.Ref, s.Spec.OCI.Ref)
	}
	return use.Ref
}

// Standing is the ref that is fetched although no service may name it: kustomizations name it, and what they say is read only
// when a service is resolved.
func (s *Source) Standing() (ref string, ok bool) {
	switch {
	case s.Spec.Helm != nil:
		ok = s.Spec.Helm.Chart != ""
	case s.Spec.OCI != nil:
		ok = s.Spec.OCI.Ref != ""
	default:
		ok = s.Kind() != ""
	}
	return s.ref(SourceRef{}, ""), ok
}

// AnyVersion is the ref of an OCI source that kustomizations name without a version.
const AnyVersion = "*"

// Remote is what a kustomization has to name to mean the source.
func (s *Source) Remote() (kustomizeurl.Remote, bool) {
	at := kustomizeurl.Remote{Kind: kustomizeurl.Kind(s.Kind()), URL: s.URL()}
	switch {
	case s.Spec.Git != nil:
		at.Ref = s.Spec.Git.Ref
	case s.Spec.Helm != nil:
		at.Chart, at.Ref = s.Spec.Helm.Chart, s.Spec.Helm.Ref
	case s.Spec.OCI != nil:
		at.Ref = strings.TrimPrefix(s.Spec.OCI.Ref, AnyVersion)
	}
	_, fetched := s.Standing()
	return at, fetched
}

// Remotes says whether kustomizations may name remotes at all.
func (w *Workspace) Remotes() bool {
	allowed := w.Spec.Kustomize.Remotes
	return allowed == nil || *allowed
}

// RemoteSource is the source that a kustomization means by an address: the first by name, where several are the same.
func (f *Fleet) RemoteSource(named kustomizeurl.Remote) (*Source, bool) {
	for i := range f.Sources {
		if at, fetched := f.Sources[i].Remote(); fetched && at.Same(named) {
			return &f.Sources[i], true
		}
	}
	return nil, false
}

// Reads lists the refs of a source that the service is made of, each once: its own files', then its mounts'.
func (s *Service) Reads(source *Source) []string {
	var refs []string
	if s.Spec.Source.Name == source.Metadata.Name {
		refs = append(refs, source.Ref(s))
	}
	for i := range s.Spec.Mounts {
		if m := &s.Spec.Mounts[i]; m.Source.Name == source.Metadata.Name {
			if ref := source.MountRef(m); !slices.Contains(refs, ref) {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}
