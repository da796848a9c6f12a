package gitcmd

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/internal/needs"
)

func TestAnswerOfGitHasAnEnd(t *testing.T) {
	needs.Program(t, "git", "git")
	dir := t.TempDir()
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
	feed("", "init", "-q", "-b", "main", dir)
	tree := feed("100644 blob "+feed("", "hash-object", "-w", "--stdin")+"\tx.yaml\n", "mktree")
	for range 12 {
		var lines strings.Builder
		for i := range 10 {
			fmt.Fprintf(&lines, "040000 tree %s\t%d\n", tree, i)
		}
		tree = feed(lines.String(), "mktree")
	}
	r, err := Find(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	r.most = 1 << 20
	var long *gitexec.TooLongError
	if _, err := r.Tree(t.Context(), tree); !errors.As(err, &long) || !strings.Contains(err.Error(), "longer than 1 MiB") || long.Fix() == "" {
		t.Errorf("error is %v", err)
	}
}
