package leakcheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/seal"
)

// spot is a file that is not as it should be.
type spot struct {
	gitcmd.Entry
	verdict
	groups []string // for which the policy wants it sealed
}

func (s spot) finding(where string, fix func(Finding) string) Finding {
	f := Finding{Path: s.Path, Where: where, Kind: s.kind, Message: s.message}
	f.Fix = fix(f)
	return f
}

// Index judges what the next commit would hold, conflicts included.
func (r Rules) Index(ctx context.Context, repo *gitcmd.Repo) ([]Finding, error) {
	entries, err := repo.Index(ctx)
	if err != nil {
		return nil, err
	}
	return r.state(ctx, repo, entries, "index", indexFix)
}

// Commit judges the files of one commit, whose name is also what its findings say: "HEAD". The rules are to be those of
// the same commit.
func (r Rules) Commit(ctx context.Context, repo *gitcmd.Repo, rev string) ([]Finding, error) {
	entries, err := repo.Tree(ctx, rev)
	if err != nil {
		return nil, err
	}
	return r.state(ctx, repo, entries, rev, treeFix)
}

func (r Rules) state(ctx context.Context, repo *gitcmd.Repo, entries []gitcmd.Entry, where string, fix func(Finding) string) ([]Finding, error) {
	blobs, err := repo.Blobs(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blobs.Close() }() // all answers have been read
	spots, err := r.scan(blobs, entries)
	var all []Finding
	for _, s := range spots {
		all = append(all, s.finding(where, fix))
	}
	slices.SortFunc(all, compareFindings)
	return all, err
}

// scan judges those of the entries that must be sealed. Links and submodules are nothing that git gives to a filter.
func (r Rules) scan(blobs *gitcmd.Blobs, entries []gitcmd.Entry) ([]spot, error) {
	var spots []spot
	for _, e := range entries {
		if !e.IsFile() {
			continue
		}
		names, must, err := r.must(e.Path)
		if err != nil {
			return nil, err
		}
		if !must {
			continue
		}
		v, err := r.blob(blobs, e, names)
		if err != nil {
			return nil, err
		}
		if v != nil {
			spots = append(spots, spot{e, *v, names})
		}
	}
	return spots, nil
}

func (r Rules) blob(blobs *gitcmd.Blobs, e gitcmd.Entry, names []string) (*verdict, error) {
	content, err := read(blobs, e)
	if errors.Is(err, gitcmd.ErrTooLarge) {
		return &verdict{kind: Plaintext, message: fmt.Sprintf("must be sealed, and is larger than the %d MiB that a sealed file can have", seal.MaxFile>>20)}, nil
	}
	if err != nil {
		return nil, err
	}
	return r.judge(e.Path, names, content)
}

func read(blobs *gitcmd.Blobs, e gitcmd.Entry) ([]byte, error) {
	content, _, ok, err := blobs.Get(e.Oid)
	if err == nil && !ok {
		err = errors.New("git does not have its content")
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", e.Path, err)
	}
	return content, nil
}

// WorkTree judges what lies in the work tree, except what git ignores. Of a work tree that is not locked, plaintext is
// how it should be.
func (r Rules) WorkTree(ctx context.Context, repo *gitcmd.Repo, locked bool) ([]Finding, error) {
	paths, err := workTreePaths(ctx, repo)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(repo.Top)
	if err != nil {
		return nil, fmt.Errorf("open work tree: %w", err)
	}
	defer func() { _ = root.Close() }()
	var all []Finding
	for _, path := range paths {
		info, err := root.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue // removed, or nothing that a filter is given
		}
		f, err := r.File(root.FS(), path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, err
		}
		if f != nil && (f.Kind != Plaintext || locked) {
			f.Where = "work tree"
			f.Fix = workTreeFix(*f)
			all = append(all, *f)
		}
	}
	slices.SortFunc(all, compareFindings)
	return all, nil
}

func workTreePaths(ctx context.Context, repo *gitcmd.Repo) ([]string, error) {
	paths, err := repo.Untracked(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := repo.Index(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		paths = append(paths, e.Path)
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil // a conflict has a path up to three times
}
