package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/boundwalk"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// nowhere is the cluster that a folder is rendered for.
const nowhere = "none"

// sources are an installation repo without its other repositories, or a repository that is none.
type sources struct{ own *snapshot.Snapshot }

// Snapshot implements resolve.Sources.
func (s sources) Snapshot(name, _ string) (*snapshot.Snapshot, error) {
	if name != "" {
		return nil, snapshot.ErrNotFetched
	}
	return s.own, nil
}

// services are an installation repo's own on each of its clusters, or else every folder that can be one.
func (w *walk) services(snap *snapshot.Snapshot) ([]*resolve.Deployment, error) {
	f, clusters, err := w.fleet(snap)
	if err != nil {
		return nil, err
	}
	var all []*resolve.Deployment
	for _, cluster := range clusters {
		list, err := w.resolver.For(f, cluster, sources{snap})
		if err != nil {
			return nil, err
		}
		for i := range list {
			if w.wanted(list[i].Path) {
				all = append(all, &list[i])
			}
		}
	}
	return all, nil
}

// wanted says whether a folder is among those that were asked for.
func (w *walk) wanted(dir string) bool {
	return len(w.Paths) == 0 || slices.ContainsFunc(w.Paths, func(p string) bool {
		p = path.Clean(p)
		return p == "." || dir == p || strings.HasPrefix(dir, p+"/")
	})
}

// fleet is the repository's own, or one made of its folders.
func (w *walk) fleet(snap *snapshot.Snapshot) (*fleet.Fleet, []string, error) {
	if _, _, err := snap.Hash("plural.yaml"); err == nil {
		f, err := fleet.Load(snap.FS())
		if err != nil {
			return &fleet.Fleet{}, nil, nil // a commit that the hub refuses changes nothing
		}
		var names []string
		for i := range f.Clusters {
			names = append(names, f.Clusters[i].Metadata.Name)
		}
		return f, names, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	folders, err := w.folders(snap.FS())
	if err != nil {
		return nil, nil, err
	}
	f := &fleet.Fleet{Clusters: []fleet.Cluster{{Metadata: fleet.Metadata{Name: nowhere}}}}
	for _, dir := range folders {
		f.Services = append(f.Services, fleet.Service{
			Metadata: fleet.Metadata{Name: dir},
			Spec: fleet.ServiceSpec{
				Source: fleet.SourceRef{Path: dir}, Namespace: "default", Clusters: fleet.Selector{Names: []string{nowhere}},
			},
		})
	}
	return f, []string{nowhere}, nil
}

// folders lists what can be a service: each with a kustomization, each with a chart, and each that holds manifests while
// nothing around it or below it is one of these.
func (w *walk) folders(fsys fs.FS) ([]string, error) {
	structured, plain := map[string]bool{}, map[string]bool{}
	err := boundwalk.Dir(fsys, ".", maxFiles, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || base == "vendor" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		dir := path.Dir(name)
		switch {
		case !entry.Type().IsRegular() || !w.wanted(dir):
		case slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization", "Chart.yaml"}, base):
			structured[dir] = true
		case path.Ext(base) == ".yaml" || path.Ext(base) == ".yml":
			found, err := isManifest(fsys, name)
			if err != nil {
				return err
			}
			if found {
				plain[dir] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for services: %w", err)
	}
	return sorted(structured, plain), nil
}

// isManifest says whether a file looks like Kubernetes objects.
func isManifest(fsys fs.FS, name string) (bool, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil || info.Size() > maxFile {
		return false, err
	}
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return false, err
	}
	text = append([]byte("\n"), text...)
	return bytes.Contains(text, []byte("\napiVersion:")) && bytes.Contains(text, []byte("\nkind:")), nil
}

// sorted are the structured folders, with the plain ones that have nothing structured above or below them, nor a plain one
// above them.
func sorted(structured, plain map[string]bool) []string {
	var out []string
	for dir := range structured {
		out = append(out, dir)
	}
	for dir := range plain {
		free := !structured[dir]
		for other := range structured {
			free = free && !inside(dir, other) && !inside(other, dir)
		}
		for other := range plain {
			free = free && !inside(dir, other)
		}
		if free {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return out
}

// inside says whether dir lies below other.
func inside(dir, other string) bool {
	return dir != other && (other == "." || strings.HasPrefix(dir, other+"/"))
}
