package solve

import "strings"

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
	if len(e.Fixes) > 0 {
		b.WriteString("\nwhat would help:")
	}
	for _, fix := range e.Fixes {
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
	// Name is what was asked for, By who asked.
	Name, By string
	// Near is the known name that it may be a slip of; empty when there is none.
	Near string
}

// Error names the package and who asked.
func (e *UnknownError) Error() string {
	text := e.By + " asks for " + e.Name + ", which is in no catalog"
	if e.Near != "" {
		return text + ": did you mean " + e.Near + "?"
	}
	return text + ": see `plural package search` for what there is"
}
