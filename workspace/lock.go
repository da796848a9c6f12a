package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// mark is what our lock on git's index holds, and git's own never does.
const mark = "plural holds the index\n"

// lockFile makes git's lock file at name. One that is there is git's, or that of another run of this program; but a run
// that was killed has left nothing but the file, and that is taken over: the kernel's lock on it went with the process.
func lockFile(name string) (*os.File, error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+"-*")
	if err != nil {
		return nil, fmt.Errorf("lock git index: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // it has its own name by then, or none
	_, err = file.WriteString(mark)
	if err == nil {
		err = flock(file)
	}
	if err == nil {
		err = os.Link(file.Name(), name) // marked and locked from the first moment
	}
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, fs.ErrExist) {
		return takeOver(name)
	}
	return nil, fmt.Errorf("lock git index: %w", err)
}

// takeOver is the lock file at name, if a run that was killed has left it.
func takeOver(name string) (*os.File, error) {
	busy := refuse("wait for it; if there is none, remove "+name, "another git command holds the index")
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, busy // until just now
	}
	if err != nil {
		return nil, fmt.Errorf("lock git index: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, int64(len(mark))+1))
	if err != nil || string(text) != mark || flock(file) != nil || !stands(file, name) {
		_ = file.Close()
		return nil, busy
	}
	return file, nil
}

func flock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// stands says whether file is still the one at name: whoever had it locked may have ended between our look and our lock.
func stands(file *os.File, name string) bool {
	locked, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(name)
	return err == nil && os.SameFile(locked, now)
}
