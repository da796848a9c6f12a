package terraform

import (
	"fmt"
	"strings"
	"time"
)

// MissingError says that this machine has no program that would do.
type MissingError struct {
	// Product is what the module asks for.
	Product Product
	// Path is what PLURAL_TERRAFORM names; empty where PATH was searched.
	Path string
	// Instead is the other product, where that is here: such as tofu for a module that asks for terraform.
	Instead *Tool
	// Cause says why Path is none.
	Cause error
}

// VersionError says that the program which is here is not of the version that the module asks for.
type VersionError struct {
	Tool Tool
	// Want is the range that the module asks for.
	Want string
}

// LockedError says that somebody else is at work on the same state.
type LockedError struct {
	// ID is what to unlock by, once it is certain that the holder is gone.
	ID string
	// Who is user@host, as terraform tells it.
	Who string
	// Operation is what the holder does, such as OperationTypeApply.
	Operation string
	// Path is the state's, in its backend.
	Path string
	// Since is when the holder began; zero where terraform does not tell.
	Since time.Time
}

// DestroyError says that a plan destroys what a module may not.
type DestroyError struct {
	// Addresses are those of the resources that would be destroyed or replaced.
	Addresses []string
}

// FailedError is what terraform says of its own failure.
type FailedError struct {
	// During is the command: init, plan, apply or destroy.
	During string
	// Address is the resource's; empty where it is not one that failed.
	Address string
	// Place is the file and line that terraform names, if any.
	Place string
	// Summary and Detail are terraform's words, without what is secret.
	Summary, Detail string
	// More is how many other errors there were; the log has them all.
	More int
	// Solution is what would help, where that is known.
	Solution string
}

// StoppedError says that terraform was asked to stop and did; what it had made is in the state.
type StoppedError struct {
	During string
	// Killed says that it did not stop in time and was killed: what it was at may be missing in the state.
	Killed bool
	// Cause is why it was asked.
	Cause error
}

// StateError says that it cannot be told which state is the newest.
type StateError struct {
	// Kept is the state that the caller gave, Found the one in the working folder, as "lineage L, serial N".
	Kept, Found string
	// File is where the found one lies.
	File string
	// Cause is what is wrong with them.
	Cause string
}

// InputError says that an input cannot be given to the module.
type InputError struct {
	Name, Cause, Solution string
}

// Error says which program is missed, and what is here in its place.
func (e *MissingError) Error() string {
	name := string(e.Product)
	if e.Product == Any {
		name = "terraform or tofu"
	}
	switch {
	case e.Instead != nil:
		return fmt.Sprintf("find %s: only %s %s is here (%s), and the module asks for %s",
			name, e.Instead.Product, e.Instead.Version, e.Instead.Path, name)
	case e.Path != "":
		return fmt.Sprintf("find %s: %s is %q: %v", name, variable, e.Path, e.Cause)
	}
	return fmt.Sprintf("find %s: it is not on PATH", name)
}

// Fix says what to do.
func (e *MissingError) Fix() string {
	if e.Path != "" && e.Instead == nil {
		return "let " + variable + " name a program of terraform or tofu, or unset it"
	}
	return "install it, or let " + variable + " name the program"
}

// Unwrap says why the program that is named is none.
func (e *MissingError) Unwrap() error { return e.Cause }

// Error says which version is here.
func (e *VersionError) Error() string {
	return fmt.Sprintf("find %s: %s is version %s, and the module asks for %s", e.Tool.Product, e.Tool.Path, e.Tool.Version, e.Want)
}

// Fix says what to do.
func (e *VersionError) Fix() string {
	return "install one in that range, or let " + variable + " name it"
}

// Error says who has the lock.
func (e *LockedError) Error() string {
	since, operation := "", ""
	if !e.Since.IsZero() {
		since = " since " + e.Since.UTC().Format(time.RFC3339)
	}
	if e.Operation != "" {
		operation = strings.ToLower(strings.TrimPrefix(e.Operation, "OperationType")) + ", "
	}
	return fmt.Sprintf("lock terraform state: %s holds it%s (%slock %s)", e.Who, since, operation, e.ID)
}

// Fix says what to do.
func (e *LockedError) Fix() string {
	return "wait for it; if that process is gone: plural deploy --terraform-unlock " + e.ID
}

// Error names what would be destroyed.
func (e *DestroyError) Error() string {
	const shown = 5
	list := strings.Join(e.Addresses[:min(shown, len(e.Addresses))], ", ")
	if more := len(e.Addresses) - shown; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return "apply terraform plan: it would destroy " + list
}

// Fix says how to say that it is meant.
func (e *DestroyError) Fix() string {
	return "if that is meant: --allow-destroy, or allowDestroy: true in the package's step"
}

// Error is the first of terraform's errors, in one line.
func (e *FailedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "terraform %s: ", e.During)
	for _, part := range []string{e.Address, e.Place} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(e.Summary)
	if gist := e.gist(); gist != "" {
		b.WriteString(": " + gist)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, " (and %d more errors)", e.More)
	}
	return b.String()
}

// Fix says what to do; it is empty where that is not known.
func (e *FailedError) Fix() string { return e.Solution }

// gist is the first paragraph of the detail in one line, without the lines of source that may stand before it.
func (e *FailedError) gist() string {
	for paragraph := range strings.SplitSeq(e.Detail, "\n\n") {
		words := strings.Fields(paragraph)
		if len(words) > 3 && words[0] == "on" && words[2] == "line" {
			continue
		}
		if len(words) > 0 {
			return middleOut(strings.TrimSuffix(strings.Join(words, " "), "."))
		}
	}
	return ""
}

// middleOut shortens what is long, such as all that a script has said: what matters stands at either end.
func middleOut(text string) string {
	const side = 300
	runes := []rune(text)
	if len(runes) <= 2*side {
		return text
	}
	return string(runes[:side]) + " ... " + string(runes[len(runes)-side:])
}

// Error says what the state has.
func (e *StoppedError) Error() string {
	if e.Killed {
		return fmt.Sprintf("terraform %s: it did not stop in time and was killed: what it was making may be missing in its state",
			e.During)
	}
	return fmt.Sprintf("terraform %s: stopped, and the state has what was made", e.During)
}

// Fix says what to do.
func (e *StoppedError) Fix() string {
	if e.Killed {
		return "look for what it was making, and run again"
	}
	return "run again to go on"
}

// Unwrap says why it was stopped.
func (e *StoppedError) Unwrap() error { return e.Cause }

// Error names both states.
func (e *StateError) Error() string {
	return fmt.Sprintf("pick terraform state: the one kept (%s) and the one in %s (%s) %s", e.Kept, e.File, e.Found, e.Cause)
}

// Fix says what to do.
func (e *StateError) Fix() string {
	return "see which is true, and remove " + e.File + " if it is the other"
}

// Error names the input.
func (e *InputError) Error() string {
	return fmt.Sprintf("terraform input %q: %s", e.Name, e.Cause)
}

// Fix says what to do.
func (e *InputError) Fix() string { return e.Solution }
