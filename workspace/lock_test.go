package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLockOfAKilledRunIsTakenOver(t *testing.T) {
	name := filepath.Join(t.TempDir(), "index.lock")
	if err := os.WriteFile(name, []byte(mark), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := lockFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := lockFile(name); err == nil || !strings.Contains(err.Error(), "holds the index") {
		t.Errorf("while it is held: %v", err)
	}
}

func TestLockOfARunningCommandIsRespected(t *testing.T) {
	for holder, content := range map[string]string{
		"git that has just begun": "", "git that writes an index": "DIRC\x00\x00\x00\x02", "somebody else": mark + "or not",
	} {
		name := filepath.Join(t.TempDir(), "index.lock")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := lockFile(name); err == nil || !strings.Contains(err.Error(), "remove "+name) {
			t.Errorf("%s: %v", holder, err)
		}
		if text, err := os.ReadFile(name); err != nil || string(text) != content {
			t.Errorf("%s: the lock is %q, %v", holder, text, err)
		}
	}
}

func TestLockLeavesOneFileBehindWhileItIsHeld(t *testing.T) {
	dir := t.TempDir()
	file, err := lockFile(filepath.Join(dir, "index.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "index.lock" {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}
