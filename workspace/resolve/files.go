package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// fileSet is all that the files of a service depend on: the state of the repository, what is mounted in it, and what the
// service declares.
type fileSet struct {
	root             snapshot.Hash
	mounts, declared string
}

// files is what a fileSet leads to.
type files struct {
	picked
	renderer string
	inputs   []string
	remotes  []remoteFiles
	fault    *fault
}

// filesOf computes or remembers a service's files.
func (r *Resolver) filesOf(s *fleet.Service, seen *view) (files, *fault) {
	root, _, err := seen.repo.Hash(".")
	if err != nil {
		return files{}, unreadable(err)
	}
	set := fileSet{root, seen.mounted(), declaration(s)}
	found, ok := r.files.get(set)
	if !ok || !seen.sources.upToDate(found.remotes) {
		found, found.fault = r.findFiles(s, seen)
		if found.fault == nil || !found.fault.unread && !seen.remote() {
			r.files.set(set, found)
		}
	}
	return found, found.fault
}

// declaration writes down the fields of a service that findFiles looks at, each after its length.
func declaration(s *fleet.Service) string {
	var b strings.Builder
	write := func(values ...string) {
		fmt.Fprintf(&b, "%d.", len(values))
		for _, v := range values {
			fmt.Fprintf(&b, "%d:%s", len(v), v)
		}
	}
	write(s.Spec.Source.Path, s.Spec.Renderer)
	write(s.Spec.Include...)
	write(s.Spec.Exclude...)
	if s.Spec.Helm != nil {
		write(s.Spec.Helm.ValuesFiles...)
		write(fmt.Sprint(s.Spec.Helm.Record))
	}
	return b.String()
}

func (r *Resolver) findFiles(s *fleet.Service, seen *view) (files, *fault) {
	var found files
	dir := path.Clean(s.Spec.Source.Path)
	if f := checkFolder(seen.repo, dir); f != nil {
		return found, f
	}
	if f := seen.collision(); f != nil {
		return found, f
	}
	seen.exclusion = newExclusion(dir, s.Spec.Exclude)
	var f *fault
	if found.renderer, f = detect(seen, dir, s.Spec); f != nil {
		return found, f
	}
	inputs, f := declaredInputs(seen, s)
	if f != nil {
		return found, f
	}
	reads, f := r.readingOf(seen, s, found.renderer, inputs)
	if f != nil {
		return found, f
	}
	selected := new(selection)
	for _, name := range inputs {
		selected.add(name)
	}
	if found.renderer == rendererKustomize {
		referred, f := r.closure(seen, dir, selected)
		if f != nil {
			return found, f
		}
		inputs = append(inputs, referred...)
	} else {
		selected.add(dir)
	}
	found.inputs = reduce(append(inputs, dir))
	if found.remotes, f = r.remoteFiles(seen); f != nil {
		return found, f
	}
	if found.picked, f = r.pick(seen.repo, found.inputs, selected, reads); f != nil {
		return found, f
	}
	return found, nil
}

// checkFolder wants a folder with something to render in it.
func checkFolder(snap *snapshot.Snapshot, dir string) *fault {
	const field = "spec.source.path"
	at, err := snap.Follow(dir)
	var link *snapshot.LinkError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &fault{field: field, message: fmt.Sprintf("path %q does not exist", dir), fix: "correct the path, or remove the service if it is meant to go"}
	case errors.As(err, &link):
		return badLink(link)
	case err != nil:
		return unreadable(err)
	case !at.Mode.IsDir():
		return notPlain(field, dir, at.Mode, "name the folder that holds the manifests")
	}
	entries, err := snap.Tree(at.Hash)
	if err != nil {
		return unreadable(err)
	}
	if !slices.ContainsFunc(entries, func(e snapshot.Entry) bool { return !strings.HasPrefix(e.Name, ".") }) {
		return &fault{field: field, message: fmt.Sprintf("folder %q is empty", dir), fix: "put its files back, or remove the service if it is meant to go"}
	}
	return nil
}

// declaredInputs are the paths that the service names besides its own. What lies in a mount is there already.
func declaredInputs(seen *view, s *fleet.Service) ([]string, *fault) {
	var inputs []string
	add := func(field, name string, folderToo bool) *fault {
		name = path.Clean(name)
		at, err := seen.find(name)
		var link *snapshot.LinkError
		switch {
		case seen.exclusion.has(name, err == nil && at.mode.IsDir()):
			return &fault{field: field, message: fmt.Sprintf("path %q is left out by spec.exclude", name), fix: "name one that is not"}
		case errors.As(err, &link):
			f := badLink(link)
			f.field = field
			return f
		case errors.Is(err, fs.ErrNotExist):
			return &fault{field: field, message: fmt.Sprintf("path %q does not exist", name), fix: "correct or remove it"}
		case err != nil:
			return unreadable(err)
		case !at.mode.IsRegular() && !(at.mode.IsDir() && folderToo):
			return notPlain(field, name, at.mode, "name a file")
		}
		if at.own() {
			inputs = append(inputs, name)
		}
		return nil
	}
	for i, name := range s.Spec.Include {
		if f := add(fmt.Sprintf("spec.include[%d]", i), name, true); f != nil {
			return nil, f
		}
	}
	if s.Spec.Helm == nil {
		return inputs, nil
	}
	for i, name := range s.Spec.Helm.ValuesFiles {
		if f := add(fmt.Sprintf("spec.helm.valuesFiles[%d]", i), name, false); f != nil {
			return nil, f
		}
	}
	return inputs, nil
}

// reduce sorts paths and drops those inside another.
func reduce(paths []string) []string {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if slices.Contains(paths, ".") {
		return []string{"."}
	}
	all := make(map[string]bool, len(paths))
	for _, p := range paths {
		all[p] = true
	}
	return slices.DeleteFunc(paths, func(p string) bool {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if all[dir] {
				return true
			}
		}
		return false
	})
}
