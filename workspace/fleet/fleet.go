// Package fleet owns the kinds that people write, strictly read.
//
// It refuses to know git, clusters' real state, and what the manifests behind a service say.
//
// Load walks an fs.FS that looks like the repository's root: plural.yaml, clusters/, sources/, services/, access/, notify/ and
// packages/. Every document goes through three steps, each of which collects its complaints instead of stopping at the first:
// bounds and strict decoding by the structs of kinds.go (internal/yamlstrict), and checks of single values. When all are read,
// names and references are checked across files. The result is a Fleet that nobody changes any more, or Errors, each with its
// place, its cause and what to write instead. Of other files only the presence counts, where a source names them.
package fleet

import (
	"cmp"
	"io/fs"
	"slices"
)

// Fleet is everything an installation repo says, each list sorted by name. It is immutable.
type Fleet struct {
	Workspace Workspace
	Clusters  []Cluster
	Sources   []Source
	Services  []Service
	// What the fleet has of packages.
	Installations []Installation
	// Who may do what, and what they are told.
	Users        []User
	Roles        []Role
	RoleBindings []RoleBinding
	Providers    []Provider
	Federations  []Federation
	Applications []Application
	Sinks        []Sink
	Routes       []Route
}

// Load reads the installation repo at the root of fsys. When people's input is to blame the error is an Errors;
// anything else comes from fsys.
func Load(fsys fs.FS) (*Fleet, error) {
	l := newLoader(fsys)
	if err := l.readAll(); err != nil {
		return nil, err
	}
	l.checkAgentKeys()
	f := &l.fleet
	f.sort()
	checkNames(f, &l.faults)
	checkReferences(f, &l.faults)
	checkCycles(f, &l.faults)
	if err := checkFiles(fsys, f, &l.faults); err != nil {
		return nil, err
	}
	if err := l.faults.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// LoadWorkspace reads plural.yaml alone: a mistake in another file must not keep anybody from asking the hub about it.
// Errors are those of Load.
func LoadWorkspace(fsys fs.FS) (*Workspace, error) {
	l := newLoader(fsys)
	if err := l.readWorkspace(); err != nil {
		return nil, err
	}
	if err := l.faults.Err(); err != nil {
		return nil, err
	}
	return &l.fleet.Workspace, nil
}

// Cluster finds a cluster by name. The result is shared: do not change it.
func (f *Fleet) Cluster(name string) (*Cluster, bool) {
	return find(f.Clusters, name, clusterName)
}

// Source finds a source by name. The result is shared: do not change it.
func (f *Fleet) Source(name string) (*Source, bool) {
	return find(f.Sources, name, sourceName)
}

// Orphans says whether what a service has on a cluster stays there, as nobody's, when the service goes.
func (f *Fleet) Orphans(s *Service) bool {
	return cmp.Or(s.Spec.Sync.OnDelete, f.Workspace.Spec.Defaults.Sync.OnDelete) == "orphan"
}

// Prunes says whether what a service does not render any more is deleted.
func (f *Fleet) Prunes(s *Service) bool {
	prune := cmp.Or(s.Spec.Sync.Prune, f.Workspace.Spec.Defaults.Sync.Prune)
	return prune == nil || *prune
}

// Service finds a service by name. The result is shared: do not change it.
func (f *Fleet) Service(name string) (*Service, bool) {
	return find(f.Services, name, serviceName)
}

// Installation finds an installation of a package by name. The result is shared: do not change it.
func (f *Fleet) Installation(name string) (*Installation, bool) {
	return find(f.Installations, name, installationName)
}

// User finds a user by name. The result is shared: do not change it.
func (f *Fleet) User(name string) (*User, bool) {
	return find(f.Users, name, userName)
}

// Role finds a role by name. The result is shared: do not change it.
func (f *Fleet) Role(name string) (*Role, bool) {
	return find(f.Roles, name, roleName)
}

// Application finds an application by name. The result is shared: do not change it.
func (f *Fleet) Application(name string) (*Application, bool) {
	return find(f.Applications, name, applicationName)
}

// Sink finds a sink by name. The result is shared: do not change it.
func (f *Fleet) Sink(name string) (*Sink, bool) {
	return find(f.Sinks, name, sinkName)
}

func (f *Fleet) sort() {
	sortBy(f.Clusters, clusterName)
	sortBy(f.Sources, sourceName)
	sortBy(f.Services, serviceName)
	sortBy(f.Installations, installationName)
	sortBy(f.Users, userName)
	sortBy(f.Roles, roleName)
	sortBy(f.RoleBindings, bindingName)
	sortBy(f.Providers, providerName)
	sortBy(f.Federations, federationName)
	sortBy(f.Applications, applicationName)
	sortBy(f.Sinks, sinkName)
	sortBy(f.Routes, routeName)
}

func clusterName(c *Cluster) string           { return c.Metadata.Name }
func sourceName(s *Source) string             { return s.Metadata.Name }
func serviceName(s *Service) string           { return s.Metadata.Name }
func installationName(i *Installation) string { return i.Metadata.Name }
func userName(u *User) string                 { return u.Metadata.Name }
func roleName(r *Role) string                 { return r.Metadata.Name }
func bindingName(b *RoleBinding) string       { return b.Metadata.Name }
func providerName(p *Provider) string         { return p.Metadata.Name }
func federationName(f *Federation) string     { return f.Metadata.Name }
func applicationName(a *Application) string   { return a.Metadata.Name }
func sinkName(s *Sink) string                 { return s.Metadata.Name }
func routeName(r *Route) string               { return r.Metadata.Name }

// sortBy keeps the order of reading among equals, so that a duplicate is reported at the later file.
func sortBy[T any](list []T, name func(*T) string) {
	if namesSorted(list, name) { // as people write many, and sorting would copy each
		return
	}
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(name(&a), name(&b)) })
}

func namesSorted[T any](list []T, name func(*T) string) bool {
	for i := 1; i < len(list); i++ {
		if name(&list[i-1]) > name(&list[i]) {
			return false
		}
	}
	return true
}

func find[T any](list []T, name string, of func(*T) string) (*T, bool) {
	i, ok := slices.BinarySearchFunc(list, name, func(e T, name string) int { return cmp.Compare(of(&e), name) })
	if !ok {
		return nil, false
	}
	return &list[i], true
}
