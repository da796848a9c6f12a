package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
)

// renderKustomize builds the kustomization at the path as kubectl kustomize does.
func renderKustomize(j *job) ([]manifest, error) {
	at, ok := kustomizationAt(j.tree, j.Path)
	if !ok {
		return nil, place{file: j.Path}.invalid("there is no kustomization.yaml")
	}
	disk := &kustomizeFS{job: j, root: at, kustomizations: map[string]bool{}, made: map[string][]byte{}, borrowed: map[string]string{}}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	objects, err := krusty.MakeKustomizer(options).Run(disk, path.Join(mount, j.Path))
	if disk.veto != nil {
		return nil, disk.veto
	}
	if err != nil {
		return nil, disk.explain(place{file: at}, err)
	}
	all, err := disk.kustomized(place{file: at}, objects)
	if err != nil {
		return nil, disk.explain(place{file: at}, err)
	}
	return all, nil
}

func (k *kustomizeFS) kustomized(at place, objects resmap.ResMap) ([]manifest, error) {
	origins := make([]Origin, objects.Size())
	if k.traced {
		var err error
		if origins, err = k.origins(objects); err != nil {
			return nil, fmt.Errorf("read origins: %w", err)
		}
	}
	var all []manifest
	for i, object := range objects.Resources() {
		m := manifest{place: at, origin: origins[i]}
		var err error
		if m.json, err = object.MarshalJSON(); err != nil {
			return nil, fmt.Errorf("encode %s: %w", object.CurId(), err)
		}
		if err := json.Unmarshal(m.json, &m.head); err != nil {
			return nil, at.invalid("%s is not a Kubernetes object: %v", object.CurId(), err)
		}
		all = append(all, m)
	}
	return all, nil
}

// explain gives kustomize's error a place: the first file it read that is not proper YAML, else at.
func (k *kustomizeFS) explain(at place, err error) error {
	var rendering *Error
	if errors.As(err, &rendering) {
		return rendering
	}
	if types.IsErrOnlyBuiltinPluginsAllowed(err) {
		return at.refused("commit what it generates", "plugins are disabled: %s", relative(err.Error()))
	}
	if strings.Contains(err.Error(), "--enable-helm") {
		return noInflation(at) // by a generator file; kustomize has no type for this
	}
	for _, name := range k.parsed {
		data, err := k.read(name)
		if err != nil {
			continue // it was read before, so that this one is not to blame
		}
		for _, doc := range split(data) {
			_, found := inspect(doc)
			if found == nil {
				continue
			}
			at := place{name, found.line}
			if k.tree.files[name] == nil {
				at.file = name + templateSuffix
				if !bytes.Equal(data, k.tree.files[at.file]) {
					return place{file: at.file}.invalid("line %d of what it prints: %s", at.line, found.message)
				}
			}
			return at.invalid("%s", found.message)
		}
	}
	return at.invalid("%s", relative(err.Error()))
}

// relative names files in kustomize's text as their author does.
func relative(text string) string {
	return strings.NewReplacer(mount+"/", "", mount, ".").Replace(text)
}

// kustomizationAt finds the kustomization file of a folder.
func kustomizationAt(t *tree, dir string) (string, bool) {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if file := path.Join(dir, name); t.isFile(file) {
			return file, true
		}
	}
	return "", false
}

func isKustomization(name string) bool {
	for _, known := range konfig.RecognizedKustomizationFileNames() {
		if path.Base(name) == known {
			return true
		}
	}
	return false
}
