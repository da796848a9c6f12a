package needs_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/test/support/needs"
)

// others is a repository of somebody else's, at its commit.
func others(t *testing.T, files map[string]string) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "add", ".")
	git(t, dir, "-c", "user.name=o", "-c", "user.email=o@example.com", "commit", "-qm", "All")
	git(t, dir, "config", "uploadpack.allowFilter", "true")
	git(t, dir, "config", "uploadpack.allowAnySHA1InWant", "true")
	return dir, git(t, dir, "rev-parse", "HEAD")
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), needs.Program(t, "git", "git"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// bring runs the script as make corpus does, with other pins.
func bring(t *testing.T, pins, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "..", ".ci", "corpus"), dir)
	cmd.Env = append(os.Environ(), "PLURAL_CORPUS_PINS="+pins, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func list(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			inside, _ := filepath.Rel(dir, path)
			files = append(files, filepath.ToSlash(inside))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

func TestTheCorpusIsWhatItsPinsNameAndNothingElse(t *testing.T) {
	origin, commit := others(t, map[string]string{
		"LICENSE": "free", "main.go": "package main", "charts/web/Chart.yaml": "name: web",
		"data/cases/one/a.yaml": "a: 1", "data/cases/cmp-x/b.yaml": "b: 1",
	})
	write(t, filepath.Join(origin, "charts", "web", "later.yaml"), "c: 1")
	git(t, origin, "add", ".")
	git(t, origin, "-c", "user.name=o", "-c", "user.email=o@example.com", "commit", "-qm", "Later")

	home := t.TempDir()
	pins, dir := filepath.Join(home, "pins"), filepath.Join(home, "deep", "corpus")
	write(t, pins, fmt.Sprintf("# remarks\nweb file://%s %s LICENSE data/cases=cases charts !cmp-*\n", origin, commit))
	if out, err := bring(t, pins, dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{".pins", "web/LICENSE", "web/cases/one/a.yaml", "web/charts/web/Chart.yaml"}
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	if err := os.RemoveAll(origin); err != nil {
		t.Fatal(err)
	}
	if out, err := bring(t, pins, dir); err != nil || out != "" {
		t.Errorf("what is there is asked for again: %v\n%s", err, out)
	}

	write(t, pins, fmt.Sprintf("web file://%s %s LICENSE\n", origin, commit))
	out, err := bring(t, pins, dir)
	if err == nil || !strings.Contains(out, "cannot be fetched: run make corpus where it can, or let PLURAL_CORPUS name a folder") {
		t.Errorf("an origin that is gone: %v\n%s", err, out)
	}
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Errorf("what was there went with a failure (-want +got):\n%s", diff)
	}
	if left, _ := filepath.Glob(dir + ".*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
