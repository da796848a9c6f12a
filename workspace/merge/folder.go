package merge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/pluralsh/plural/internal/boundwalk"
)

// Bounds of one folder. They keep a hostile package from filling the memory.
const (
	maxFiles = 20_000
	maxFile  = 16 << 20
	maxTotal = 256 << 20
)

// Folder merges every file of three folders: path by path, what theirs changed since base into ours. It returns what has to be
// written over ours, with nil for what has to be removed, and the names of files in conflict, sorted.
//
// A file that one side removed and the other changed is in conflict, and stays as whoever changed it has it; so is one that
// both sides added with different content, which is merged as if it had been empty before.
func Folder(base, ours, theirs fs.FS, labels Labels) (changes map[string][]byte, conflicts []string, err error) {
	var all [3]map[string][]byte
	for i, folder := range []fs.FS{base, ours, theirs} {
		if all[i], err = files(folder); err != nil {
			return nil, nil, err
		}
	}
	names := map[string]bool{}
	for _, folder := range all {
		for name := range folder {
			names[name] = true
		}
	}
	changes = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b, o, t := all[0][name], all[1][name], all[2][name]
		merged, conflict := file(b, o, t, labels)
		if (merged == nil) != (o == nil) || !bytes.Equal(merged, o) {
			changes[name] = merged
		}
		if conflict {
			conflicts = append(conflicts, name)
		}
	}
	return changes, conflicts, nil
}

// file merges one file; nil is one that is not there.
func file(base, ours, theirs []byte, labels Labels) (merged []byte, conflict bool) {
	switch {
	case equal(ours, theirs), equal(base, theirs):
		return ours, false
	case equal(base, ours):
		return theirs, false
	case ours == nil:
		return theirs, true
	case theirs == nil:
		return ours, true
	}
	merged, regions := Three(base, ours, theirs, labels)
	if merged == nil {
		merged = []byte{}
	}
	return merged, regions > 0
}

// equal says whether two files are the same, or both not there.
func equal(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// files reads every file of a folder; a folder that is not there has none.
func files(folder fs.FS) (map[string][]byte, error) {
	all, total := map[string][]byte{}, 0
	err := boundwalk.Dir(folder, ".", 2*maxFiles, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == "." && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("merge %q: it is not a regular file", name)
		case len(all) == maxFiles:
			return fmt.Errorf("merge: the folder holds more than %d files", maxFiles)
		}
		text, err := read(folder, name)
		if total += len(text); err == nil && total > maxTotal {
			err = fmt.Errorf("merge: the folder's files are larger than %d MiB together", maxTotal>>20)
		}
		all[name] = text
		return err
	})
	return all, err
}

// read is never nil for a file that is there.
func read(folder fs.FS, name string) ([]byte, error) {
	f, err := folder.Open(name)
	if err != nil {
		return nil, fmt.Errorf("merge: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("merge %q: %w", name, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("merge %q: it is larger than %d MiB", name, maxFile>>20)
	}
	return append([]byte{}, text...), nil
}
