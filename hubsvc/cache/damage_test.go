package cache

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDamagedFileIsFetchedAgain(t *testing.T) {
	for name, harm := range map[string]func(file string) error{
		"flipped": func(file string) error {
			return os.WriteFile(file, []byte(strings.Repeat("x", len(content(key(1))))), 0o600)
		},
		"truncated": func(file string) error { return os.Truncate(file, 3) },
		"emptied":   func(file string) error { return os.Truncate(file, 0) },
		"unreadable": func(file string) error { // reading a folder fails, as reading a bad block does
			_ = os.Remove(file)
			return os.Mkdir(file, 0o755)
		},
		"deleted": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, Options{Dir: dir, Pack: echo})
			c.read(t, key(1))
			if err := harm(only(t, dir)); err != nil {
				t.Fatal(err)
			}
			c.read(t, key(1))
			if err := harm(only(t, dir)); err != nil {
				t.Fatal(err)
			}
			open(t, Options{Dir: dir, Pack: echo}).read(t, key(1))
		})
	}
}

func TestBytesThatChangeBehindAnUnchangedTimeAreFoundWithinTheHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := open(t, Options{Dir: dir, Pack: echo})
		c.read(t, key(1))
		file := only(t, dir)
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		rot := []byte(strings.Repeat("x", int(info.Size())))
		if err := os.WriteFile(file, rot, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		<-time.After(compareAgain + time.Second)
		c.read(t, key(1))
		c.expect(t, map[string]float64{"opens_total disk damaged": 1, "opens_total pack hit": 2})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestFolderThatIsDeletedWhileServingIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hub", "bundles")
	c := open(t, Options{Dir: dir, Pack: echo})
	c.read(t, key(1))
	held, err := c.Open(t.Context(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for round := range 3 {
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
		if round == 1 { // somebody else made it again: the cache's handle leads to the deleted one all the same
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() { c.read(t, key(n%4)) })
		}
		wg.Wait()
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 4 {
			t.Fatalf("the folder holds %v, %v", entries, err)
		}
		c.expect(t, map[string]float64{"files": 4, "bytes memory": 0, "disk_errors_total": 0})
	}
	if data, err := io.ReadAll(held); err != nil || string(data) != content(key(1)) {
		t.Errorf("opened before: %.80q, %v", data, err)
	}
}
