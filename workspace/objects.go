package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/treediff"
)

// entry is a file in a tree; the zero hash means that it is gone.
type entry struct {
	hash plumbing.Hash
	mode filemode.FileMode
}

// writeBlob stores text and names it.
func writeBlob(s storer.EncodedObjectStorer, text []byte) (plumbing.Hash, error) {
	obj := s.NewEncodedObject()
	obj.SetType(plumbing.BlobObject)
	w, err := obj.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := w.Write(text); err != nil {
		return plumbing.ZeroHash, err
	}
	if err := w.Close(); err != nil {
		return plumbing.ZeroHash, err
	}
	return s.SetEncodedObject(obj)
}

// readBlob is what git keeps of the file at path, at most maxFile bytes.
func readBlob(s storer.EncodedObjectStorer, path string, hash plumbing.Hash) ([]byte, error) {
	blob, err := object.GetBlob(s, hash)
	if err != nil {
		return nil, fmt.Errorf("read %q, blob %s: %w", path, hash, err)
	}
	if blob.Size > maxFile {
		return nil, tooLarge(path)
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, fmt.Errorf("read %q, blob %s: %w", path, hash, err)
	}
	defer r.Close()
	return io.ReadAll(r)
}

// find is the file at path in tree; ok is false when there is none. A nil tree is empty.
func find(tree *object.Tree, path string) (e entry, ok bool, err error) {
	if tree == nil {
		return entry{}, false, nil
	}
	if err := snapshot.CheckPath(path); err != nil { // of which go-git has only words
		return entry{}, false, err
	}
	found, err := tree.FindEntry(path)
	switch {
	case errors.Is(err, object.ErrEntryNotFound) || errors.Is(err, object.ErrDirectoryNotFound):
		return entry{}, false, nil
	case err != nil:
		return entry{}, false, fmt.Errorf("look up %q: %w", path, err)
	}
	return entry{found.Hash, found.Mode}, true, nil
}

// differing tells each file that is not the same in two trees, as it is in the later one. A tree that is nil has none.
func differing(ctx context.Context, s storer.EncodedObjectStorer, old, now *object.Tree, each func(path string, e entry) error) error {
	read := treediff.Reader(s)
	side := func(t *object.Tree) treediff.Tree {
		if t == nil {
			return treediff.Tree{}
		}
		return treediff.Tree{Root: t.Hash, Read: read}
	}
	return treediff.Compare(ctx, side(old), side(now), nil, func(c treediff.Change) error {
		return each(c.Path, entry{c.After.Hash, c.After.Mode})
	})
}

// writeTree stores base with files put into it, and names it. Folders that become empty vanish.
func writeTree(s storer.EncodedObjectStorer, base *object.Tree, files map[string]entry) (plumbing.Hash, error) {
	entries := map[string]object.TreeEntry{}
	if base != nil {
		for _, e := range base.Entries {
			entries[e.Name] = e
		}
	}
	folders := map[string]map[string]entry{}
	for path, e := range files {
		name, rest, nested := strings.Cut(path, "/")
		switch {
		case nested && folders[name] == nil:
			folders[name] = map[string]entry{rest: e}
		case nested:
			folders[name][rest] = e
		case e.hash.IsZero():
			delete(entries, name)
		default:
			entries[name] = object.TreeEntry{Name: name, Mode: e.mode, Hash: e.hash}
		}
	}
	for name, inside := range folders {
		below, err := subtree(s, entries[name])
		if err != nil {
			return plumbing.ZeroHash, err
		}
		hash, err := writeTree(s, below, inside)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		delete(entries, name)
		if hash != emptyTree() {
			entries[name] = object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: hash}
		}
	}
	return storeTree(s, entries)
}

func subtree(s storer.EncodedObjectStorer, e object.TreeEntry) (*object.Tree, error) {
	if e.Mode != filemode.Dir {
		return nil, nil
	}
	tree, err := object.GetTree(s, e.Hash)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", e.Hash, err)
	}
	return tree, nil
}

func storeTree(s storer.EncodedObjectStorer, entries map[string]object.TreeEntry) (plumbing.Hash, error) {
	tree := &object.Tree{}
	for _, e := range entries {
		tree.Entries = append(tree.Entries, e)
	}
	slices.SortFunc(tree.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	obj := s.NewEncodedObject()
	if err := tree.Encode(obj); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("encode tree: %w", err)
	}
	return s.SetEncodedObject(obj)
}

// sortName is what git sorts an entry by: folders as if they ended in a slash.
func sortName(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// emptyTree is the name of a tree without entries.
func emptyTree() plumbing.Hash {
	return plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
}
