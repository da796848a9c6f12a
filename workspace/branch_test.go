package workspace

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/test/support/needs"
)

func TestBranchMovesWholeAlsoInALinkedWorkTree(t *testing.T) {
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	run := func(at string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = at
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	main, linked := filepath.Join(dir, "main"), filepath.Join(dir, "linked")
	run(dir, "init", "-q", "-b", "main", main)
	run(main, "commit", "-q", "--allow-empty", "-m", "1")
	run(main, "worktree", "add", "-q", "-b", "side/line", linked)
	first := plumbing.NewHash(run(main, "rev-parse", "HEAD"))
	run(main, "commit", "-q", "--allow-empty", "-m", "2")
	second := plumbing.NewHash(run(main, "rev-parse", "HEAD"))
	run(main, "pack-refs", "--all")

	g, err := (&Repo{root: linked}).open()
	if err != nil {
		t.Fatal(err)
	}
	branch := plumbing.NewBranchReferenceName("side/line")
	if err := moveBranch(g, branch, second, plumbing.NewHashReference(branch, first)); err != nil {
		t.Fatal(err)
	}
	if got := run(linked, "rev-parse", "HEAD"); got != second.String() {
		t.Errorf("the branch is at %s", got)
	}
	if err := moveBranch(g, branch, first, plumbing.NewHashReference(branch, first)); !errors.Is(err, ErrMoved) {
		t.Errorf("from where it is not: %v", err)
	}
	fresh := plumbing.NewBranchReferenceName("fresh")
	if err := moveBranch(g, fresh, first, nil); err != nil || run(main, "rev-parse", "fresh") != first.String() {
		t.Errorf("a new branch: %v", err)
	}
	if err := moveBranch(g, fresh, second, nil); !errors.Is(err, ErrMoved) {
		t.Errorf("a branch that somebody else made: %v", err)
	}
	file := filepath.Join(main, ".git", "refs", "heads", "fresh")
	if err := os.Link(file, filepath.Join(dir, "before")); err != nil {
		t.Fatal(err)
	}
	if err := g.Storer.SetReference(plumbing.NewHashReference(fresh, second)); err != nil || run(main, "rev-parse", "fresh") != second.String() {
		t.Errorf("a reference that go-git itself moves: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "before")); err != nil || string(text) != first.String()+"\n" {
		t.Errorf("its file was written over: %q, %v", text, err)
	}
	run(main, "fsck", "--strict")
	if left, _ := filepath.Glob(filepath.Join(main, ".git", "objects", "tmp_*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
