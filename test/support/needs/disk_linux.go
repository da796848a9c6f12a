package needs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk is a folder on a file system of its own, which tmpfs makes by options, such as size=1m. It wants root.
func SmallDisk(tb testing.TB, options string) string {
	tb.Helper()
	Root(tb, "mounting a small file system")
	at := tb.TempDir()
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, options); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
	return at
}

// FillDisk takes all that is left of dir's file system, and gives it back when asked to.
func FillDisk(tb testing.TB, dir string) (free func()) {
	tb.Helper()
	name := filepath.Join(dir, "somebody-else")
	f, err := os.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4<<10)); err != nil {
			return func() { _ = os.Remove(name) }
		}
	}
}
