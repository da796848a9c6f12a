package patch

import (
	"errors"
	"testing"

	"github.com/pluralsh/plural/test/support/walktest"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/treediff"
)

func TestComparisonOfMoreFilesThanAnybodyCanReadEnds(t *testing.T) {
	dir := t.TempDir()
	walktest.Feed(t, dir, "", "init", "-q", "-b", "main")
	bomb := walktest.Feed(t, dir, "", "commit-tree", walktest.Tree(t, dir, "x.yaml"), "-m", "a folder many times")
	after, err := snapshot.At(dir, snapshot.Hash(bomb))
	if err != nil {
		t.Fatal(err)
	}
	empty, err := snapshot.Worktree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]*snapshot.Snapshot{"an empty folder": empty, "nothing at all": nil} {
		_, err := differing(t.Context(), before, after)
		if many := (*treediff.TooManyError)(nil); !errors.As(err, &many) || many.Most != 100_000 {
			t.Errorf("from %s: error is %v", name, err)
		}
	}
}
