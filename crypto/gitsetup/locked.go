package gitsetup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pluralsh/plural/crypto/gitcmd"
)

// Marker is the file in git's folder of a work tree that says that the work tree is locked.
const Marker = "plural/locked"

// Locked says whether the work tree holds what git keeps, and nobody would seal what is added to it: it was locked, or
// never unlocked.
func Locked(ctx context.Context, repo *gitcmd.Repo) (bool, error) {
	name, err := repo.GitPath(ctx, Marker)
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(name); err == nil {
		return true, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("look whether the work tree is locked: %w", err)
	}
	filter, _, err := repo.Config(ctx, filterKey)
	return filter == "", err
}

// Lock marks the work tree as locked. What it holds is for the caller to change.
func Lock(ctx context.Context, repo *gitcmd.Repo) error {
	name, err := repo.GitPath(ctx, Marker)
	if err != nil {
		return err
	}
	f := &file{path: name}
	return f.write([]byte("The files of this work tree are sealed: plural crypto unlock\n"), 0o644)
}

// Unlock takes the mark away.
func Unlock(ctx context.Context, repo *gitcmd.Repo) error {
	name, err := repo.GitPath(ctx, Marker)
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unlock work tree: %w", err)
	}
	_ = os.Remove(filepath.Dir(name)) // others may keep something there
	return nil
}
