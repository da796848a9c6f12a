// Package history owns the commits that changed a part of an installation repo.
//
// It refuses to know where the objects lie (a clone, or a hub's) and what is done about a commit that is found.
//
// A history is the way of first parents: each step is one state of the branch, as a hub could have served it, and a merge is the
// one step in which the branch took all of it in. Log.Read goes back step by step and compares trees by their hashes, down to the
// files of a Scope: what a service reads, what the fleet reads, or everything. No file is read on the way. A step that takes
// another back says so in git's own words, by which Log.Undoable finds the newest one that still has its effect.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/pluralsh/plural/workspace/treediff"
)

// Bounds of one reading.
const (
	// MaxFiles is how many files of a revision are named when nobody says.
	MaxFiles = 50
	// DefaultLimit is how many revisions a page has, and MaxWalk how many commits are looked at for it, when nobody says.
	DefaultLimit = 50
	MaxWalk      = 20_000
	// maxText cuts what people wrote, in bytes.
	maxText = 200
)

// Revision is one step of a history. Its texts are as written, and may hold control characters.
type Revision struct {
	ID                     string
	Author, Email, Subject string
	// Time is when it was committed.
	Time time.Time
	// Parent is the state before, empty for the first.
	Parent string
	// Merge says that the step took another branch in.
	Merge bool
	// Files are those of the scope that it changed, sorted; LeftOut counts those that are too many, as far as
	// anybody counts.
	Files   []string
	LeftOut int
	// Incomplete says that it changed more than was compared: there may be files of the scope besides, or only such.
	Incomplete bool
	// Reverts is the commit that it takes back, as its message says.
	Reverts string
}

// Log is the history that some objects hold. It must not be used concurrently.
type Log struct {
	objects storer.EncodedObjectStorer
	read    func(plumbing.Hash) ([]object.TreeEntry, error)
	// files is how many of a revision are named; zero: MaxFiles.
	files int
}

// Of is the history in a repository. The objects are only read.
func Of(objects storer.EncodedObjectStorer) *Log {
	return &Log{objects: objects, read: treediff.Reader(objects)}
}

// Query says what to read of a history.
type Query struct {
	// From is the commit to go back from: 40 hex digits.
	From  string
	Scope Scope
	// Limit is how many revisions are wanted, Walk how many commits may be looked at for them, and Files how many files of each are
	// named; zero is the usual.
	Limit, Walk, Files int
}

// Page is a part of a history, the newest first.
type Page struct {
	Items []Revision
	// Next is where to go on; empty when the history ends here.
	Next string
	// Cut says that this clone has no more of the history, although there is more.
	Cut bool
}

