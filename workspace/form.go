package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"filippo.io/age"
	"github.com/go-git/go-git/v5"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/internal/overlay"
)

// Keys are what a repo's sealed files are opened and sealed with.
type Keys struct {
	// Identities are the person's; see sealer.Config.
	Identities func() ([]age.Identity, error)
	// Confirmed is which readers the person has confirmed; see sealer.Config.
	Confirmed sealer.Confirmations
}

// UseKeys lets the repo seal what it commits, and open what it finds sealed. Without keys a commit that would have to
// seal something is refused.
func (r *Repo) UseKeys(k Keys) { r.keys = k }

// Vault is what the keys seal and open in the repo as it stands on disk, with changes (path to content, nil for a file to
// be removed) laid over it. Without a policy the error is policy.ErrNone.
func (r *Repo) Vault(changes map[string][]byte) (*sealer.Vault, error) {
	return sealer.Open(sealer.Config{
		Files: overlay.New(os.DirFS(r.root), changes), Identities: r.keys.Identities, Confirmed: r.keys.Confirmed,
	})
}

// sealCodec translates between the two forms of a file: what people read, in the work tree, and what git keeps. They differ
// for paths that must be sealed, and a locked work tree holds what git keeps.
type sealCodec struct {
	vault  *sealer.Vault // nil: nothing is to be sealed
	locked bool
}

func (r *Repo) form(g *git.Repository, changes map[string][]byte) (*sealCodec, error) {
	v, err := r.Vault(changes)
	if errors.Is(err, policy.ErrNone) {
		return &sealCodec{}, nil
	}
	if err != nil {
		return nil, err
	}
	locked, err := isLocked(g)
	return &sealCodec{v, locked}, err
}

// isLocked says whether git would not seal what is added to the clone: it has been locked, or was never unlocked.
func isLocked(g *git.Repository) (bool, error) {
	dir, err := gitDir(g)
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(filepath.Join(dir, "plural", "locked")); err == nil {
		return true, nil
	}
	c, err := g.Config()
	if err != nil {
		return false, fmt.Errorf("read git configuration: %w", err)
	}
	return c.Raw.Section("filter").Subsection("plural").Option("process") == "", nil
}

// seals says whether the file at path must be sealed.
func (f *sealCodec) seals(path string) (bool, error) {
	if f.vault == nil {
		return false, nil
	}
	return f.vault.Must(path)
}

// stored is what git is to keep of content, where it keeps old now, which may be nil.
func (f *sealCodec) stored(path string, content, old []byte) ([]byte, error) {
	sealed, moved, err := f.vault.Keep(path, content, old)
	if err == nil && moved != nil {
		return f.vault.Seal(path, content)
	}
	return sealed, err
}

// worktree is what the work tree is to hold of what git keeps: the plaintext, unless the clone is locked, disk holds the
// sealed form already, or nobody here can open it.
func (f *sealCodec) worktree(path string, stored, disk []byte) ([]byte, error) {
	if disk == nil && f.locked || disk != nil && seal.IsSealed(disk) {
		return stored, nil
	}
	plaintext, _, err := f.vault.Read(path, stored)
	var locked *sealer.LockedError
	if errors.As(err, &locked) || errors.Is(err, seal.ErrNotSealed) {
		return stored, nil
	}
	return plaintext, err
}

// arriving is worktree for what others have committed: a file that they put in another's place stays as git keeps it.
func (f *sealCodec) arriving(path string, stored, disk []byte) ([]byte, error) {
	claims, err := seal.Inspect(stored)
	if err == nil && claims.Check(f.vault.Policy().Repository, path) != nil {
		return stored, nil
	}
	return f.worktree(path, stored, disk)
}

// same says whether disk holds what git keeps as stored, in either form.
func (f *sealCodec) same(path string, disk, stored []byte) (bool, error) {
	if disk == nil || stored == nil || bytes.Equal(disk, stored) {
		return (disk == nil) == (stored == nil), nil
	}
	sealed, err := f.seals(path)
	if err != nil || !sealed {
		return false, err
	}
	want, err := f.worktree(path, stored, disk)
	return err == nil && bytes.Equal(disk, want), err
}

// check refuses to store what must be sealed and is not.
func (f *sealCodec) check(path string, stored []byte) error {
	sealed, err := f.seals(path)
	if err != nil || !sealed || len(stored) == 0 {
		return err
	}
	if _, err := seal.Inspect(stored); err != nil {
		return refuse("plural crypto encrypt "+path, "%q must be sealed, and is not", path)
	}
	return nil
}

// replaces is check for what takes the place of old. Everything that becomes a blob passes here. Git keeps no file in clear
// that it kept sealed, unless the person has confirmed the policy that gives it up: somebody else may have changed it.
func (f *sealCodec) replaces(path string, old, stored []byte) error {
	switch {
	case !seal.IsSealed(old) || len(stored) == 0 || seal.IsSealed(stored):
	case f.vault == nil:
		return refuse("restore "+policy.File, "%q was sealed until now, and nothing says for whom", path)
	default:
		if sealed, err := f.seals(path); err != nil || !sealed {
			return errors.Join(err, f.vault.Confirm())
		}
	}
	return f.check(path, stored)
}

// stands says whether a sealed file is for its place, and for the present identities of those who are to read it.
func (f *sealCodec) stands(path string, stored []byte) error {
	claims, err := seal.Inspect(stored)
	if err != nil || len(stored) == 0 {
		return nil // check has judged it
	}
	if err := f.vault.Check(path, claims); err != nil {
		return err
	}
	wanted, err := f.vault.Epochs(path)
	if err == nil && !slices.Equal(claims.Groups, wanted) {
		err = fmt.Errorf("%q is sealed for other groups than %s says", path, policy.File)
	}
	return err
}

// Sealed tells what git keeps, at HEAD, of every file that must be sealed when changes are laid over the policy on disk, one after the
// other: all of them together may not fit into memory. What is not sealed although it must be is told too, as it is.
func (r *Repo) Sealed(ctx context.Context, changes map[string][]byte, each func(path string, stored []byte) error) error {
	g, err := r.open()
	if err != nil {
		return err
	}
	f, err := r.form(g, changes)
	if err != nil {
		return err
	}
	h, err := readHead(g)
	if err != nil || h.tree == nil {
		return err
	}
	return h.sealed(ctx, f, func(path string, e entry) error {
		stored, err := readBlob(h.git.Storer, path, e.hash)
		if err != nil {
			return err
		}
		return each(path, stored)
	})
}

// sealed tells each file of the tip that must be sealed.
func (h *head) sealed(ctx context.Context, f *sealCodec, each func(path string, e entry) error) error {
	return differing(ctx, h.git.Storer, nil, h.tree, func(path string, e entry) error {
		sealed, err := f.seals(path)
		if err != nil || !sealed || !e.mode.IsFile() {
			return err
		}
		return each(path, e)
	})
}

// GitDir is git's folder of the work tree: .git, or that of a linked work tree.
func (r *Repo) GitDir() (string, error) {
	g, err := r.open()
	if err != nil {
		return "", err
	}
	return gitDir(g)
}

func gitDir(g *git.Repository) (string, error) {
	on, ok := g.Storer.(*storage)
	if !ok {
		return "", errors.New("the repository is not on disk")
	}
	return on.Filesystem().Root(), nil
}
