// Package catalogs owns where a fleet's packages are found, from a person's machine.
//
// It refuses to know what packages hold. Open takes the catalogs of plural.yaml with their Sources and makes a catalog.Set of
// them, with the one that the program brings along at the end. Nothing is fetched before it is asked for: a git catalog is
// then brought up to date in a mirror on this machine, once for each Set, and when its server is away the last state serves.
package catalogs

import (
	"errors"
	"io/fs"
	"time"

	"filippo.io/age"

	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Options are what this machine has.
type Options struct {
	// Cache is the folder of mirrors; empty is CacheDir's.
	Cache string
	// Identities open the credentials of Sources; nil opens none.
	Identities func() ([]age.Identity, error)
	// Offline asks no server: the last state serves.
	Offline bool
	// Stale is told, at most once for each catalog, that its server did not answer and that an older state serves.
	Stale func(Stale)
}

// Stale is a catalog whose last state serves.
type Stale struct {
	Catalog string
	// Fetched is when that state was fetched, Err why there is no newer one; nil when Options.Offline asked for that.
	Fetched time.Time
	Err     error
}

// CacheDir is where mirrors lie: PLURAL_CACHE_DIR, else plural in the XDG cache folder.
func CacheDir(getenv func(string) string) string { return "" }

// Open gives the catalogs of a fleet, whose installation repo is in files.
func Open(f *fleet.Fleet, files fs.FS, o Options) (*catalog.Set, error) {
	return nil, errors.ErrUnsupported
}
