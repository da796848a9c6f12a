package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/walktest"
	"github.com/pluralsh/plural/workspace/treediff"
)

// sealing is a repository that seals what is in secrets, with one commit of one folder. Its remote has nothing.
func sealing(t *testing.T, folder string, make func(dir string) string) *Repo {
	t.Helper()
	dir := t.TempDir()
	feed := func(stdin string, args ...string) string { return walktest.Feed(t, dir, stdin, args...) }
	feed("", "init", "-q", "-b", "main")
	feed("", "remote", "add", "origin", t.TempDir())
	policy := "apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: 4b825dc642cb6eb9a060e54bf8d69288\n" +
		"  groups: [{name: ops}]\n  paths: [{pattern: \"secrets/**\", groups: [ops]}]\n"
	for _, name := range []string{".plural/seal.yaml", "plural.yaml"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := feed("040000 tree "+make(dir)+"\t"+folder+"\n", "mktree")
	feed("", "update-ref", "refs/heads/main", feed("", "commit-tree", root, "-m", "one folder"))
	repo, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func TestPushAndSealingOfAFolderThatNobodyCanWalkEnd(t *testing.T) {
	repo := sealing(t, "bomb", func(dir string) string { return walktest.Tree(t, dir, "x.yaml") })
	_, pushed := repo.Push(t.Context())
	sealed := repo.Sealed(t.Context(), nil, func(string, []byte) error { return nil })
	for what, err := range map[string]error{"push": pushed, "sealed": sealed} {
		if many := (*treediff.TooManyError)(nil); !errors.As(err, &many) || !strings.HasPrefix(many.At, "bomb/0/") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPushOfWhatIsNotSealedDoesNotCountTheWholeRepository(t *testing.T) {
	repo := sealing(t, "bomb", func(dir string) string { return walktest.Tree(t, dir, "x.yaml") })
	feed := func(stdin string, args ...string) string { return walktest.Feed(t, repo.Root(), stdin, args...) }
	feed("", "init", "-q", "--bare", feed("", "remote", "get-url", "origin"))
	feed("", "push", "-q", "origin", "main")
	root := feed("", "ls-tree", "main") + "\n100644 blob " + feed("hello\n", "hash-object", "-w", "--stdin") + "\tREADME.md\n"
	feed("", "update-ref", "refs/heads/main", feed("", "commit-tree", feed(root, "mktree"), "-p", "main", "-m", "Read me"))
	if _, err := repo.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	if feed("", "rev-parse", "main") != feed("", "ls-remote", "-q", "origin", "main")[:40] {
		t.Error("the remote does not have it")
	}
}
