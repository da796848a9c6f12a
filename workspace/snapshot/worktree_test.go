package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/internal/replace"
)

// sameAsGit compares a work tree with what git makes of it.
func sameAsGit(t *testing.T, r *repo) *Snapshot {
	t.Helper()
	s, err := Worktree(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := s.Hash(".")
	if err != nil {
		t.Fatal(err)
	}
	r.git("add", "-A")
	if want := r.git("write-tree"); string(got) != want {
		t.Errorf("tree is %s, git says %s:\n%s", got, want, r.git("ls-files", "-s"))
	}
	return s
}

func TestWorktreeHasTheHashesThatGitWouldGive(t *testing.T) {
	r := newRepo(t)
	r.write("tracked.log", "ignored from now on, tracked before")
	r.write("build/keep", "tracked in an ignored folder")
	r.git("add", "-A", "-f")
	r.write(".gitignore", "*.log\n/build\nnode_modules/\n!important.log\n# comment\n")
	r.write("a.log", "ignored")
	r.write("important.log", "not ignored")
	r.write("build/out", "ignored")
	r.write("deep/a/b/c/d/e.yaml", "1")
	r.write("deep/a/b/c/x/f.yaml", "1")
	r.write("deep/a/b/c/.gitignore", "f.yaml\n/x/*.tmp\n")
	r.write("deep/a/b/c/x/g.tmp", "1")
	r.write("deep/a/b/y/f.yaml", "outside the ignore file's folder")
	r.write("deep/node_modules/x", "ignored")
	r.write("web.yaml", "sorts between folder and file")
	r.write("web/x", "1")
	r.write("web-2/x", "1")
	r.write(".git/info/exclude", "private\n")
	r.write("private", "ignored")
	r.write("run.sh", "#!/bin/sh\n")
	if err := errors.Join(os.Chmod(filepath.Join(r.dir, "run.sh"), 0o755), os.Mkdir(filepath.Join(r.dir, "empty"), 0o755),
		os.Symlink("web/x", filepath.Join(r.dir, "link")), os.Symlink("/nowhere", filepath.Join(r.dir, "web/dangling"))); err != nil {
		t.Fatal(err)
	}
	s := sameAsGit(t, r)
	sub, err := fs.Sub(s.FS(), "deep")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(sub, "a/b/c/d/e.yaml"); err != nil {
		t.Error(err)
	}
	if s.Commit() != (Commit{}) {
		t.Errorf("commit = %+v, want none", s.Commit())
	}
}

func TestWorktreeSeesDeletedAndDirtyFiles(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.commit("b/c", "1")
	sameAsGit(t, r)
	r.write("a", "2")
	if err := os.RemoveAll(filepath.Join(r.dir, "b")); err != nil {
		t.Fatal(err)
	}
	sameAsGit(t, r)
}

func TestWorktreeIsWithoutWhatAKilledProgramLeftHalfWritten(t *testing.T) {
	r := newRepo(t)
	r.commit("a/b", "1")
	left := filepath.Join(r.dir, "a", replace.Prefix+"b")
	if err := os.WriteFile(left, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Worktree(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := fs.ReadDir(s.FS(), "a"); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestWorktreeKeepsNestedRepositoriesAsSubmodules(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.git("clone", "-q", r.dir, "nested")
	s := sameAsGit(t, r)
	if _, mode, err := s.Hash("nested"); err != nil || mode.Type() != fs.ModeIrregular {
		t.Errorf("Hash(nested) = %v, %v", mode, err)
	}
}

func TestWorktreeRefusesAFileThatChangedSince(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Worktree(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(s.FS(), "a"); !errors.Is(err, errChanged) {
		t.Errorf("ReadFile: %v, want %v", err, errChanged)
	}
}

func TestAFileLargerThanAnyBlobIsRefusedByItsPathWhenItIsRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "images", "disk.img")
	if err := errors.Join(os.Mkdir(filepath.Dir(large), 0o755), os.WriteFile(large, nil, 0o644), os.Truncate(large, MaxBlob+1)); err != nil {
		t.Fatal(err)
	}
	read := func() (read, told error) {
		t.Helper()
		s, err := Worktree(dir)
		if err != nil {
			t.Fatal(err)
		}
		id, _, err := s.Hash("images/disk.img")
		if err != nil {
			t.Fatal(err)
		}
		_, read = fs.ReadFile(s.FS(), "images/disk.img")
		return read, s.TooLarge(id)
	}
	refused, told := read()
	for _, err := range []error{refused, told} {
		if limit := new(LimitError); !errors.As(err, &limit) || limit.What != `file "images/disk.img"` || limit.Size != MaxBlob+1 {
			t.Errorf("got %v", err)
		}
	}
	if err := os.Truncate(large, MaxBlob); err != nil {
		t.Fatal(err)
	}
	if refused, told := read(); refused != nil || told != nil {
		t.Errorf("at the limit: %v, %v", refused, told)
	}
}
