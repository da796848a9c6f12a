package history_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/walktest"
	"github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/treediff"
)

func TestCommitOfMoreFilesThanAnybodyCanCountHidesNothingBeforeIt(t *testing.T) {
	r := newRepo(t)
	first := r.commit("first", "a", "1")
	tree := walktest.Tree(t, r.dir, "x.yaml")
	large := walktest.Feed(t, r.dir, "", "commit-tree", tree, "-p", first, "-m", "large")
	page := r.read(history.Query{From: large})
	if len(page.Items) != 2 || page.Items[0].ID != large || page.Items[0].LeftOut < 1_000 || page.Items[1].ID != first {
		t.Errorf("history is %+v", page)
	}
	if !page.Items[0].Incomplete || page.Items[1].Incomplete {
		t.Errorf("which one was not all compared: %+v", page)
	}
	_, err := r.log().Changes(t.Context(), first, large, history.Scope{})
	if many := (*treediff.TooManyError)(nil); !errors.As(err, &many) || many.Most != 100_000 || many.Fix() == "" {
		t.Errorf("error is %v", err)
	}
}

func TestCommitWhoseComparisonIsCutIsShownAlthoughNoFileIsKnown(t *testing.T) {
	r := newRepo(t)
	first := r.commit("first", "services/web.yaml", "1")
	bomb := walktest.Feed(t, r.dir, "040000 tree "+walktest.Tree(t, r.dir, "x.yaml")+"\ta\n", "mktree")
	// Folders alone: no file is met before the bound.
	empty := walktest.Feed(t, r.dir, "", "mktree")
	for range 12 {
		var lines strings.Builder
		for _, name := range strings.Split("0123456789", "") {
			lines.WriteString("040000 tree " + empty + "\t" + name + "\n")
		}
		empty = walktest.Feed(t, r.dir, lines.String(), "mktree")
	}
	cut := walktest.Feed(t, r.dir, "", "commit-tree", empty, "-p", first, "-m", "folders")
	for name, scope := range map[string]history.Scope{"everything": {}, "a part of it": history.Paths("0", "1/2")} {
		page := r.read(history.Query{From: cut, Scope: scope})
		if len(page.Items) == 0 || page.Items[0].ID != cut || !page.Items[0].Incomplete || len(page.Items[0].Files) > 0 {
			t.Errorf("%s: history is %+v", name, page)
		}
	}
	found, err := r.log().Undoable(t.Context(), cut, history.Scope{})
	if err != nil || found == nil || found.ID != cut {
		t.Errorf("to undo is %+v, %v: not what came before", found, err)
	}
	large := walktest.Feed(t, r.dir, "", "commit-tree", bomb, "-p", first, "-m", "large")
	page := r.read(history.Query{From: large, Scope: history.Paths("services")})
	if len(page.Items) != 2 || page.Items[0].Incomplete {
		t.Errorf("all of the scope was compared: %+v", page)
	}
}
