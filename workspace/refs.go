package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// storage is a repository's on disk, in which a reference takes another's place at once. go-git alone would write over the file: a
// process that is killed in between leaves a reference that names nothing, with which nobody can list references any more.
type storage struct{ *filesystem.Storage }

// lasting is the repository with such a storage.
func lasting(g *git.Repository) (*git.Repository, error) {
	on, ok := g.Storer.(*filesystem.Storage)
	if !ok {
		return nil, errors.New("the repository is on no disk")
	}
	var files billy.Filesystem // none: the repository is bare
	tree, err := g.Worktree()
	switch {
	case err == nil:
		files = tree.Filesystem
	case !errors.Is(err, git.ErrIsBareRepository):
		return nil, err
	}
	return git.Open(&storage{on}, files)
}

// SetReference is go-git's.
func (s *storage) SetReference(ref *plumbing.Reference) error { return s.put(ref, nil) }

// CheckAndSetReference is go-git's: it refuses to when the reference is not what old says; nil: whatever it is.
func (s *storage) CheckAndSetReference(ref, old *plumbing.Reference) error {
	if ref == nil {
		return nil
	}
	return s.put(ref, func() error {
		if old == nil {
			return nil
		}
		now, err := s.Reference(old.Name())
		if err != nil {
			return err
		}
		if now.Hash() != old.Hash() {
			return ErrMoved
		}
		return nil
	})
}

// put writes a reference beside its file, where git itself clears away what nobody finished, and then in its place, unless stands
// says in between that it may not.
func (s *storage) put(ref *plumbing.Reference, stands func() error) error {
	files := s.Filesystem()
	temp := "objects/tmp_ref_" + rand.Text()
	file, err := files.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return fmt.Errorf("write reference %q: %w", ref.Name(), err)
	}
	content := ref.Strings()[1] + "\n"
	_, err = file.Write([]byte(content))
	if synced, ok := file.(interface{ Sync() error }); ok && err == nil {
		err = synced.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil && stands != nil {
		err = stands()
	}
	if err == nil {
		err = files.Rename(temp, ref.Name().String())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write reference %q: %w", ref.Name(), err), files.Remove(temp))
	}
	return nil
}
