package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// moveBranch makes a branch name another commit, if it still is where old says; nil means that it is not there. go-git
// would write over the file: a process that is killed in between leaves a branch that names nothing. So the new content
// is written beside, where git itself clears away what nobody finished, and takes the old one's place at once.
func moveBranch(g *git.Repository, branch plumbing.ReferenceName, to plumbing.Hash, old *plumbing.Reference) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("move branch %q: %w", branch.Short(), err)
		}
	}()
	on, ok := g.Storer.(*filesystem.Storage)
	if !ok {
		return errors.New("the repository is on no disk")
	}
	files := on.Filesystem()
	temp := "objects/tmp_branch_" + rand.Text()
	file, err := files.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write([]byte(to.String() + "\n"))
	if synced, ok := file.(interface{ Sync() error }); ok && err == nil {
		err = synced.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = unmoved(g, branch, old)
	}
	if err == nil {
		err = files.Rename(temp, branch.String())
	}
	if err != nil {
		return errors.Join(err, files.Remove(temp))
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
