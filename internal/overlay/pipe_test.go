//go:build unix

package overlay_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pluralsh/plural/internal/overlay"
)

func TestStatOpensNoPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "seal.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := overlay.New(os.DirFS(dir), map[string][]byte{"other": []byte("x")})
	said := make(chan fs.FileMode, 1)
	go func() {
		if info, err := fs.Stat(o, "seal.yaml"); err == nil {
			said <- info.Mode()
		}
		close(said)
	}()
	select {
	case mode := <-said:
		if mode.Type() != fs.ModeNamedPipe {
			t.Errorf("got mode %v", mode)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for whoever writes to the pipe")
	}
}
