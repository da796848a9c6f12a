package attest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// What statements are called.
const (
	typeStatement = "https://in-toto.io/Statement/v1"
	// PredicateProvenance is the predicate of a statement about how something was built.
	PredicateProvenance = "https://slsa.dev/provenance/v1"
	// PredicateSignature is that of a statement that says no more than "this is ours", as cosign signs images.
	PredicateSignature = "https://sigstore.dev/cosign/sign/v1"
	// buildType is where it stands how a release is built.
	buildType = "https://github.com/pluralsh/plural/blob/main/docs/releases.md#how-a-release-is-built"
)

// Subject is what a statement is about.
type Subject struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

// FileSubject is a file.
func FileSubject(file string) (Subject, error) {
	f, err := os.Open(file)
	if err != nil {
		return Subject{}, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return Subject{}, err
	}
	return Subject{filepath.Base(file), map[string]string{"sha256": hex.EncodeToString(sum.Sum(nil))}}, nil
}

// Statement is a statement of in-toto, in JSON.
func Statement(subjects []Subject, predicateType string, predicate any) ([]byte, error) {
	subjects = slices.Clone(subjects)
	slices.SortFunc(subjects, func(a, b Subject) int { return cmp.Compare(a.Name, b.Name) })
	return json.Marshal(struct {
		Type          string    `json:"_type"`
		Subject       []Subject `json:"subject"`
		PredicateType string    `json:"predicateType"`
		Predicate     any       `json:"predicate"`
	}{typeStatement, subjects, predicateType, predicate})
}

// Build is how something was built.
type Build struct {
	// Repository is a URL, Ref the tag or branch, Commit 40 hex digits.
	Repository, Ref, Commit string
	// Builder is a URL that says who built it: a workflow of GitHub, or a machine of somebody's.
	Builder string
	// Invocation is a URL of this very build; it may be empty.
	Invocation string
	// Locks are files that pin what the build brings in from elsewhere, such as go.sum.
	Locks []Subject
}

// Provenance is the predicate of SLSA, version 1.
func (b *Build) Provenance() any {
	type descriptor struct {
		URI    string            `json:"uri"`
		Digest map[string]string `json:"digest"`
	}
	source := "git+" + b.Repository + "@" + b.Ref
	dependencies := []descriptor{{source, map[string]string{"gitCommit": b.Commit}}}
	for _, lock := range b.Locks {
		dependencies = append(dependencies, descriptor{source + "#" + lock.Name, lock.Digest})
	}
	run := map[string]any{"builder": map[string]string{"id": b.Builder}}
	if b.Invocation != "" {
		run["metadata"] = map[string]string{"invocationId": b.Invocation}
	}
	return map[string]any{
		"buildDefinition": map[string]any{
			"buildType":            buildType,
			"externalParameters":   map[string]string{"repository": b.Repository, "ref": b.Ref},
			"resolvedDependencies": dependencies,
		},
		"runDetails": run,
	}
}
