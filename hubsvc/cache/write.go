package cache

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// diskError says that the disk, not a bundle's source, is why a bundle was not written.
type diskError struct{ err error }

// Error hides the cause's kind: that a temporary file does not exist must not pass for a bundle that does not.
func (e *diskError) Error() string { return "keep bundle on disk: " + e.err.Error() }

// full says whether less on disk would help.
func (e *diskError) full() bool {
	return errors.Is(e.err, syscall.ENOSPC) || errors.Is(e.err, syscall.EDQUOT)
}

// write keeps what a source writes. An error of type *diskError says that it is not the source's.
func (d *disk) write(key string, from source) error {
	root := d.folder()
	f, err := d.writeIn(root, key, from)
	// Whoever finds the folder gone makes it again and closes the old handle, also under those who hold it still.
	trouble := new(diskError)
	if errors.As(err, &trouble) && (errors.Is(trouble.err, fs.ErrNotExist) || errors.Is(trouble.err, fs.ErrClosed)) {
		if err := d.recreate(root); err != nil {
			return d.trouble(&diskError{err})
		}
		root = d.folder()
		f, err = d.writeIn(root, key, from)
	}
	if err != nil {
		return d.trouble(err)
	}
	if d.failing.CompareAndSwap(true, false) {
		d.log.Info("bundles are kept on disk again", "dir", d.dir)
	}
	d.mu.Lock()
	replaced := d.index.add(f)
	d.mu.Unlock()
	if replaced != nil {
		d.unlink(root, replaced.name)
	}
	d.shrink(d.max, 1)
	return nil
}

// trouble passes an error on, and notes when it is the disk's.
func (d *disk) trouble(err error) error {
	if trouble := new(diskError); errors.As(err, &trouble) {
		d.metrics.diskErrors.Inc()
		if d.failing.CompareAndSwap(false, true) {
			d.log.Error("bundles cannot be kept on disk and are served from memory", "dir", d.dir, "error", trouble.err)
		}
	}
	return err
}

// writeIn writes under a temporary name, and gives the file its own when it is whole and on disk. A name that is lost
// in a crash costs another pack, so the folder itself is not synced.
func (d *disk) writeIn(root *os.Root, key string, from source) (_ *file, err error) {
	temp := tempPrefix + rand.Text()
	out, err := root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, &diskError{err}
	}
	defer func() {
		if err != nil {
			d.unlink(root, temp)
		}
	}()
	to := &sink{file: out, sum: sha256.New()}
	if err := from(to); to.err != nil || err != nil {
		_ = out.Close()
		if to.err != nil {
			err = &diskError{to.err}
		}
		return nil, err
	}
	info, statErr := out.Stat()
	if err := errors.Join(statErr, out.Sync(), out.Close()); err != nil {
		return nil, &diskError{err}
	}
	f, _ := parse(key + "." + hex.EncodeToString(to.sum.Sum(nil)) + "." + rand.Text())
	f.size, f.used, f.seen, f.compared = info.Size(), time.Now(), info.ModTime(), time.Now()
	if err := root.Rename(temp, f.name); err != nil {
		return nil, &diskError{err}
	}
	return f, nil
}

// sink is a file that remembers what was wrong with it, whatever the source makes of that.
type sink struct {
	file *os.File
	sum  hash.Hash
	err  error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.sum.Write(p[:n])
	if err != nil {
		s.err = err
	}
	return n, err
}
