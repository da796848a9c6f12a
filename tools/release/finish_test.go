package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/tools/release/dist"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := gitexec.Command(t.Context(), dir, append([]string{"-c", "user.name=ada", "-c", "user.email=ada@example.com"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatNobodyCouldBuildAgainIsNotReleased(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	for _, text := range []string{"one", "two"} {
		write(t, dir, text)
		git(t, dir, "add", "file")
		git(t, dir, "commit", "-q", "-m", text)
	}
	judge := func(dir string, snapshot bool) (*dist.Release, string) {
		r := &dist.Release{Source: dir, Version: "1.2.3"}
		if err := clone(t.Context(), r, snapshot); err != nil {
			return r, err.Error()
		}
		return r, ""
	}
	refused := func(what, why string, snapshot bool) {
		t.Helper()
		if _, err := judge(dir, snapshot); (why == "") != (err == "") || !strings.Contains(err, why) {
			t.Errorf("%s: got %q, want %q", what, err, why)
		}
	}
	refused("no tag", "git tag v1.2.3", false)
	git(t, dir, "tag", "v1.2.30")
	refused("another tag", "git tag v1.2.3", false)
	git(t, dir, "tag", "v1.2.3")
	refused("as it should be", "", false)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, "", "clone", "-q", "--depth=1", "--branch=v1.2.3", "file://"+dir, shallow)
	if _, err := judge(shallow, false); !strings.Contains(err, "unshallow") {
		t.Errorf("a shallow clone: %q", err)
	}
	write(t, dir, "three")
	refused("a change", "in no commit", false)
	refused("a snapshot of a change", "", true)
	if r, _ := judge(dir, true); r.Build.Ref != "HEAD" || len(r.Build.Commit) != 40 || r.Created.IsZero() {
		t.Errorf("a snapshot is of %+v, %v", r.Build, r.Created)
	}
}
