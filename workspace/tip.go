package workspace

import (
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// Snapshot is the tip as an immutable file system, as long as the tip is good.
func (t *Tip) Snapshot() (*snapshot.Snapshot, error) {
	return snapshot.Of(t.head.git.Storer, snapshot.Hash(t.ID))
}

// Back is the branch as it was at one of the commits that were fetched.
func (t *Tip) Back(id string) (*Tip, error) {
	return t.standing(plumbing.NewHash(id))
}

// Resolve is the whole id of a commit by the beginning of it, among those that were fetched.
func (t *Tip) Resolve(id string) (string, error) {
	found, err := snapshot.Resolve(t.head.git, id)
	if err != nil {
		return "", err
	}
	return found.String(), nil
}

// standing is the branch as if it stood at a commit.
func (t *Tip) standing(id plumbing.Hash) (*Tip, error) {
	commit, err := t.head.git.CommitObject(id)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", id, err)
	}
	tree, err := commit.Tree()
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", id, err)
	}
	at := &Tip{ID: id.String(), head: &head{git: t.head.git, branch: t.head.branch, commit: commit, tree: tree}}
	files, err := at.Snapshot()
	if err != nil {
		return nil, err
	}
	at.Files = files.FS()
	return at, nil
}

// reviewed shows a commit on the tip to whoever reviews it.
func (t *Tip) reviewed(id plumbing.Hash, review func(tip, next *Tip) error) error {
	if review == nil {
		return nil
	}
	next, err := t.standing(id)
	if err != nil {
		return err
	}
	return review(t, next)
}
