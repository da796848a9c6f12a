// Package groups owns .plural/groups and .plural/members: which groups a repository has and who can reach their keys.
//
// It refuses to know where a person's identities are kept, which paths are sealed for which group, and how changes become
// commits: identities come in ready to use, changes go out as file contents.
//
// A group is an age identity. Its public half stands in recipient.txt; its private half is sealed to each member in an
// envelope, a small sealed file that is bound to its own path. Load reads names and public keys, never an envelope. A
// Keyring opens envelopes when it is asked for a group: with a person's identity, or with that of a group that is itself
// a member. Create, Add and Rotate make new envelopes and return them as Changes.
package groups

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/internal/overlay"
)

// Bounds of what Load reads. They are far above what repositories need.
const (
	MaxGroups  = 1_000
	MaxPeople  = 10_000
	MaxMembers = 100_000 // of one group
)

// Set is the groups and people of one state of a repository. It does not change.
type Set struct {
	files  fs.FS
	names  []string // sorted
	groups map[string]*Group
	people []KeyHolder // sorted by name
	// owners are the people that have a public key, by its text.
	owners map[string][]string
	// within are the groups that have a group as a direct member, by its name, sorted.
	within map[string][]string
}

// Group is one group as it stands. It is not to be changed.
type Group struct {
	Name string
	// Epoch counts the group's identities from 1: each rotation makes the next.
	Epoch int
	// Recipient is the public half, of the kind keys.Age or keys.AgePQ.
	Recipient keys.Recipient
	// Members are those with an envelope of their own, sorted: people first, then clusters, then groups.
	Members []Member
}

// KeyHolder is a person, or a machine that is treated as one: CI, the hub.
type KeyHolder struct {
	Name string
	// Comment is what the comment lines of the file say, without their marks.
	Comment string
	// Keys are one or more public keys. Whoever has one of the private halves reads what the person can read.
	Keys []keys.Recipient
}

// Changes are new contents of files by path from the repository's root. Nil takes the file away.
type Changes map[string][]byte

// ClusterKey gives the age recipient of a cluster, "age1...".
type ClusterKey func(cluster string) (string, error)

// With is the set as it will be after changes.
func (s *Set) With(changes Changes) (*Set, error) {
	return Load(overlay.New(s.files, changes))
}

// Names are the groups' names, sorted.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Group finds a group by its name.
func (s *Set) Group(name string) (*Group, bool) {
	g, ok := s.groups[name]
	return g, ok
}

// People are all who have a file in .plural/members, sorted by name.
func (s *Set) People() []KeyHolder { return slices.Clone(s.people) }

// Person finds one of the people by name.
func (s *Set) Person(name string) (KeyHolder, bool) {
	at, ok := slices.BinarySearchFunc(s.people, name, func(p KeyHolder, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return KeyHolder{}, false
	}
	return s.people[at], true
}

// GroupsOf are the groups that m can read, directly or because a group that it can read is a member; sorted.
func (s *Set) GroupsOf(m Member) []string {
	var reached []string
	for _, name := range s.names {
		if s.groups[name].Has(m) {
			reached = append(reached, name)
		}
	}
	return s.closure(reached)
}

// closure adds to names the groups that contain them, at any distance; sorted.
func (s *Set) closure(names []string) []string {
	seen := map[string]bool{}
	var all []string
	for queue := slices.Clone(names); len(queue) > 0; queue = queue[1:] {
		if name := queue[0]; !seen[name] {
			seen[name] = true
			all = append(all, name)
			queue = append(queue, s.within[name]...)
		}
	}
	slices.Sort(all)
	return all
}

// ReadersOf are the people and clusters that can read what is sealed for a group, directly or through groups; sorted.
func (s *Set) ReadersOf(group string) []Member {
	seen := map[string]bool{}
	var readers []Member
	for queue := []string{group}; len(queue) > 0; queue = queue[1:] {
		g, ok := s.groups[queue[0]]
		if !ok || seen[g.Name] {
			continue
		}
		seen[g.Name] = true
		for _, m := range g.Members {
			if m.Kind == Subgroup {
				queue = append(queue, m.Name)
				continue
			}
			readers = append(readers, m)
		}
	}
	slices.SortFunc(readers, compareMembers)
	return slices.Compact(readers)
}

// Has says whether m has an envelope of the group.
func (g *Group) Has(m Member) bool {
	_, ok := slices.BinarySearchFunc(g.Members, m, compareMembers)
	return ok
}
