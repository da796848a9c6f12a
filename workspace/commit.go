package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Commit writes files (slash-separated path from the repo's root to content, nil for a file to be removed) and commits
// them, and nothing else, to the current branch. A file that must be sealed is given as people read it, or sealed
// already. Commit returns the commit's id, empty when HEAD holds all of it already. A file with changes that are not
// committed is an error, before anything is written; and so is one that cannot be sealed.
func (r *Repo) Commit(ctx context.Context, message string, files map[string][]byte) (string, error) {
	return r.commitFiles(ctx, message, files, func(*head) error { return nil })
}

// ErrMoved means that the branch is not where a change was planned.
var ErrMoved = errors.New("the branch has moved")

// CommitOn is Commit for files that were made for what the commit parent holds, as Head tells it; a branch that stands
// elsewhere is ErrMoved, unless it holds the files already.
func (r *Repo) CommitOn(ctx context.Context, parent, message string, files map[string][]byte) (string, error) {
	return r.commitFiles(ctx, message, files, func(h *head) error {
		if h.id() == parent {
			return nil
		}
		done, err := h.holds(files)
		if err != nil || done {
			return err
		}
		return &Error{Message: fmt.Sprintf("branch %q has moved since this was planned", h.branch.Short()), Fix: "make the change again", Err: ErrMoved}
	})
}

// Head is the commit that the current branch is at, empty when it has none.
func (r *Repo) Head() (string, error) {
	h, err := r.head()
	if err != nil {
		return "", err
	}
	return h.id(), nil
}

// Branch is the current branch's name, which is pushed to the remote's of that name.
func (r *Repo) Branch() (string, error) {
	h, err := r.head()
	if err != nil {
		return "", err
	}
	return h.branch.Short(), nil
}

func (r *Repo) head() (*head, error) {
	g, err := r.open()
	if err != nil {
		return nil, err
	}
	return readHead(g)
}

// commitFiles looks, writes and commits under the lock of git's index: no other run, and no git command that changes the
// branch that is checked out, comes between.
func (r *Repo) commitFiles(ctx context.Context, message string, files map[string][]byte, accept func(*head) error) (string, error) {
	g, err := r.open()
	if err != nil {
		return "", err
	}
	index, err := lockIndex(g)
	if err != nil {
		return "", err
	}
	defer index.release()
	head, err := readHead(g)
	if err != nil {
		return "", err
	}
	if err := accept(head); err != nil {
		return "", err
	}
	for path := range files {
		if !fs.ValidPath(path) || path == "." || path == ".git" || strings.HasPrefix(path, ".git/") {
			return "", fmt.Errorf("commit: %q is no path inside the repository", path)
		}
	}
	f, err := r.form(g, files)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return "", fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	var edits []edit
	for path, content := range files {
		e, err := head.change(root, f, path, content)
		if err != nil {
			return "", err
		}
		edits = append(edits, e)
	}
	slices.SortFunc(edits, func(a, b edit) int { return strings.Compare(a.path, b.path) })
	if err := ctx.Err(); err != nil { // from the first file on there is no way back
		return "", err
	}
	for _, e := range edits {
		if _, err := e.write(root); err != nil {
			return "", err
		}
	}
	return r.commit(g, head, f, index, message, edits)
}

// head is where a branch stands.
type head struct {
	git    *git.Repository
	branch plumbing.ReferenceName
	// commit and tree are nil on a branch without commits.
	commit *object.Commit
	tree   *object.Tree
}

// id is the commit's, empty for none.
func (h *head) id() string {
	if h.commit == nil {
		return ""
	}
	return h.commit.Hash.String()
}

// holds says whether git keeps exactly these contents.
func (h *head) holds(files map[string][]byte) (bool, error) {
	for path, content := range files {
		committed, err := h.read(path)
		if err != nil || (committed == nil) != (content == nil) || !bytes.Equal(committed, content) {
			return false, err
		}
	}
	return true, nil
}

// readHead tells the current branch, and refuses where a commit would end up in the wrong place.
func readHead(g *git.Repository) (*head, error) {
	ref, err := g.Storer.Reference(plumbing.HEAD)
	if err != nil {
		return nil, fmt.Errorf("read HEAD: %w", err)
	}
	if ref.Type() != plumbing.SymbolicReference {
		return nil, refuse("git switch BRANCH", "HEAD is detached at %.12s: a commit there would belong to no branch", ref.Hash())
	}
	for _, busy := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		if _, err := g.Storer.Reference(plumbing.ReferenceName(busy)); err == nil {
			name := strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(busy, "_HEAD"), "_", "-"))
			return nil, refuse("finish it, or: git "+name+" --abort", "a %s is under way", name)
		}
	}
	h := &head{git: g, branch: ref.Target()}
	tip, err := g.Storer.Reference(h.branch)
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read branch %q: %w", h.branch.Short(), err)
	}
	if h.commit, err = g.CommitObject(tip.Hash()); err != nil {
		return nil, fmt.Errorf("read commit %s: %w", tip.Hash(), err)
	}
	if h.tree, err = h.commit.Tree(); err != nil {
		return nil, fmt.Errorf("read commit %s: %w", tip.Hash(), err)
	}
	return h, nil
}

