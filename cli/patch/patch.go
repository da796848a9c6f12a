// Package patch owns the difference between the files of two states of an installation repo.
//
// It refuses to know how it is shown and what the files mean.
//
// The trees of both states are compared by hashes, so only what differs is read. Of sealed files the values are masked, with the
// same digits for the same value, and others with every comparison.
package patch

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/treediff"
)

// Files are the paths at which a repo's work tree differs from a commit. A sealed file that holds the same, in clear or sealed
// anew, does not.
func Files(ctx context.Context, repo *workspace.Repo, commit string) ([]string, error) {
	list, err := Worktree(ctx, repo, commit)
	return Names(list), err
}

// Names are the paths of changes.
func Names(list []Change) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = c.File
	}
	return out
}

// Worktree compares the work tree with a commit.
func Worktree(ctx context.Context, repo *workspace.Repo, commit string) ([]Change, error) {
	before, err := snapshot.Open(repo.Root(), commit)
	if err != nil {
		return nil, err
	}
	after, err := snapshot.Worktree(repo.Root())
	if err != nil {
		return nil, err
	}
	return between(ctx, repo, before, after)
}

// Commits compares two commits of the clone. An empty before stands for nothing at all.
func Commits(ctx context.Context, repo *workspace.Repo, before, after string) ([]Change, error) {
	to, err := snapshot.Open(repo.Root(), after)
	if err != nil {
		return nil, err
	}
	var from *snapshot.Snapshot
	if before != "" {
		if from, err = snapshot.Open(repo.Root(), before); err != nil {
			return nil, err
		}
	}
	return between(ctx, repo, from, to)
}

func between(ctx context.Context, repo *workspace.Repo, before, after *snapshot.Snapshot) ([]Change, error) {
	pairs, err := differing(ctx, before, after)
	if err != nil {
		return nil, fmt.Errorf("compare files: %w", err)
	}
	v, err := openVault(repo)
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	d := describer{after: after.FS(), vault: v, key: key}
	if before != nil {
		d.before = before.FS()
	}
	return d.describeAll(ctx, pairs)
}

func (d describer) describeAll(ctx context.Context, pairs []treediff.Change) ([]Change, error) {
	list := []Change{}
	for _, p := range pairs {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c, differs, err := d.describe(p)
		if err != nil {
			return nil, err
		}
		if differs {
			list = append(list, c)
		}
	}
	return list, nil
}
