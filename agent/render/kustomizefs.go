package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// mount is where kustomize sees the tree's root: a folder of its own, so that its messages can be made relative again.
const mount = "/@repository"

// kustomizeFS is the tree as kustomize's file system: read only, and looking at each file before kustomize does.
//
// kustomize asks many questions whose errors it takes for a no, so the first refusal is kept as veto and wins over
// whatever kustomize makes of it.
type kustomizeFS struct {
	*job
	root           string // the kustomization that is built
	traced         bool   // kustomize takes notes of where objects come from
	veto           *Error
	parsed         []string // files read that should be YAML, in order
	kustomizations map[string]bool
	made           map[string][]byte   // files that are not in the tree: what charts print, and kustomizations that say so
	borrowed       map[string]string   // where files of remotes are that kustomizations see below their own folder
	inherited      map[string][]string // namespaces that a folder's kustomization has from others; nil until somebody asks
}

var (
	_           filesys.FileSystem = (*kustomizeFS)(nil)
	errReadOnly                    = errors.New("rendering writes no files")
)

// ReadFile implements filesys.FileSystem.
func (k *kustomizeFS) ReadFile(name string) ([]byte, error) {
	inside, ok := k.inside(name)
	if !ok {
		return nil, notExist("open", name)
	}
	if made, ok := k.made[inside]; ok {
		return made, nil
	}
	data, err := k.read(inside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notExist("open", name)
	}
	if err == nil {
		err = k.judge(inside, data)
	}
	if err == nil && isKustomization(inside) {
		data, err = k.asRead(inside, data)
	}
	if err != nil {
		var rendering *Error
		if errors.As(err, &rendering) && k.veto == nil {
			k.veto = rendering
		}
		return nil, err
	}
	return data, nil
}

// asRead is a kustomization as kustomize is to read it.
func (k *kustomizeFS) asRead(name string, data []byte) ([]byte, error) {
	fields, err := k.localized(name, data)
	if err != nil {
		return nil, err
	}
	if name == k.root {
		if asking := traceable(k.tree, k.root, data); asking != nil {
			k.traced, data = true, asking
		}
	}
	if fields == nil {
		return data, nil
	}
	if name == k.root && k.traced {
		fields["buildMetadata"] = []string{types.OriginAnnotations}
	}
	if data, err = json.Marshal(fields); err == nil {
		k.made[name] = data // for whoever refers to it as well: its charts are not to print once more
	}
	return data, err
}

// judge refuses a file that must not reach kustomize.
func (k *kustomizeFS) judge(name string, data []byte) error {
	if mayAlias(data) {
		for _, doc := range split(data) {
			if _, found := inspect(doc); found != nil && found.deadly {
				return place{name, found.line}.invalid("%s", found.message)
			}
		}
	}
	if isManifest(name) || isKustomization(name) {
		k.parsed = append(k.parsed, name)
	}
	if isKustomization(name) && !k.kustomizations[name] {
		if err := checkKustomization(k.tree, name, data); err != nil {
			return err
		}
		k.kustomizations[name] = true
	}
	return nil
}

// inside maps a path of kustomize's to one of the tree's.
func (k *kustomizeFS) inside(name string) (string, bool) {
	name = path.Clean(name)
	if name == mount {
		return ".", true
	}
	inside, ok := strings.CutPrefix(name, mount+"/")
	return k.shared(inside), ok
}

func (k *kustomizeFS) isFile(inside string) bool {
	_, made := k.made[inside]
	return made || k.tree.isFile(inside)
}

// isDir knows of made folders that each has a kustomization.
func (k *kustomizeFS) isDir(inside string) bool {
	_, made := k.made[path.Join(inside, konfig.DefaultKustomizationFileName())]
	return made || k.tree.isDir(inside)
}

// CleanedAbs implements filesys.FileSystem.
func (k *kustomizeFS) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	clean := path.Clean(name)
	switch {
	case k.IsDir(clean):
		return filesys.ConfirmedDir(clean), "", nil
	case k.Exists(clean):
		return filesys.ConfirmedDir(path.Dir(clean)), path.Base(clean), nil
	}
	return "", "", notExist("find", name)
}

// Exists implements filesys.FileSystem.
func (k *kustomizeFS) Exists(name string) bool {
	inside, ok := k.inside(name)
	return ok && (k.isFile(inside) || k.isDir(inside))
}

// IsDir implements filesys.FileSystem.
func (k *kustomizeFS) IsDir(name string) bool {
	inside, ok := k.inside(name)
	return ok && k.isDir(inside)
}

// ReadDir implements filesys.FileSystem.
func (k *kustomizeFS) ReadDir(name string) ([]string, error) {
	inside, ok := k.inside(name)
	if !ok || !k.tree.isDir(inside) {
		return nil, notExist("read folder", name)
	}
	return k.tree.list(inside), nil
}

// Glob implements filesys.FileSystem.
func (k *kustomizeFS) Glob(pattern string) ([]string, error) {
	var found []string
	for _, name := range k.tree.names {
		full := path.Join(mount, name)
		if ok, err := path.Match(pattern, full); err != nil {
			return nil, err
		} else if ok {
			found = append(found, full)
		}
	}
	return found, nil
}

// Walk implements filesys.FileSystem.
func (k *kustomizeFS) Walk(root string, visit filepath.WalkFunc) error {
	inside, ok := k.inside(root)
	if !ok {
		return notExist("walk", root)
	}
	for _, name := range k.tree.below(inside) {
		info := entry{name: path.Base(name), size: int64(len(k.tree.files[name]))}
		if err := visit(path.Join(mount, name), info, nil); err != nil {
			return err
		}
	}
	return nil
}

// Open implements filesys.FileSystem; kustomize reads through ReadFile.
func (k *kustomizeFS) Open(name string) (filesys.File, error) {
	return nil, fmt.Errorf("open %q: %w", name, errReadOnly)
}

// Create implements filesys.FileSystem.
func (k *kustomizeFS) Create(string) (filesys.File, error) { return nil, errReadOnly }

// Mkdir implements filesys.FileSystem.
func (k *kustomizeFS) Mkdir(string) error { return errReadOnly }

// MkdirAll implements filesys.FileSystem.
func (k *kustomizeFS) MkdirAll(string) error { return errReadOnly }

// RemoveAll implements filesys.FileSystem.
func (k *kustomizeFS) RemoveAll(string) error { return errReadOnly }

// WriteFile implements filesys.FileSystem.
func (k *kustomizeFS) WriteFile(string, []byte) error { return errReadOnly }

func notExist(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}
