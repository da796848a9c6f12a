package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/internal/kustomizeurl"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Bounds of one closure.
const (
	maxKustomization  = 1 << 20 // bytes of one file
	maxKustomizations = 1_000   // folders followed
	maxReferences     = 20_000  // paths looked up
	maxClosureDepth   = 64      // folders referring to folders
)

// closure selects what a folder's kustomization makes kustomize read, and lists the folders and files that this lies in.
//
// kustomize reads files in or below the folder of the kustomization that names them, and folders anywhere that have a
// kustomization of their own. Which ones a kustomization names can be told from its fields, but for those that a field names in
// turn: of a folder whose kustomization has one of these, or is a template, all is selected.
func (r *Resolver) closure(seen *view, dir string, selected *selection) ([]string, *fault) {
	w := &closureWalk{r: r, view: seen, seen: map[string]bool{}, open: map[string]bool{}, selected: selected}
	if f := w.folder(dir, 0); f != nil {
		return nil, f
	}
	return w.inputs, nil
}

// closureWalk follows references from folder to folder.
type closureWalk struct {
	r        *Resolver
	view     *view
	seen     map[string]bool
	selected *selection
	inputs   []string
	looked   int
	// open are the folders in remotes that are being walked, each of which a remote reference led to.
	open map[string]bool
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
		w.selected.add(dir)
		return nil // the render says what is missing
	}
	for _, name := range kustomizationNames() { // kustomize refuses a folder with two
		w.selected.add(path.Join(dir, name))
		w.selected.add(path.Join(dir, name+templateSuffix))
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
	if found.wide {
		w.selected.add(dir)
	}
	for _, ref := range found.refs {
		if f := w.follow(dir, at, ref, depth); f != nil {
			return at.blameAt(f, ref.line, ref.column)
		}
	}
	for _, c := range found.charts {
		if f := w.chart(dir, at, c); f != nil {
			return at.blameAt(f, c.line, c.column)
		}
	}
	return nil
}

// parse reads a kustomization once for each content. The error is one of reading.
func (w *closureWalk) parse(file location) (parsed, error) {
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

// follow adds what one reference points to.
func (w *closureWalk) follow(dir string, from location, ref reference, depth int) *fault {
	if w.looked++; w.looked > maxReferences {
		return &fault{field: "spec.source.path", message: fmt.Sprintf("more than %d references", maxReferences), fix: "split the service"}
	}
	if kustomizeurl.Is(ref.path) {
		return w.remote(from, ref, depth)
	}
	name := path.Join(dir, ref.path)
	if path.IsAbs(ref.path) || !fs.ValidPath(name) || !w.contains(from, name) {
		return &fault{field: "spec.source.path", message: fmt.Sprintf("%s: %q leaves the repository", ref.field, ref.path), fix: "refer to files of this repository only", outside: true}
	}
	name, at, err := w.find(name)
	if f := w.elsewhere(dir, ref, at, err); f != nil {
		return f
	}
	var link *snapshot.LinkError
	switch {
	case errors.As(err, &link):
		return &fault{
			field: "spec.source.path", message: ref.field + ": " + link.Error(),
			fix: "put what it should lead to in its place", outside: link.Outside,
		}
	case errors.Is(err, fs.ErrNotExist) && w.view.exclusion.has(name, true):
		return &fault{
			field: "spec.source.path", message: fmt.Sprintf("%s: %q is left out by spec.exclude", ref.field, ref.path),
			fix: "remove it here or there",
		}
	case errors.Is(err, fs.ErrNotExist) && ref.optional:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &fault{field: "spec.source.path", message: fmt.Sprintf("%s: %q does not exist", ref.field, ref.path), fix: "correct or remove it"}
	case err != nil:
		return unreadable(err)
	}
	w.use(name, at)
	if at.mode.IsDir() && ref.folder {
		return w.folder(name, depth+1)
	}
	w.selected.add(name)
	return nil
}

// elsewhere refuses a reference that means one thing where the folder is, and another where a symbolic link has it seen.
func (w *closureWalk) elsewhere(dir string, ref reference, at location, err error) *fault {
	real, wrong := w.view.find(dir)
	if wrong != nil || !real.own() || real.path == dir {
		return nil
	}
	there, missing := w.view.find(path.Join(real.path, ref.path))
	if missing != nil || err == nil && there.id == at.id && there.mode == at.mode {
		return nil
	}
	return &fault{
		field: "spec.source.path", fix: fmt.Sprintf("refer to %q itself in the place of the link", real.path),
		message: fmt.Sprintf("%s: %q is another path from %q, where a symbolic link has this folder seen", ref.field, ref.path, dir),
	}
}

// find looks for a path, or for the template that the render makes it from.
func (w *closureWalk) find(name string) (string, location, error) {
	at, err := w.view.find(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, at, err
	}
	if at, err := w.view.find(name + templateSuffix); err == nil {
		return name + templateSuffix, at, nil
	}
	return name, at, err
}
