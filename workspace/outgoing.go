package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
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
func (h *head) sealedAll(ctx context.Context, f *sealCodec, remote string) error {
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
	b := brought{form: f, sealed: map[string]bool{}}
	for {
		c, err := commits.Next()
		if errors.Is(err, io.EOF) {
			return h.standing(ctx, b)
		}
		if err != nil {
			return fmt.Errorf("look through commits to push: %w", err)
		}
		if err := h.changedBy(ctx, c, func(path string, e entry) error { return b.add(h, c, path, e) }); err != nil {
			return err
		}
	}
}

// brought is what the commits of a push change of what must be sealed.
type brought struct {
	form *sealCodec
	// sealed are the files, rewritten says that who reads what changed.
	sealed    map[string]bool
	rewritten bool
}

// add refuses a file that a commit holds in clear.
func (b *brought) add(h *head, c *object.Commit, path string, e entry) error {
	b.rewritten = b.rewritten || path == policy.File || strings.HasPrefix(path, ".plural/groups/") && strings.HasSuffix(path, "/recipient.txt")
	sealed, err := b.form.seals(path)
	if err != nil || !sealed {
		return err
	}
	b.sealed[path] = true
	if e.hash.IsZero() || !e.mode.IsFile() {
		return nil
	}
	text, err := readBlob(h.git.Storer, path, e.hash)
	if err != nil {
		return err
	}
	if b.form.check(path, text) != nil {
		return refuse("seal it, and take the commit out of the branch: plural crypto encrypt "+path+
			", then git rebase -i; the value is known to everybody who can read a copy of it",
			"commit %.7s holds %q in clear, and nothing was pushed", c.Hash, path)
	}
	return nil
}

// standing judges the tip: the sealed files that these commits brought, and all when they changed who reads what.
func (h *head) standing(ctx context.Context, b brought) error {
	if !b.rewritten && len(b.sealed) == 0 {
		return nil
	}
	return h.sealed(ctx, b.form, func(path string, e entry) error {
		if !b.rewritten && !b.sealed[path] {
			return nil
		}
		stored, err := readBlob(h.git.Storer, path, e.hash)
		if err != nil {
			return err
		}
		if err := b.form.stands(path, stored); err != nil {
			return refuse("plural crypto encrypt "+path+", then git add it and git commit --amend --no-edit", "nothing was pushed: %v", err)
		}
		return nil
	})
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

// changedBy tells each file that a commit changes against its first parent; all of a commit's without one.
func (h *head) changedBy(ctx context.Context, c *object.Commit, each func(path string, e entry) error) error {
	var old *object.Tree
	if c.NumParents() > 0 {
		parent, err := c.Parent(0)
		if err == nil {
			old, err = parent.Tree()
		}
		if err != nil && !errors.Is(err, plumbing.ErrObjectNotFound) { // where a shallow clone ends
			return fmt.Errorf("read commit %s: %w", c.ParentHashes[0], err)
		}
	}
	tree, err := c.Tree()
	if err != nil {
		return fmt.Errorf("read commit %s: %w", c.Hash, err)
	}
	err = differing(ctx, h.git.Storer, old, tree, each)
	if err == nil || errors.As(err, new(*Error)) { // which names the commit, and is for people
		return err
	}
	return fmt.Errorf("look at what commit %s changes: %w", c.Hash, err)
}
