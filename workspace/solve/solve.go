// Package solve owns the choice of versions of packages that fit together.
//
// It refuses to know where packages are found, and what is done with those that it picks: a [Universe] tells it of versions,
// and what comes out is a list.
//
// Every installation is a slot that holds one version or none, and every dependency a rule about slots. [Solve] gives each
// slot the best version that breaks no rule, in the order in which slots come up; what it learns from a dead end keeps it from
// walking into the like of it again. When nothing fits, the rules that cannot hold together are cut down to the fewest that
// still cannot, and told as a [ConflictError].
package solve

import "github.com/pluralsh/plural/workspace/packages"

// Version is one version of a package that a catalog has.
type Version struct {
	// Name, Version and Catalog say which.
	Name, Version, Catalog string
	// Provides are the names that the version may be asked for by besides its own.
	Provides []packages.Provided
	// Dependencies are what the version needs.
	Dependencies []packages.Dependency
}

// Universe is all the versions that there are.
type Universe interface {
	// Versions gives those of the package of that name or, when there is none, those of every package that provides it; none is
	// no error. All versions of one package come from one catalog. It is asked once for each name, when the name comes up.
	Versions(name string) ([]Version, error)
}

// Choosing is a Universe in which one package may come from several catalogs.
type Choosing interface {
	Universe
	// VersionsFrom gives the versions of a package that one catalog has.
	VersionsFrom(catalog, name string) ([]Version, error)
}

// Naming is a Universe that can list what it has, so that a slip of a name can be told.
type Naming interface{ Names() []string }

// Want is something that somebody asks for.
type Want struct {
	// Name is the package's, or one that packages provide.
	Name string
	// As is the installation's name; empty is the package's. Installations of one package may have different versions. It does
	// not count when Name is no package's.
	As string
	// Range is one of versions; empty is any stable one.
	Range string
	// Catalog is the one that the package must come from; empty is the first that has it.
	Catalog string
	// Locked is the version that is installed now. It stays when it fits.
	Locked string
	// By is who asks, for explanations: "packages/web/package.yaml".
	By string
}

// Pick is the version of one installation.
type Pick struct {
	// As is the installation's name.
	As string
	// Name, Version and Catalog say which package it is.
	Name, Version, Catalog string
	// For says who asked: Want.By, and "NAME VERSION" of picks that depend on it, sorted.
	For []string
	// Satisfies says which installation stands for each dependency, by packages.Dependency.Key. An optional dependency that is
	// not there is missing.
	Satisfies map[string]string
}

// Solution is what fits together.
type Solution struct {
	// Picks come after those that they depend on; what is free of order is sorted by name.
	Picks []Pick
}

// Solve picks versions for what is wanted and all that it needs. Wants get their best version in the order in which they are
// given, then what they need does: the best is what is locked, by the want or in locked by the name of the installation, then the
// newest. Of several packages that would do, one that is there anyway is taken, else one that is locked, else the first that
// is named. A pre-release counts when a want's range includes it, or it is locked.
//
// Errors are those of the Universe, a *ConflictError, a *CycleError, an *UnknownError, a
// *RangeError or ErrTooHard.
func Solve(wants []Want, u Universe, locked map[string]string) (*Solution, error) {
	s, core, err := solve(wants, u, locked, searchEffort)
	if err != nil {
		return nil, err
	}
	if core != nil {
		return nil, s.explain(core)
	}
	return s.solution()
}
