package fleet

import (
	"cmp"
	"slices"
)

// Kind is git, helm or oci.
func (s *Source) Kind() string {
	switch {
	case s.Spec.Git != nil:
		return "git"
	case s.Spec.Helm != nil:
		return "helm"
	case s.Spec.OCI != nil:
		return "oci"
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
	}
	return ""
}

// Ref is what the upstream is asked for on behalf of a service whose files come from here: a ref of git, "CHART@RANGE", or
// a tag, range or digest of OCI.
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
		return chart + "@" + use.Ref
	case s.Spec.OCI != nil:
		return cmp.Or(use.Ref, s.Spec.OCI.Ref)
	}
	return use.Ref
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
