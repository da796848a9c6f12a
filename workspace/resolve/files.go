package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// fileSet is all that the files of a service depend on: the state of the repository and what the service declares.
type fileSet struct {
	root     snapshot.Hash
	declared string
}

// files is what a fileSet leads to.
type files struct {
	path, renderer string
	inputs         []string
	bundle         string
	fault          *fault
}

// fault is a problem that every service with the same declaration has.
type fault struct {
	// field is which field of the service is to blame.
	field string
	// file, line and column are the place in the service's repository, where there is one.
	file         string
	line, column int
	message, fix string
	// unread faults come from reading, which may succeed the next time.
	unread bool
}

func unreadable(err error) *fault {
	return &fault{field: "spec.source.path", message: err.Error(), unread: true}
}

// problem places a fault: in the installation repo at the culprit, for other repositories at the service.
func (f *fault) problem(s *fleet.Service) *Problem {
	source := s.Spec.Source.Name
	p := &Problem{Service: s.Metadata.Name, Source: source, Position: s.Place(f.field), Message: f.message, Fix: f.fix}
	switch at := (fleet.Position{File: f.file, Line: f.line, Column: f.column}); {
	case source != "" && f.file != "":
		p.Message = fmt.Sprintf("source %s: %s: %s", source, at, f.message)
	case source != "":
		p.Message = fmt.Sprintf("source %s: %s", source, f.message)
	case f.file != "":
		p.Position = at
	}
	return p
}

// sourceProblem says why there is no state of a source to work from.
func sourceProblem(s *fleet.Service, err error) *Problem {
	source := s.Spec.Source.Name
	p := &Problem{Service: s.Metadata.Name, Source: source, Position: s.Place("spec.source.name")}
	p.Message = fmt.Sprintf("source %q cannot be read: %v", source, err)
	switch {
	case errors.Is(err, snapshot.ErrNotFetched):
		p.Message, p.Fix = fmt.Sprintf("source %q was not fetched yet", source), "see the source's status"
	case source == "":
		p.Message = fmt.Sprintf("this repository cannot be read: %v", err)
	}
	return p
}

// filesOf computes or remembers a service's files.
func (r *Resolver) filesOf(s *fleet.Service, snap *snapshot.Snapshot) (files, *fault) {
	root, _, err := snap.Hash(".")
	if err != nil {
		return files{}, unreadable(err)
	}
	set := fileSet{root, declaration(s)}
	found, ok := r.files.get(set)
	if !ok {
		found, found.fault = r.findFiles(s, snap)
		if found.fault == nil || !found.fault.unread {
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
	if s.Spec.Helm != nil {
		write(s.Spec.Helm.ValuesFiles...)
	}
	return b.String()
}

func (r *Resolver) findFiles(s *fleet.Service, snap *snapshot.Snapshot) (files, *fault) {
	found := files{path: path.Clean(s.Spec.Source.Path)}
	if f := checkFolder(snap, found.path); f != nil {
		return found, f
	}
	var f *fault
	if found.renderer, f = detect(snap, found.path, s.Spec); f != nil {
		return found, f
	}
	inputs, f := declaredInputs(snap, s)
	if f != nil {
		return found, f
	}
	if found.renderer == rendererKustomize {
		closure, f := r.closure(snap, found.path)
		if f != nil {
			return found, f
		}
		inputs = append(inputs, closure...)
	}
	found.inputs = reduce(append(inputs, found.path))
	found.bundle, f = r.bundleKey(snap, found.inputs)
	return found, f
}

// checkFolder wants a folder with something to render in it.
func checkFolder(snap *snapshot.Snapshot, dir string) *fault {
	const field = "spec.source.path"
	_, mode, err := snap.Hash(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &fault{field: field, message: fmt.Sprintf("path %q does not exist", dir), fix: "correct the path, or remove the service if it is meant to go"}
	case err != nil:
		return unreadable(err)
	case !mode.IsDir():
		return notPlain(field, dir, mode, "name the folder that holds the manifests")
	}
	entries, err := fs.ReadDir(snap.FS(), dir)
	if err != nil {
		return unreadable(err)
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") }) {
		return &fault{field: field, message: fmt.Sprintf("folder %q is empty", dir), fix: "put its files back, or remove the service if it is meant to go"}
	}
	return nil
}

// notPlain names what stands where a folder or file was wanted.
func notPlain(field, name string, mode fs.FileMode, fix string) *fault {
	what := "a file"
	switch mode.Type() {
	case fs.ModeDir:
		what = "a folder"
	case fs.ModeSymlink:
		what, fix = "a symbolic link, which is not followed", "put what it points to in its place"
	case fs.ModeIrregular:
		what, fix = "a submodule, which is not fetched", "add that repository as a source"
	}
	return &fault{field: field, message: fmt.Sprintf("%q is %s", name, what), fix: fix}
}

// declaredInputs are the paths that the service names besides its own.
func declaredInputs(snap *snapshot.Snapshot, s *fleet.Service) ([]string, *fault) {
	var inputs []string
	add := func(field, name string, folderToo bool) *fault {
		name = path.Clean(name)
		_, mode, err := snap.Hash(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &fault{field: field, message: fmt.Sprintf("path %q does not exist", name), fix: "correct or remove it"}
		case err != nil:
			return unreadable(err)
		case !mode.IsRegular() && !(mode.IsDir() && folderToo):
			return notPlain(field, name, mode, "name a file")
		}
		inputs = append(inputs, name)
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
		if total += scan.entries; total > bundle.DefaultLimits().Entries {
			return "", tooMany(name)
		}
	}
	return bundle.Key(list), nil
}

// treeScan is what one tree holds, at any depth. It depends on the tree alone, so paths are relative to it.
type treeScan struct {
	entries int
	fault   *scanFault
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

func tooMany(name string) *fault {
	return &fault{
		field: "spec.source.path", fix: "split the service or narrow its inputs",
		message: fmt.Sprintf("more than %d files and folders, counted at %q", bundle.DefaultLimits().Entries, name),
	}
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
	for _, e := range entries {
		child := path.Join(name, e.Name())
		scan := treeScan{entries: 1}
		if e.IsDir() {
			scan = r.scanChild(snap, child)
		} else if !e.Type().IsRegular() {
			scan.fault = &scanFault{mode: e.Type()}
		}
		total.entries += scan.entries
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
