package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// pushAttempts bounds how often Push catches up with others who push at the same time; in each round one of them wins.
const pushAttempts = 16

// ErrConflict means that others changed upstream what the local commit changes too.
var ErrConflict = errors.New("upstream changed too")

// Push sends the current branch to its remote ("origin" unless git's configuration says otherwise), and returns the
// commit that is there now. When others pushed first, the one local commit is made again on top of theirs, provided that
// it touches none of their files; otherwise the error is ErrConflict and nothing has changed. A commit that holds in
// clear what must be sealed is never pushed, nor a tip on which these commits leave a file that others could open.
func (r *Repo) Push(ctx context.Context) (string, error) {
	g, err := r.open()
	if err != nil {
		return "", err
	}
	for range pushAttempts {
		h, err := readHead(g)
		if err != nil {
			return "", err
		}
		if h.commit == nil {
			return "", refuse("git commit", "branch %q has no commit to push", h.branch.Short())
		}
		remote := h.remote()
		f, err := r.form(g, nil)
		if err != nil {
			return "", err
		}
		if err := h.sealedAll(ctx, f, remote); err != nil {
			return "", err
		}
		refused := h.push(ctx, remote)
		if refused == nil {
			return h.commit.Hash.String(), nil
		}
		theirs, err := h.fetch(ctx, remote)
		if err != nil { // the same as before: the remote is away
			return "", unpushed(refused, "see that %s can be reached, with your credentials: git ls-remote %[1]s", remote)
		}
		if ahead, err := contains(h.commit, theirs); err != nil || ahead {
			return "", errors.Join(unpushed(refused, "see that you may push to that branch: git push %s %s", remote, h.branch.Short()), err)
		}
		if err := r.replay(ctx, h, theirs); err != nil {
			return "", err
		}
	}
	return "", errors.New("push: others kept pushing at the same time; try again")
}

// unpushed is why the remote does not have a commit, with what helps; what is refused already knows that itself.
func unpushed(err error, fix string, args ...any) error {
	if errors.As(err, new(*Error)) {
		return err
	}
	return &Error{Message: err.Error(), Fix: fmt.Sprintf(fix, args...), Err: err}
}

