package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// programs makes files of this mode in a folder.
func programs(t *testing.T, mode os.FileMode, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheFirstProgramOnPathRuns(t *testing.T) {
	a, b := programs(t, 0o755, "plural-x", "other", "plural-"), programs(t, 0o755, "plural-x", "plural-status", "plural-y")
	data := programs(t, 0o644, "plural-x", "plural-notes")
	path := strings.Join([]string{data, a, a, "/is/not/there", b}, string(os.PathListSeparator))
	want := []Plugin{
		{"status", filepath.Join(b, "plural-status"), "plural status"},
		{"x", filepath.Join(a, "plural-x"), ""},
		{"x", filepath.Join(b, "plural-x"), filepath.Join(a, "plural-x")},
		{"y", filepath.Join(b, "plural-y"), ""},
	}
	if diff := cmp.Diff(want, All(path, func(name string) bool { return name == "status" })); diff != "" {
		t.Error(diff)
	}
	if got, ok := Find(path, "x"); !ok || got != want[1] {
		t.Error(got, ok)
	}
	if _, ok := Find(path, "notes"); ok {
		t.Error("found a file that does not run")
	}
}

func TestNothingOfTheWorkingDirectoryRuns(t *testing.T) {
	t.Chdir(programs(t, 0o755, "plural-evil"))
	for _, path := range []string{"", ".", ":", "./", "bin:.", "../" + filepath.Base(t.TempDir())} {
		if p, ok := Find(path, "evil"); ok {
			t.Errorf("PATH=%q: %v", path, p)
		}
		if list := All(path, func(string) bool { return false }); len(list) > 0 {
			t.Errorf("PATH=%q: %v", path, list)
		}
	}
}

func TestNamesAreNoPaths(t *testing.T) {
	dir := programs(t, 0o755, "plural-x")
	if err := os.Mkdir(filepath.Join(dir, "plural-dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "dir", "../x", "dir/../x", "-x", "..", "x\x00", "ä"} {
		if p, ok := Find(dir, name); ok {
			t.Errorf("%q: %v", name, p)
		}
	}
}
