package gitsetup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/internal/block"
)

// Refresh makes the clone's own attributes say what the policies of its work trees say. They outrank every
// .gitattributes, so no commit can switch the filter off; and they never lose a line, so no commit that takes a pattern or
// the policy away can: the filter is asked still, and lets through what the person has confirmed. It is to run whenever a policy may have changed: the hooks that
// follow a checkout and a merge do it. It says whether anything changed.
func Refresh(ctx context.Context, repo *gitcmd.Repo) (changed bool, err error) {
	f, want, err := planAttributes(ctx, repo)
	if err != nil || f.same(want) {
		return false, err
	}
	return true, f.write(want, 0o644)
}

// planAttributes is the attributes' file as it is and as it is to be.
func planAttributes(ctx context.Context, repo *gitcmd.Repo) (*file, []byte, error) {
	lines, err := attributes(ctx, repo)
	if err != nil {
		return nil, nil, err
	}
	f, err := attributesFile(ctx, repo)
	if err != nil {
		return nil, nil, err
	}
	known, err := block.Body(f.content)
	if err != nil {
		return nil, nil, blockFault(f.path, err)
	}
	if lines = grown(known, lines); len(lines) == 0 {
		return f, f.content, nil
	}
	want, err := block.Put(f.content, lines)
	if err != nil {
		return nil, nil, blockFault(f.path, err)
	}
	return f, want, nil
}

// grown is lines below those of known that are not among them. Of two lines about a path git takes the lower.
func grown(known, lines []byte) []byte {
	now := map[string]bool{}
	for line := range bytes.Lines(lines) {
		now[string(bytes.TrimSpace(line))] = true
	}
	var all []byte
	for line := range bytes.Lines(known) {
		if text := bytes.TrimSpace(line); !now[string(text)] {
			all = append(append(all, text...), '\n')
		}
	}
	return append(all, lines...)
}

func attributesFile(ctx context.Context, repo *gitcmd.Repo) (*file, error) {
	name, err := repo.GitPath(ctx, "info/attributes")
	if err != nil {
		return nil, err
	}
	return readFile(name)
}

// cut is the file without our block, nil when nothing else stands in it.
func (f *file) cut() ([]byte, error) {
	want, err := block.Cut(f.content)
	if err != nil {
		return nil, blockFault(f.path, err)
	}
	if len(want) == 0 {
		return nil, nil
	}
	return want, nil
}

// attributes are the lines for all work trees of the clone, which share one file. A path that is sealed in one of them
// is given to the filter in all; the filter asks the policy of its own.
func attributes(ctx context.Context, repo *gitcmd.Repo) ([]byte, error) {
	tops, err := workTrees(ctx, repo)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, top := range tops {
		lines, err := attributesOf(top)
		if err != nil && top == repo.Top {
			return nil, err
		}
		if err != nil {
			continue // whoever works there is told; here nothing can be done about it
		}
		if !slices.ContainsFunc(all, func(one []byte) bool { return bytes.Equal(one, lines) }) {
			all = append(all, lines)
		}
	}
	return bytes.Join(all, nil), nil
}

func attributesOf(top string) ([]byte, error) {
	root, err := os.OpenRoot(top)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a work tree that was removed by hand
	}
	if err != nil {
		return nil, fmt.Errorf("open work tree: %w", err)
	}
	defer func() { _ = root.Close() }()
	p, err := policy.Load(root.FS())
	if errors.Is(err, policy.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p.Attributes(), nil
}

// workTrees are the roots of all work trees of the clone, sorted. Git keeps a folder for each but the first, with the
// name of the .git file in its root.
func workTrees(ctx context.Context, repo *gitcmd.Repo) ([]string, error) {
	tops := []string{repo.Top}
	entries, err := os.ReadDir(filepath.Join(repo.CommonDir, "worktrees"))
	if errors.Is(err, fs.ErrNotExist) {
		return tops, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list work trees: %w", err)
	}
	first, err := firstWorkTree(ctx, repo)
	if err != nil {
		return nil, err
	}
	tops = append(tops, first)
	for _, e := range entries {
		dir := filepath.Join(repo.CommonDir, "worktrees", e.Name())
		text, err := os.ReadFile(filepath.Join(dir, "gitdir"))
		if err != nil {
			continue // being made or removed
		}
		file := filepath.FromSlash(strings.TrimSpace(string(text)))
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		tops = append(tops, filepath.Dir(file))
	}
	slices.Sort(tops)
	return slices.Compact(tops), nil
}

// firstWorkTree is the one that the clone was made with; a submodule's folder says where it is. For a bare clone it is a
// folder without a policy.
func firstWorkTree(ctx context.Context, repo *gitcmd.Repo) (string, error) {
	top, ok, err := repo.Config(ctx, "core.worktree")
	switch {
	case err != nil:
		return "", err
	case !ok:
		return filepath.Dir(repo.CommonDir), nil
	case filepath.IsAbs(top):
		return filepath.Clean(top), nil
	}
	return filepath.Join(repo.CommonDir, top), nil
}
