// Package revert owns the state of an installation repo without one of its commits.
//
// It refuses to know how a change is made: it reads git's objects, and gives files.
//
// Of looks at each file that the commit changed. One that is still as the commit left it becomes what it was before; one that was
// changed since is merged, line by line, as `git revert` would; and what cannot be merged is a ConflictError, which names the later
// commits. At gives the files of a part of the repository as they were at a commit. Sealed files are whole: they come back as they
// were sealed, or not at all.
package revert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/merge"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/treediff"
)

const (
	// maxFile bounds what is read of one file, in bytes: no more could be committed.
	maxFile = 3 << 20
	// maxSince is how many later commits a conflict names.
	maxSince = 5
	// sealing is where it is written who can open what, and access the folder of files that say who may do what.
	sealing, access = ".plural/", "access"
	// clusters is the folder of files that say which agents there are.
	clusters = "clusters"
)

// isTrust says whether a file is about who can open or do what.
func isTrust(file string) bool { return strings.HasPrefix(file, sealing) || path.Dir(file) == access }

// Plan is what has to be changed on top of Head.
type Plan struct {
	Head string
	// Files are whole, by path; nil removes one.
	Files map[string][]byte
	// Done are files that are so already. To commit them again is no commit, and ends what a run that was killed has begun.
	Done map[string][]byte
	// Trust are those of Files that say who can open or do what, Sealed the others that come back as they were sealed.
	Sealed, Trust []string
	// Kept are sealed files that stay as they are, although they were different then.
	Kept []string
}

// Conflict is one file that cannot be brought back.
type Conflict struct {
	Path, Reason string
	// Since are later commits that changed it, the newest first.
	Since []history.Revision
}

// ConflictError says that later commits stand in the way. Nothing has been changed.
type ConflictError struct {
	Commit    string
	Conflicts []Conflict
}

func (e *ConflictError) Error() string {
	paths := make([]string, len(e.Conflicts))
	for i := range e.Conflicts {
		paths[i] = e.Conflicts[i].Path
	}
	return fmt.Sprintf("commit %.7s cannot be taken back: %s", e.Commit, strings.Join(paths, ", "))
}

// planner makes one plan.
type planner struct {
	objects storer.EncodedObjectStorer
	log     *history.Log
	head    *object.Tree
	plan    *Plan
	commit  string
	in      []Conflict
}

func newPlanner(objects storer.EncodedObjectStorer, head, commit string) (*planner, error) {
	at, err := object.GetCommit(objects, plumbing.NewHash(head))
	if err != nil {
		return nil, fmt.Errorf("read commit %.12s: %w", head, err)
	}
	tree, err := at.Tree()
	if err != nil {
		return nil, fmt.Errorf("read commit %.12s: %w", head, err)
	}
	return &planner{
		objects: objects, log: history.Of(objects), head: tree, commit: commit,
		plan: &Plan{Head: head, Files: map[string][]byte{}, Done: map[string][]byte{}},
	}, nil
}

// Of is the plan to take a commit back; of a merge, all that it took in. There are no Files in it when all of it is taken back already.
// The error is a *ConflictError when later commits stand in the way.
func Of(ctx context.Context, objects storer.EncodedObjectStorer, head string, r *history.Revision) (*Plan, error) {
	p, err := newPlanner(objects, head, r.ID)
	if err != nil {
		return nil, err
	}
	changes, err := p.log.Changes(ctx, r.Parent, r.ID, history.Scope{})
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if err := p.back(c); err != nil {
			return nil, err
		}
	}
	return p.result(ctx)
}

// At is the plan to have the files of a scope as they were at a commit. Sealed files stay, and so does what says who can open or do
// what, and which clusters there are: a scope may be the whole repository.
func At(ctx context.Context, objects storer.EncodedObjectStorer, head, commit string, scope history.Scope) (*Plan, error) {
	p, err := newPlanner(objects, head, commit)
	if err != nil {
		return nil, err
	}
	changes, err := p.log.Changes(ctx, commit, head, scope)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if isTrust(c.Path) || path.Dir(c.Path) == clusters {
			continue
		}
		then, now, ok, err := p.both(c)
		switch {
		case err != nil:
			return nil, err
		case !ok:
		case seal.IsSealed(then) || seal.IsSealed(now):
			p.plan.Kept = append(p.plan.Kept, c.Path)
		default:
			p.plan.Files[c.Path] = then
		}
	}
	return p.result(ctx)
}

func (p *planner) result(ctx context.Context) (*Plan, error) {
	if len(p.in) == 0 {
		return p.plan, nil
	}
	for i := range p.in {
		if err := p.since(ctx, &p.in[i]); err != nil {
			return nil, err
		}
	}
	return nil, &ConflictError{p.commit, p.in}
}

// since finds who changed a file after the commit.
func (p *planner) since(ctx context.Context, c *Conflict) error {
	page, err := p.log.Read(ctx, history.Query{From: p.plan.Head, Scope: history.Paths(c.Path), Limit: maxSince + 1})
	if err != nil {
		return err
	}
	for _, r := range page.Items {
		if r.ID == p.commit || len(c.Since) == maxSince {
			break
		}
		c.Since = append(c.Since, r)
	}
	return nil
}

func (p *planner) conflict(path, reason string) {
	p.in = append(p.in, Conflict{Path: path, Reason: reason})
}

