package upgrader

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/upstream"
)

// catalogs are where the fleet's packages are found, as this replica has them.
type catalogs struct {
	mirrors *gitpoller.Set
	sources *sources.Set
	// kept are those of the last look, by name: what a catalog has read of a commit is not read again.
	kept map[string]keptCatalog
}

type keptCatalog struct {
	version string
	catalog catalog.Catalog
}

// of are the catalogs of a commit, in the order in which they are asked. One that cannot be opened is there all the same, so that no
// later one stands in for it: whoever asks it is told why.
func (c *catalogs) of(now *sources.Commit) *catalog.Set {
	kept := map[string]keptCatalog{}
	list := make([]catalog.Catalog, 0, len(now.Fleet.Workspace.Spec.Catalogs)+1)
	for i := range now.Fleet.Workspace.Spec.Catalogs {
		ref := &now.Fleet.Workspace.Spec.Catalogs[i]
		version, open, err := c.one(now, ref)
		k, ok := c.kept[ref.Name]
		if err == nil && (!ok || k.version != version) {
			k.version = version
			k.catalog, err = open()
		}
		if err != nil {
			list = append(list, &unreadable{ref.Name, err})
			continue
		}
		kept[ref.Name] = k
		list = append(list, k.catalog)
	}
	k, ok := c.kept[fleet.BuiltinCatalog]
	if !ok {
		k = keptCatalog{catalog: catalog.Folder(fleet.BuiltinCatalog, templates.Catalog())}
	}
	kept[fleet.BuiltinCatalog] = k
	c.kept = kept
	return catalog.All(append(list, k.catalog)...)
}

// unreadable is a catalog that cannot be opened now.
type unreadable struct {
	name string
	err  error
}

func (u *unreadable) Name() string { return u.name }

func (u *unreadable) Packages(context.Context) ([]string, error) { return nil, u.err }

func (u *unreadable) Versions(context.Context, string) ([]catalog.Entry, error) { return nil, u.err }

func (u *unreadable) Open(context.Context, string, string) (*catalog.Payload, error) {
	return nil, u.err
}

// one says which state of a catalog is the newest, and how it is opened.
func (c *catalogs) one(now *sources.Commit, ref *fleet.CatalogRef) (version string, open func() (catalog.Catalog, error), err error) {
	s, ok := now.Fleet.Source(ref.Source)
	if !ok {
		return "", nil, fmt.Errorf("there is no source %q", ref.Source)
	}
	if s.Spec.OCI != nil {
		a, err := c.sources.Access(s, now)
		if err != nil {
			return "", nil, err
		}
		return s.URL() + sources.Version(a, nil), func() (catalog.Catalog, error) { return registry(ref.Name, a) }, nil
	}
	snap, err := c.mirrors.Snapshot(c.sources.Want(s, now).ID, s.Spec.Git.Ref)
	if err != nil {
		return "", nil, err
	}
	return snap.Commit().ID + "/" + ref.Path, folder(ref, snap.FS()), nil
}

func folder(ref *fleet.CatalogRef, files fs.FS) func() (catalog.Catalog, error) {
	return func() (catalog.Catalog, error) {
		if ref.Path == "" {
			return catalog.Folder(ref.Name, files), nil
		}
		below, err := fs.Sub(files, ref.Path)
		if err != nil {
			return nil, err
		}
		return catalog.Folder(ref.Name, below), nil
	}
}

// registry is a catalog in an OCI repository.
func registry(name string, a *upstream.Access) (catalog.Catalog, error) {
	o, err := a.Repository()
	if err != nil {
		return nil, err
	}
	return catalog.OCI(name, o)
}
