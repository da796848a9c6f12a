package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// compareAgain is how old a comparison may be when a file is served: a disk that changes bytes under an unchanged
// modification time is found out within an hour of reading, for at most one hash of each file in use per hour.
const compareAgain = time.Hour

// disk is the folder of bundles. Its lock is held for nothing that takes time.
type disk struct {
	dir     string
	max     int64
	log     *slog.Logger
	metrics *metrics
	// failing says that the last write did not succeed; a disk that stays full is logged once.
	failing atomic.Bool

	hot        hot
	recreating sync.Mutex // one at a time

	mu    sync.Mutex // guards what follows
	root  *os.Root
	index index
}

func openDisk(dir string, most int64, log *slog.Logger, m *metrics) (*disk, error) {
	d := &disk{dir: dir, max: most, log: log, metrics: m}
	if err := d.load(); err != nil {
		return nil, err
	}
	d.shrink(most, 1)
	return d, nil
}

// load opens the folder, which it makes when it is missing, and takes in what lies there.
func (d *disk) load() error {
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return err
	}
	x, leftovers, err := loadIndex(root)
	if err != nil {
		return errors.Join(err, root.Close())
	}
	d.mu.Lock()
	d.root, d.index = root, x
	d.mu.Unlock()
	for _, name := range leftovers {
		d.unlink(root, name)
	}
	return nil
}

// recreate starts the folder again after somebody deleted it; gone is the handle that leads nowhere.
func (d *disk) recreate(gone *os.Root) error {
	d.recreating.Lock()
	defer d.recreating.Unlock()
	if d.folder() != gone {
		return nil
	}
	if err := d.load(); err != nil {
		return err
	}
	d.log.Warn("the folder of bundles was deleted and is made again", "dir", d.dir)
	return gone.Close()
}

func (d *disk) folder() *os.Root {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root
}

func (d *disk) close() error { return d.folder().Close() }

// find gives a copy of what the index knows of a key, marked as used, with the folder in which it lies.
func (d *disk) find(key string) (*file, *os.Root) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, _ := d.index.use(key)
	return f, d.root
}

// open gives a file whose bytes are in memory, or that is as it was when its digest was last compared; nil when there
// is none.
func (d *disk) open(key string) (*Object, level) {
	f, root := d.find(key)
	if f == nil {
		return nil, ""
	}
	if obj := d.hot.open(f); obj != nil {
		return obj, levelMemory
	}
	if time.Since(f.compared) > compareAgain {
		return nil, ""
	}
	opened, err := root.Open(f.name)
	if err != nil {
		return nil, ""
	}
	if info, err := opened.Stat(); err != nil || info.Size() != f.size || !info.ModTime().Equal(f.seen) {
		opened.Close()
		return nil, ""
	}
	if f.size <= hotFile {
		d.warm(f, opened)
	}
	return &Object{ReadSeekCloser: opened, Size: f.size, Digest: f.digest}, levelDisk
}

// warm keeps a file's bytes in memory if they are sound. Whatever is wrong with it, its reader finds out.
func (d *disk) warm(f *file, opened *os.File) {
	data := make([]byte, f.size)
	if _, err := opened.ReadAt(data, 0); err != nil {
		return
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) == f.digest {
		d.hot.keep(f, data)
	}
}

// check says whether a sound file of the key is there, and drops one that is not.
func (d *disk) check(key string) bool {
	f, root := d.find(key)
	if f == nil {
		return false
	}
	modTime, err := f.compare(root)
	switch {
	case err == nil:
		d.mu.Lock()
		d.index.sound(f, modTime)
		d.mu.Unlock()
		return true
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE): // it says nothing about the file
		return false
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrClosed): // people may delete files, or all of them
		d.log.Error("cached bundle is unusable and is fetched again", "key", key, "error", err)
		d.metrics.opens.WithLabelValues(string(levelDisk), "damaged").Inc()
	}
	d.drop(f, root)
	return false
}

// compare reads the file, and gives its modification time when its bytes have its digest.
func (f *file) compare(root *os.Root) (time.Time, error) {
	opened, err := root.Open(f.name)
	if err != nil {
		return time.Time{}, err
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err != nil {
		return time.Time{}, err
	}
	if info.Size() != f.size {
		return time.Time{}, fmt.Errorf("has %d bytes instead of %d", info.Size(), f.size)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, opened); err != nil {
		return time.Time{}, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.digest {
		return time.Time{}, fmt.Errorf("digest is %s instead of %s", got, f.digest)
	}
	return info.ModTime(), nil
}

func (d *disk) drop(f *file, root *os.Root) {
	d.mu.Lock()
	removed := d.index.remove(f)
	d.mu.Unlock()
	if removed {
		d.unlink(root, f.name)
	}
}

// unlink removes a file that the index does not have; on Unix those who have it open read on.
func (d *disk) unlink(root *os.Root, name string) {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrClosed) {
		d.log.Error("file cannot be removed from the folder of bundles", "file", name, "error", err)
	}
}

// shrink evicts until at most that many bytes and at least so many files are left. It gives how many had to go.
func (d *disk) shrink(most int64, stay int) int {
	d.mu.Lock()
	root, gone := d.root, d.index.shrink(most, stay)
	d.mu.Unlock()
	for _, f := range gone {
		d.unlink(root, f.name)
		d.metrics.evictions.Inc()
	}
	return len(gone)
}

// makeRoom evicts files of more than size bytes together, and says whether there was anything to evict.
func (d *disk) makeRoom(size int64) bool {
	_, held, _ := d.figures()
	return d.shrink(max(0, held-size-1), 0) > 0
}

// figures are the number of files, their bytes, and when the one that is evicted next was used.
func (d *disk) figures() (files int, bytes int64, oldest time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.index.oldest(); f != nil {
		oldest = f.used
	}
	return len(d.index.files), d.index.bytes, oldest
}
