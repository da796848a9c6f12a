package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// view is what a render will see: the service's repository, with what is mounted in it.
type view struct {
	repo   *snapshot.Snapshot
	mounts []mountPoint
	// exclusion is what of the repository is not seen.
	exclusion exclusion
	// sources are what kustomizations may name as remotes. Those that they do name are mounts after the service's own.
	sources *remoteSources
}

// mountPoint is one mount of a view.
type mountPoint struct {
	// dir is the folder that the service names; at is where the mounted folder or file itself is seen: dir, or in it.
	dir, at string
	// path is what is mounted, in the repository that snap is of.
	snap *snapshot.Snapshot
	path string
	// bundle is the key of its archive, which says all that path holds. It is empty for a remote: which part of its repository
	// is needed is known only in the end.
	bundle string
	// remote is set for what a kustomization named.
	remote *remote
}

// location is where a path of a view lies.
type location struct {
	// snap is nil for a folder that is there only because something is mounted below it.
	snap *snapshot.Snapshot
	// path is the one in snap, without a symbolic link in it.
	path string
	// mount is the mount that it lies in, counted from 1; 0 is the service's own repository.
	mount int
	// remote is set where the mount is one that a kustomization named.
	remote *remote
	id     snapshot.Hash
	mode   fs.FileMode
}

// own says whether the path lies in the service's own repository.
func (s location) own() bool { return s.snap != nil && s.mount == 0 }

// blame places a fault at the spot.
func (s location) blame(f *fault) *fault {
	switch {
	case s.remote != nil:
		f.source = s.remote.source.Metadata.Name
	case s.mount > 0:
		f = f.inMount(s.mount - 1)
	}
	f.file = s.path
	return f
}

// blameAt places a fault at a line of the spot, unless a file further on is to blame.
func (s location) blameAt(f *fault, line, column int) *fault {
	if f.file != "" {
		return f
	}
	f.field, f.line, f.column = cmp.Or(f.field, "spec.source.path"), line, column
	return s.blame(f)
}

// find looks a path up, along symbolic links. The error is that of snapshot.Follow.
func (v *view) find(name string) (location, error) {
	for i, m := range v.mounts {
		if inner, ok := below(name, m.at); ok {
			return look(location{snap: m.snap, path: path.Join(m.path, inner), mount: i + 1, remote: m.remote})
		}
	}
	at, err := look(location{snap: v.repo, path: name})
	if err == nil && v.exclusion.has(name, at.mode.IsDir()) {
		return location{}, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
	}
	if errors.Is(err, fs.ErrNotExist) {
		for _, m := range v.mounts {
			if _, ok := below(m.at, name); ok {
				return location{mode: fs.ModeDir | 0o755}, nil
			}
		}
	}
	return at, err
}

func look(at location) (location, error) {
	found, err := at.snap.Follow(at.path)
	if err == nil {
		at.path, at.id, at.mode = found.Path, found.Hash, found.Mode
	}
	return at, err
}

// below is name seen from dir, if it lies in it or is it.
func below(name, dir string) (string, bool) {
	if name == dir {
		return ".", true
	}
	return strings.CutPrefix(name, dir+"/")
}

// mounted writes down all that the mounts add to the view, each text after its length.
func (v *view) mounted() string {
	var b strings.Builder
	for _, m := range v.mounts {
		fmt.Fprintf(&b, "%d:%s%d:%s", len(m.dir), m.dir, len(m.bundle), m.bundle)
	}
	return b.String()
}

// remote tells whether a kustomization named something outside of what mounted writes down.
func (v *view) remote() bool {
	return slices.ContainsFunc(v.mounts, func(m mountPoint) bool { return m.remote != nil })
}

// collision finds a mount whose place is taken by the service's own repository.
func (v *view) collision() *fault {
	for i, m := range v.mounts {
		for dir := m.dir; dir != "."; dir = path.Dir(dir) {
			_, mode, err := v.repo.Hash(dir)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				return unreadable(err)
			case dir == m.dir || !mode.IsDir():
				return &fault{
					field:   fmt.Sprintf("spec.mounts[%d].at", i),
					message: fmt.Sprintf("nothing can be mounted at %q: the service's own repository has %q", m.dir, dir),
					fix:     "mount it at a folder that is not there",
				}
			}
		}
	}
	return nil
}
