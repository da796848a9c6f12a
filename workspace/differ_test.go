package workspace

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/walktest"
)

func TestComparisonOfTreesTellsWhatDiffersAndHasAnEnd(t *testing.T) {
	dir := t.TempDir()
	feed := func(stdin string, args ...string) string { return walktest.Feed(t, dir, stdin, args...) }
	feed("", "init", "-q", "-b", "main")
	tree := walktest.Tree(t, dir, "x.yaml")
	blob := func(text string) string { return feed(text, "hash-object", "-w", "--stdin") }
	one := feed("100644 blob "+blob("1")+"\tx\n", "mktree")
	before := feed("100644 blob "+blob("1")+"\ta\n100644 blob "+blob("1")+"\tgone\n040000 tree "+one+"\tsame\n040000 tree "+one+"\tturned\n", "mktree")
	after := feed("100644 blob "+blob("2")+"\ta\n040000 tree "+one+"\tnew\n040000 tree "+one+"\tsame\n100755 blob "+blob("1")+"\tturned\n", "mktree")
	repo, err := git.PlainOpen(dir)
	if err != nil {
		t.Fatal(err)
	}
	read := func(id string) *object.Tree {
		t.Helper()
		found, err := object.GetTree(repo.Storer, plumbing.NewHash(id))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	files, err := differing(repo.Storer, read(before), read(after))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, e := range files {
		got[name] = strings.TrimLeft(e.mode.String(), "0") + " " + e.hash.String()
	}
	want := map[string]string{
		"a": "100644 " + blob("2"), "gone": " " + plumbing.ZeroHash.String(), "new/x": "100644 " + blob("1"),
		"turned": "100755 " + blob("1"), "turned/x": " " + plumbing.ZeroHash.String(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if files, err := differing(repo.Storer, read(before), read(before)); err != nil || len(files) > 0 {
		t.Errorf("the same tree differs in %v, %v", files, err)
	}
	if _, err := differing(repo.Storer, nil, read(tree)); err == nil || !strings.Contains(err.Error(), "more than 500000 files and folders") {
		t.Errorf("error is %v", err)
	}
}
