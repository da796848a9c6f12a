// Package catalog owns catalogs of packages, in folders and registries.
//
// It refuses to know which versions fit together and how a fleet names its catalogs; whose signatures count comes in as a
// [verify.Image].
//
// A [Catalog] lists packages and opens one version at a time. [Folder] reads any file system: an embedded one, a git commit's.
// [OCI] reads one repository of a registry, which [Publish] writes. [All] puts catalogs in the order in which they are asked: a
// package belongs to the first catalog that has its name, so that no later one can slip a newer version of it in. What
// [Catalog.Open] gives was read as a whole, and held against the digest that it was published with.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"time"

	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/versions"
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

// NotFoundError says that a catalog has no such version, or no such package.
type NotFoundError struct {
	Catalog, Name, Version string
	// Has are the versions that it has, the newest first.
	Has []string
}

// Error says what there is instead.
func (e *NotFoundError) Error() string {
	if len(e.Has) == 0 {
		return fmt.Sprintf("catalog %s has no package %s: plural package search lists what there is", e.Catalog, e.Name)
	}
	return fmt.Sprintf("catalog %s has no %s %s: the newest that it has is %s", e.Catalog, e.Name, e.Version, e.Has[0])
}

// DigestError says that a version is not what it was.
type DigestError struct {
	Catalog, Name, Version string
	// Want is the digest that was expected, Have what came.
	Want, Have string
}

// Error says what that means.
func (e *DigestError) Error() string {
	return fmt.Sprintf("%s %s in catalog %s has changed: its digest is %s, and should be %s: a version never changes, so somebody "+
		"has replaced it; ask whoever publishes it, and take another version", e.Name, e.Version, e.Catalog, e.Have, e.Want)
}

// CatalogError says which catalog could not be asked.
type CatalogError struct {
	Catalog string
	Err     error
}

// Error names the catalog.
func (e *CatalogError) Error() string { return fmt.Sprintf("catalog %s: %v", e.Catalog, e.Err) }

// Fix says what to look at: what the cause knows to help, or its server when that did not answer, or where it is named.
func (e *CatalogError) Fix() string {
	var known interface {
		error
		Fix() string
	}
	var network *net.OpError
	switch {
	case errors.As(e.Err, &known) && known.Fix() != "":
		return known.Fix()
	case errors.As(e.Err, &network):
		return "see that its server is up and reachable from here, and that its source below sources/ names the right one"
	}
	return "see spec.catalogs in plural.yaml and its source below sources/"
}

// Unwrap is the cause.
func (e *CatalogError) Unwrap() error { return e.Err }

func failed(catalog string, err error) error {
	if err == nil {
		return nil
	}
	return &CatalogError{catalog, err}
}

// newestFirst sorts entries; what is no version comes last.
func newestFirst(list []Entry) {
	slices.SortStableFunc(list, func(a, b Entry) int {
		v, w := versions.Parse(a.Version), versions.Parse(b.Version)
		switch {
		case v == nil && w == nil:
			return 0
		case v == nil:
			return 1
		case w == nil:
			return -1
		}
		return versions.Compare(w, v)
	})
}
