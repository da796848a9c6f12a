package history_test

import (
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/walktest"
	"github.com/pluralsh/plural/workspace/history"
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
	if _, err := r.log().Changes(first, large, history.Scope{}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error is %v", err)
	}
}
