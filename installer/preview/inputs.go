package preview

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Inputs tells deployments apart by what they render to. The zero value is ready, and safe for concurrent use.
type Inputs struct {
	mu        sync.Mutex
	templated map[string]bool // by bundle; guarded by mu
}

// Of is the same for deployments of a service that render to the same objects. It looks past all that is only about how they
// are applied, and past parameters that no template reads. The deployment has no Hold.
func (i *Inputs) Of(d *resolve.Deployment) string {
	seen := *d
	seen.Cluster, seen.Key, seen.Variant, seen.Operation, seen.Snapshot, seen.SecretsSnapshot = "", "", "", resolve.Operation{}, nil, nil
	seen.Mounts = slices.Clone(d.Mounts)
	for at := range seen.Mounts {
		seen.Mounts[at].Snapshot = nil
	}
	if !i.readsParameters(d) {
		seen.Parameters = nil
	}
	text, err := json.Marshal(seen)
	if err != nil { // nothing in it is no JSON
		return d.Key
	}
	return string(text)
}

// readsParameters says whether a render may see the deployment's parameters.
func (i *Inputs) readsParameters(d *resolve.Deployment) bool {
	if !builtIn(d.Renderer) {
		return true
	}
	name := d.Bundle
	for _, m := range d.Mounts {
		name += " " + m.Bundle
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	reads, known := i.templated[name]
	if !known {
		reads = anyTemplate(d.Snapshot.FS(), d.Inputs)
		for _, m := range d.Mounts {
			reads = reads || anyTemplate(m.Snapshot.FS(), m.Inputs)
		}
		if i.templated == nil {
			i.templated = map[string]bool{}
		}
		i.templated[name] = reads
	}
	return reads
}

// builtIn says whether a renderer is one of those that every program has.
func builtIn(renderer string) bool {
	return slices.Contains([]string{render.Raw, render.Kustomize, render.HelmChart}, renderer)
}

var errFound = errors.New("found")

// anyTemplate looks for templates among files. What cannot be read counts as one. Inputs have the bounds of a bundle.
func anyTemplate(files fs.FS, inputs []string) bool {
	for _, input := range inputs {
		err := fs.WalkDir(files, input, func(name string, _ fs.DirEntry, err error) error {
			if err == nil && path.Ext(name) == ".tmpl" {
				return errFound
			}
			return err
		})
		if err != nil {
			return true
		}
	}
	return false
}
