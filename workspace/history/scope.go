package history

import (
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Scope is a part of a repository: some files and folders. The zero value is all of it.
type Scope struct {
	root *node
}

// node is a folder on the way to what is meant, or, without anything below, what is meant itself. Nil is everything.
type node struct{ inside map[string]*node }

func (n *node) whole() bool { return n == nil || len(n.inside) == 0 }

// Paths is the scope of files and folders, by their slash-separated paths. "." is everything, and so is no path at all.
func Paths(paths ...string) Scope {
	if len(paths) == 0 {
		return Scope{}
	}
	root := &node{}
	// Short ones first: what lies in a folder that is meant as a whole is meant already.
	paths = slices.Clone(paths)
	slices.SortFunc(paths, func(a, b string) int { return len(path.Clean(a)) - len(path.Clean(b)) })
	for _, p := range paths {
		if p = path.Clean(p); p == "." {
			return Scope{}
		}
		root.add(strings.Split(p, "/"))
	}
	return Scope{root}
}

func (n *node) add(parts []string) {
	for _, part := range parts {
		next, ok := n.inside[part]
		switch {
		case ok && next.whole():
			return
		case !ok:
			if n.inside == nil {
				n.inside = map[string]*node{}
			}
			next = &node{}
			n.inside[part] = next
		}
		n = next
	}
}

// Holds says whether a file belongs to the scope.
func (s Scope) Holds(file string) bool {
	_, all := s.at(file)
	return all
}

// at says whether anything at a path is meant, and whether all of it is.
func (s Scope) at(path string) (some, all bool) {
	in := s.root
	for part := range strings.SplitSeq(path, "/") {
		if in.whole() {
			break
		}
		if in = in.inside[part]; in == nil {
			return false, false
		}
	}
	return true, in.whole()
}

// folders are those that a fleet is written in, with the files at its root.
func folders() []string {
	return []string{
		"plural.yaml", "plural.lock", ".plural", "clusters", "sources", "services", "packages", "rollouts", "access", "notify", "secrets",
	}
}

// Fleet is all that a fleet is made of: its own folders, with what its services read of the repository besides.
func Fleet(f *fleet.Fleet, src resolve.Sources) Scope {
	paths := folders()
	if f != nil {
		resolver := resolve.New()
		for i := range f.Services {
			paths = append(paths, reads(f, &f.Services[i], resolver, src)...)
		}
	}
	return Paths(paths...)
}

// Service is what one service is made of: its file, what it reads of the repository, the sealed files that it names. One that the
// fleet does not have, or no more, is looked for where its file would be.
func Service(f *fleet.Fleet, name string, src resolve.Sources) Scope {
	if f != nil {
		if s, ok := f.Service(name); ok {
			return Paths(reads(f, s, resolve.New(), src)...)
		}
	}
	return Paths("services/"+name+".yaml", "services/"+name+".yml")
}

// Reads are the paths that a service is made of.
func Reads(f *fleet.Fleet, s *fleet.Service, src resolve.Sources) []string {
	return reads(f, s, resolve.New(), src)
}

func reads(f *fleet.Fleet, s *fleet.Service, resolver *resolve.Resolver, src resolve.Sources) []string {
	paths := []string{s.Position.File}
	for _, secret := range s.Spec.Secrets {
		paths = append(paths, path.Clean(secret.From))
	}
	if s.Spec.Source.Name != "" {
		return paths
	}
	paths = append(paths, path.Clean(s.Spec.Source.Path))
	paths = append(paths, s.Spec.Include...)
	if s.Spec.Helm != nil {
		paths = append(paths, s.Spec.Helm.ValuesFiles...)
	}
	return append(paths, closure(f, s, resolver, src)...)
}

// closure is what the service's files refer to elsewhere in the repository, as far as that can be told.
func closure(f *fleet.Fleet, s *fleet.Service, resolver *resolve.Resolver, src resolve.Sources) []string {
	if src == nil {
		return nil
	}
	for i := range f.Clusters {
		if c := &f.Clusters[i]; s.Spec.Clusters.Matches(c) {
			alone := &fleet.Fleet{Workspace: f.Workspace, Sources: f.Sources, Services: []fleet.Service{*s}, Clusters: []fleet.Cluster{*c}}
			found, err := resolver.For(alone, c.Metadata.Name, src)
			if err != nil || len(found) == 0 {
				return nil
			}
			return append(slices.Clone(found[0].Inputs), found[0].Links...)
		}
	}
	return nil
}
