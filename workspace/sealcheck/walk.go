package sealcheck

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/pluralsh/plural/crypto/leakcheck"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Bounds of one walk. Objects of a kilobyte can be a file under more paths than anybody can walk, and what is sealed is judged
// by its path.
const (
	// maxEntries bounds the files and folders that are met below folders which a pattern reaches, over and over where one of
	// them lies at several paths. What was found in order before counts nothing. Installation repos have some thousands.
	maxEntries = 500_000
	// maxProblems is how many files are named.
	maxProblems = 1_000
)

// emptyFile is git's id of a file that keeps nothing secret wherever it lies. Any other is in order at one path alone.
const emptyFile snapshot.Hash = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

// place is one file or folder of one content.
type place struct {
	path string
	id   snapshot.Hash
}

// bareFolder is a folder at any path with this reach.
type bareFolder struct {
	id    snapshot.Hash
	reach [sha256.Size]byte
}

// walk is one pass over the files of a state.
type walk struct {
	*Checker
	ctx   context.Context //nolint:containedctx // lives for one call
	snap  *snapshot.Snapshot
	rules leakcheck.Rules

	entries  int
	wrong    int // files that are not in order, told or not
	problems []Problem
}

var (
	errTooLarge = errors.New("more than will be looked at")
	errEnough   = errors.New("more than will be told")
)

// walk must be called with mu held.
func (c *Checker) walk(ctx context.Context, snap *snapshot.Snapshot, rules leakcheck.Rules) ([]Problem, error) {
	root, _, err := snap.Hash(".")
	if err != nil {
		return nil, err
	}
	if root == c.large.root {
		return []Problem{tooLarge(c.large.at)}, nil
	}
	w := &walk{Checker: c, ctx: ctx, snap: snap, rules: rules}
	_, err = w.folder(".", root, rules.Policy.Reach())
	switch {
	case errors.Is(err, errTooLarge):
		c.large.root = root
		return append(w.problems, tooLarge(c.large.at)), nil
	case errors.Is(err, errEnough):
		return append(w.problems, Problem{
			File: policy.File, Message: fmt.Sprintf("at least %d files are not sealed as it says; the rest is not looked at", maxProblems),
			Fix: "mend these first, or correct its patterns",
		}), nil
	case err != nil && strings.Contains(err.Error(), policy.File+":"): // patterns that contradict each other
		return append(w.problems, placed(policy.File, err)), nil
	}
	return w.problems, err
}

func tooLarge(at string) Problem {
	return Problem{
		File:    at,
		Message: fmt.Sprintf("more than %d files and folders to look at, counted here: a folder counts wherever it lies", maxEntries),
		Fix:     "take out what does not belong into the repository, or let the patterns of " + policy.File + " name fewer folders",
	}
}

// folder judges all files below a folder, and says whether there was none that a pattern matches.
func (w *walk) folder(at string, id snapshot.Hash, reach policy.Reach) (bare bool, err error) {
	if reach.Empty() {
		return true, nil
	}
	anywhere, here := bareFolder{id, reach.Key()}, place{at, id}
	if _, known := w.bare[anywhere]; known {
		return true, nil
	}
	if _, known := w.known[here]; known {
		return false, nil
	}
	entries, err := w.enter(at, id)
	if err != nil {
		return false, err
	}
	bare = true
	before := w.wrong
	for _, e := range entries {
		name, none := path.Join(at, e.Name), true
		switch {
		case e.Mode.IsDir():
			none, err = w.folder(name, e.Hash, reach.Into(e.Name))
		case e.Mode.IsRegular() && reach.Matches(e.Name):
			none, err = false, w.file(place{name, e.Hash})
		}
		if err != nil {
			return false, err
		}
		bare = bare && none
	}
	switch {
	case bare:
		w.bare[anywhere] = struct{}{}
	case w.wrong == before:
		w.known[here] = struct{}{}
	}
	return bare, nil
}

// enter lists a folder, if that is not one too many.
func (w *walk) enter(at string, id snapshot.Hash) ([]snapshot.Entry, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, fmt.Errorf("folder %q: %w", at, err)
	}
	entries, err := w.snap.Tree(id)
	if err != nil {
		return nil, fmt.Errorf("folder %q: %w", at, err)
	}
	w.entries += len(entries)
	if w.entries > maxEntries || strings.Count(at, "/") >= snapshot.MaxDepth {
		w.large.at = at
		return nil, errTooLarge
	}
	return entries, nil
}

func (w *walk) file(at place) error {
	if _, known := w.known[at]; known || at.id == emptyFile {
		return nil
	}
	if err := w.ctx.Err(); err != nil {
		return fmt.Errorf("file %q: %w", at.path, err)
	}
	f, err := w.rules.File(w.snap.FS(), at.path)
	switch {
	case err != nil:
		return err
	case f == nil:
		w.known[at] = struct{}{}
		return nil
	}
	w.wrong++
	if f.Kind == leakcheck.Plaintext && w.snap.Commit().ID == "" { // it is sealed on its way into git
		return nil
	}
	w.problems = append(w.problems, Problem{File: f.Path, Message: f.Message, Fix: f.Fix})
	if len(w.problems) == maxProblems {
		return errEnough
	}
	return nil
}
