package solve

import (
	"fmt"
	"strings"
)

// ConflictError says that no versions fit together, and why.
type ConflictError struct {
	// Reasons are what cannot all hold, in the order in which one leads to the next.
	Reasons []string
	// Fixes are changes that were tried and lead to a solution, or what to look at where none was found.
	Fixes []string
}

// Error tells the reasons and the fixes, a line each.
func (e *ConflictError) Error() string {
	var b strings.Builder
	b.WriteString("no versions fit together:")
	for _, reason := range e.Reasons {
		b.WriteString("\n  " + reason)
	}
	b.WriteString("\nwhat would help:")
	if len(e.Fixes) == 0 {
		b.WriteString("\n  another range of versions in one of these files")
	}
	for i, fix := range e.Fixes {
		if i > 0 {
			fix = "or " + fix
		}
		b.WriteString("\n  " + fix)
	}
	return b.String()
}

// CycleError says that packages need each other in a circle, so that none can go first.
type CycleError struct {
	// Names are the installations in order; the first is repeated at the end.
	Names []string
}

// Error is the circle.
func (e *CycleError) Error() string {
	return "packages depend on each other in a circle: " + strings.Join(e.Names, " -> ") +
		": one of them has to do without the other"
}

// UnknownError says that no catalog has a package, or a name that packages provide.
type UnknownError struct {
	// Name is what was asked for, By who asked. Catalog is the only one that was looked in; empty is all.
	Name, Catalog, By string
	// Elsewhere is a catalog that does have it, Near the known name that it may be a slip of; empty when there is none.
	Elsewhere, Near string
}

// Error names the package and who asked.
func (e *UnknownError) Error() string {
	where := "no catalog has"
	if e.Catalog != "" {
		where = "the catalog " + e.Catalog + " does not have"
	}
	text := fmt.Sprintf("%s asks for %s, which %s", e.By, e.Name, where)
	switch {
	case e.Elsewhere != "":
		return text + ": the catalog " + e.Elsewhere + " has it"
	case e.Near != "":
		return text + ": did you mean " + e.Near + "?"
	}
	return text + ": plural package search lists what there is"
}

// RangeError says that what somebody asks for is no range of versions.
type RangeError struct {
	By, Name string
	Err      error
}

// Error says who asks for what.
func (e *RangeError) Error() string { return fmt.Sprintf("%s asks for %s: %v", e.By, e.Name, e.Err) }

// Unwrap is the cause.
func (e *RangeError) Unwrap() error { return e.Err }
