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

// SilentError says that the hub did not answer while it was waited for.
type SilentError struct {
	HubURL string
	// Why is why it is not waited for any longer, Err what came instead of its last answer.
	Why, Err error
}

// Error says what is the matter.
func (e *SilentError) Error() string {
	return fmt.Sprintf("%v: the hub at %s does not answer: %v", e.Why, e.HubURL, e.Err)
}

// Fix says where to look.
func (e *SilentError) Fix() string {
	return fmt.Sprintf("see that %s leads to the Service plural-system/plural-hub, and run it again", e.HubURL)
}

// Unwrap is both.
func (e *SilentError) Unwrap() []error { return []error{e.Why, e.Err} }

// UnsignedError says that the hub will not believe the newest commit.
type UnsignedError struct {
	Commit string
	Err    error
}

// Error says why.
func (e *UnsignedError) Error() string {
	return fmt.Sprintf("the hub believes only commits that repoKeys of %s signed, and %.12s is not: %v", hubAnswers, e.Commit, e.Err)
}

// Fix says what signs all that was committed before.
func (e *UnsignedError) Fix() string {
	return `git commit --allow-empty -S -m "Vouch for what plural committed" && git push, and run it again`
}

// Unwrap is why.
func (e *UnsignedError) Unwrap() error { return e.Err }
