package gitcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNoRevision means that a revision does not exist: HEAD before the first commit, a branch nobody made.
var ErrNoRevision = errors.New("no such revision")

// Entry is one path in the index or in a tree.
type Entry struct {
	// Path is relative to the repository's root, with slashes.
	Path string
	// Mode is git's, in octal digits: "100644".
	Mode string
	// Oid is the object's name, in hex.
	Oid string
	// Stage is 0, and in the index 1 to 3 for the sides of a conflict.
	Stage int
}

// IsFile says whether the entry is a regular file, and no link or submodule.
func (e Entry) IsFile() bool { return strings.HasPrefix(e.Mode, "100") }

// Index lists the index, sorted by path.
func (r *Repo) Index(ctx context.Context) ([]Entry, error) {
	return r.index(ctx)
}

func (r *Repo) index(ctx context.Context, under ...string) ([]Entry, error) {
	out, err := r.run(ctx, nil, append([]string{"--literal-pathspecs", "ls-files", "--stage", "-z", "--"}, under...)...)
	if err != nil {
		return nil, fmt.Errorf("list index: %w", err)
	}
	return parseEntries(out, parseStaged)
}

// Tree lists all files of a commit or a tree, sorted by path. The error is ErrNoRevision when there is no such thing.
func (r *Repo) Tree(ctx context.Context, rev string) ([]Entry, error) {
	return r.tree(ctx, rev)
}

func (r *Repo) tree(ctx context.Context, rev string, under ...string) ([]Entry, error) {
	args := []string{"--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", rev}
	out, err := r.run(ctx, nil, append(args, under...)...)
	if err != nil {
		if _, missing := r.run(ctx, nil, "rev-parse", "--quiet", "--verify", "--end-of-options", rev+"^{tree}"); exited(missing, 1) {
			err = ErrNoRevision
		}
		return nil, fmt.Errorf("list files of %q: %w", rev, err)
	}
	return parseEntries(out, parseTreed)
}

// Uncommitted lists what the work tree or the index has otherwise than HEAD at or below the paths, files that git does not
// track and does not ignore included.
func (r *Repo) Uncommitted(ctx context.Context, paths ...string) ([]string, error) {
	out, err := r.run(ctx, nil, append([]string{"status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--"}, paths...)...)
	if err != nil {
		return nil, fmt.Errorf("look for changes that are not committed: %w", err)
	}
	list := fields(out)
	for i, line := range list {
		list[i] = line[min(len("XY "), len(line)):]
	}
	return list, nil
}

// Untracked lists the files of the work tree that git neither knows nor ignores.
func (r *Repo) Untracked(ctx context.Context) ([]string, error) {
	out, err := r.run(ctx, nil, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, fmt.Errorf("list untracked files: %w", err)
	}
	return fields(out), nil
}

// Refresh makes git compare the work tree with the index again, where their times differ.
func (r *Repo) Refresh(ctx context.Context) error {
	if _, err := r.run(ctx, nil, "update-index", "-q", "--refresh"); err != nil && !exited(err, 1) {
		return fmt.Errorf("refresh index: %w", err)
	}
	return nil
}

// fields splits what git separates by NUL.
func fields(out []byte) []string {
	text := strings.TrimSuffix(string(out), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

func parseEntries(out []byte, parse func(head string, e *Entry) bool) ([]Entry, error) {
	lines := fields(out)
	entries := make([]Entry, len(lines))
	for i, line := range lines {
		head, path, ok := strings.Cut(line, "\t")
		entries[i].Path = path
		if !ok || !parse(head, &entries[i]) {
			return nil, fmt.Errorf("git lists %.100q, which is no entry", line)
		}
	}
	return entries, nil
}

// parseStaged reads "MODE OID STAGE".
func parseStaged(head string, e *Entry) bool {
	words := strings.Split(head, " ")
	if len(words) != 3 {
		return false
	}
	var err error
	e.Mode, e.Oid = words[0], words[1]
	e.Stage, err = strconv.Atoi(words[2])
	return err == nil
}

// parseTreed reads "MODE TYPE OID".
func parseTreed(head string, e *Entry) bool {
	words := strings.Split(head, " ")
	if len(words) != 3 {
		return false
	}
	e.Mode, e.Oid = words[0], words[2]
	return true
}
