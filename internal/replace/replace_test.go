package replace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pluralsh/plural/internal/replace"
)

// tree is a folder with a file that everybody reads.
func tree(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "public"), []byte("public\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root, dir
}

func holds(t *testing.T, name, want string, mode os.FileMode) {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil || info.Mode() != mode {
		t.Fatalf("%s: mode %v, %v, want %v", name, info.Mode(), err, mode)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != want {
		t.Errorf("%s holds %q, %v", name, text, err)
	}
}

func TestFileIsReplacedAsAWhole(t *testing.T) {
	root, dir := tree(t)
	for _, content := range []string{"one", "", "two"} {
		if err := replace.File(root, "secrets/deep/db", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		holds(t, filepath.Join(dir, "secrets/deep/db"), content, 0o600)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "secrets/deep")); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Somebody committed a link under the name that the fresh file gets: through it the content would land in a file that
// nobody seals.
func TestLinkInTheFreshFilesPlaceIsNotFollowed(t *testing.T) {
	root, dir := tree(t)
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../public", filepath.Join(dir, "secrets", replace.Prefix+"db")); err != nil {
		t.Fatal(err)
	}
	if err := replace.File(root, "secrets/db", []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(dir, "public"), "public\n", 0o644)
	holds(t, filepath.Join(dir, "secrets/db"), "canary", 0o644)
}

func TestFolderInTheWayIsLeftAlone(t *testing.T) {
	root, dir := tree(t)
	if err := os.MkdirAll(filepath.Join(dir, "db/full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := replace.File(root, "db", []byte("canary"), 0o644); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	if _, err := os.Lstat(filepath.Join(dir, replace.Prefix+"db")); !os.IsNotExist(err) {
		t.Errorf("the fresh file stayed: %v", err)
	}
}
