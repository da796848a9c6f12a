package workspace

import (
	"fmt"
	"path"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// Bounds of one comparison. Objects of a kilobyte can be a file under more paths than anybody can walk.
const (
	// maxDiffering is how many files and folders that differ are met, over and over where one of them lies at several paths.
	maxDiffering = 500_000
	maxDepth     = 256
)

// differing are the files that are not the same in two trees, as they are in the later one. A tree that is nil has none.
func differing(s storer.EncodedObjectStorer, old, now *object.Tree) (map[string]entry, error) {
	d := difference{objects: s, files: map[string]entry{}}
	return d.files, d.folder(old, now, "", 0)
}

type difference struct {
	objects storer.EncodedObjectStorer
	files   map[string]entry
	met     int
}

// folder compares what two folders hold.
func (d *difference) folder(old, now *object.Tree, at string, depth int) error {
	had := map[string]object.TreeEntry{}
	if old != nil {
		for _, e := range old.Entries {
			had[e.Name] = e
		}
	}
	if now != nil {
		for _, e := range now.Entries {
			was := had[e.Name]
			delete(had, e.Name)
			if err := d.pair(was, e, path.Join(at, e.Name), depth); err != nil {
				return err
			}
		}
	}
	for name, was := range had {
		if err := d.pair(was, object.TreeEntry{}, path.Join(at, name), depth); err != nil {
			return err
		}
	}
	return nil
}

// pair compares what two folders hold under one name; the zero entry is nothing.
func (d *difference) pair(was, is object.TreeEntry, at string, depth int) error {
	if was.Hash == is.Hash && was.Mode == is.Mode {
		return nil
	}
	if d.met++; d.met > maxDiffering || depth > maxDepth {
		return fmt.Errorf("more than %d files and folders, or nested more than %d deep, counted at %.300q", maxDiffering, maxDepth, at)
	}
	before, err := subtree(d.objects, was)
	if err != nil {
		return err
	}
	after, err := subtree(d.objects, is)
	if err != nil {
		return err
	}
	if was.Hash != plumbing.ZeroHash && before == nil {
		d.files[at] = entry{}
	}
	if is.Hash != plumbing.ZeroHash && after == nil {
		d.files[at] = entry{is.Hash, is.Mode}
	}
	if before == nil && after == nil {
		return nil
	}
	return d.folder(before, after, at, depth+1)
}