// Read is the history from a commit back.
func (l *Log) Read(ctx context.Context, q Query) (*Page, error) {
	limit, walk := q.Limit, q.Walk
	if limit <= 0 {
		limit = DefaultLimit
	}
	if walk <= 0 {
		walk = MaxWalk
	}
	page := &Page{}
	l.files = q.Files
	err := l.walk(ctx, q.From, q.Scope, func(r *Revision, next string, cut bool) bool {
		if walk--; r != nil {
			page.Items = append(page.Items, *r)
		}
		page.Next, page.Cut = next, cut
		return len(page.Items) < limit && walk > 0
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// walk goes back along first parents, until each says that it is enough. Each is told of every commit: the revision, or nil where
// it changed nothing in the scope, which commit comes next, and whether there is one that is not here.
func (l *Log) walk(ctx context.Context, from string, scope Scope, each func(r *Revision, next string, cut bool) bool) error {
	at, err := l.commit(from)
	if err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		before, err := l.parent(at)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			each(nil, "", true) // a shallow clone: nobody knows what this one changed
			return nil
		}
		if err != nil {
			return err
		}
		r, err := l.revision(ctx, at, before, scope)
		if err != nil {
			return err
		}
		next := ""
		if before != nil {
			next = before.Hash.String()
		}
		if !each(r, next, false) || before == nil {
			return nil
		}
		at = before
	}
}

// revision is what a commit did in the scope, nil for nothing.
func (l *Log) revision(ctx context.Context, c, before *object.Commit, scope Scope) (*Revision, error) {
	r := describe(c)
	old := plumbing.ZeroHash
	if before != nil {
		old = before.TreeHash
	}
	err := treediff.Compare(ctx, l.tree(old), l.tree(c.TreeHash), scope.at, func(change treediff.Change) error {
		if len(r.Files) < cmp.Or(l.files, MaxFiles) {
			r.Files = append(r.Files, change.Path)
		} else {
			r.LeftOut++
		}
		return nil
	})
	// One commit of many files must hide neither itself nor all that came before it.
	r.Incomplete = errors.As(err, new(*treediff.TooManyError))
	if err != nil && !r.Incomplete {
		return nil, fmt.Errorf("compare commit %s with the one before: %w", r.ID, err)
	}
	if len(r.Files) == 0 && !r.Incomplete {
		return nil, nil
	}
	if r.Reverts == "" && r.Merge {
		r.Reverts = l.mergedRevert(c)
	}
	return r, nil
}

// Revision is one commit with what it changed of everything.
func (l *Log) Revision(ctx context.Context, id string) (*Revision, error) {
	c, err := l.commit(id)
	if err != nil {
		return nil, err
	}
	before, err := l.parent(c)
	if err != nil {
		return nil, err
	}
	r, err := l.revision(ctx, c, before, Scope{})
	if r == nil && err == nil {
		r = describe(c)
	}
	return r, err
}

// Changes are all files that differ between two commits; an empty id is a repository without files.
func (l *Log) Changes(ctx context.Context, from, to string, scope Scope) ([]treediff.Change, error) {
	var trees [2]plumbing.Hash
	for i, id := range []string{from, to} {
		if id == "" {
			continue
		}
		c, err := l.commit(id)
		if err != nil {
			return nil, err
		}
		trees[i] = c.TreeHash
	}
	list, err := treediff.List(ctx, l.tree(trees[0]), l.tree(trees[1]), scope.at)
	if err != nil {
		return nil, fmt.Errorf("compare commits %.12s and %.12s: %w", from, to, err)
	}
	return list, nil
}

// tree is one without files for the zero hash.
func (l *Log) tree(root plumbing.Hash) treediff.Tree { return treediff.Tree{Root: root, Read: l.read} }

// Holds says whether a commit has another one among those that it came out of, or is it.
func (l *Log) Holds(commit, part string) (bool, error) {
	if commit == part {
		return true, nil
	}
	whole, err := l.commit(commit)
	if err != nil {
		return false, err
	}
	other, err := l.commit(part)
	if err != nil {
		return false, err
	}
	found, err := other.IsAncestor(whole)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return false, nil // the history is cut before it
	}
	return found, err
}

func (l *Log) commit(id string) (*object.Commit, error) {
	hash := plumbing.NewHash(id) // which takes no notice of what follows the id
	if hash.String() != id {
		return nil, fmt.Errorf("read commit %.12q: it is no commit's id", id)
	}
	c, err := object.GetCommit(l.objects, hash)
	if err != nil {
		return nil, fmt.Errorf("read commit %.12s: %w", id, err)
	}
	return c, nil
}

// parent is the commit before, nil when there is none.
func (l *Log) parent(c *object.Commit) (*object.Commit, error) {
	if len(c.ParentHashes) == 0 {
		return nil, nil
	}
	return l.commit(c.ParentHashes[0].String())
}

// describe is a commit without what it changed.
func describe(c *object.Commit) *Revision {
	subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	r := &Revision{
		ID: c.Hash.String(), Author: cut(c.Author.Name), Email: cut(c.Author.Email), Subject: cut(subject),
		Time: c.Committer.When.UTC(), Merge: len(c.ParentHashes) > 1, Reverts: Reverts(c.Message),
	}
	if len(c.ParentHashes) > 0 {
		r.Parent = c.ParentHashes[0].String()
	}
	return r
}

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// revertLine is what `git revert` writes.
var revertLine = regexp.MustCompile(`(?m)^This reverts commit ([0-9a-f]{40})\b`)

// Reverts is the commit that a message says it takes back, or empty.
func Reverts(message string) string {
	if found := revertLine.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return ""
}

// mergedRevert is what the one commit of a branch that was merged takes back: a pull request that undoes something.
func (l *Log) mergedRevert(c *object.Commit) string {
	side, err := l.commit(c.ParentHashes[1].String())
	if err != nil || len(side.ParentHashes) != 1 {
		return ""
	}
	base := side.ParentHashes[0].String()
	if held, err := l.Holds(c.ParentHashes[0].String(), base); err != nil || !held {
		return ""
	}
	return Reverts(side.Message)
}
