package rundir_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/pluralsh/plural/localkube/rundir"
)

func open(t *testing.T, path string) *rundir.Dir {
	t.Helper()
	dir, err := rundir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFolderIsHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder")
	first := open(t, path)
	if _, err := rundir.Open(path); !errors.Is(err, rundir.ErrInUse) {
		t.Errorf("second Open: got error %v, want %v", err, rundir.ErrInUse)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Close(); err != nil {
		t.Error(err)
	}
}

func TestReadinessFileOfAnEarlierRunIsRemoved(t *testing.T) {
	path := t.TempDir()
	ready := filepath.Join(path, rundir.ReadyFile)
	if err := os.WriteFile(ready, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := open(t, path)
	if _, err := os.Stat(ready); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Open: %v", err)
	}
	if err := dir.MarkReady(rundir.Ready{PID: os.Getpid()}); err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ready); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

func TestPortIsRememberedUnlessItIsTaken(t *testing.T) {
	dir := open(t, t.TempDir())
	defer dir.Close()
	listen := func() net.Listener {
		t.Helper()
		listener, err := dir.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return listener
	}
	first := listen()
	taken := listen()
	if first.Addr().String() == taken.Addr().String() {
		t.Errorf("two listeners on %s", first.Addr())
	}
	first.Close()
	taken.Close()
	again := listen()
	defer again.Close()
	if again.Addr().String() != taken.Addr().String() {
		t.Errorf("listens on %s, want the last %s", again.Addr(), taken.Addr())
	}
}

func TestPortThatMakesNoSenseIsReplaced(t *testing.T) {
	for _, content := range []string{"", "none", "-1", "65536", "80 81", "127.0.0.1:80"} {
		t.Run(content, func(t *testing.T) {
			path := t.TempDir()
			if err := os.WriteFile(filepath.Join(path, "port"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := open(t, path)
			defer dir.Close()
			listener, err := dir.Listen(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			listener.Close()
		})
	}
}

func TestRemoveDeletesOnlyWhatWasEmptyBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passing")
	dir, err := rundir.OpenEmpty(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteFile("some", []byte("data")); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.OpenEmpty(path); !errors.Is(err, rundir.ErrNotEmpty) {
		t.Errorf("OpenEmpty: got error %v, want %v", err, rundir.ErrNotEmpty)
	}
	if err := dir.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Remove: %v", err)
	}
}
