package leakcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind says what is wrong with a file.
type Kind string

// The kinds of findings.
const (
	// Plaintext is a file that must be sealed and is not.
	Plaintext Kind = "plaintext"
	// Unbound is an age file without a binding: anybody could have put it there.
	Unbound Kind = "unbound"
	// Moved is a file that was sealed for another path: renamed, copied or swapped.
	Moved Kind = "moved"
	// Foreign is a file that was sealed for another repository.
	Foreign Kind = "foreign"
	// Retired is a file that was sealed for an identity that its group has given up, or has not got yet.
	Retired Kind = "retired"
	// WrongGroups is a file that was sealed for other groups than the policy says.
	WrongGroups Kind = "wrong-groups"
	// Damaged is a file that begins like a sealed one, and is none.
	Damaged Kind = "damaged"
)

// Finding is one file that is not as the policy wants it.
type Finding struct {
	// Path is the file's, from the repository's root, with slashes.
	Path string
	// Where is the state of the repository that was looked at, in words: "index", "HEAD", "commit 1a2b3c4d5e6f",
	// "work tree". Empty for a tree that has no name.
	Where string
	Kind  Kind
	// Message says what is wrong, without place.
	Message string
	// Fix says what to do: one or two commands.
	Fix string
}

// String is "PATH (WHERE): MESSAGE".
func (f Finding) String() string {
	if f.Where == "" {
		return fmt.Sprintf("%q: %s", f.Path, f.Message)
	}
	return fmt.Sprintf("%q (%s): %s", f.Path, f.Where, f.Message)
}

// RefusedError means that git must not go on.
type RefusedError struct {
	// Action is what was asked for: "commit", "push".
	Action   string
	Findings []Finding
}

// Error names the first findings.
func (e *RefusedError) Error() string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "%s refused", e.Action)
	for _, f := range e.Findings[:min(most, len(e.Findings))] {
		b.WriteString("; " + f.String())
	}
	if more := len(e.Findings) - most; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// Fix says what to do about the findings, each advice once.
func (e *RefusedError) Fix() string {
	var all []string
	for _, f := range e.Findings {
		if f.Fix != "" && !slices.Contains(all, f.Fix) {
			all = append(all, f.Fix)
		}
	}
	return strings.Join(all, "\n")
}

// compareFindings puts plaintext first, then sorts by path and place.
func compareFindings(a, b Finding) int {
	rank := func(k Kind) int {
		if k == Plaintext {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), strings.Compare(a.Path, b.Path), strings.Compare(a.Where, b.Where))
}
