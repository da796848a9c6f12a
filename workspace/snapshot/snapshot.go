// Package snapshot owns the view of one git commit as an immutable file system.
//
// A [Snapshot] reads trees and blobs straight from git's objects: nothing is ever checked out, so a repository can
// place no file, link or hook on the machine that reads it. [Open] takes a local repository, [Worktree] what a work
// tree would become if it were committed now, and [Objects] reads from any store of objects, such as a mirror of a
// remote repository.
//
// Data passes through once: refs resolve to a commit, the commit to its root tree, and [Snapshot.FS] and
// [Snapshot.Hash] walk down from there. Every size is known from an object's header before its content is inflated,
// and every entry's name is checked when its tree is read. What the files mean is for others to know.
package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/object"
)

// Hash is a git object id: 40 lower-case hex digits.
type Hash string

// ErrNotFetched means that nothing good has been fetched of a ref so far.
var ErrNotFetched = errors.New("not fetched yet")

// LimitError says that an object of the repository is larger than will be read.
type LimitError struct {
	// What is "blob", "tree", "pack" or another noun, with the id or path where that is known.
	What string
	// Size is what was found, zero where that is not known, and Max the bound, in bytes unless What says otherwise.
	Size, Max int64
}

func (e *LimitError) Error() string {
	if e.Size == 0 {
		return fmt.Sprintf("%s is too large: it exceeds the limit of %d", e.What, e.Max)
	}
	return fmt.Sprintf("%s is too large: %d exceeds the limit of %d", e.What, e.Size, e.Max)
}

// Commit identifies what a snapshot was taken of. It is zero for a work tree.
type Commit struct {
	// ID is the commit's hash in 40 hex digits.
	ID string
	// Author, Email and Subject are as written, cut to 200 characters; they may hold control characters.
	Author, Email, Subject string
	// Time is the committer's, in UTC.
	Time time.Time
}

// Snapshot is one commit or one state of a work tree. It is immutable and safe for concurrent use.
type Snapshot struct {
	commit Commit
	root   Hash
	src    source
	// whole is set for a grafted one.
	whole *Snapshot
}

// source gives the objects of a snapshot.
type source interface {
	Tree(Hash) ([]Entry, error)
	blobSize(Hash) (int64, error)
	// blob's result belongs to the caller.
	blob(Hash) ([]byte, error)
	// tooLarge is the error of blob for one that is larger than will be read, and nil for any other.
	tooLarge(Hash) error
	// limit replaces MaxBlob, where the source has no limit of its own.
	limit(int64)
}

// Commit tells which commit this is.
func (s *Snapshot) Commit() Commit { return s.commit }

// Hash gives the git id and mode of what is at a slash-separated path; "." is the root tree. It reads one tree for each
// element of the path and no file. A missing path wraps fs.ErrNotExist; the mode's type bits are as in [Snapshot.FS].
func (s *Snapshot) Hash(name string) (Hash, fs.FileMode, error) {
	e, err := s.find("hash", name)
	if err != nil {
		return "", 0, err
	}
	return e.Hash, e.Mode, nil
}

// TooLarge says why a file's content will not be read, by its id: it is a *LimitError, and nil for a file within the limit. It
// costs no read of the file.
func (s *Snapshot) TooLarge(id Hash) error { return s.src.tooLarge(id) }

// Limit replaces MaxBlob for a snapshot that was just taken of what is on this disk.
func (s *Snapshot) Limit(maxBlob int64) { s.src.limit(maxBlob) }

func (s *Snapshot) find(op, name string) (Entry, error) {
	at := Entry{Name: ".", Mode: fs.ModeDir | 0o755, Hash: s.root}
	if !fs.ValidPath(name) {
		return at, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return at, nil
	}
	seen := ""
	for elem := range strings.SplitSeq(name, "/") {
		if !at.Mode.IsDir() {
			return at, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		entries, err := s.src.Tree(at.Hash)
		if err != nil {
			return at, fmt.Errorf("%s %q: read folder %q: %w", op, name, seen, err)
		}
		next, ok := lookup(entries, elem)
		if !ok {
			return at, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		at, seen = next, path.Join(seen, elem)
	}
	return at, nil
}

// newCommit copies what is shown of a commit, bounded.
func newCommit(c *object.Commit) Commit {
	subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	return Commit{
		ID: c.Hash.String(), Author: clip(c.Author.Name), Email: clip(c.Author.Email), Subject: clip(subject),
		Time: c.Committer.When.UTC(),
	}
}

func clip(s string) string {
	const most = 200
	s = strings.ToValidUTF8(s, "\uFFFD")
	for utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most])
	}
	return s
}
