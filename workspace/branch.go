package workspace

import (
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// moveBranch makes a branch name another commit, if it still is where old says; nil means that it is not there.
func moveBranch(g *git.Repository, branch plumbing.ReferenceName, to plumbing.Hash, old *plumbing.Reference) error {
	on, ok := g.Storer.(*storage)
	if !ok {
		return errors.New("the repository is on no disk")
	}
	if err := on.put(plumbing.NewHashReference(branch, to), func() error { return unmoved(g, branch, old) }); err != nil {
		return fmt.Errorf("move branch %q: %w", branch.Short(), err)
	}
	return nil
}

// unmoved says whether a branch is where old says.
func unmoved(g *git.Repository, branch plumbing.ReferenceName, old *plumbing.Reference) error {
	now, err := storer.ResolveReference(g.Storer, branch)
	switch {
	case errors.Is(err, plumbing.ErrReferenceNotFound) && old == nil:
		return nil
	case err != nil:
		return err
	case old == nil || now.Hash() != old.Hash():
		return ErrMoved
	}
	return nil
}
