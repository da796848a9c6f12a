package resolve

import (
	"errors"
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
	// large is the first file that is larger than will be read.
	large *scanFault
}

// scanFault is the first entry that no bundle can hold.
type scanFault struct {
	path string
	mode fs.FileMode
	err  error
}

// in is the fault as it is seen from a folder above; nil for none.
func (f *scanFault) in(name string) *scanFault {
	if f == nil {
		return nil
	}
	return &scanFault{path: path.Join(name, f.path), mode: f.mode, err: f.err}
}

func (f *scanFault) under(dir string) *fault {
	name := path.Join(dir, f.path)
	if limit := new(snapshot.LimitError); f.mode.IsRegular() && errors.As(f.err, &limit) {
		return tooLarge(name, limit)
	}
	if f.err != nil {
		return unreadable(fmt.Errorf("read %q: %w", name, f.err))
	}
	out := notPlain("spec.source.path", name, f.mode, "")
	out.file = name
	return out
}

// scan looks through a tree for submodules, symbolic links and files that are too large, and counts its entries.
func (r *Resolver) scan(snap *snapshot.Snapshot, name string, id snapshot.Hash, mode fs.FileMode) treeScan {
	switch {
	case mode.IsRegular():
		found := treeScan{entries: 1}
		if err := snap.TooLarge(id); err != nil {
			found.large = &scanFault{mode: mode, err: err}
		}
		return found
	case mode.Type() == fs.ModeSymlink:
		return treeScan{entries: 1, links: true}
	case !mode.IsDir():
		return treeScan{fault: &scanFault{mode: mode}}
	}
	if known, ok := r.trees.get(id); ok {
		return known
	}
	found := r.scanFolder(snap, name, id)
	if found.fault == nil && found.large == nil {
		r.trees.set(id, found)
	}
	return found
}

func (r *Resolver) scanFolder(snap *snapshot.Snapshot, name string, id snapshot.Hash) treeScan {
	if depth := strings.Count(name, "/"); depth > bundle.DefaultLimits().PathDepth {
		return treeScan{fault: &scanFault{err: fmt.Errorf("nested more than %d folders deep", bundle.DefaultLimits().PathDepth)}}
	}
	entries, err := snap.Tree(id)
	if err != nil {
		return treeScan{fault: &scanFault{err: err}}
	}
	total := treeScan{entries: 1}
	if total.filtered, err = r.filteredIn(snap, name); err != nil {
		return treeScan{fault: &scanFault{err: err}}
	}
	for _, e := range entries {
		scan := r.scan(snap, path.Join(name, e.Name), e.Hash, e.Mode)
		total.entries += scan.entries
		total.filtered = total.filtered || scan.filtered
		total.links = total.links || scan.links
		if total.large == nil {
			total.large = scan.large.in(e.Name)
		}
		if scan.fault != nil {
			total.fault = scan.fault.in(e.Name)
			return total
		}
		if total.entries > bundle.DefaultLimits().Entries {
			return total // whoever takes it whole refuses it; there is no need to count further
		}
	}
	return total
}
