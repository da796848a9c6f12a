package patch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

func TestTwoCommitsAreComparedWithoutWhatIsSealed(t *testing.T) {
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	t.Setenv("HOME", t.TempDir())
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@t"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(files map[string]string) string {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		git("add", ".")
		git("commit", "-qm", "x")
		return git("rev-parse", "HEAD")
	}
	git("init", "-q")
	manifest := "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n"
	first := commit(map[string]string{workspace.Manifest: manifest, "a": "one\n"})
	second := commit(map[string]string{"a": "two\n", "secret": "age-encryption.org/v1\nhunter2\n"})
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		before, after string
		want          map[string]string
	}{
		"the first":  {"", first, map[string]string{"a": "added", workspace.Manifest: "added"}},
		"the second": {first, second, map[string]string{"a": "changed", "secret": "added"}},
		"backwards":  {second, first, map[string]string{"a": "changed", "secret": "deleted"}},
		"nothing":    {second, second, map[string]string{}},
	}
	for name, tt := range tests {
		list, err := Commits(t.Context(), repo, tt.before, tt.after)
		if err != nil {
			t.Fatal(name, err)
		}
		got := map[string]string{}
		for _, c := range list {
			got[c.File] = c.Action
			if strings.Contains(c.Diff, "hunter2") || c.Sealed != (c.File == "secret") {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
