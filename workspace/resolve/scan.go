package resolve

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// bundleKey hashes the ids of the inputs, after a look for entries that no bundle can hold.
func (r *Resolver) bundleKey(snap *snapshot.Snapshot, inputs []string) (string, *fault) {
	list := make([]bundle.Input, len(inputs))
	total := 0
	for i, name := range inputs {
		id, mode, err := snap.Hash(name)
		if err != nil {
			return "", unreadable(err)
		}
		list[i] = bundle.Input{Path: name, Hash: string(id), Dir: mode.IsDir()}
		scan := r.scan(snap, name, id, mode)
		if scan.fault != nil {
			return "", scan.fault.under(name)
		}
		if f := r.checkPointers(snap, name, id, mode, scan); f != nil {
			return "", f
		}
		if total += scan.entries; total > bundle.DefaultLimits().Entries {
			return "", tooMany(name)
		}
	}
	return bundle.Key(list), nil
}

// treeScan is what one tree holds, at any depth. It depends on the tree alone, so paths are relative to it.
type treeScan struct {
	entries int
	// filtered says that attributes in it put files into Git LFS.
	filtered bool
	fault    *scanFault
}

// scanFault is the first entry that no bundle can hold.
type scanFault struct {
	path string
	mode fs.FileMode
	err  error
}

func (f *scanFault) under(dir string) *fault {
	name := path.Join(dir, f.path)
	if f.err != nil {
		return unreadable(fmt.Errorf("read %q: %w", name, f.err))
	}
	out := notPlain("spec.source.path", name, f.mode, "")
	out.file = name
	return out
}

// scan looks through a tree for symbolic links and submodules, and counts its entries.
func (r *Resolver) scan(snap *snapshot.Snapshot, name string, id snapshot.Hash, mode fs.FileMode) treeScan {
	switch {
	case mode.IsRegular():
		return treeScan{entries: 1}
	case !mode.IsDir():
		return treeScan{fault: &scanFault{mode: mode}}
	}
	if known, ok := r.trees.get(id); ok {
		return known
	}
	found := r.scanFolder(snap, name)
	if found.fault == nil {
		r.trees.set(id, found)
	}
	return found
}

func (r *Resolver) scanFolder(snap *snapshot.Snapshot, name string) treeScan {
	entries, err := fs.ReadDir(snap.FS(), name)
	if err != nil {
		return treeScan{fault: &scanFault{err: err}}
	}
	total := treeScan{entries: 1}
	if total.filtered, err = r.filteredIn(snap, name); err != nil {
		return treeScan{fault: &scanFault{err: err}}
	}
	for _, e := range entries {
		child := path.Join(name, e.Name())
		scan := treeScan{entries: 1}
		if e.IsDir() {
			scan = r.scanChild(snap, child)
		} else if !e.Type().IsRegular() {
			scan.fault = &scanFault{mode: e.Type()}
		}
		total.entries += scan.entries
		total.filtered = total.filtered || scan.filtered
		if scan.fault != nil {
			total.fault = &scanFault{path: path.Join(e.Name(), scan.fault.path), mode: scan.fault.mode, err: scan.fault.err}
			return total
		}
		if total.entries > bundle.DefaultLimits().Entries {
			return total // the caller refuses it; there is no need to count further
		}
	}
	return total
}

func (r *Resolver) scanChild(snap *snapshot.Snapshot, name string) treeScan {
	if depth := strings.Count(name, "/"); depth > bundle.DefaultLimits().PathDepth {
		return treeScan{fault: &scanFault{err: fmt.Errorf("nested more than %d folders deep", bundle.DefaultLimits().PathDepth)}}
	}
	id, mode, err := snap.Hash(name)
	if err != nil {
		return treeScan{fault: &scanFault{err: err}}
	}
	return r.scan(snap, name, id, mode)
}
