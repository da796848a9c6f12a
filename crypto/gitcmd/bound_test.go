package gitcmd

import (
	"errors"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/test/support/walktest"
)

func TestAnswerOfGitHasAnEnd(t *testing.T) {
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	walktest.Feed(t, dir, "", "init", "-q", "-b", "main")
	tree := walktest.Tree(t, dir, "x.yaml")
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