// HasRemote says whether there is a remote that Push would send the current branch to.
func (r *Repo) HasRemote() (bool, error) {
	g, err := r.open()
	if err != nil {
		return false, err
	}
	h, err := readHead(g)
	if err != nil {
		return false, err
	}
	_, err = g.Remote(h.remote())
	if errors.Is(err, git.ErrRemoteNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Published says whether the remote has all commits of the current branch, as far as this clone knows.
func (r *Repo) Published() (bool, error) {
	g, err := r.open()
	if err != nil {
		return false, err
	}
	h, err := readHead(g)
	if err != nil || h.commit == nil {
		return false, err
	}
	ref, err := g.Reference(plumbing.NewRemoteReferenceName(h.remote(), h.branch.Short()), true)
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the remote's branch: %w", err)
	}
	theirs, err := g.CommitObject(ref.Hash())
	if err != nil {
		return false, fmt.Errorf("read commit %s: %w", ref.Hash(), err)
	}
	return contains(theirs, h.commit)
}

func conflict(fix, format string, args ...any) error {
	return &Error{Message: fmt.Sprintf(format, args...), Fix: fix, Err: ErrConflict}
}

// remote is where the branch is pushed to.
func (h *head) remote() string {
	if c, err := h.git.Config(); err == nil {
		if b := c.Branches[h.branch.Short()]; b != nil && b.Remote != "" {
			return b.Remote
		}
	}
	return git.DefaultRemoteName
}

func (h *head) push(ctx context.Context, remote string) error {
	spec := config.RefSpec(h.branch + ":" + h.branch)
	var said saying
	err := h.admitted(ctx, remote, func(auth transport.AuthMethod) error {
		return h.git.PushContext(h.whole(ctx, remote), &git.PushOptions{RemoteName: remote, RefSpecs: []config.RefSpec{spec}, Auth: auth, Progress: &said})
	})
	switch {
	case err == nil || errors.Is(err, git.NoErrAlreadyUpToDate):
		return nil
	case errors.Is(err, git.ErrRemoteNotFound):
		return refuse("git remote add "+remote+" URL", "there is no remote %q to push to", remote)
	}
	return fmt.Errorf("push branch %q to %q: %w%s", h.branch.Short(), remote, err, said.text())
}

// whole is the context of a push. One to a repository of this machine is never broken off: it is written by a program that would
// be killed, and whose lock would keep everybody from pushing after that.
func (h *head) whole(ctx context.Context, remote string) context.Context {
	r, err := h.git.Remote(remote)
	if err != nil || len(r.Config().URLs) == 0 {
		return ctx
	}
	to, err := transport.NewEndpoint(r.Config().URLs[0])
	if err != nil || to.Protocol != "file" || ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// saying is what a server says, such as why its hook declines; no more of it than somebody reads.
type saying struct{ words []byte }

func (s *saying) Write(p []byte) (int, error) {
	const most = 500
	s.words = append(s.words, p[:min(len(p), max(most-len(s.words), 0))]...)
	return len(p), nil
}

// text is that in one line, to stand behind an error.
func (s *saying) text() string {
	words := strings.Fields(string(s.words))
	if len(words) == 0 {
		return ""
	}
	return ": " + strings.Join(words, " ")
}

// fetch is the commit that the branch has at the remote.
func (h *head) fetch(ctx context.Context, remote string) (*object.Commit, error) {
	tracking := plumbing.NewRemoteReferenceName(remote, h.branch.Short())
	spec := config.RefSpec("+" + h.branch + ":" + tracking)
	err := h.admitted(ctx, remote, func(auth transport.AuthMethod) error {
		return h.git.FetchContext(ctx, &git.FetchOptions{RemoteName: remote, RefSpecs: []config.RefSpec{spec}, Tags: git.NoTags, Auth: auth})
	})
	if err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate) {
		return nil, fmt.Errorf("fetch branch %q from %q: %w", h.branch.Short(), remote, err)
	}
	ref, err := h.git.Storer.Reference(tracking)
	if err != nil {
		return nil, fmt.Errorf("read branch %q: %w", tracking.Short(), err)
	}
	return h.git.CommitObject(ref.Hash())
}

// contains says whether part is an ancestor of whole, or whole itself.
func contains(whole, part *object.Commit) (bool, error) {
	if whole.Hash == part.Hash {
		return true, nil
	}
	return part.IsAncestor(whole)
}

// Contains says whether the current branch is at the commit, or came past it. A commit that this clone does not have, it
// does not contain, nor anything but the whole id of one.
func (r *Repo) Contains(commit string) (bool, error) {
	g, err := r.open()
	if err != nil {
		return false, err
	}
	h, err := readHead(g)
	if err != nil || h.commit == nil {
		return false, err
	}
	id := plumbing.NewHash(commit) // which takes no notice of what follows the id
	if id.String() != commit {
		return false, nil
	}
	part, err := g.CommitObject(id)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read commit %.12s: %w", commit, err)
	}
	return contains(h.commit, part)
}

// replay makes h's commit again on top of theirs, and brings their changes into the work tree and the index.
func (r *Repo) replay(ctx context.Context, h *head, theirs *object.Commit) error {
	mine, upstream, err := h.diverged(ctx, theirs)
	if err != nil {
		return err
	}
	var both []string
	for path := range mine {
		if _, ok := upstream[path]; ok {
			both = append(both, path)
		}
	}
	if len(both) > 0 {
		slices.Sort(both)
		return conflict("git pull --rebase, and settle it there", "upstream changed %s too", strings.Join(both, ", "))
	}
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	index, err := lockIndex(h.git)
	if err != nil {
		return err
	}
	defer index.release()
	f, err := r.form(h.git, nil)
	if err != nil {
		return err
	}
	if err := h.untouched(root, index, f, upstream); err != nil {
		return err
	}
	arriving, err := incoming(root, h.git.Storer, f, upstream)
	if err != nil {
		return err
	}
	if err := h.rebase(theirs, mine); err != nil {
		return err
	}
	for path, e := range upstream {
		if err := checkout(root, path, arriving[path], e); err != nil {
			return err
		}
		index.set(path, e)
	}
	return index.save()
}

