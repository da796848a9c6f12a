package resolve

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// A file in Git LFS is a pointer in git: a few lines that say where the content is. To render one would be to render those
// lines. Whether a repository uses LFS is told by the word filter=lfs in a .gitattributes, and only below one are files
// looked into: nothing else costs a read.

const (
	attributesFile = ".gitattributes"
	// maxAttributes is more than anybody writes into a .gitattributes, in bytes.
	maxAttributes = 1 << 20
	// maxPointer is more than any pointer's size, in bytes.
	maxPointer = 1024
)

// checkPointers refuses inputs that are pointers. scan is what the input holds.
func (r *Resolver) checkPointers(snap *snapshot.Snapshot, name string, id snapshot.Hash, mode fs.FileMode, scan treeScan) *fault {
	filtered, err := r.filteredAbove(snap, name)
	if err != nil {
		return unreadable(err)
	}
	if !filtered && !scan.filtered {
		return nil
	}
	found, err := r.pointer(snap, name, id, mode, filtered)
	if err != nil {
		return unreadable(err)
	}
	if found == "" {
		return nil
	}
	return isPointer(path.Join(name, found))
}

// checkPointer refuses one file that is a pointer. Attributes above it say that it may be one.
func (r *Resolver) checkPointer(snap *snapshot.Snapshot, name string) *fault {
	found, err := pointerFile(snap, name)
	switch {
	case err != nil:
		return unreadable(err)
	case found != "":
		return isPointer(name)
	}
	return nil
}

func isPointer(name string) *fault {
	return &fault{
		field: "spec.source.path", file: name,
		message: fmt.Sprintf("%q is a Git LFS pointer, and its content is not fetched", name),
		fix:     "commit the file itself (git lfs untrack), or keep it outside of what the service reads",
	}
}

// filteredAbove says whether attributes in a folder above name put files into LFS.
func (r *Resolver) filteredAbove(snap *snapshot.Snapshot, name string) (bool, error) {
	for name != "." {
		name = path.Dir(name)
		if filtered, err := r.filteredIn(snap, name); err != nil || filtered {
			return filtered, err
		}
	}
	return false, nil
}

// filteredIn says whether the attributes in a folder put files into LFS.
func (r *Resolver) filteredIn(snap *snapshot.Snapshot, dir string) (bool, error) {
	name := path.Join(dir, attributesFile)
	id, mode, err := snap.Hash(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !mode.IsRegular() {
		return false, err
	}
	if known, ok := r.filters.get(id); ok {
		return known, nil
	}
	info, err := fs.Stat(snap.FS(), name)
	if err != nil || info.Size() > maxAttributes {
		return false, err
	}
	text, err := fs.ReadFile(snap.FS(), name)
	if err != nil {
		return false, err
	}
	filtered := false
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		filtered = filtered || len(words) > 1 && !strings.HasPrefix(words[0], "#") && slices.Contains(words[1:], "filter=lfs")
	}
	r.filters.set(id, filtered)
	return filtered, nil
}

// pointerSet names a tree, and whether attributes above it put files into LFS.
type pointerSet struct {
	id       snapshot.Hash
	filtered bool
}

// pointer is the path of the first pointer in a folder, seen from there; "." for a file that is one, empty for none.
func (r *Resolver) pointer(snap *snapshot.Snapshot, name string, id snapshot.Hash, mode fs.FileMode, filtered bool) (string, error) {
	if mode.IsRegular() {
		return pointerFile(snap, name)
	}
	set := pointerSet{id, filtered}
	if known, ok := r.pointers.get(set); ok {
		return known, nil
	}
	found, err := r.pointerInFolder(snap, name, filtered)
	if err == nil {
		r.pointers.set(set, found)
	}
	return found, err
}

func (r *Resolver) pointerInFolder(snap *snapshot.Snapshot, name string, filtered bool) (string, error) {
	entries, err := fs.ReadDir(snap.FS(), name)
	if err != nil {
		return "", err
	}
	if !filtered {
		if filtered, err = r.filteredIn(snap, name); err != nil {
			return "", err
		}
	}
	for _, e := range entries {
		child := path.Join(name, e.Name())
		id, mode, err := snap.Hash(child)
		if err != nil {
			return "", err
		}
		if !filtered && !r.scan(snap, child, id, mode).filtered {
			continue
		}
		if found, err := r.pointer(snap, child, id, mode, filtered); err != nil || found != "" {
			return path.Join(e.Name(), found), err
		}
	}
	return "", nil
}

func pointerFile(snap *snapshot.Snapshot, name string) (string, error) {
	info, err := fs.Stat(snap.FS(), name)
	if err != nil || info.Size() >= maxPointer {
		return "", err
	}
	data, err := fs.ReadFile(snap.FS(), name)
	if err != nil || !bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")) {
		return "", err
	}
	return ".", nil
}
