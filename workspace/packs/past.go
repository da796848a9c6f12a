package packs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// maxHistory is how many commits are looked at for older states of a package's files.
const maxHistory = 20_000

// History finds older states of packages' files among the commits before HEAD of the repository at root: a catalog that is part
// of a program has no versions but its own.
func History(root string) pkgupgrade.Past {
	return func(ctx context.Context, installation, digest string) (fs.FS, error) {
		repo, err := git.PlainOpenWithOptions(root, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		head, err := repo.Head()
		if errors.Is(err, plumbing.ErrReferenceNotFound) {
			return nil, fs.ErrNotExist // there is no commit yet
		}
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		commits, err := repo.Log(&git.LogOptions{From: head.Hash(), Order: git.LogOrderCommitterTime})
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		defer commits.Close()
		return search(ctx, repo, commits, compose.Payload(installation), digest)
	}
}

// search looks at every state of a folder once, the newest first.
func search(ctx context.Context, repo *git.Repository, commits object.CommitIter, folder, digest string) (fs.FS, error) {
	seen := map[plumbing.Hash]bool{}
	for range maxHistory {
		c, err := commits.Next()
		if err != nil {
			return nil, fs.ErrNotExist // the end of the history, or of what this clone has of it
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		tree, err := c.Tree()
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		entry, err := tree.FindEntry(folder)
		if err != nil || seen[entry.Hash] {
			continue
		}
		seen[entry.Hash] = true
		snap, err := snapshot.Of(repo.Storer, snapshot.Hash(c.Hash.String()))
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		files, err := fs.Sub(snap.FS(), folder)
		if err != nil {
			return nil, err
		}
		if found, err := packages.Digest(files); err == nil && found == digest {
			return files, nil
		}
	}
	return nil, fs.ErrNotExist
}
