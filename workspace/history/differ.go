package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	// maxChanges bounds how many files of one comparison are kept in memory, maxDepth how deep folders are followed, and maxPairs
	// how many files and folders that differ are met, over and over where one of them lies at several paths.
	maxChanges = 100_000
	maxDepth   = 256
	maxPairs   = 500_000
	// mostTrees is how many trees are remembered: those of a commit are the ones that the next is compared with.
	mostTrees = 256
)

// Change is one file that is not the same in two commits.
type Change struct {
	Path          string
	Before, After File
}

// File is what git keeps at a path; the zero value is nothing.
type File struct {
	Hash plumbing.Hash
	Mode filemode.FileMode
}

// Exists says whether there is anything.
func (f File) Exists() bool { return !f.Hash.IsZero() }

// Plain says whether it is a file with content, and not a link or another repository.
func (f File) Plain() bool {
	return f.Mode == filemode.Regular || f.Mode == filemode.Executable || f.Mode == filemode.Deprecated
}

// recent are trees that were read last.
type recent map[plumbing.Hash][]object.TreeEntry

func (l *Log) tree(id plumbing.Hash) ([]object.TreeEntry, error) {
	if id.IsZero() {
		return nil, nil
	}
	if known, ok := l.trees[id]; ok {
		return known, nil
	}
	found, err := object.GetTree(l.objects, id)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", id, err)
	}
	if len(l.trees) >= mostTrees {
		clear(l.trees)
	}
	l.trees[id] = found.Entries
	return found.Entries, nil
}

// differ tells each of the files of a scope that are not the same in two trees, by path. Folders that are the same are not read.
func (l *Log) differ(old, now plumbing.Hash, scope Scope, each func(Change) error) error {
	c := comparison{Log: l, each: each}
	return c.folder(old, now, scope.root, "", 0)
}

// errTooMuch means that two trees differ in more than will be looked at.
var errTooMuch = fmt.Errorf("more than %d files and folders differ", maxPairs)

// comparison is that of two trees.
type comparison struct {
	*Log
	each func(Change) error
	met  int
}

func (c *comparison) folder(old, now plumbing.Hash, in *node, prefix string, depth int) error {
	if old == now {
		return nil
	}
	if depth > maxDepth {
		return fmt.Errorf("folder %q: folders are nested more than %d deep", prefix, maxDepth)
	}
	before, err := c.tree(old)
	if err != nil {
		return err
	}
	after, err := c.tree(now)
	if err != nil {
		return err
	}
	for _, p := range pairs(before, after) {
		inner, ok := in.below(p.name)
		if !ok {
			continue
		}
		if c.met++; c.met > maxPairs {
			return fmt.Errorf("folder %.300q: %w", prefix, errTooMuch)
		}
		if err := c.pair(p, inner, prefix+p.name, depth); err != nil {
			return err
		}
	}
	return nil
}

// pair compares what two folders have under one name.
func (c *comparison) pair(p pairOf, in *node, path string, depth int) error {
	oldTree, oldFile := split(p.before)
	nowTree, nowFile := split(p.after)
	if !in.whole() { // only what lies deeper is meant
		oldFile, nowFile = File{}, File{}
	}
	if oldFile != nowFile {
		if err := c.each(Change{path, oldFile, nowFile}); err != nil {
			return err
		}
	}
	return c.folder(oldTree, nowTree, in, path+"/", depth+1)
}

// split tells a folder from a file.
func split(e object.TreeEntry) (tree plumbing.Hash, file File) {
	if e.Mode == filemode.Dir {
		return e.Hash, File{}
	}
	return plumbing.ZeroHash, File{e.Hash, e.Mode}
}

// pairOf is what two folders have under one name; the zero entry is nothing.
type pairOf struct {
	name          string
	before, after object.TreeEntry
}

// pairs are the names under which two folders have not the same, sorted.
func pairs(before, after []object.TreeEntry) []pairOf {
	had := make(map[string]object.TreeEntry, len(before))
	for _, e := range before {
		had[e.Name] = e
	}
	var list []pairOf
	for _, e := range after {
		was, ok := had[e.Name]
		delete(had, e.Name)
		if !ok || was.Hash != e.Hash || was.Mode != e.Mode {
			list = append(list, pairOf{e.Name, was, e})
		}
	}
	for name, e := range had {
		list = append(list, pairOf{name: name, before: e})
	}
	slices.SortFunc(list, func(a, b pairOf) int { return strings.Compare(a.name, b.name) })
	return list
}
