package offline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/offline"
)

// clone is an installation repo with a history.
type clone struct {
	t   *testing.T
	dir string
}

func newClone(t *testing.T) *clone {
	t.Helper()
	c := &clone{t, t.TempDir()}
	t.Setenv("HOME", c.dir)
	c.git("init", "-q", "-b", "main")
	c.write("plural.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n")
	return c
}

func (c *clone) git(args ...string) {
	c.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func (c *clone) write(name, text string) {
	c.t.Helper()
	file := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) commit(subject, name, text string) {
	c.t.Helper()
	c.write(name, text)
	c.git("add", ".")
	c.git("commit", "-qm", subject)
}

func (c *clone) last(paths ...string) string {
	c.t.Helper()
	repo, err := workspace.Find(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	got, err := offline.LastChange(c.t.Context(), repo, paths)
	switch {
	case err != nil:
		c.t.Fatal(err)
	case got == nil:
		return "none"
	case got.Oldest:
		return got.Subject + " or older"
	}
	return got.Subject
}

func TestTheLastChangeOfPathsIsFound(t *testing.T) {
	c := newClone(t)
	if got := c.last("a"); got != "none" {
		t.Errorf("without a commit: %s", got)
	}
	c.commit("one", "a/x", "1")
	c.commit("two", "b", "1")
	c.git("checkout", "-qb", "side")
	c.commit("three", "a/x", "2")
	c.git("checkout", "-q", "main")
	c.commit("four", "b", "2")
	c.git("merge", "-q", "-m", "merge", "side")
	c.commit("five", "c", "1")
	for path, want := range map[string]string{"a": "three", "a/x": "three", "b": "four", "c": "five", ".": "five", "nosuch": "none"} {
		if got := c.last(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := c.last("a", "b"); got != "merge" { // neither side has both
		t.Errorf("both sides: %s", got)
	}
	if got := c.last("nosuch", "c"); got != "five" {
		t.Errorf("one of two: %s", got)
	}
}

func TestAShallowCloneSaysThatItsHistoryEnds(t *testing.T) {
	c := newClone(t)
	c.commit("one", "a", "1")
	c.commit("two", "b", "1")
	c.commit("three", "b", "2")
	shallow := &clone{t, filepath.Join(t.TempDir(), "clone")}
	c.git("clone", "-q", "--depth", "2", "file://"+c.dir, shallow.dir)
	for path, want := range map[string]string{"b": "three", "a": "two or older"} {
		if got := shallow.last(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestAServiceIsFreshUntilWhatItIsMadeOfChanges(t *testing.T) {
	c := newClone(t)
	c.commit("fleet", "README.md", "")
	c.write("apps/web/a.yaml", "one: 1\n")
	c.commit("web", "services/web.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: web}\n"+
		"spec: {source: {path: apps/web}, namespace: web, clusters: {}}\n")
	repo, err := workspace.Find(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	c.commit("other", "apps/other/a.yaml", "one: 1\n")
	fresh := func(service string) bool {
		state, err := offline.Open(repo, "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		return offline.Fresh(t.Context(), repo, state, service)
	}
	if !fresh("web") || fresh("other") {
		t.Error("web alone is fresh")
	}
	c.commit("web again", "apps/web/a.yaml", "one: 2\n")
	if fresh("web") {
		t.Error("it is fresh after a change of what it is made of")
	}
}
