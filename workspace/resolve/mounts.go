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
	// Links are the paths of its repository that symbolic links in it lead to.
	Links []string
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
func (r *Resolver) addMounts(f *fleet.Fleet, d *Deployment, s *fleet.Service, src Sources) (*view, *Problem) {
	seen := &view{repo: d.Snapshot, sources: &remoteSources{fleet: f, service: s, all: src}}
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
		m.Links = found.links
		for _, warning := range found.warnings {
			d.Warnings = append(d.Warnings, fmt.Sprintf("mount at %s: %s", m.At, warning))
		}
		if found.graft != nil {
			m.Snapshot = snap.Grafted(found.graft)
		}
		at := m.At
		if found.file {
			at = path.Join(at, path.Base(name))
		}
		seen.mounts = append(seen.mounts, mountPoint{dir: m.At, at: at, snap: snap, path: name, bundle: found.bundle})
	}
	return seen, nil
}

// sortMounts makes one list of those in whatever order.
func sortMounts(list []Mount) {
	slices.SortFunc(list, func(a, b Mount) int { return cmp.Compare(a.At, b.At) })
}

// mountSet is all that the files of a mount depend on.
type mountSet struct {
	root snapshot.Hash
	path string
}

// mountFiles is what a mountSet leads to.
type mountFiles struct {
	picked
	file  bool
	fault *fault
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
	at, err := snap.Follow(name)
	var link *snapshot.LinkError
	switch {
	case err == nil && at.Mode.IsRegular():
	case err == nil && !at.Mode.IsDir():
		return mountFiles{fault: notPlain("", name, at.Mode, "name a folder or a file")}
	case errors.Is(err, fs.ErrNotExist):
		return mountFiles{fault: &fault{message: fmt.Sprintf("path %q does not exist", name), fix: "correct or remove it"}}
	case errors.As(err, &link):
		return mountFiles{fault: badLink(link)}
	case err != nil:
		return mountFiles{fault: unreadable(err)}
	default:
		if f := checkFolder(snap, name); f != nil {
			return mountFiles{fault: f}
		}
	}
	found, f := r.pick(snap, []string{name}, &selection{all: true}, reading{})
	return mountFiles{picked: found, file: at.Mode.IsRegular(), fault: f}
}
