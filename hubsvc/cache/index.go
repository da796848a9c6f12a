package cache

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/api/bundle"
)

// tempPrefix marks files that are being written.
const tempPrefix = ".tmp-"

// file is one bundle on disk. All but seen is fixed once it is in the index.
type file struct {
	key, digest string
	size        int64
	modTime     time.Time
	// seen is the modification time at which the digest was last compared in this process; zero if never.
	seen time.Time
	at   *list.Element
}

func (f *file) name() string { return f.key + "." + f.digest }

// open gives the file after comparing its digest, unless that was done since it last changed.
func (f *file) open(root *os.Root) (*Object, time.Time, error) {
	opened, err := root.Open(f.name())
	if err != nil {
		return nil, time.Time{}, err
	}
	info, err := opened.Stat()
	if err == nil && info.Size() != f.size {
		err = fmt.Errorf("has %d bytes instead of %d", info.Size(), f.size)
	}
	if err == nil && !info.ModTime().Equal(f.seen) {
		err = f.compare(opened)
	}
	if err != nil {
		return nil, time.Time{}, errors.Join(err, opened.Close())
	}
	return &Object{File: opened, Size: f.size, ModTime: f.modTime}, info.ModTime(), nil
}

func (f *file) compare(opened *os.File) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, opened); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.digest {
		return fmt.Errorf("digest is %s instead of %s", got, f.digest)
	}
	_, err := opened.Seek(0, io.SeekStart)
	return err
}

// index knows what is on disk and in which order it was used. It has no lock of its own.
type index struct {
	files map[string]*file
	order *list.List // of *file, the last used in front
	bytes int64
}

// loadIndex lists the folder; how recently a file was used is taken from when it was written.
func loadIndex(root *os.Root) (index, error) {
	x := index{files: map[string]*file{}, order: list.New()}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return x, err
	}
	var found []*file
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			if err := root.Remove(e.Name()); err != nil {
				return x, err
			}
			continue
		}
		key, digest, ok := strings.Cut(e.Name(), ".")
		if info, err := e.Info(); ok && err == nil && info.Mode().IsRegular() && bundle.ValidKey(key) {
			found = append(found, &file{key: key, digest: digest, size: info.Size(), modTime: info.ModTime()})
		}
	}
	slices.SortFunc(found, func(a, b *file) int { return a.modTime.Compare(b.modTime) })
	for _, f := range found {
		x.add(f)
	}
	return x, nil
}

// add puts a file in front and gives the one that it replaces, if their bytes differ.
func (x *index) add(f *file) (replaced *file) {
	if old, ok := x.files[f.key]; ok {
		x.remove(old)
		if old.digest != f.digest {
			replaced = old
		}
	}
	f.at = x.order.PushFront(f)
	x.files[f.key] = f
	x.bytes += f.size
	return replaced
}

// use looks a file up and marks it as used; what it returns is a copy, to be read without the lock.
func (x *index) use(key string) (*file, bool) {
	f, ok := x.files[key]
	if !ok {
		return nil, false
	}
	x.order.MoveToFront(f.at)
	copied := *f
	return &copied, true
}

func (x *index) verified(f *file, modTime time.Time) {
	if now, ok := x.files[f.key]; ok && now.at == f.at {
		now.seen = modTime
	}
}

func (x *index) oldest() *file { return x.order.Back().Value.(*file) }

// remove says whether that very file was still there.
func (x *index) remove(f *file) bool {
	now, ok := x.files[f.key]
	if !ok || now.at != f.at {
		return false
	}
	x.order.Remove(now.at)
	delete(x.files, f.key)
	x.bytes -= now.size
	return true
}