// diverged is what h's commit changed, and what upstream changed meanwhile, each by path.
func (h *head) diverged(ctx context.Context, theirs *object.Commit) (mine, upstream map[string]entry, err error) {
	several := conflict("git pull --rebase", "upstream has new commits, and there is more than one here")
	if h.commit.NumParents() != 1 {
		return nil, nil, several
	}
	base, err := h.commit.Parent(0)
	if err != nil {
		return nil, nil, fmt.Errorf("read commit %s: %w", h.commit.ParentHashes[0], err)
	}
	if shared, err := contains(theirs, base); err != nil || !shared {
		return nil, nil, errors.Join(several, err)
	}
	if mine, err = changes(ctx, h.git.Storer, base, h.commit); err != nil {
		return nil, nil, err
	}
	upstream, err = changes(ctx, h.git.Storer, base, theirs)
	return mine, upstream, err
}

// changes are the files that differ between two commits, as they are in the later one.
func changes(ctx context.Context, s storer.EncodedObjectStorer, from, to *object.Commit) (map[string]entry, error) {
	old, err := from.Tree()
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", from.Hash, err)
	}
	tree, err := to.Tree()
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", to.Hash, err)
	}
	files := map[string]entry{}
	err = differing(ctx, s, old, tree, func(path string, e entry) error {
		files[path] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("compare %s and %s: %w", from.Hash, to.Hash, err)
	}
	return files, nil
}

// untouched refuses when a file that upstream changed has changes here that are not committed.
func (h *head) untouched(root *os.Root, index *staged, f *sealCodec, upstream map[string]entry) error {
	for path, e := range upstream {
		if !e.hash.IsZero() && e.mode != filemode.Regular && e.mode != filemode.Executable {
			return conflict("git pull --rebase", "upstream changed %q, which is no plain file", path)
		}
		disk, _, err := readFile(root, path)
		if err != nil {
			return err
		}
		committed, had, err := find(h.tree, path)
		if err != nil {
			return err
		}
		var stored []byte
		if had {
			if stored, err = readBlob(h.git.Storer, path, committed.hash); err != nil {
				return err
			}
		}
		at, isStaged := index.get(path)
		same, err := f.same(path, disk, stored)
		if err != nil {
			return err
		}
		if !same || had != isStaged || committed != at {
			return conflict("commit or stash them first", "upstream changed %q, which has changes here that are not committed", path)
		}
	}
	return nil
}

// rebase makes h's commit again on top of theirs and moves the branch there.
func (h *head) rebase(theirs *object.Commit, mine map[string]entry) error {
	base, err := theirs.Tree()
	if err != nil {
		return fmt.Errorf("read commit %s: %w", theirs.Hash, err)
	}
	tree, err := writeTree(h.git.Storer, base, mine)
	if err != nil {
		return fmt.Errorf("write tree: %w", err)
	}
	again := &object.Commit{
		Author: h.commit.Author, Committer: author(h.git), Message: h.commit.Message,
		TreeHash: tree, ParentHashes: []plumbing.Hash{theirs.Hash},
	}
	id, err := storeCommit(h.git, again)
	if err != nil {
		return err
	}
	old := plumbing.NewHashReference(h.branch, h.commit.Hash)
	if err := moveBranch(h.git, h.branch, id, old); err != nil {
		return err
	}
	return nil
}

// incoming is what the work tree is to hold of the files that upstream changed, each in the form that it has here. All
// of it is read, and opened, before anything is moved.
func incoming(root *os.Root, s storer.EncodedObjectStorer, f *sealCodec, upstream map[string]entry) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for path, e := range upstream {
		if e.hash.IsZero() {
			continue
		}
		text, err := readBlob(s, path, e.hash)
		if err != nil {
			return nil, err
		}
		sealed, err := f.seals(path)
		if err != nil {
			return nil, err
		}
		if sealed {
			disk, _, err := readFile(root, path)
			if err != nil {
				return nil, err
			}
			if text, err = f.arriving(path, text, disk); err != nil {
				return nil, err
			}
		}
		texts[path] = text
	}
	return texts, nil
}

// checkout puts a file on disk, or takes it away.
func checkout(root *os.Root, path string, text []byte, e entry) error {
	if e.hash.IsZero() {
		return root.Remove(path)
	}
	mode, err := e.mode.ToOSFileMode()
	if err != nil {
		return fmt.Errorf("check out %q: %w", path, err)
	}
	return replaceFile(root, path, text, mode.Perm())
}