// back takes one file's change back.
func (p *planner) back(c treediff.Change) error {
	before, after, ok, err := p.both(c)
	if err != nil || !ok {
		return err
	}
	now, err := p.now(c.Path)
	if err != nil {
		return err
	}
	if now == c.Before {
		p.plan.Done[c.Path] = before
		return nil
	}
	if seal.IsSealed(after) && c.Before.Exists() && !seal.IsSealed(before) {
		p.conflict(c.Path, "it was in clear before: git keeps that, and is not to be given it again")
		return nil
	}
	if now == c.After {
		p.put(c.Path, before)
		return nil
	}
	return p.merge(c, now, before, after)
}

// merge takes a change back in a file that was changed again since.
func (p *planner) merge(c treediff.Change, now treediff.File, before, after []byte) error {
	ours, err := p.read(now)
	switch {
	case err != nil:
		return err
	case seal.IsSealed(before) || seal.IsSealed(after) || seal.IsSealed(ours):
		p.conflict(c.Path, "it is sealed, and was sealed again since")
	case strings.HasPrefix(c.Path, sealing):
		p.conflict(c.Path, "who can open what was changed again since")
	case !c.After.Exists():
		p.conflict(c.Path, "it was removed, and is there again with other content")
	case !now.Exists():
		p.conflict(c.Path, "it was removed since")
	case !c.Before.Exists():
		p.conflict(c.Path, "it was added, and changed since")
	case now.Mode != c.After.Mode:
		p.conflict(c.Path, "whether it can be executed was changed since")
	default:
		merged, conflicts := merge.Three(after, ours, before, merge.Labels{Base: "commit", Ours: "now", Theirs: "before"})
		if conflicts > 0 {
			p.conflict(c.Path, "the same lines were changed since")
			return nil
		}
		if string(merged) != string(ours) {
			p.put(c.Path, merged)
		}
	}
	return nil
}

// put plans one file.
func (p *planner) put(file string, content []byte) {
	p.plan.Files[file] = content
	switch {
	case isTrust(file):
		p.plan.Trust = append(p.plan.Trust, file)
	case seal.IsSealed(content):
		p.plan.Sealed = append(p.plan.Sealed, file)
	}
}

// both are a changed file's contents. False: it is none that can be brought back, which is a conflict.
func (p *planner) both(c treediff.Change) (before, after []byte, ok bool, err error) {
	if bad := new(snapshot.TreeError); errors.As(snapshot.CheckPath(c.Path), &bad) {
		p.conflict(c.Path, "its name "+bad.Reason+": git revert can do it")
		return nil, nil, false, nil
	}
	for _, f := range []treediff.File{c.Before, c.After} {
		if f.Exists() && !f.Plain() {
			p.conflict(c.Path, "it is a link or another repository: git revert can do it")
			return nil, nil, false, nil
		}
	}
	if c.After.Exists() && c.Before.Exists() && c.Before.Mode != c.After.Mode || !c.After.Exists() && c.Before.Mode == filemode.Executable {
		p.conflict(c.Path, "whether it can be executed was changed: git revert can do it")
		return nil, nil, false, nil
	}
	if before, err = p.read(c.Before); err != nil {
		return nil, nil, false, err
	}
	after, err = p.read(c.After)
	return before, after, err == nil, err
}

// now is the file at the head; where a folder took its place, there is none.
func (p *planner) now(path string) (treediff.File, error) {
	e, err := p.head.FindEntry(path)
	switch {
	case errors.Is(err, object.ErrEntryNotFound), errors.Is(err, object.ErrDirectoryNotFound):
		return treediff.File{}, nil
	case err != nil:
		return treediff.File{}, fmt.Errorf("look up %q: %w", path, err)
	}
	if e.Mode == filemode.Dir {
		return treediff.File{}, nil
	}
	return treediff.File{Hash: e.Hash, Mode: e.Mode}, nil
}

// read is a file's content; nil when there is none.
func (p *planner) read(f treediff.File) ([]byte, error) {
	if !f.Exists() {
		return nil, nil
	}
	blob, err := object.GetBlob(p.objects, f.Hash)
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", f.Hash, err)
	}
	if blob.Size > maxFile {
		return nil, fmt.Errorf("read blob %s: it is larger than %d bytes", f.Hash, maxFile)
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", f.Hash, err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if text == nil {
		text = []byte{}
	}
	return text, err
}

// Standing refuses sealed files that come back for others than those who are to read them now. The vault is that of the repository
// with the plan's files in it.
func (p *Plan) Standing(v *sealer.Vault, commit string) error {
	var in []Conflict
	for _, path := range p.Sealed {
		if reason := unfit(v, path, p.Files[path]); reason != "" {
			in = append(in, Conflict{Path: path, Reason: reason})
		}
	}
	if len(in) > 0 {
		return &ConflictError{commit, in}
	}
	return nil
}

// unfit says why a sealed file cannot stand at its path; empty when it can.
func unfit(v *sealer.Vault, path string, sealed []byte) string {
	binding, err := seal.Inspect(sealed)
	if err != nil {
		return "its seal cannot be read: " + err.Error()
	}
	if err := v.Check(path, binding); err != nil {
		return "it was sealed for others than those who can read it now: " + err.Error()
	}
	wanted, err := v.Epochs(path)
	if err != nil || !slices.Equal(binding.Groups, wanted) {
		return "it was sealed for others than those who can read it now: set the secret again instead"
	}
	return ""
}
