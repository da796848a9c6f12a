package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/yamlstrict"
)

// checkNames reports documents of one kind with the same name, at the later one.
func checkNames(f *Fleet, out *yamlstrict.Faults) {
	unique(f.Clusters, "cluster", out, func(c *Cluster) (string, Position) { return c.Metadata.Name, c.Position })
	unique(f.Sources, "source", out, func(s *Source) (string, Position) { return s.Metadata.Name, s.Position })
	unique(f.Services, "service", out, func(s *Service) (string, Position) { return s.Metadata.Name, s.Position })
	unique(f.Installations, "installation", out, func(i *Installation) (string, Position) { return i.Metadata.Name, i.Position })
	unique(f.Users, "user", out, func(u *User) (string, Position) { return u.Metadata.Name, u.Position })
	unique(f.Roles, "role", out, func(r *Role) (string, Position) { return r.Metadata.Name, r.Position })
	unique(f.RoleBindings, "role binding", out, func(b *RoleBinding) (string, Position) { return b.Metadata.Name, b.Position })
	unique(f.Providers, "provider", out, func(p *Provider) (string, Position) { return p.Metadata.Name, p.Position })
	unique(f.Federations, "federation", out, func(m *Federation) (string, Position) { return m.Metadata.Name, m.Position })
	unique(f.Applications, "application", out, func(a *Application) (string, Position) { return a.Metadata.Name, a.Position })
	unique(f.Sinks, "sink", out, func(s *Sink) (string, Position) { return s.Metadata.Name, s.Position })
	unique(f.Routes, "route", out, func(r *Route) (string, Position) { return r.Metadata.Name, r.Position })
}

func unique[T any](list []T, what string, out *yamlstrict.Faults, of func(*T) (string, Position)) {
	for i := 1; i < len(list); i++ {
		name, at := of(&list[i])
		before, first := of(&list[i-1])
		if name == before && name != "" {
			out.Add(at, "rename one of them", "a second %s named %s; the other is at %s", what, yamlstrict.Quote(name), first)
		}
	}
}

// known are the names that can be referred to, each list sorted.
type known struct{ clusters, sources, services, installations, users, roles, providers, sinks []string }

// checkReferences reports names that nothing in the fleet has, and uses of sources that do not fit their kind.
func checkReferences(f *Fleet, out *yamlstrict.Faults) {
	all := &known{
		clusters: names(f.Clusters, clusterName), sources: names(f.Sources, sourceName), services: names(f.Services, serviceName),
		installations: names(f.Installations, installationName),
		users:         names(f.Users, userName), roles: names(f.Roles, roleName), providers: names(f.Providers, providerName), sinks: names(f.Sinks, sinkName),
	}
	checkServices(f, all, out)
	checkPackages(f, all, out)
	checkAccess(f, all, out)
	checkIdentity(f, all, out)
	checkApplications(f, all, out)
	checkNotify(f, all, out)
}

func checkServices(f *Fleet, known *known, out *yamlstrict.Faults) {
	for i := range f.Services {
		s := &f.Services[i]
		chart := ""
		if s.Spec.Helm != nil {
			chart = s.Spec.Helm.Chart
		}
		checkPlugin(f, s, out)
		refer(s, "spec.source.name", "source", s.Spec.Source.Name, known.sources, out)
		checkUse(f, use{s, "spec.source", s.Spec.Source, "spec.helm.chart", chart}, out)
		for j, m := range s.Spec.Mounts {
			at := index("spec.mounts", j)
			refer(s, at+".source.name", "source", m.Source.Name, known.sources, out)
			checkUse(f, use{s, at + ".source", m.Source, at + ".chart", m.Chart}, out)
		}
		referAll(s, "spec.clusters.names", "cluster", s.Spec.Clusters.Names, known.clusters, out)
		for j, dep := range s.Spec.DependsOn {
			refer(s, index("spec.dependsOn", j)+".service", "service", dep.Service, known.services, out)
			checkVersioned(f, s, j, out)
		}
	}
}

// checkPlugin reports a renderer that is neither built in nor a plugin of the workspace.
func checkPlugin(f *Fleet, s *Service, out *yamlstrict.Faults) {
	name := s.Spec.Renderer
	known := builtins()
	for _, p := range f.Workspace.Spec.Plugins {
		if p.Name != "" && !slices.Contains(known, p.Name) {
			known = append(known, p.Name)
		}
	}
	if name == "" || slices.Contains(known, name) {
		return
	}
	fix := yamlstrict.DidYouMean(name, known, "renderers")
	if _, near := yamlstrict.Nearest(name, known); !near {
		fix = strings.TrimPrefix(fix+"; a plugin is declared as spec.plugins: [{name: ...}] in plural.yaml", "; ")
	}
	out.Add(s.Place("spec.renderer"), fix, "unknown renderer %s", yamlstrict.Quote(name))
}