// change is the edit that makes content the file at path, nil to remove it. It refuses a file whose content on disk is
// neither the committed nor the wanted one.
func (h *head) change(root *os.Root, f *sealCodec, path string, content []byte) (edit, error) {
	disk, _, err := readFile(root, path)
	if err != nil {
		return edit{}, err
	}
	committed, err := h.read(path)
	if err != nil {
		return edit{}, err
	}
	sealed, err := f.seals(path)
	if err != nil {
		return edit{}, err
	}
	e := put(path, content)
	if sealed && content != nil {
		stored, err := f.stored(path, content, committed)
		if err != nil {
			return edit{}, err
		}
		readable, err := f.worktree(path, stored, disk)
		if err != nil {
			return edit{}, err
		}
		e = translated(path, stored, readable)
		content = readable
	}
	if disk == nil || bytes.Equal(disk, content) {
		return e, nil
	}
	if same, err := f.same(path, disk, committed); err != nil {
		return edit{}, err
	} else if !same {
		return edit{}, refuse("commit or stash them first", "%q has changes that are not committed", path)
	}
	return e, nil
}

// read is the committed content at path, nil when there is none.
func (h *head) read(path string) ([]byte, error) {
	e, ok, err := find(h.tree, path)
	if err != nil || !ok {
		return nil, err
	}
	return readBlob(h.git.Storer, path, e.hash)
}

// commit is the one place where this program's changes become a commit, so what must hold for every commit (that
// nothing secret is in clear, who its author is) is to be held here. It applies edits to HEAD's tree and to the index.
func (r *Repo) commit(g *git.Repository, h *head, f *sealCodec, index *staged, message string, edits []edit) (string, error) {
	files := map[string]entry{}
	for _, e := range edits {
		old, had, err := find(h.tree, e.path)
		if err != nil {
			return "", err
		}
		now, changed, err := applyTo(g, f, e, old, had)
		if err != nil {
			return "", fmt.Errorf("edit %q: %w", e.path, err)
		}
		if changed {
			files[e.path] = now
		}
		staged, had := index.get(e.path)
		staged, changed, err = applyTo(g, f, e, staged, had)
		if err != nil {
			return "", fmt.Errorf("edit %q as it is staged: %w", e.path, err)
		}
		if changed {
			index.set(e.path, staged)
		}
	}
	if len(files) == 0 {
		return "", index.save() // a run that ended between its commit and its index left the index behind
	}
	tree, err := writeTree(g.Storer, h.tree, files)
	if err != nil {
		return "", fmt.Errorf("write tree: %w", err)
	}
	id, err := h.advance(tree, message)
	if err != nil {
		return "", err
	}
	return id.String(), index.save()
}

// applyTo applies e to a stored file, and says whether that gave another one.
func applyTo(g *git.Repository, f *sealCodec, e edit, old entry, had bool) (entry, bool, error) {
	if e.remove {
		return entry{}, had, nil
	}
	var text []byte
	var err error
	if had {
		if text, err = readBlob(g.Storer, e.path, old.hash); err != nil {
			return old, false, err
		}
	}
	now, err := e.apply(text)
	if err != nil || now == nil || had && bytes.Equal(now, text) {
		return old, false, err
	}
	if err := f.replaces(e.path, text, now); err != nil {
		return old, false, err
	}
	if !had {
		old.mode = filemode.Regular
	}
	hash, err := writeBlob(g.Storer, now)
	return entry{hash, old.mode}, true, err
}

// advance makes a commit of tree on top of h and moves the branch there, unless somebody else moved it first.
func (h *head) advance(tree plumbing.Hash, message string) (plumbing.Hash, error) {
	who := author(h.git)
	c := &object.Commit{Author: who, Committer: who, Message: message, TreeHash: tree}
	var old *plumbing.Reference
	if h.commit != nil {
		c.ParentHashes = []plumbing.Hash{h.commit.Hash}
		old = plumbing.NewHashReference(h.branch, h.commit.Hash)
	}
	id, err := storeCommit(h.git, c)
	if err != nil {
		return id, err
	}
	if err := moveBranch(h.git, h.branch, id, old); err != nil {
		return id, err
	}
	return id, nil
}

func storeCommit(g *git.Repository, c *object.Commit) (plumbing.Hash, error) {
	if !strings.HasSuffix(c.Message, "\n") {
		c.Message += "\n"
	}
	obj := g.Storer.NewEncodedObject()
	if err := c.Encode(obj); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("encode commit: %w", err)
	}
	id, err := g.Storer.SetEncodedObject(obj)
	if err != nil {
		return id, fmt.Errorf("write commit: %w", err)
	}
	return id, nil
}

// author is who git's configuration says, and the program itself where it says nothing.
func author(g *git.Repository) object.Signature {
	who := object.Signature{Name: "plural", Email: "plural@localhost", When: time.Now()}
	c, err := g.ConfigScoped(config.SystemScope)
	if err != nil {
		return who
	}
	for _, from := range []struct{ Name, Email string }{c.Author, c.User} {
		if from.Name != "" && from.Email != "" {
			who.Name, who.Email = from.Name, from.Email
			break
		}
	}
	return who
}
