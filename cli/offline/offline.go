// Package offline owns the view of an installation repo without a hub: its fleet, and the files behind its services.
//
// It refuses to know the network. What a work tree or a commit holds is there; a source in another repository never is.
//
// Open takes a snapshot and loads the fleet from it. The result is resolve.Sources, so the same code that runs in the
// hub resolves it here.
package offline

import (
	"fmt"

	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// State is an installation repo as it stands at one point.
type State struct {
	Fleet *fleet.Fleet
	files *snapshot.Snapshot
}

// Open reads repo at a commit (a hash, a branch, a tag, HEAD~2); an empty one means the work tree as it is. Mistakes in
// the files are a fleet.Errors.
func Open(repo *workspace.Repo, commit string) (*State, error) {
	files, err := take(repo.Root(), commit)
	if err != nil {
		return nil, err
	}
	f, err := fleet.Load(files.FS())
	if err != nil {
		return nil, fmt.Errorf("load installation repo: %w", err)
	}
	return &State{Fleet: f, files: files}, nil
}

func take(root, commit string) (*snapshot.Snapshot, error) {
	if commit == "" {
		return snapshot.Worktree(root)
	}
	return snapshot.Open(root, commit)
}

// Snapshot is the repo itself for the source "", and snapshot.ErrNotFetched for any other.
func (s *State) Snapshot(source, _ string) (*snapshot.Snapshot, error) {
	if source != "" {
		return nil, snapshot.ErrNotFetched
	}
	return s.files, nil
}

// Problems are what keeps services from being resolved here, and Elsewhere the services whose files lie in another
// repository, which only the hub fetches.
func (s *State) Problems() (problems []resolve.Problem, elsewhere []string) {
	for _, p := range resolve.Validate(s.Fleet, s) {
		if p.Source != "" {
			elsewhere = append(elsewhere, p.Service)
			continue
		}
		problems = append(problems, p)
	}
	return problems, elsewhere
}
