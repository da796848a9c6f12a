// Package pkgupgrade owns the edits that upgrade installations of packages.
//
// It refuses to decide who may have which version, and writes nothing.
//
// Wants says what a fleet asks for, for solve to answer; Changes is what of the answer is not so yet. Plan takes those into the
// repository: the package's files are merged with what people changed in them, the lock is written anew, and what is generated
// is composed again, also for the installations that depend on them. Where the merge leaves conflicts, nothing is generated:
// somebody has to decide first.
package pkgupgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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

// Agreement is what somebody has to agree to before an installation has a version.
type Agreement struct {
	Installation, From, To string
	// Breaking are the versions that break on the way; none when the package asks for agreement to every upgrade.
	Breaking []packages.Breaking
}

// NeedsAgreement says whether an upgrade to a version of a package waits for somebody, and why; nil when it does not. Approved
// are the versions that somebody has agreed to: the new one, or each of those that break on the way.
func NeedsAgreement(next *packages.Package, installation, from string, approved []string) *Agreement {
	a := &Agreement{Installation: installation, From: from, To: next.Spec.Version}
	if from == "" || from == a.To || slices.Contains(approved, a.To) {
		return nil
	}
	for _, b := range next.BreakingFrom(from) {
		if !slices.Contains(approved, b.Since) {
			a.Breaking = append(a.Breaking, b)
		}
	}
	if len(a.Breaking) == 0 && !next.Spec.NeedsApproval {
		return nil
	}
	return a
}

// Wants are what a fleet's installations ask for, each with the version that it has, sorted by name.
func Wants(f *fleet.Fleet, lock *lockfile.Lock) []solve.Want {
	wants := make([]solve.Want, len(f.Installations))
	for i := range f.Installations {
		in := &f.Installations[i]
		wants[i] = solve.Want{
			Name: in.PackageName(), As: in.Metadata.Name, Range: in.Spec.Version, Catalog: in.Spec.Catalog, By: in.Position.File,
		}
		if e, ok := lock.Entry(in.Metadata.Name); ok && e.Package == in.PackageName() {
			wants[i].Locked = e.Version
			wants[i].Catalog = cmp.Or(in.Spec.Catalog, e.Catalog)
		}
	}
	return wants
}

// Changes are the picks that are not as the lock has them, in the picks' order.
func Changes(lock *lockfile.Lock, s *solve.Solution) []Change {
	var changes []Change
	for i := range s.Picks {
		p := &s.Picks[i]
		e, ok := lock.Entry(p.As)
		if ok && e.Package == p.Name && e.Catalog == p.Catalog && e.Version == p.Version && maps.Equal(e.Requires, p.Satisfies) {
			continue
		}
		changes = append(changes, Change{p.As, p.Name, p.Catalog, p.Version, p.Satisfies})
	}
	return changes
}

// BaseError says that people changed a package's files, and that the version which they changed is found nowhere any more.
type BaseError struct {
	Installation, Package, Version string
	Err                            error
}

// Error names the version.
func (e *BaseError) Error() string {
	return fmt.Sprintf("files of %s were changed since %s %s, which no catalog has any more: %v", compose.Payload(e.Installation), e.Package, e.Version, e.Err)
}

// Fix says what to do.
func (e *BaseError) Fix() string {
	return "publish that version again, or take the changes back: git checkout the files as they were added"
}

// Unwrap is why the version was not found.
func (e *BaseError) Unwrap() error { return e.Err }
