package existing

import (
	"fmt"

	"github.com/pluralsh/plural/workspace"
)

// UnreachableError says that the cluster's API server does not answer.
type UnreachableError struct {
	Server string
	Err    error
}

// Error names the server.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the API server at %s does not answer: %v", e.Server, e.Err)
}

// Fix says where to look.
func (e *UnreachableError) Fix() string {
	return "see that it is reachable from here (kubectl version), or name another --context"
}

// Unwrap is why.
func (e *UnreachableError) Unwrap() error { return e.Err }

// ManifestError says what plural.yaml lacks, or has otherwise than it was asked for.
type ManifestError struct{ Field, Flag, Has, Wanted string }

// Error says it.
func (e *ManifestError) Error() string {
	if e.Has == "" {
		return fmt.Sprintf("%s has no %s", workspace.Manifest, e.Field)
	}
	return fmt.Sprintf("%s says %s: %s, and %s was asked for", workspace.Manifest, e.Field, e.Has, e.Wanted)
}

// Fix says what to do.
func (e *ManifestError) Fix() string {
	switch {
	case e.Has == "" && e.Wanted == "":
		return fmt.Sprintf("give %s, or write %s into %s and commit it", e.Flag, e.Field, workspace.Manifest)
	case e.Has == "":
		return fmt.Sprintf("write %s: %s into %s and commit it", e.Field, e.Wanted, workspace.Manifest)
	}
	return fmt.Sprintf("leave the flag out, or change %s and commit it", workspace.Manifest)
}

// LateError says that the cluster does not run what the newest commit asks for.
type LateError struct {
	HubURL string
	// Last is what the hub said last, or why it said nothing.
	Last error
	// Silent says that it was not the hub who said it: the hub did not answer.
	Silent bool
}

// Error says what is the matter.
func (e *LateError) Error() string {
	if e.Silent {
		return fmt.Sprintf("the hub at %s did not answer within %s: %v", e.HubURL, patience, e.Last)
	}
	return fmt.Sprintf("it took more than %s; the hub at %s said last: %v", patience, e.HubURL, e.Last)
}

// Fix says where to look.
func (e *LateError) Fix() string {
	if e.Silent {
		return fmt.Sprintf("see that %s leads to the Service plural-system/plural-hub, and run it again", e.HubURL)
	}
	return "plural status and plural why SERVICE tell more; run it again to go on waiting"
}

// Unwrap is what was said last.
func (e *LateError) Unwrap() error { return e.Last }
