// Package policy owns .plural/seal.yaml: which paths of a repository are sealed for which groups.
//
// It refuses to know keys, members and git: a group is a name here, a path is what git lists, and a caller gives the
// text and stores the text.
//
// Load reads the text strictly and compiles its patterns. Match then answers for one path; Attributes says the same to
// git, in lines that select exactly the paths that Match selects. New, WithGroup and WithPattern write the text.
package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pluralsh/plural/internal/boundread"
)

// File is where the policy lies, relative to the repository's root.
const File = ".plural/seal.yaml"

// Bounds of one policy.
const (
	MaxFile     = 1 << 20 // bytes
	MaxPatterns = 1_000
	MaxGroups   = 1_000
)

// The header that every policy has.
const (
	apiVersion = "plural.sh/v1alpha1"
	kind       = "Seal"
	name       = "seal"
)

// ErrNone means that a repository has no seal.yaml: nothing in it is sealed.
var ErrNone = errors.New("no " + File)

// Policy is a seal.yaml that was read. It does not change.
type Policy struct {
	// Repository is the repository's identity: 32 hex digits that were made at random, once.
	Repository string
	// Groups are those whose clusters are picked by a selector, in the file's order.
	Groups []Group
	// Paths are the patterns in the file's order.
	Paths []Pattern

	// ranked are the patterns, the most specific first.
	ranked []ranked
}

// Group says which clusters belong to a group.
type Group struct {
	Name string
	// Clusters is nil when no selector picks clusters for the group.
	Clusters *Selector
	// Line is where the group stands in the file, from 1.
	Line int
}

// Pattern says for whom the files are sealed that it matches.
type Pattern struct {
	// Pattern is rooted at the repository's root: * ? and [a-z] match within a segment, ** matches whole segments, any
	// number of them, and at the end at least one.
	Pattern string
	// Groups are the names of one or more groups, in the file's order.
	Groups []string
	// Line is where the pattern stands in the file, from 1.
	Line int
}

// Load reads File from a repository's root. The error is ErrNone when there is no such file. What only looks like one, such as a link
// to a terminal, is not opened: it may never end.
func Load(fsys fs.FS) (*Policy, error) {
	text, err := boundread.File(fsys, File, MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// Parse reads the text of a seal.yaml. An unknown field, a key written twice, a value of the wrong kind, an alias: each
// is an error that names File and the line.
func Parse(text []byte) (*Policy, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("%s: the file is larger than %d MiB: join its patterns", File, MaxFile>>20)
	}
	root, err := parseDocument(text)
	if err != nil {
		return nil, err
	}
	p, err := decode(root)
	if err != nil {
		return nil, err
	}
	p.ranked = rank(p.Paths)
	return p, nil
}

// Match says for which groups the file at path is sealed, sorted by name, and whether it must be sealed at all. The path
// is relative to the repository's root, as git lists it. Of several patterns the most specific decides; an error names
// the two that are equally specific and name different groups, and the file must be sealed then all the same.
func (p *Policy) Match(path string) (groups []string, must bool, err error) {
	if err := checkPath(path); err != nil {
		return nil, false, err
	}
	if neverSealed(path) {
		return nil, false, nil
	}
	first := slices.IndexFunc(p.ranked, func(r ranked) bool { return r.glob.match(path) })
	if first < 0 {
		return nil, false, nil
	}
	best := p.ranked[first]
	for _, other := range p.ranked[first+1:] {
		if compareRank(best, other) != 0 {
			break
		}
		if other.glob.match(path) && !slices.Equal(other.groups, best.groups) {
			return nil, true, fmt.Errorf("%s:%d: the patterns %q and %q (line %d) are equally specific, both match %q and name different groups: give them the same groups, or write a pattern for this path",
				File, best.line, best.text, other.text, other.line, path)
		}
	}
	return slices.Clone(best.groups), true, nil
}

// GroupsOf are the groups whose selectors pick a cluster, sorted.
func (p *Policy) GroupsOf(cluster string, tags map[string]string) []string {
	var names []string
	for _, g := range p.Groups {
		if g.Clusters != nil && g.Clusters.Matches(cluster, tags) {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ranked is a pattern that is ready to match.
type ranked struct {
	glob   glob
	text   string
	groups []string // sorted, each once
	line   int
}

func rank(patterns []Pattern) []ranked {
	all := make([]ranked, len(patterns))
	for i, p := range patterns {
		groups := slices.Compact(slices.Sorted(slices.Values(p.Groups)))
		all[i] = ranked{glob: newGlob(p.Pattern), text: p.Pattern, groups: groups, line: p.Line}
	}
	slices.SortStableFunc(all, compareRank)
	return all
}

// compareRank is negative when a is more specific than b.
func compareRank(a, b ranked) int {
	return cmp.Or(
		cmp.Compare(b.glob.literalSegments, a.glob.literalSegments),
		cmp.Compare(b.glob.literals, a.glob.literals),
		compareBool(a.glob.crosses, b.glob.crosses),
		compareBool(a.glob.wild, b.glob.wild),
	)
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
