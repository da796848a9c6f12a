// Package replace owns the atomic replacement of a file.
//
// It refuses to know what the content is, and whether it may stand there.
//
// The content goes into a fresh file beside the old one, which then takes its name. Each writer has a fresh file of its own, of
// a name that nobody can guess, and holds the kernel's lock on it: of several the last one's content stands, and what a killed
// one has left, which may be a secret, is what nobody holds, and goes with the next replacement of the same file.
package replace

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Prefix is how the names of fresh files begin that a killed process left behind. They end with the file's own name, so that
// patterns like *.secret.yaml cover both.
const Prefix = ".plural-new-"

// chance is how many characters of a fresh file's name tell writers apart.
const chance = 16

// File makes name, slash-separated within root, a file of this content and mode. Folders on the way are made.
func File(root *os.Root, name string, content []byte, mode fs.FileMode) error {
	dir, base := path.Split(name)
	if err := root.MkdirAll(path.Clean(dir), 0o755); err != nil {
		return err
	}
	sweep(root, dir, base)
	file, fresh, err := create(root, dir, base, mode)
	if err != nil {
		return err
	}
	if _, err = file.Write(content); err == nil {
		err = settled(file)
	}
	if err == nil {
		err = root.Rename(fresh, name)
	}
	if err != nil {
		_ = root.Remove(fresh) // what went wrong is more worth telling
	}
	return errors.Join(err, file.Close())
}

// settled says whether the file system has taken the content: one of a network may tell only at a close that it has no room. It is
// a second descriptor that is closed, for the lock goes with the last.
func settled(file *os.File) error {
	second, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(second)
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: file.Name(), Err: err}
	}
	return nil
}

// create makes a fresh file, and holds it. One that a sweep took for somebody's leaving, between its making and our hold on it, is
// made again under another name.
func create(root *os.Root, dir, base string, mode fs.FileMode) (*os.File, string, error) {
	for {
		fresh := dir + Prefix + rand.Text()[:chance] + "-" + base
		file, err := root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return nil, "", err
		}
		// Where the file system knows no locks, nobody can hold one against us either, and nothing is ever swept.
		if err := hold(file); !errors.Is(err, syscall.EWOULDBLOCK) && stands(root, file, fresh) {
			return file, fresh, nil
		}
		_ = file.Close() // nothing is in it
	}
}

// sweep takes away what killed writers of a file have left. Whatever keeps it from that, the next one may do.
func sweep(root *os.Root, dir, base string) {
	folder, err := root.Open(path.Clean(dir))
	if err != nil {
		return
	}
	defer func() { _ = folder.Close() }() // it was read only
	entries, _ := folder.ReadDir(-1)      // those that could be read
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), Prefix)
		if !ours || !entry.Type().IsRegular() || len(rest) <= chance || rest[chance:] != "-"+base {
			continue
		}
		file, err := root.OpenFile(dir+entry.Name(), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if hold(file) == nil {
			_ = root.Remove(dir + entry.Name())
		}
		_ = file.Close() // it was read only
	}
}

func hold(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// stands says whether a file still has its name.
func stands(root *os.Root, file *os.File, name string) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := root.Lstat(name)
	return err == nil && os.SameFile(held, now)
}
