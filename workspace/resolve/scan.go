package resolve

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// treeScan is what one tree holds, at any depth. It depends on the tree alone, so paths are relative to it.
type treeScan struct {
	entries int
	// filtered says that attributes in it put files into Git LFS.
	filtered bool
	// links says that there are symbolic links in it.
	links bool
	fault *scanFault
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

// scan looks through a tree for submodules and symbolic links, and counts its entries.
func (r *Resolver) scan(snap *snapshot.Snapshot, name string, id snapshot.Hash, mode fs.FileMode) treeScan {
	switch {
	case mode.IsRegular():
		return treeScan{entries: 1}
	case mode.Type() == fs.ModeSymlink:
		return treeScan{entries: 1, links: true}
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
		var scan treeScan
		if e.IsDir() {
			scan = r.scanChild(snap, child)
		} else {
			scan = r.scan(snap, child, "", e.Type())
		}
		total.entries += scan.entries
		total.filtered = total.filtered || scan.filtered
		total.links = total.links || scan.links
		if scan.fault != nil {
			total.fault = &scanFault{path: path.Join(e.Name(), scan.fault.path), mode: scan.fault.mode, err: scan.fault.err}
			return total
		}
		if total.entries > bundle.DefaultLimits().Entries {
			return total // whoever takes it whole refuses it; there is no need to count further
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
