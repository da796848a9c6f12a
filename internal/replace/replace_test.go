package replace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

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

// names are what lies in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

func TestOfManyWritersOneStandsAndNoneFails(t *testing.T) {
	root, dir := tree(t)
	const writers, rounds = 8, 40
	var group errgroup.Group
	for i := range writers {
		group.Go(func() error {
			for range rounds {
				text := strings.Repeat(string(rune('a'+i)), 3000)
				if err := replace.File(root, "shared/db", []byte(text), 0o600); err != nil {
					return err
				}
				read, err := root.ReadFile("shared/db")
				if err != nil {
					return err
				}
				if got := string(read); len(got) != 3000 || got != strings.Repeat(got[:1], 3000) {
					return fmt.Errorf("the file is of several writers: %d bytes, %.10q", len(got), got)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, filepath.Join(dir, "shared")); !slices.Equal(got, []string{"db"}) {
		t.Errorf("left behind: %q", got)
	}
}

// A writer that was killed left its fresh file, one of the same name is at work still, others belong to other files.
func TestWhatAKilledWriterLeftGoesAndWhatALivingOneHoldsStays(t *testing.T) {
	root, dir := tree(t)
	const (
		dead   = replace.Prefix + "AAAAAAAAAAAAAAAA-db"
		living = replace.Prefix + "BBBBBBBBBBBBBBBB-db"
		other  = replace.Prefix + "CCCCCCCCCCCCCCCC-other-db"
		short  = replace.Prefix + "db"
		link   = replace.Prefix + "DDDDDDDDDDDDDDDD-db"
	)
	for _, name := range []string{dead, living, other, short} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("plaintext\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("public", filepath.Join(dir, link)); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(filepath.Join(dir, living))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if err := replace.File(root, "db", []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(dir, "db"), "canary", 0o644)
	holds(t, filepath.Join(dir, "public"), "public\n", 0o644)
	want := []string{living, other, link, short, "db", "public"}
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func TestFolderInTheWayIsLeftAlone(t *testing.T) {
	root, dir := tree(t)
	if err := os.MkdirAll(filepath.Join(dir, "db/full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := replace.File(root, "db", []byte("canary"), 0o644); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"db", "public"}) {
		t.Errorf("the fresh file stayed: %q", got)
	}
}
