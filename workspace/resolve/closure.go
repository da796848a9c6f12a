package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pluralsh/plural/crypto/seal"
)

// Bounds of one closure.
const (
	maxKustomization  = 1 << 20 // bytes of one file
	maxKustomizations = 1_000   // folders followed
	maxReferences     = 20_000  // paths looked up
	maxClosureDepth   = 64      // folders referring to folders
)

// closure lists the files and folders that a folder's kustomization refers to, and theirs.
func (r *Resolver) closure(seen *view, dir string) ([]string, *fault) {
	w := &closureWalk{r: r, view: seen, seen: map[string]bool{}}
	if f := w.folder(dir, 0); f != nil {
		return nil, f
	}
	return w.inputs, nil
}

// closureWalk follows references from folder to folder.
type closureWalk struct {
	r      *Resolver
	view   *view
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
	file := kustomizationFile(w.view, dir)
	if file == "" {
		return nil // the render says what is missing
	}
	at, err := w.view.find(file)
	if err != nil {
		return unreadable(err)
	}
	found, err := w.parse(at)
	if err != nil {
		return unreadable(err)
	}
	if found.err != nil {
		return at.blame(&fault{field: "spec.source.path", line: found.line, message: "read kustomization: " + found.err.Error()})
	}
	for _, ref := range found.refs {
		if f := w.follow(dir, ref, depth); f != nil {
			if f.file == "" { // else it is a folder further on that is to blame
				f.line, f.column = ref.line, ref.column
				f = at.blame(f)
			}
			return f
		}
	}
	return nil
}

// parse reads a kustomization once for each content. The error is one of reading.
func (w *closureWalk) parse(file spot) (parsed, error) {
	if known, ok := w.r.refs.get(file.id); ok {
		return known, nil
	}
	found, err := readKustomization(file.snap.FS(), file.path)
	if err == nil {
		w.r.refs.set(file.id, found)
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
	name, at, err := w.find(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (ref.optional || looksRemote(ref.path)):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &fault{field: "spec.source.path", message: fmt.Sprintf("%s: %q does not exist", ref.field, ref.path), fix: "correct or remove it"}
	case err != nil:
		return unreadable(err)
	}
	if at.own() {
		w.inputs = append(w.inputs, name)
	}
	if at.mode.IsDir() {
		return w.folder(name, depth+1)
	}
	return nil
}

// find looks for a path, or for the template that the render makes it from.
func (w *closureWalk) find(name string) (string, spot, error) {
	at, err := w.view.find(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, at, err
	}
	if at, err := w.view.find(name + templateSuffix); err == nil {
		return name + templateSuffix, at, nil
	}
	return name, at, err
}

// looksRemote recognises git addresses without a scheme, such as github.com/org/repo//path?ref=v1 and git@host:repo.
func looksRemote(p string) bool {
	if strings.ContainsAny(p, ":?") || strings.Contains(p, "//") {
		return true
	}
	host, _, ok := strings.Cut(p, "/")
	return ok && strings.Contains(strings.Trim(host, "."), ".")
}
