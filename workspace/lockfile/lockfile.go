// Package lockfile owns plural.lock: which version of each package an installation repo holds.
//
// It refuses to know what a version contains, and which versions fit together.
//
// Load reads the file strictly; a repository without one has an empty Lock. Encode writes the same Lock as the same bytes,
// whoever made it, so that two people who resolve the same packages commit the same file.
package lockfile

import (
	"errors"
	"io/fs"
)

// File is where a lock lies in an installation repo.
const File = "plural.lock"

// Lock pins every installation. The zero value pins nothing.
type Lock struct {
	// Packages are sorted by name.
	Packages []Entry `json:"packages"`
}

// Entry is what one installation was resolved to.
type Entry struct {
	// Name is the installation's.
	Name string `json:"name"`
	// Package, Catalog and Version say what was taken, and from where.
	Package string `json:"package"`
	Catalog string `json:"catalog"`
	Version string `json:"version"`
	// Digest is that of the package as the catalog has it: "sha256:...".
	Digest string `json:"digest"`
	// Requires says which installation satisfies each dependency, by the name of the dependency.
	Requires map[string]string `json:"requires,omitempty"`
}

// Load reads the lock of the installation repo at the root of fsys. A repository without one has an empty lock.
func Load(fsys fs.FS) (*Lock, error) { return nil, errors.ErrUnsupported }

// Encode is the file's content.
func (l *Lock) Encode() ([]byte, error) { return nil, errors.ErrUnsupported }

// Entry finds an installation by name.
func (l *Lock) Entry(name string) (*Entry, bool) { return nil, false }

// Set puts an entry in its place, instead of one with the same name.
func (l *Lock) Set(e Entry) {}

// Remove takes an installation out.
func (l *Lock) Remove(name string) {}
