package treediff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/test/support/walktest"
)

// repo is an empty repository.
type repo struct {
	testing.TB
	dir string
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t, t.TempDir()}
	r.feed("", "init", "-q", "-b", "main")
	return r
}

func (r *repo) feed(stdin string, args ...string) string {
	r.Helper()
	return walktest.Feed(r, r.dir, stdin, args...)
}

func (r *repo) blob(text string) string {
	r.Helper()
	return r.feed(text, "hash-object", "-w", "--stdin")
}

// tree makes one of lines as ls-tree prints them.
func (r *repo) tree(lines ...string) string {
	r.Helper()
	return r.feed(strings.Join(lines, "\n")+"\n", "mktree")
}

// compare gives each change as "path: mode blob -> mode blob".
func (r *repo) compare(ctx context.Context, before, after string, scope Scope) ([]string, error) {
	r.Helper()
	g, err := git.PlainOpen(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	side := func(id string) Tree {
		return Tree{Root: plumbing.NewHash(id), Read: Reader(g.Storer)}
	}
	text := func(f File) string {
		if !f.Exists() {
			return "nothing"
		}
		return strings.TrimLeft(f.Mode.String(), "0") + " " + r.feed("", "cat-file", "blob", f.Hash.String())
	}
	var got []string
	err = Compare(ctx, side(before), side(after), scope, func(c Change) error {
		got = append(got, c.Path+": "+text(c.Before)+" -> "+text(c.After))
		return nil
	})
	return got, err
}

func TestComparisonTellsEachFileThatDiffers(t *testing.T) {
	r := newRepo(t)
	one, two := r.blob("1"), r.blob("2")
	folder := r.tree("100644 blob " + one + "\tx")
	before := r.tree("100644 blob "+one+"\ta", "100644 blob "+one+"\tgone", "040000 tree "+folder+"\tsame", "040000 tree "+folder+"\tturned")
	after := r.tree("100644 blob "+two+"\ta", "040000 tree "+folder+"\tnew", "040000 tree "+folder+"\tsame", "100755 blob "+one+"\tturned")
	for name, tt := range map[string]struct {
		before, after string
		scope         Scope
		want          []string
	}{
		"everything": {before, after, nil, []string{
			"a: 100644 1 -> 100644 2", "gone: 100644 1 -> nothing", "new/x: nothing -> 100644 1", "turned: nothing -> 100755 1",
			"turned/x: 100644 1 -> nothing",
		}},
		"a folder as a whole": {
			before, after, func(path string) (bool, bool) { in := strings.HasPrefix(path, "new"); return in, in },
			[]string{"new/x: nothing -> 100644 1"},
		},
		"only what lies deeper": {
			before, after, func(path string) (bool, bool) { return strings.HasPrefix(path, "turned"), path == "turned/x" },
			[]string{"turned/x: 100644 1 -> nothing"},
		},
		"the same":     {before, before, nil, nil},
		"from nothing": {"", folder, nil, []string{"x: nothing -> 100644 1"}},
		"to nothing":   {folder, "", nil, []string{"x: 100644 1 -> nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := r.compare(t.Context(), tt.before, tt.after, tt.scope)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestComparisonOfAFolderThatNobodyCanWalkEndsWithPlaceAndFix(t *testing.T) {
	r := newRepo(t)
	bomb := walktest.Tree(t, r.dir, "x.yaml")
	g, err := git.PlainOpen(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	err = Compare(t.Context(), Tree{}, Tree{Root: plumbing.NewHash(bomb), Read: Reader(g.Storer)}, nil, func(Change) error { return nil })
	var many *TooManyError
	if !errors.As(err, &many) || !strings.HasPrefix(many.At, "0/0/") || !strings.Contains(err.Error(), "more than 500000 files") ||
		many.Fix() == "" {
		t.Errorf("error is %v", err)
	}
}

func TestListOfMoreChangesThanAreKeptEndsWithPlaceAndFix(t *testing.T) {
	r := newRepo(t)
	one := r.blob("1")
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("100644 blob %s\t%03d", one, i))
	}
	folder, folders := r.tree(lines...), []string(nil)
	for i := range maxChanges / 1000 {
		folders = append(folders, fmt.Sprintf("040000 tree %s\t%03d", folder, i))
	}
	g, err := git.PlainOpen(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	list := func(lines ...string) ([]Change, error) {
		return List(t.Context(), Tree{}, Tree{Root: plumbing.NewHash(r.tree(lines...)), Read: Reader(g.Storer)}, nil)
	}
	if got, err := list(folders...); err != nil || len(got) != maxChanges {
		t.Errorf("as many as may be: %d, %v", len(got), err)
	}
	got, err := list(append(folders, "100644 blob "+one+"\tlast")...)
	var many *TooManyError
	if !errors.As(err, &many) || got != nil || many.At != "last" || !strings.Contains(err.Error(), "more than 100000 files") {
		t.Errorf("one more: %d, %v", len(got), err)
	}
}

func TestComparisonOfFoldersNestedTooDeepEnds(t *testing.T) {
	r := newRepo(t)
	tree := r.tree("100644 blob " + r.blob("1") + "\tx")
	for range maxDepth {
		tree = r.tree("040000 tree " + tree + "\td")
	}
	if got, err := r.compare(t.Context(), "", tree, nil); err != nil || len(got) != 1 {
		t.Errorf("as deep as may be: %v, %v", got, err)
	}
	_, err := r.compare(t.Context(), "", r.tree("040000 tree "+tree+"\td"), nil)
	if many := (*TooManyError)(nil); !errors.As(err, &many) || strings.Count(many.At, "/") != maxDepth+1 {
		t.Errorf("one deeper: %v", err)
	}
}

func TestComparisonEndsWithItsContext(t *testing.T) {
	r := newRepo(t)
	late := errors.New("the answer is no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if _, err := r.compare(ctx, "", r.tree("100644 blob "+r.blob("1")+"\tx"), nil); !errors.Is(err, late) {
		t.Errorf("error is %v", err)
	}
}

func TestComparisonOfOneFolderEndsWithItsContext(t *testing.T) {
	r := newRepo(t)
	one := r.blob("1")
	root := r.tree("100644 blob "+one+"\ta", "100644 blob "+one+"\tb")
	g, err := git.PlainOpen(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("the answer is no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	err = Compare(ctx, Tree{}, Tree{Root: plumbing.NewHash(root), Read: Reader(g.Storer)}, nil, func(c Change) error {
		if c.Path != "a" {
			t.Errorf("went on to %q", c.Path)
		}
		cancel(late)
		return nil
	})
	if !errors.Is(err, late) {
		t.Errorf("error is %v", err)
	}
}

// counting counts the trees that are read.
type counting struct {
	storer.EncodedObjectStorer
	read int
}

func (c *counting) EncodedObject(kind plumbing.ObjectType, id plumbing.Hash) (plumbing.EncodedObject, error) {
	c.read++
	return c.EncodedObjectStorer.EncodedObject(kind, id)
}

func TestReaderRemembersTreesUntilTheyAreTooLargeTogether(t *testing.T) {
	r := newRepo(t)
	one := r.blob("1")
	tree := func(name string, size int) plumbing.Hash {
		lines := make([]string, size)
		for i := range lines {
			lines[i] = fmt.Sprintf("100644 blob %s\t%s%06d", one, name, i)
		}
		return plumbing.NewHash(r.tree(lines...))
	}
	half, other, small := tree("a", maxRecent/2), tree("b", maxRecent/2), tree("c", 1)
	g, err := git.PlainOpen(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	objects := &counting{EncodedObjectStorer: g.Storer}
	read := Reader(objects)
	for i, step := range []struct {
		tree plumbing.Hash
		want int
	}{{half, 1}, {small, 2}, {half, 2}, {small, 2}, {other, 3}, {other, 3}, {small, 4}, {half, 5}, {half, 5}} {
		if _, err := read(step.tree); err != nil || objects.read != step.want {
			t.Errorf("step %d: %d trees were read, want %d; %v", i, objects.read, step.want, err)
		}
	}
}

func TestOnlyFilesWithContentArePlain(t *testing.T) {
	for mode, want := range map[filemode.FileMode]bool{
		filemode.Regular: true, filemode.Executable: true, filemode.Deprecated: true,
		filemode.Symlink: false, filemode.Submodule: false, 0: false,
	} {
		if got := (File{Mode: mode}).Plain(); got != want {
			t.Error(fmt.Sprint(mode), got)
		}
	}
}
