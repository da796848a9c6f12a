package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Bounds of one closure.
const (
	maxKustomization  = 1 << 20 // bytes of one file
	maxKustomizations = 1_000   // folders followed
	maxReferences     = 20_000  // paths looked up
	maxClosureDepth   = 64      // folders referring to folders
)

// closure lists the files and folders that a folder's kustomization refers to, and theirs.
func (r *Resolver) closure(snap *snapshot.Snapshot, dir string) ([]string, *fault) {
	w := &closureWalk{r: r, snap: snap, seen: map[string]bool{}}
	if f := w.folder(dir, 0); f != nil {
		return nil, f
	}
	return w.inputs, nil
}

// closureWalk follows references from folder to folder.
type closureWalk struct {
	r      *Resolver
	snap   *snapshot.Snapshot
	seen   map[string]bool
	inputs []string
	looked int
}

func (w *closureWalk) folder(dir string, depth int) *fault {
	if w.seen[dir] {
		return nil
	}
	w.seen[dir] = true
	if depth > maxClosureDepth || len(w.seen) > maxKustomizations {
		return &fault{field: "spec.source.path", message: fmt.Sprintf("kustomizations refer to each other more than %d levels deep or %d times", maxClosureDepth, maxKustomizations), fix: "flatten them"}
	}
	file := kustomizationFile(w.snap, dir)
	if file == "" {
		return nil // the render says what is missing
	}
	found, err := w.parse(file)
	if err != nil {
		return unreadable(err)
	}
	if found.err != nil {
		return &fault{field: "spec.source.path", file: file, line: found.line, message: "read kustomization: " + found.err.Error()}
	}
	for _, ref := range found.refs {
		if f := w.follow(dir, ref, depth); f != nil {
			if f.file == "" { // else it is a folder further on that is to blame
				f.file, f.line, f.column = file, ref.line, ref.column
			}
			return f
		}
	}
	return nil
}

// parse reads a kustomization once for each content. The error is one of reading.
func (w *closureWalk) parse(file string) (parsed, error) {
	id, _, err := w.snap.Hash(file)
	if err != nil {
		return parsed{}, err
	}
	if known, ok := w.r.refs.get(id); ok {
		return known, nil
	}
	found, err := readKustomization(w.snap.FS(), file)
	if err == nil {
		w.r.refs.set(id, found)
	}
	return found, err
}

func readKustomization(fsys fs.FS, file string) (parsed, error) {
	info, err := fs.Stat(fsys, file)
	if err != nil {
		return parsed{}, err
	}
	if info.Size() > maxKustomization {
		return parsed{err: fmt.Errorf("file is larger than %d MiB", maxKustomization>>20)}, nil
	}
	data, err := fs.ReadFile(fsys, file)
	if err != nil {
		return parsed{}, err
	}
	if seal.IsSealed(data) {
		return parsed{err: errors.New("it is sealed, and whoever resolves the service must read it")}, nil
	}
	return parseKustomization(data), nil
}

// follow adds what one reference points to. Remote ones are left to the render, which refuses them.
func (w *closureWalk) follow(dir string, ref reference, depth int) *fault {
	if w.looked++; w.looked > maxReferences {
		return &fault{field: "spec.source.path", message: fmt.Sprintf("more than %d references", maxReferences), fix: "split the service"}
	}
	if strings.Contains(ref.path, "://") {
		return nil
	}
	name := path.Join(dir, ref.path)
	if path.IsAbs(ref.path) || !fs.ValidPath(name) {
		return &fault{field: "spec.source.path", message: fmt.Sprintf("%s: %q leaves the repository", ref.field, ref.path), fix: "refer to files of this repository only", outside: true}
	}
	name, mode, err := w.find(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (ref.optional || looksRemote(ref.path)):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &fault{field: "spec.source.path", message: fmt.Sprintf("%s: %q does not exist", ref.field, ref.path), fix: "correct or remove it"}
	case err != nil:
		return unreadable(err)
	}
	w.inputs = append(w.inputs, name)
	if mode.IsDir() {
		return w.folder(name, depth+1)
	}
	return nil
}

// find looks for a path, or for the template that the render makes it from.
func (w *closureWalk) find(name string) (string, fs.FileMode, error) {
	_, mode, err := w.snap.Hash(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, mode, err
	}
	if _, mode, err := w.snap.Hash(name + templateSuffix); err == nil {
		return name + templateSuffix, mode, nil
	}
	return name, 0, err
}

// looksRemote recognises git addresses without a scheme, such as github.com/org/repo//path?ref=v1 and git@host:repo.
func looksRemote(p string) bool {
	if strings.ContainsAny(p, ":?") || strings.Contains(p, "//") {
		return true
	}
	host, _, ok := strings.Cut(p, "/")
	return ok && strings.Contains(strings.Trim(host, "."), ".")
}
