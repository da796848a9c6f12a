package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// side is a file in one of the two states; it is not there when mode is 0.
type side struct {
	hash snapshot.Hash
	mode fs.FileMode
}

// pair is a file that differs between the two states.
type pair struct {
	path          string
	before, after side
}

// differing lists the files that differ, sorted by path. before may be nil. Folders that hold the same are not looked into.
func differing(before, after *snapshot.Snapshot) ([]pair, error) {
	w := walker{before: before, after: after}
	err := w.walk(".", before != nil, true)
	return w.found, err
}

// maxEntries bounds the files and folders of both states that are met where they differ, over and over where one of them lies
// at several paths.
const maxEntries = 100_000

type walker struct {
	before, after *snapshot.Snapshot
	met           int
	found         []pair
}

// walk compares a folder that is there before, after, or both.
func (w *walker) walk(dir string, before, after bool) error {
	var names []string
	for snap, there := range map[*snapshot.Snapshot]bool{w.before: before, w.after: after} {
		if !there {
			continue
		}
		entries, err := fs.ReadDir(snap.FS(), dir)
		if err != nil {
			return fmt.Errorf("read folder %q: %w", dir, err)
		}
		if w.met += len(entries); w.met > maxEntries || strings.Count(dir, "/") > snapshot.MaxDepth {
			return fmt.Errorf("more than %d files and folders differ, or are nested too deep, counted at %.300q", maxEntries, dir)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := w.entry(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(name string) error {
	before, err := look(w.before, name)
	if err != nil {
		return err
	}
	after, err := look(w.after, name)
	if err != nil || before == after {
		return err
	}
	if before.mode.IsDir() || after.mode.IsDir() {
		if err := w.walk(name, before.mode.IsDir(), after.mode.IsDir()); err != nil {
			return err
		}
	}
	p := pair{path: name, before: before.file(), after: after.file()}
	if p.before != p.after {
		w.found = append(w.found, p)
	}
	return nil
}

// file is s unless it is a folder.
func (s side) file() side {
	if s.mode.IsDir() {
		return side{}
	}
	return s
}

// look is what is at a path; a snapshot that is nil holds nothing.
func look(snap *snapshot.Snapshot, name string) (side, error) {
	if snap == nil {
		return side{}, nil
	}
	hash, mode, err := snap.Hash(name)
	if errors.Is(err, fs.ErrNotExist) {
		return side{}, nil
	}
	return side{hash, mode}, err
}
