package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Mount is a folder or a file of another repository.
type Mount struct {
	// At is the folder in which it is seen, relative to the root of the service's repository: the mounted folder is At, a
	// mounted file is in it.
	At string
	// Bundle is the key of the archive that holds Inputs.
	Bundle string
	// Inputs is the one folder or file, relative to the root of its own repository.
	Inputs []string
	// OwnRepository says that it comes from the installation repo, so that sealed files in it may be opened.
	OwnRepository bool
	Source, Ref   string
	// Commit is what Snapshot was taken of; empty for a work tree.
	Commit string
	// Snapshot is where to pack Inputs from.
	Snapshot *snapshot.Snapshot
}

// mountOf is what a service's file says of a mount by itself.
func mountOf(f *fleet.Fleet, m *fleet.Mount) Mount {
	out := Mount{At: path.Clean(m.At), Source: m.Source.Name, Ref: m.Source.Ref, OwnRepository: m.Source.Name == ""}
	if source, ok := f.Source(out.Source); ok {
		out.Ref = source.MountRef(m)
	}
	return out
}

// addMounts finds what is mounted, and gives the view that it is part of.
func (r *Resolver) addMounts(d *Deployment, s *fleet.Service, src Sources) (*view, *Problem) {
	seen := &view{repo: d.Snapshot}
	for i := range d.Mounts {
		m := &d.Mounts[i]
		snap, err := src.Snapshot(m.Source, m.Ref)
		if err != nil {
			return nil, sourceProblem(s, m.Source, fmt.Sprintf("spec.mounts[%d].source.name", i), err)
		}
		name := path.Clean(s.Spec.Mounts[i].Source.Path)
		found := r.mountFilesOf(snap, name)
		if found.fault != nil {
			return nil, found.fault.inMount(i).problem(s)
		}
		m.Snapshot, m.Commit, m.Bundle, m.Inputs = snap, snap.Commit().ID, found.bundle, []string{name}
		at := m.At
		if found.file {
			at = path.Join(at, path.Base(name))
		}
		seen.mounts = append(seen.mounts, mountPoint{dir: m.At, at: at, snap: snap, path: name, bundle: found.bundle})
	}
	slices.SortFunc(d.Mounts, func(a, b Mount) int { return cmp.Compare(a.At, b.At) }) // their order means nothing
	return seen, nil
}

// mountSet is all that the files of a mount depend on.
type mountSet struct {
	root snapshot.Hash
	path string
}

// mountFiles is what a mountSet leads to.
type mountFiles struct {
	bundle string
	file   bool
	fault  *fault
}

// mountFilesOf computes or remembers the files of a mount.
func (r *Resolver) mountFilesOf(snap *snapshot.Snapshot, name string) mountFiles {
	root, _, err := snap.Hash(".")
	if err != nil {
		return mountFiles{fault: unreadable(err)}
	}
	set := mountSet{root, name}
	found, ok := r.mounts.get(set)
	if !ok {
		found = r.findMountFiles(snap, name)
		if found.fault == nil || !found.fault.unread {
			r.mounts.set(set, found)
		}
	}
	return found
}

func (r *Resolver) findMountFiles(snap *snapshot.Snapshot, name string) mountFiles {
	_, mode, err := snap.Hash(name)
	switch {
	case err == nil && mode.IsRegular():
	case err == nil && !mode.IsDir():
		return mountFiles{fault: notPlain("", name, mode, "name a folder or a file")}
	case errors.Is(err, fs.ErrNotExist):
		return mountFiles{fault: &fault{message: fmt.Sprintf("path %q does not exist", name), fix: "correct or remove it"}}
	case err != nil:
		return mountFiles{fault: unreadable(err)}
	default:
		if f := checkFolder(snap, name); f != nil {
			return mountFiles{fault: f}
		}
	}
	key, f := r.bundleKey(snap, []string{name})
	return mountFiles{bundle: key, file: mode.IsRegular(), fault: f}
}
