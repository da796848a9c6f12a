package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// Graft implements Receiver. The commit that it makes says what the given one says, but names no parents and carries no
// signature, which would be of another tree.
func (r *receiver) Graft(ctx context.Context, commit string, at map[string]string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("put submodules into commit %s: %w", commit, err)
	}
	root, err := rootOf(r.objects, commit)
	if err != nil {
		return fail(err)
	}
	trees := map[string]snapshot.Hash{}
	for name, other := range at {
		if !fs.ValidPath(name) || name == "." {
			return fail(fmt.Errorf("%q is no path in it", name))
		}
		if err := r.accept(other); err != nil {
			return fail(fmt.Errorf("submodule %q: %w", name, err))
		}
		if trees[name], err = rootOf(r.objects, other); err != nil {
			return fail(fmt.Errorf("submodule %q: %w", name, err))
		}
	}
	t := &treeMaker{ctx: ctx, objects: r.objects, pack: newPackWriter(r.store, 0), made: map[plumbing.Hash]bool{}}
	defer t.pack.discard()
	if root, err = t.graft(root, trees); err != nil {
		return fail(err)
	}
	_, body, err := r.Object(commit)
	if err != nil {
		return fail(err)
	}
	if body, err = withTree(body, root); err != nil {
		return fail(err)
	}
	made, err := t.add(plumbing.CommitObject, body)
	if err == nil {
		err = t.pack.finish()
	}
	if err != nil {
		return fail(err)
	}
	return string(made), nil
}

// graft makes a tree in which the gitlinks at some paths below it are other trees. A path may lead through another one.
func (t *treeMaker) graft(tree snapshot.Hash, at map[string]snapshot.Hash) (snapshot.Hash, error) {
	known, err := t.objects.Tree(tree)
	if err != nil {
		return "", err
	}
	below := map[string]map[string]snapshot.Hash{} // by the first element; the rest of a path that ends there is empty
	for name, other := range at {
		first, rest, _ := strings.Cut(name, "/")
		if below[first] == nil {
			below[first] = map[string]snapshot.Hash{}
		}
		below[first][rest] = other
	}
	entries := slices.Clone(known)
	for _, first := range slices.Sorted(maps.Keys(below)) {
		i := slices.IndexFunc(entries, func(e snapshot.Entry) bool { return e.Name == first })
		if i < 0 {
			return "", fmt.Errorf("%q: %w", first, fs.ErrNotExist)
		}
		if err := t.graftEntry(&entries[i], below[first]); err != nil {
			return "", fmt.Errorf("%q: %w", first, err)
		}
	}
	return t.tree(entries)
}

var (
	errNoGitlink = errors.New("no submodule stands there")
	errNoFolder  = errors.New("not a folder")
)

func (t *treeMaker) graftEntry(e *snapshot.Entry, at map[string]snapshot.Hash) (err error) {
	if other, ok := at[""]; ok {
		if e.Mode.Type() != fs.ModeIrregular {
			return errNoGitlink
		}
		e.Mode, e.Hash = fs.ModeDir|0o755, other
		delete(at, "")
	}
	if len(at) == 0 {
		return nil
	}
	if !e.Mode.IsDir() {
		return errNoFolder
	}
	e.Hash, err = t.graft(e.Hash, at)
	return err
}

// withTree writes a commit's body anew with another tree, its author, its committer and its words.
func withTree(body []byte, tree snapshot.Hash) ([]byte, error) {
	head, message, ok := bytes.Cut(body, []byte("\n\n"))
	if !ok {
		return nil, errors.New("malformed commit")
	}
	made := fmt.Appendf(nil, "tree %s\n", tree)
	for line := range bytes.Lines(append(head, '\n')) {
		for _, kept := range []string{"author ", "committer ", "encoding "} {
			if bytes.HasPrefix(line, []byte(kept)) {
				made = append(made, line...)
			}
		}
	}
	return slices.Concat(made, []byte("\n"), message), nil
}
