package workspace

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Proposed is a commit that was pushed as a branch of its own.
type Proposed struct {
	Commit, Branch string
	// Base is the branch that it is made for.
	Base string
	// Remote is the address of the repository that it was pushed to, without a credential.
	Remote string
}

// Propose makes the commit that CommitOn would make (Commit, when parent is empty), and pushes it as a branch that name makes of
// its id. The current branch, the index and the work tree stay as they are. A branch whose own commits are not all pushed is
// refused: they would be proposed too. Nil: HEAD holds all of it already.
func (r *Repo) Propose(
	ctx context.Context, parent, message string, files map[string][]byte, name func(commit string) string,
) (*Proposed, error) {
	g, err := r.open()
	if err != nil {
		return nil, err
	}
	h, err := readHead(g)
	if err != nil {
		return nil, err
	}
	if parent != "" && parent != h.id() {
		return nil, &Error{
			Message: fmt.Sprintf("branch %q has moved since this was planned", h.branch.Short()), Fix: "make the change again", Err: ErrMoved,
		}
	}
	p, err := r.proposed(h)
	if err != nil {
		return nil, err
	}
	f, err := r.form(g, files)
	if err != nil {
		return nil, err
	}
	id, tree, err := r.aside(h, f, message, files)
	if err != nil || id.IsZero() {
		return nil, err
	}
	p.Commit, p.Branch = id.String(), name(id.String())
	return p, h.offer(ctx, f, h.remote(), plumbing.NewBranchReferenceName(p.Branch), id, tree)
}

// Proposable refuses what Propose would refuse whatever the change is, for those who do something before that cannot be undone.
func (r *Repo) Proposable() error {
	g, err := r.open()
	if err != nil {
		return err
	}
	h, err := readHead(g)
	if err == nil {
		_, err = r.proposed(h)
	}
	return err
}

// proposed is what is known of a proposal before there is a commit: where it goes.
func (r *Repo) proposed(h *head) (*Proposed, error) {
	remote := h.remote()
	address, err := h.remoteAddress(remote)
	if err != nil {
		return nil, err
	}
	base := h.branch.Short()
	published, err := r.Published()
	if err != nil {
		return nil, err
	}
	if !published {
		return nil, refuse("git push "+remote+" "+base,
			"branch %q has commits that %q does not have, as far as is known here: they would be proposed too", base, remote)
	}
	return &Proposed{Base: base, Remote: address}, nil
}

// aside stores a commit on top of h that has the files, and moves nothing. It is zero when h has them already.
func (r *Repo) aside(h *head, f *sealCodec, message string, files map[string][]byte) (id, tree plumbing.Hash, err error) {
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return id, tree, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	entries := map[string]entry{}
	for path, content := range files {
		e, err := h.change(root, f, path, content)
		if err != nil {
			return id, tree, err
		}
		old, had, err := find(h.tree, path)
		if err != nil {
			return id, tree, err
		}
		now, changed, err := applyTo(h.git, f, e, old, had)
		if err != nil {
			return id, tree, fmt.Errorf("edit %q: %w", path, err)
		}
		if changed {
			entries[path] = now
		}
	}
	if len(entries) == 0 {
		return id, tree, nil
	}
	if tree, err = writeTree(h.git.Storer, h.tree, entries); err != nil {
		return id, tree, fmt.Errorf("write tree: %w", err)
	}
	who := author(h.git)
	id, err = storeCommit(h.git, &object.Commit{
		Author: who, Committer: who, Message: message, TreeHash: tree, ParentHashes: []plumbing.Hash{h.commit.Hash},
	})
	return id, tree, err
}

// offer pushes a commit as a new branch, if it holds nothing in clear that must be sealed.
func (h *head) offer(ctx context.Context, f *sealCodec, remote string, branch plumbing.ReferenceName, id, tree plumbing.Hash) error {
	commit, err := h.git.CommitObject(id)
	if err != nil {
		return fmt.Errorf("read commit %s: %w", id, err)
	}
	holds, err := object.GetTree(h.git.Storer, tree)
	if err != nil {
		return fmt.Errorf("read commit %s: %w", id, err)
	}
	next := &head{git: h.git, branch: branch, commit: commit, tree: holds}
	if err := next.sealedAll(ctx, f, remote); err != nil {
		return err
	}
	spec := config.RefSpec(id.String() + ":" + branch.String())
	var said saying
	err = h.admitted(ctx, remote, func(auth transport.AuthMethod) error {
		return h.git.PushContext(h.whole(ctx, remote), &git.PushOptions{RemoteName: remote, RefSpecs: []config.RefSpec{spec}, Auth: auth, Progress: &said})
	})
	if err == nil || errors.Is(err, git.NoErrAlreadyUpToDate) {
		return nil
	}
	return unpushed(
		fmt.Errorf("push branch %q to %q: %w%s", branch.Short(), remote, err, said.text()),
		"see that %s can be reached, and that you may push branches to it: git ls-remote %[1]s", remote)
}

// Objects are what git has of the repository. They are to be read only.
func (r *Repo) Objects() (storer.EncodedObjectStorer, error) {
	g, err := r.open()
	if err != nil {
		return nil, err
	}
	return g.Storer, nil
}

// Objects are what was fetched of the repository, as long as the tip is good. They are to be read only.
func (t *Tip) Objects() storer.EncodedObjectStorer { return t.head.git.Storer }

// Signed is a commit as it was signed.
func (r *Repo) Signed(id string) (verify.Object, error) {
	objects, err := r.Objects()
	if err != nil {
		return verify.Object{}, err
	}
	return signed(objects, id)
}

// Resolve is the id of the commit that a person means: by its id or the beginning of one, a branch, a tag, or HEAD~2.
func (r *Repo) Resolve(revision string) (string, error) {
	g, err := r.open()
	if err != nil {
		return "", err
	}
	id, err := snapshot.Resolve(g, revision)
	if ambiguous := new(snapshot.AmbiguousError); errors.As(err, &ambiguous) {
		return "", err
	}
	if err != nil {
		return "", &Error{Message: fmt.Sprintf("there is no commit %q here", revision), Fix: "git log --oneline", Err: err}
	}
	return id.String(), nil
}

// remoteAddress is where a remote is, as far as it may be shown.
func (h *head) remoteAddress(remote string) (string, error) {
	found, err := h.git.Remote(remote)
	if errors.Is(err, git.ErrRemoteNotFound) || err == nil && len(found.Config().URLs) == 0 {
		return "", refuse("git remote add "+remote+" URL", "there is no remote %q to push to", remote)
	}
	if err != nil {
		return "", fmt.Errorf("read remote %q: %w", remote, err)
	}
	address := found.Config().URLs[0]
	if u, err := url.Parse(address); err == nil && u.User != nil {
		u.User = nil
		address = u.String()
	}
	return address, nil
}
