// Package offline owns an installation repo as seen without a hub.
//
// It refuses to know the network. What a work tree or a commit holds is there; a source in another repository never is.
//
// Read takes a snapshot, which Taken gives, and Unsealed and Fleet look at. The fleet is resolve.Sources, so the same code that runs in
// the hub resolves it here.
package offline

import (
	"context"
	"fmt"

	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealcheck"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Files are an installation repo as it stands at one point.
type Files struct{ snap *snapshot.Snapshot }

// State is the fleet that an installation repo's files are.
type State struct {
	Fleet *fleet.Fleet
	Files
}

// Read reads repo at a commit (a hash, a branch, a tag, HEAD~2); an empty one means the work tree as it is.
func Read(repo *workspace.Repo, commit string) (*Files, error) {
	snap, err := take(repo.Root(), commit)
	if err != nil {
		return nil, err
	}
	return &Files{snap}, nil
}

// Open reads repo's fleet as Read and Fleet do.
func Open(repo *workspace.Repo, commit string) (*State, error) {
	files, err := Read(repo, commit)
	if err != nil {
		return nil, err
	}
	return files.Fleet()
}

// At reads repo's fleet at a commit that is known by its id, as Open does; no branch or tag of the same name is taken for it.
func At(repo *workspace.Repo, commit string) (*State, error) {
	snap, err := snapshot.At(repo.Root(), snapshot.Hash(commit))
	if err != nil {
		return nil, err
	}
	return (&Files{snap}).Fleet()
}

// Fleet is what the files say. Mistakes in them are a fleet.Errors.
func (f *Files) Fleet() (*State, error) {
	loaded, err := fleet.Load(f.snap.FS())
	if err != nil {
		return nil, fmt.Errorf("load installation repo: %w", err)
	}
	return &State{Fleet: loaded, Files: *f}, nil
}

// Taken is the snapshot that was read.
func (f *Files) Taken() *snapshot.Snapshot { return f.snap }

// Unsealed lists the files that are not sealed as they must be. A work tree may hold in clear what will be sealed on its
// way into git.
func (f *Files) Unsealed(ctx context.Context) ([]sealcheck.Problem, error) {
	return sealcheck.New().Check(ctx, f.snap)
}

func take(root, commit string) (*snapshot.Snapshot, error) {
	if commit == "" {
		return snapshot.Worktree(root)
	}
	return snapshot.Open(root, commit)
}

// Snapshot is the repo itself for the source "", and an *ElsewhereError for any other.
func (s *State) Snapshot(source, _ string) (*snapshot.Snapshot, error) {
	if source == "" {
		return s.snap, nil
	}
	elsewhere := &ElsewhereError{}
	if known, ok := s.Fleet.Source(source); ok {
		elsewhere.Kind = known.Kind()
	}
	return nil, elsewhere
}

// ElsewhereError says that a source cannot be read without a hub.
type ElsewhereError struct {
	// Kind is git, helm, oci or http.
	Kind string
}

func (e *ElsewhereError) Error() string {
	what := map[string]string{
		"git": "another git repository", "helm": "a Helm repository", "oci": "a repository of a registry", "http": "a file behind https",
	}[e.Kind]
	return fmt.Sprintf("it is %s, which only the hub fetches", what)
}

// Fix is how its files can be rendered all the same.
func (e *ElsewhereError) Fix() string {
	how := map[string]string{
		"git":  "render a clone of it",
		"helm": "unpack the chart with helm pull --untar, and render that",
		"oci":  "pull and unpack what is in it, and render that",
		"http": "put the file in its place, and render that",
	}[e.Kind]
	return how + ": plural render --path FOLDER"
}

// Problems are what keeps services from being resolved here, and elsewhere the services whose files, or a part of them, lie
// in another repository, which only the hub fetches. The error says that ctx ended.
func (s *State) Problems(ctx context.Context) (problems []resolve.Problem, elsewhere []string, err error) {
	found, err := resolve.Validate(ctx, s.Fleet, s)
	for _, p := range found {
		if p.Source != "" {
			elsewhere = append(elsewhere, p.Service)
			continue
		}
		problems = append(problems, p)
	}
	return problems, elsewhere, err
}

// Warnings say what services' files leave out.
func (s *State) Warnings() []string { return resolve.New().Warnings(s.Fleet, s) }
