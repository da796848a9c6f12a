// Package catalogs owns the catalogs of a fleet, as a person's machine finds them.
//
// It refuses to know what packages hold. Open takes the catalogs of plural.yaml with their Sources and makes a catalog.Set of
// them, with the one that the program brings along at the end. Nothing is fetched before it is asked for: a git catalog is
// then brought up to date in a mirror on this machine, once for each Set, and when its server is away the last state serves.
package catalogs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"filippo.io/age"
	"github.com/adrg/xdg"

	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Options are what this machine has.
type Options struct {
	// Cache is the folder of mirrors.
	Cache string
	// Identities open the credentials of Sources; nil opens none.
	Identities func() ([]age.Identity, error)
	// AllowFile admits git repositories that are folders of this machine: whoever writes the installation repo could otherwise
	// choose one for whoever clones it.
	AllowFile bool
	// Offline asks no git server: the last state serves.
	Offline bool
	// Stale is told, at most once for each catalog, that an older state serves.
	Stale func(Stale)
}

// Stale is a catalog whose last state serves.
type Stale struct {
	Catalog string
	// Fetched is when that state was fetched, Err why there is no newer one.
	Fetched time.Time
	Err     error
}

// ErrOffline is why there is nothing newer when Options.Offline asks for that.
var ErrOffline = errors.New("nobody was asked, since this is to work offline")

// FileError means that a catalog is a folder of this machine, which the person has not allowed.
type FileError struct{ Source string }

func (e *FileError) Error() string {
	return fmt.Sprintf("source %s is a folder of this machine, which no repository may choose", e.Source)
}

// Fix says how to allow it.
func (e *FileError) Fix() string {
	return "if the folder is yours to be read: set PLURAL_ALLOW_FILE_SOURCES=1"
}

// CacheDir is where mirrors lie: PLURAL_CACHE_DIR, else plural in the XDG cache folder.
func CacheDir(getenv func(string) string) string {
	return cmp.Or(getenv("PLURAL_CACHE_DIR"), filepath.Join(xdg.CacheHome, "plural"))
}

// Open gives the catalogs of a fleet, whose installation repo is in files. Without catalogs of its own a fleet has the one that
// the program brings along, and files may be nil.
func Open(f *fleet.Fleet, files fs.FS, o Options) (*catalog.Set, error) {
	var all []catalog.Catalog
	for _, ref := range f.Workspace.Spec.Catalogs {
		c, err := open(f, files, ref, o)
		if err != nil {
			return nil, &catalog.CatalogError{Catalog: ref.Name, Err: err}
		}
		all = append(all, c)
	}
	return catalog.All(append(all, catalog.Folder(fleet.BuiltinCatalog, templates.Catalog()))...), nil
}

func open(f *fleet.Fleet, files fs.FS, ref fleet.CatalogRef, o Options) (catalog.Catalog, error) {
	s, ok := f.Source(ref.Source)
	if !ok {
		return nil, fmt.Errorf("there is no source %q: write sources/%s.yaml", ref.Source, ref.Source)
	}
	switch {
	case s.Spec.Git != nil:
		g := &git{ref: ref, source: s, files: files, options: o}
		return &lazy{name: ref.Name, open: g.open}, nil
	case s.Spec.OCI != nil:
		return &lazy{name: ref.Name, open: registry(ref, s, files, o)}, nil
	}
	return nil, fmt.Errorf("source %s is a Helm repository, which holds charts and no packages: use one of git or OCI", ref.Source)
}

// folder is a catalog in a folder of a source's files.
func folder(ref fleet.CatalogRef, files fs.FS) (catalog.Catalog, error) {
	if ref.Path == "" {
		return catalog.Folder(ref.Name, files), nil
	}
	if info, err := fs.Stat(files, ref.Path); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("there is no folder %s in source %s: mend path in spec.catalogs of plural.yaml", ref.Path, ref.Source)
	}
	below, err := fs.Sub(files, ref.Path)
	if err != nil {
		return nil, err
	}
	return catalog.Folder(ref.Name, below), nil
}
