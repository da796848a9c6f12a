package history_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/pluralsh/plural/workspace/history"
)

func TestCommitOfMoreFilesThanAnybodyCanCountHidesNothingBeforeIt(t *testing.T) {
	r := newRepo(t)
	first := r.commit("first", "a", "1")
	dir := r.dir
	feed := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b.c"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	tree := feed("100644 blob "+feed("", "hash-object", "-w", "--stdin")+"\tx.yaml\n", "mktree")
	for range 12 {
		var lines strings.Builder
		for i := range 10 {
			fmt.Fprintf(&lines, "040000 tree %s\t%d\n", tree, i)
		}
		tree = feed(lines.String(), "mktree")
	}
	large := feed("", "commit-tree", tree, "-p", first, "-m", "large")
	page := r.read(history.Query{From: large})
	if len(page.Items) != 2 || page.Items[0].ID != large || page.Items[0].LeftOut < 1_000 || page.Items[1].ID != first {
		t.Errorf("history is %+v", page)
	}
	if _, err := r.log().Changes(first, large, history.Scope{}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error is %v", err)
	}
}
