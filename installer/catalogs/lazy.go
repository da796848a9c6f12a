package catalogs

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/upstream"
)

// lazy is a catalog that is opened when it is first asked.
type lazy struct {
	name string
	open func(context.Context) (catalog.Catalog, error)
	mu   sync.Mutex
	// opened and err are what came of it. Guarded by mu.
	opened catalog.Catalog
	err    error
}

// get opens the catalog once; one that cannot be opened stays so, unless it was only for want of time.
func (l *lazy) get(ctx context.Context) (catalog.Catalog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened != nil || l.err != nil {
		return l.opened, l.err
	}
	opened, err := l.open(ctx)
	if err != nil {
		err = &catalog.CatalogError{Catalog: l.name, Err: err}
		if ctx.Err() == nil {
			l.err = err
		}
		return nil, err
	}
	l.opened = opened
	return opened, nil
}

func (l *lazy) Name() string { return l.name }

func (l *lazy) Packages(ctx context.Context) ([]string, error) {
	c, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return c.Packages(ctx)
}

func (l *lazy) Versions(ctx context.Context, name string) ([]catalog.Entry, error) {
	c, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return c.Versions(ctx, name)
}

func (l *lazy) Open(ctx context.Context, name, version string) (*catalog.Payload, error) {
	c, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return c.Open(ctx, name, version)
}

// registry opens a catalog in an OCI repository, which keeps nothing on this machine.
func registry(ref fleet.CatalogRef, s *fleet.Source, files fs.FS, o Options) func(context.Context) (catalog.Catalog, error) {
	return func(context.Context) (catalog.Catalog, error) {
		if o.Offline {
			return nil, errors.New("it is in a registry, of which nothing is kept on this machine: ask for it online")
		}
		a, err := upstream.Find(s, files, o.Identities)
		if err != nil {
			return nil, err
		}
		repository, err := a.Repository()
		if err != nil {
			return nil, err
		}
		return catalog.OCI(ref.Name, repository)
	}
}
