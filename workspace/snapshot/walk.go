package snapshot

import (
	"fmt"
	"io/fs"
	"path"

	"github.com/go-git/go-git/v5/plumbing"
)

// MaxDepth is how deep folders may be nested.
const MaxDepth = 256

// Seen are objects that were visited, with their kinds.
type Seen map[plumbing.Hash]plumbing.ObjectType

// Walk visits a tree and everything below it that is not in seen, once each, and adds it all to seen when all of it was
// visited, and nothing otherwise. A missing object, a malformed tree and a tree beyond the limits are errors. Trees that
// hold themselves many times over cost no more than their number. Submodules' commits are passed over, and so are files that
// the store has left out for their size.
func (o *Objects) Walk(root Hash, seen Seen, visit func(Hash, plumbing.ObjectType) error) error {
	return o.WalkLacking(root, seen, visit, func(id Hash) error {
		if _, left := o.LeftOut(id); left {
			return nil
		}
		return plumbing.ErrObjectNotFound
	})
}

// WalkLacking is Walk that asks absent about each file which is not here: its error ends the walk.
func (o *Objects) WalkLacking(root Hash, seen Seen, visit func(Hash, plumbing.ObjectType) error, absent func(Hash) error) error {
	w := walk{o: o, seen: seen, visit: visit, absent: absent, todo: []folder{{root, ".", 0}}}
	for len(w.todo) > 0 {
		at := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if err := w.enter(at); err != nil {
			for _, id := range w.fresh {
				delete(seen, id)
			}
			return err
		}
	}
	return nil
}

type walk struct {
	o      *Objects
	seen   Seen
	fresh  []plumbing.Hash // what this walk has added to seen
	visit  func(Hash, plumbing.ObjectType) error
	absent func(Hash) error
	todo   []folder
}

// first says whether an object is visited for the first time.
func (w *walk) first(id Hash, kind plumbing.ObjectType) (bool, error) {
	hash := plumbing.NewHash(string(id))
	switch w.seen[hash] {
	case kind:
		return false, nil
	case plumbing.InvalidObject: // not seen
		w.seen[hash], w.fresh = kind, append(w.fresh, hash)
		return true, nil
	}
	return false, fmt.Errorf("object %s is both a file and a folder", id)
}

type folder struct {
	tree  Hash
	path  string
	depth int
}

func (w *walk) enter(at folder) error {
	if at.depth > MaxDepth {
		return &LimitError{What: "depth of folders", Size: int64(at.depth), Max: MaxDepth}
	}
	if first, err := w.first(at.tree, plumbing.TreeObject); !first {
		return err
	}
	entries, err := w.o.Tree(at.tree)
	if err != nil {
		return fmt.Errorf("folder %q: %w", at.path, err)
	}
	if err := w.visit(at.tree, plumbing.TreeObject); err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Mode.Type() {
		case fs.ModeDir:
			w.todo = append(w.todo, folder{e.Hash, path.Join(at.path, e.Name), at.depth + 1})
		case fs.ModeIrregular:
		default:
			if err := w.file(at, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walk) file(at folder, e Entry) error {
	if first, err := w.first(e.Hash, plumbing.BlobObject); !first {
		return err
	}
	if w.o.Has(e.Hash) {
		return w.visit(e.Hash, plumbing.BlobObject)
	}
	if err := w.absent(e.Hash); err != nil {
		return fmt.Errorf("file %q in folder %q: %w", e.Name, at.path, err)
	}
	return nil
}
