// Package renew owns what a repository has to become for installations to have other versions of their packages.
//
// It refuses to decide who may have which version, and writes nothing.
//
// Wants says what a fleet asks for, for solve to answer; Changes is what of the answer is not so yet. Plan takes those into the
// repository: the package's files are merged with what people changed in them, the lock is written anew, and what is generated
// is composed again, also for the installations that depend on them. Where the merge leaves conflicts, nothing is generated:
// somebody has to decide first.
package renew

import (
	"context"
	"errors"

	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/solve"
)

// Change is the version that an installation is to have.
type Change struct {
	// Installation is one of the world's fleet. Without an entry in the lock it is new.
	Installation string
	// Package and Catalog say where it is; empty is as the lock has it.
	Package, Catalog string
	// Version is exact.
	Version string
	// Requires says which installation stands for each dependency. Nil leaves that as the lock has it.
	Requires map[string]string
}

// Result is what a repository has to become.
type Result struct {
	// Changes are files by their path from the root, in clear; nil is a file that goes.
	Changes map[string][]byte
	// Conflicts are those of Changes that have conflict markers, sorted. Nothing is generated then.
	Conflicts []string
	// Notes are what people should know, such as what breaks: one text each.
	Notes []string
	// Message is for the commit.
	Message string
}

// Wants are what a fleet's installations ask for, each with the version that it has.
func Wants(f *fleet.Fleet, lock *lockfile.Lock) []solve.Want { return nil }

// Changes are the picks that are not as the lock has them.
func Changes(lock *lockfile.Lock, s *solve.Solution) []Change { return nil }

// Agreement is what somebody has to agree to before an installation has a version.
type Agreement struct {
	Installation, From, To string
	// Breaking are the versions that break on the way; none when the package asks for agreement to every upgrade.
	Breaking []packages.Breaking
}

// NeedsAgreement says whether an upgrade to a version of a package waits for somebody, and why. Approved are the versions that
// somebody has agreed to.
func NeedsAgreement(next *packages.Package, installation, from string, approved []string) *Agreement {
	return nil
}

// Plan takes changes into the repository of a world. What people have changed in a package's files is kept; the version that
// they changed is found in the catalogs. Errors are those of the catalogs, of compose and of fleet.Load, and *BaseError.
func Plan(ctx context.Context, w *compose.World, set *catalog.Set, want []Change) (*Result, error) {
	return nil, errors.ErrUnsupported
}

// BaseError says that people changed a package's files, and that the version which they changed is found nowhere any more.
type BaseError struct {
	Installation, Package, Version string
	Err                            error
}

// Error names the version.
func (e *BaseError) Error() string {
	return "the files of " + e.Installation + " were changed, and " + e.Package + " " + e.Version + ", which they were made from, is in no catalog any more"
}

// Fix says what to do.
func (e *BaseError) Fix() string {
	return "publish that version again, or take the changes back: git checkout the files as they were added"
}

// Unwrap is why the version was not found.
func (e *BaseError) Unwrap() error { return e.Err }
