package workspace

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/pluralsh/plural/crypto/policy"
)

// sealedAll refuses to push a commit that holds in clear what must be sealed, and a tip that these commits leave with a file
// that is sealed for others than it should be. No hook runs on the way, and people may have made commits that nobody
// looked at.
func (h *head) sealedAll(f *form, remote string) error {
	if f.vault == nil {
		return nil
	}
	known, err := h.tips(remote)
	if err != nil {
		return err
	}
	if slices.Contains(known, h.commit.Hash) {
		return nil
	}
	shared, err := h.shared(remote)
	if err != nil {
		return err
	}
	commits := object.NewCommitPreorderIter(h.commit, nil, append(known, shared...))
	defer commits.Close()
	brought := map[string]bool{}
	for {
		c, err := commits.Next()
		if errors.Is(err, io.EOF) {
			return h.standing(f, brought)
		}
		if err != nil {
			return fmt.Errorf("look through commits to push: %w", err)
		}
		files, err := h.changedBy(c)
		if err != nil {
			return err
		}
		if err := h.sealedIn(f, c, files); err != nil {
			return err
		}
		for path := range files {
			brought[path] = true
		}
	}
}

// standing judges the tip: the files that these commits brought, and all when they changed who reads what.
func (h *head) standing(f *form, brought map[string]bool) error {
	rewritten := false
	for path := range brought {
		rewritten = rewritten || path == policy.File || strings.HasPrefix(path, ".plural/groups/") && strings.HasSuffix(path, "/recipient.txt")
	}
	files, err := h.sealed(f, func(path string) bool { return rewritten || brought[path] })
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := f.stands(path, files[path]); err != nil {
			return refuse("plural crypto encrypt "+path+", then git add it and git commit --amend --no-edit", "nothing was pushed: %v", err)
		}
	}
	return nil
}

// tips are the commits that the remote is known to have.
func (h *head) tips(remote string) ([]plumbing.Hash, error) {
	refs, err := h.git.Storer.IterReferences()
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	filtered := storer.NewReferenceFilteredIter(func(r *plumbing.Reference) bool {
		return r.Type() == plumbing.HashReference && strings.HasPrefix(r.Name().String(), "refs/remotes/"+remote+"/")
	}, refs)
	var tips []plumbing.Hash
	err = filtered.ForEach(func(r *plumbing.Reference) error {
		tips = append(tips, r.Hash())
		return nil
	})
	return tips, err
}

// shared are the commits at which the branch parted from its remote one: what lies before them is there already.
func (h *head) shared(remote string) ([]plumbing.Hash, error) {
	ref, err := h.git.Storer.Reference(plumbing.NewRemoteReferenceName(remote, h.branch.Short()))
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read branch %q of %q: %w", h.branch.Short(), remote, err)
	}
	theirs, err := h.git.CommitObject(ref.Hash())
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", ref.Hash(), err)
	}
	bases, err := h.commit.MergeBase(theirs)
	if err != nil {
		return nil, fmt.Errorf("compare with branch %q of %q: %w", h.branch.Short(), remote, err)
	}
	var hashes []plumbing.Hash
	for _, base := range bases {
		hashes = append(hashes, base.Hash)
	}
	return hashes, nil
}

// sealedIn looks at the files that a commit changes.
func (h *head) sealedIn(f *form, c *object.Commit, files map[string]entry) error {
	for path, e := range files {
		sealed, err := f.seals(path)
		if err != nil {
			return err
		}
		if !sealed || e.hash.IsZero() || !e.mode.IsFile() {
			continue
		}
		text, err := readBlob(h.git.Storer, e.hash)
		if err != nil {
			return err
		}
		if f.check(path, text) != nil {
			return refuse("seal it, and take the commit out of the branch: plural crypto encrypt "+path+", then git rebase -i; the value is known to everybody who can read a copy of it",
				"commit %.7s holds %q in clear, and nothing was pushed", c.Hash, path)
		}
	}
	return nil
}

// changedBy are the files that a commit changes against its first parent; all of a commit's without one.
func (h *head) changedBy(c *object.Commit) (map[string]entry, error) {
	if c.NumParents() > 0 {
		parent, err := c.Parent(0)
		if err == nil {
			return changes(h.git.Storer, parent, c)
		}
		if !errors.Is(err, plumbing.ErrObjectNotFound) { // where a shallow clone ends
			return nil, fmt.Errorf("read commit %s: %w", c.ParentHashes[0], err)
		}
	}
	tree, err := c.Tree()
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", c.Hash, err)
	}
	files, err := differing(h.git.Storer, nil, tree)
	if err != nil {
		return nil, fmt.Errorf("list files of commit %s: %w", c.Hash, err)
	}
	return files, nil
}