// checkVersioned reports a wait for a version of what has none: files of the installation repo.
func checkVersioned(f *Fleet, s *Service, i int, out *yamlstrict.Faults) {
	dep := s.Spec.DependsOn[i]
	other, ok := f.Service(dep.Service)
	if !ok || dep.Version == "" || other.Spec.Source.Name != "" {
		return
	}
	out.Add(s.Place(index("spec.dependsOn", i)+".version"), "remove the version",
		"a version of %s is wanted, whose files come from this repository and have none", yamlstrict.Quote(dep.Service))
}

func names[T any](list []T, of func(*T) string) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = of(&list[i])
	}
	return all
}

// placed is a document that knows where its fields were written.
type placed interface{ Place(field string) Position }

// referAll refers to each of a list of names.
func referAll(d placed, path, what string, list, known []string, out *yamlstrict.Faults) {
	for i, name := range list {
		refer(d, index(path, i), what, name, known, out)
	}
}

// refer reports a name that is not in known, which is sorted.
func refer(d placed, path, what, name string, known []string, out *yamlstrict.Faults) {
	if _, ok := slices.BinarySearch(known, name); ok || name == "" {
		return
	}
	near := slices.DeleteFunc(slices.Clone(known), func(other string) bool { return siblings(name, other) })
	fix := yamlstrict.DidYouMean(name, known, what+"s")
	if _, slip := yamlstrict.Nearest(name, near); !slip && len(near) < len(known) {
		fix = "take it out there, or bring back what had that name"
	}
	out.Put(&yamlstrict.Error{
		Position: d.Place(path), Fix: fix, Missing: what + "/" + name,
		Message: fmt.Sprintf("%s refers to the %s %s, which does not exist", strings.TrimPrefix(path, "spec."), what, yamlstrict.Quote(name)),
	})
}

// siblings says whether two names differ in their numbers alone, as edge-1 and edge-2 do: one is no slip for the other.
func siblings(a, b string) bool {
	const digits = "0123456789"
	bare := func(name string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(digits, r) {
				return -1
			}
			return r
		}, name)
	}
	return bare(a) == bare(b) && a != b && bare(a) != a
}

// use is how a service reads a source.
type use struct {
	service *Service
	at      string // where source is written
	source  SourceRef
	chartAt string
	chart   string
}

// checkUse holds a use to the kind of its source. That of an unknown source, or of one with no upstream, cannot be told.
func checkUse(f *Fleet, u use, out *yamlstrict.Faults) {
	kind := "git" // the installation repo is one
	if u.source.Name != "" {
		source, ok := f.Source(u.source.Name)
		if !ok || source.Kind() == "" {
			return
		}
		kind = source.Kind()
		if source.Spec.Helm != nil {
			u.chart = cmp.Or(u.chart, source.Spec.Helm.Chart)
		}
	}
	if at := u.service.Place(u.at + ".path"); kind == "git" && u.source.Path == "" && !out.Has(at) {
		out.Add(u.service.Place(u.at), "add it", "missing field %s in %s", yamlstrict.Quote("path"), u.at)
	}
	u.checkChart(kind, out)
	u.checkRef(kind, out)
}

func (u use) checkChart(kind string, out *yamlstrict.Faults) {
	switch {
	case kind == "helm" && u.chart == "":
		fix := "add helm: {chart: NAME}"
		if u.chartAt != "spec.helm.chart" {
			fix = "add chart: NAME"
		}
		out.Add(u.service.Place(u.at+".name"), fix, "source %s is a Helm repository, and no chart is named", yamlstrict.Quote(u.source.Name))
	case kind == "helm" && !chartName().MatchString(u.chart):
		out.Add(u.service.Place(u.chartAt), "write its name alone; its version is the source's ref", "bad chart %s", yamlstrict.Quote(u.chart))
	case kind != "helm" && u.chart != "":
		out.Add(u.service.Place(u.chartAt), "remove it, and name the chart's folder as source.path", "chart %s, and the source is no Helm repository", yamlstrict.Quote(u.chart))
	}
}

func (u use) checkRef(kind string, out *yamlstrict.Faults) {
	at, ref := u.service.Place(u.at+".ref"), u.source.Ref
	switch {
	case u.source.Name == "" || ref == "":
	case kind == "git" && !isGitRef(ref):
		out.Add(at, gitRefFix, "bad ref %s", yamlstrict.Quote(ref))
	case kind == "helm" && !isRange(ref):
		out.Add(at, `write a version, or a range of versions such as "^1.2"`, "bad ref %s of a chart", yamlstrict.Quote(ref))
	case kind == "http":
		out.Add(at, "remove it", "ref of a file that has one state alone: source %s", yamlstrict.Quote(u.source.Name))
	case kind == "oci" && !isOCIRef(ref):
		out.Add(at, ociRefFix, "bad ref %s", yamlstrict.Quote(ref))
	}
}
