// Package treediff owns the comparison of two git trees, with a bound.
//
// It refuses to know where trees are kept, and what their files mean.
//
// Compare goes down both trees side by side and tells each file that is not the same in both. Folders of the same hash are not read.
// Objects of a kilobyte can be a file under more paths than anybody can walk, so every name that differs counts, wherever it lies.
package treediff

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// Bounds of one comparison.
const (
	// maxEntries is how many files and folders that differ are met.
	maxEntries = 500_000
	// maxDepth is how deep folders may be nested.
	maxDepth = 256
	// maxChanges is how many changes List keeps.
	maxChanges = 100_000
	// maxRecent is how many files and folders a Reader remembers, those of the trees that it read last.
	maxRecent = 200_000
)

// TooManyError says that two trees differ in more than will be compared.
type TooManyError struct {
	// At is where counting stopped.
	At string
	// Most is how many files and folders may differ.
	Most int
}

// Error names the place.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("more than %d files and folders differ, or are nested more than %d deep, counted at %.300q", e.Most, maxDepth, e.At)
}

// Fix says what to do about it. There may be none for who only asks what a commit was that is there already.
func (e *TooManyError) Fix() string {
	return "take out what does not belong there: a folder counts wherever it lies"
}

// Tree is one of the two that are compared. The zero value has no files.
type Tree struct {
	Root plumbing.Hash
	// Read gives what a folder holds. It is not changed.
	Read func(plumbing.Hash) ([]object.TreeEntry, error)
}

// Reader reads trees of a repository for Tree, and remembers those that it read last: one folder may lie at many paths, and in many
// commits. It must not be used concurrently.
func Reader(objects storer.EncodedObjectStorer) func(plumbing.Hash) ([]object.TreeEntry, error) {
	recent, held := map[plumbing.Hash][]object.TreeEntry{}, 0
	return func(id plumbing.Hash) ([]object.TreeEntry, error) {
		if known, ok := recent[id]; ok {
			return known, nil
		}
		tree, err := object.GetTree(objects, id)
		if err != nil {
			return nil, fmt.Errorf("read tree %s: %w", id, err)
		}
		size := len(tree.Entries) + 1 // an empty one is remembered, too
		if held += size; held > maxRecent {
			clear(recent)
			held = size
		}
		recent[id] = tree.Entries
		return tree.Entries, nil
	}
}

// Scope says of a path whether anything there is meant, and whether all of it is. Nil: everything is.
type Scope func(path string) (some, all bool)

// File is what git keeps at a path; the zero value is nothing. A folder is no file.
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

// Change is one file that is not the same in two trees.
type Change struct {
	Path          string
	Before, After File
}

// Compare tells each file of a scope that differs, sorted by name within each folder. It ends with the context, with the first error
// of each, and with a *TooManyError.
func Compare(ctx context.Context, before, after Tree, scope Scope, each func(Change) error) error {
	c := comparison{before: before, after: after, scope: scope, each: each}
	return c.folder(ctx, before.Root, after.Root, "", 0)
}

// List is Compare for those who need all changes at once.
func List(ctx context.Context, before, after Tree, scope Scope) ([]Change, error) {
	var list []Change
	err := Compare(ctx, before, after, scope, func(c Change) error {
		if len(list) == maxChanges {
			return &TooManyError{At: c.Path, Most: maxChanges}
		}
		list = append(list, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

type comparison struct {
	before, after Tree
	scope         Scope
	each          func(Change) error
	met           int
}

// folder compares what two folders hold; the zero hash is none.
func (c *comparison) folder(ctx context.Context, old, now plumbing.Hash, prefix string, depth int) error {
	if old == now {
		return nil
	}
	had, err := read(c.before, old)
	if err != nil {
		return err
	}
	has, err := read(c.after, now)
	if err != nil {
		return err
	}
	for _, p := range pairs(had, has) {
		if err := c.pair(ctx, p, prefix+p.name, depth); err != nil {
			return err
		}
	}
	return nil
}

func read(t Tree, id plumbing.Hash) ([]object.TreeEntry, error) {
	if id.IsZero() {
		return nil, nil
	}
	return t.Read(id)
}

// pair is what two folders have under one name; the zero entry is nothing.
type pair struct {
	name          string
	before, after object.TreeEntry
}

// pairs are the names under which two folders have not the same, sorted.
func pairs(before, after []object.TreeEntry) []pair {
	had := make(map[string]object.TreeEntry, len(before))
	for _, e := range before {
		had[e.Name] = e
	}
	var list []pair
	for _, e := range after {
		was := had[e.Name]
		delete(had, e.Name)
		if was != e {
			list = append(list, pair{e.Name, was, e})
		}
	}
	for name, e := range had {
		list = append(list, pair{name: name, before: e})
	}
	slices.SortFunc(list, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	return list
}

func (c *comparison) pair(ctx context.Context, p pair, path string, depth int) error {
	some, all := true, true
	if c.scope != nil {
		some, all = c.scope(path)
	}
	if !some {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.met++; c.met > maxEntries || depth > maxDepth {
		return &TooManyError{At: path, Most: maxEntries}
	}
	oldTree, oldFile := split(p.before)
	nowTree, nowFile := split(p.after)
	if all && oldFile != nowFile {
		if err := c.each(Change{path, oldFile, nowFile}); err != nil {
			return err
		}
	}
	return c.folder(ctx, oldTree, nowTree, path+"/", depth+1)
}

// split tells a folder from a file.
func split(e object.TreeEntry) (tree plumbing.Hash, file File) {
	if e.Mode == filemode.Dir {
		return e.Hash, File{}
	}
	return plumbing.ZeroHash, File{e.Hash, e.Mode}
}
