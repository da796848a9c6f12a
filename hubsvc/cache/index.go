package cache

import (
	"container/list"
	"encoding/hex"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/api/bundle"
)

// tempPrefix marks files that are being written.
const tempPrefix = ".tmp-"

// maxFiles bounds what the index takes in memory, to some 40 MB.
const maxFiles = 100_000

// block is what a file takes on disk at least, and by which it grows.
const block = 4 << 10

// file is one bundle on disk. All but the last four fields is fixed once it is in the index.
type file struct {
	// name is KEY.DIGEST.RANDOM: no name is ever given twice, so that removing one file never hits another.
	name, key, digest string
	size              int64
	used              time.Time
	// seen is the file's modification time when its digest was last compared in this process, at compared; zero if
	// never.
	seen, compared time.Time
	at             *list.Element
}

// space is what the file takes on disk.
func (f *file) space() int64 { return (f.size + block - 1) / block * block }

// parse takes a file's name apart.
func parse(name string) (*file, bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || !bundle.ValidKey(parts[0]) {
		return nil, false
	}
	_, err := hex.DecodeString(parts[1])
	return &file{name: name, key: parts[0], digest: parts[1]}, err == nil && len(parts[1]) == 64
}

// index knows what is on disk and in which order it was used. It has no lock of its own.
type index struct {
	files map[string]*file
	order *list.List // of *file, the last used in front
	bytes int64      // that the files take on disk
}

// loadIndex lists the folder; how recently a file was used is taken from when it was written. It also gives what is to
// be removed: what was half written, and what stands there twice.
func loadIndex(root *os.Root) (x index, leftovers []string, err error) {
	x = index{files: map[string]*file{}, order: list.New()}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return x, nil, err
	}
	var found []*file
	for _, e := range entries {
		f, ours := parse(e.Name())
		info, err := e.Info()
		switch {
		case strings.HasPrefix(e.Name(), tempPrefix):
			leftovers = append(leftovers, e.Name())
		case ours && err == nil && info.Mode().IsRegular():
			f.size, f.used = info.Size(), info.ModTime()
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b *file) int { return a.used.Compare(b.used) })
	for _, f := range found {
		if replaced := x.add(f); replaced != nil {
			leftovers = append(leftovers, replaced.name)
		}
	}
	return x, leftovers, nil
}

// add puts a file in front and gives the one that it replaces.
func (x *index) add(f *file) (replaced *file) {
	if old, ok := x.files[f.key]; ok {
		x.remove(old)
		replaced = old
	}
	f.at = x.order.PushFront(f)
	x.files[f.key] = f
	x.bytes += f.space()
	return replaced
}

// use looks a file up and marks it as used; what it returns is a copy, to be read without the lock.
func (x *index) use(key string) (*file, bool) {
	f, ok := x.files[key]
	if !ok {
		return nil, false
	}
	f.used = time.Now()
	x.order.MoveToFront(f.at)
	copied := *f
	return &copied, true
}

// sound notes that a file's bytes had its digest just now.
func (x *index) sound(f *file, modTime time.Time) {
	if now, ok := x.files[f.key]; ok && now.at == f.at {
		now.seen, now.compared = modTime, time.Now()
	}
}

// oldest is nil when the index is empty.
func (x *index) oldest() *file {
	if last := x.order.Back(); last != nil {
		return last.Value.(*file)
	}
	return nil
}

// remove says whether that very file was still there.
func (x *index) remove(f *file) bool {
	now, ok := x.files[f.key]
	if !ok || now.at != f.at {
		return false
	}
	x.order.Remove(now.at)
	delete(x.files, f.key)
	x.bytes -= now.space()
	return true
}

// shrink removes the longest unused files until the rest is within most bytes and maxFiles, and gives them; stay are
// left.
func (x *index) shrink(most int64, stay int) (gone []*file) {
	for (x.bytes > most || len(x.files) > maxFiles) && len(x.files) > stay {
		f := x.oldest()
		x.remove(f)
		gone = append(gone, f)
	}
	return gone
}
