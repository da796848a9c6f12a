package compose

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
)

// LockedError says that a sealed file is needed that nobody here opens.
type LockedError struct{ Path string }

// Error names the file.
func (e *LockedError) Error() string { return fmt.Sprintf("%q is sealed, and was not opened", e.Path) }

// Fix says what to do.
func (e *LockedError) Fix() string { return "plural crypto unlock" }

// UnsealableError says that something secret would have to be kept, and that nothing would seal it.
type UnsealableError struct {
	Path string
	// Uncovered says that there is a policy, without a pattern for the path.
	Uncovered bool
}

// Error names the file.
func (e *UnsealableError) Error() string {
	if e.Uncovered {
		return fmt.Sprintf("%q holds secrets, and no pattern of %s seals it", e.Path, policy.File)
	}
	return fmt.Sprintf("%q holds secrets, and nothing is sealed in this repository", e.Path)
}

// Fix says what to do.
func (e *UnsealableError) Fix() string {
	if e.Uncovered {
		return "add the pattern **/*.secret.yaml to " + policy.File
	}
	return "plural crypto init"
}

// MissingError says that questions have no answer.
type MissingError struct {
	Installation string
	Questions    []packages.Question
}

// Error names the questions.
func (e *MissingError) Error() string {
	names := make([]string, len(e.Questions))
	for i := range e.Questions {
		names[i] = e.Questions[i].Name
	}
	return fmt.Sprintf("package %s: no answer to %s", e.Installation, strings.Join(names, ", "))
}

// Fix says how to answer.
func (e *MissingError) Fix() string {
	fix := "plural package set " + e.Installation
	for i := range e.Questions {
		if q := &e.Questions[i]; q.Type == packages.TypeSecret {
			fix += " --answers FILE"
			break
		}
	}
	for i := range e.Questions {
		if q := &e.Questions[i]; q.Type != packages.TypeSecret {
			fix += " " + q.Name + "=..."
		}
	}
	return fix
}

// UnknownError says that there is no such installation.
type UnknownError struct{ Installation string }

// Error names it.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("the installation repo has no package %q", e.Installation)
}

// Fix says what to do.
func (e *UnknownError) Fix() string { return "plural package list" }

// LockError says that plural.lock does not fit what the repo holds.
type LockError struct{ Installation, Message string }

// Error says in what.
func (e *LockError) Error() string {
	return fmt.Sprintf("%s: package %s: %s", lockfile.File, e.Installation, e.Message)
}

// Fix says what to do.
func (e *LockError) Fix() string { return "plural package upgrade " + e.Installation }

// moved is an error with places in a package's folder, as one with places in the repo.
func moved(name string, err error) error {
	var list fleet.Errors
	if !errors.As(err, &list) {
		return fmt.Errorf("package %s: %w", name, err)
	}
	out := make(fleet.Errors, len(list))
	for i, one := range list {
		e := *one
		e.File = Payload(name) + "/" + e.File
		out[i] = &e
	}
	return out
}
