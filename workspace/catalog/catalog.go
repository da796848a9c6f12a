// Package catalog owns the finding of packages: in folders, in a registry.
//
// It refuses to know which versions fit together and how a fleet names its catalogs; whose signatures count comes in as a
// [signed.Image].
//
// A [Catalog] lists packages and opens one version at a time. [Folder] reads any file system: an embedded one, a git commit's.
// [OCI] reads one repository of a registry, which [Publish] writes. [All] puts catalogs in the order in which they are asked: a
// package belongs to the first catalog that has its name, so that no later one can slip a newer version of it in. What
// [Catalog.Open] gives was held against its digest.
package catalog

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/solve"
)

// Catalog is one place where packages are found. It is safe for concurrent use.
type Catalog interface {
	// Name is how the fleet calls it.
	Name() string
	// Packages are the names of all packages, sorted.
	Packages(ctx context.Context) ([]string, error)
	// Versions are those of one package, the newest first; none when the catalog does not have it.
	Versions(ctx context.Context, name string) ([]Entry, error)
	// Open gives one version's files. Without it the error is a *NotFoundError.
	Open(ctx context.Context, name, version string) (*Payload, error)
}

// Entry is one version of a package in a catalog.
type Entry struct {
	// Version is what the catalog calls it.
	Version string
	// Package is what its author says; nil when Problem is set.
	Package *packages.Package
	// Digest is that of packages.Digest.
	Digest string
	// Created is when it was published; zero where nobody knows.
	Created time.Time
	// Problem is why this version cannot be used. The others can.
	Problem error
}

// Payload is one version of a package, with its files.
type Payload struct {
	Files   fs.FS
	Package *packages.Package
	// Digest is that of packages.Digest, over Files.
	Digest string
}

// Folder is a catalog of NAME/package.yaml, or NAME/VERSION/package.yaml for several versions, in files.
func Folder(name string, files fs.FS) Catalog { return nil }

// OCI is a catalog in one repository of a registry.
func OCI(name string, o OCIOptions) (Catalog, error) { return nil, errors.ErrUnsupported }

// Set is several catalogs as one.
type Set struct{ catalogs []Catalog }

// All puts catalogs together, in the order in which they are asked.
func All(catalogs ...Catalog) *Set { return &Set{catalogs} }

// Catalogs are those of the set, in order.
func (s *Set) Catalogs() []Catalog { return s.catalogs }

// Packages are the names of all packages with the catalog that each comes from.
func (s *Set) Packages(ctx context.Context) (map[string]string, error) {
	return nil, errors.ErrUnsupported
}

// Versions are those of one package, the newest first, from one catalog or, when that is empty, from the first that has it.
func (s *Set) Versions(ctx context.Context, catalog, name string) ([]Entry, string, error) {
	return nil, "", errors.ErrUnsupported
}

// Open gives one version from one catalog or, when that is empty, from the first that has the package. A digest that is not
// empty must be the package's, else the error is a *DigestError.
func (s *Set) Open(ctx context.Context, catalog, name, version, digest string) (*Payload, error) {
	return nil, errors.ErrUnsupported
}

// Universe is the set as solve asks it, until ctx ends.
func (s *Set) Universe(ctx context.Context) solve.Choosing { return nil }
