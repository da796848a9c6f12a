package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// A generation is one folder of packs in git's layout. It only ever gains packs; what is damaged or has too many of
// them is replaced by the next generation, which becomes current when the state names it.

const generationPrefix = "objects-"

// newGeneration makes an empty one.
func newGeneration(mirror string) (name string, err error) {
	dir, err := os.MkdirTemp(mirror, generationPrefix)
	if err != nil {
		return "", fmt.Errorf("make object folder: %w", err)
	}
	if err := os.MkdirAll(packDir(dir), 0o755); err != nil {
		return "", fmt.Errorf("make object folder: %w", err)
	}
	return filepath.Base(dir), nil
}

func packDir(generation string) string { return filepath.Join(generation, "objects", "pack") }

// openGeneration reads the indexes anew, so that packs received since are seen.
func openGeneration(dir string, objects cache.Object) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir), objects, filesystem.Options{
		ExclusiveAccess: true, KeepDescriptors: true, LargeObjectThreshold: maxObject,
	})
}

// reload points the readers at a generation as it is on disk now.
func (o *objects) reload(dir string) error {
	next := openGeneration(dir, o.cache)
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.store
	o.store = next
	if closer, ok := old.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// packs lists the packs of a generation after removing what an interrupted process left, and their bytes.
func packs(generation string) (names []string, size int64, err error) {
	dir := packDir(generation)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), tempPrefix):
			err = errors.Join(err, os.Remove(name))
		case filepath.Ext(name) == ".pack":
			info, statErr := e.Info()
			if statErr != nil {
				return nil, 0, statErr
			}
			names, size = append(names, name), size+info.Size()
		}
	}
	return names, size, err
}

// intact says whether every pack is whole and belongs to its index: its own checksum, the one in its index and its name
// are the same. Damage in the middle shows when an object is read.
func intact(generation string) bool {
	names, _, err := packs(generation)
	if err != nil {
		return false
	}
	for _, name := range names {
		pack, err := tail(name, 20)
		if err != nil {
			return false
		}
		index, err := tail(strings.TrimSuffix(name, ".pack")+".idx", 40)
		if err != nil || !bytes.Equal(pack, index[:20]) || filepath.Base(name) != fmt.Sprintf("pack-%x.pack", pack) {
			return false
		}
	}
	return true
}

func tail(name string, n int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(-n, io.SeekEnd); err != nil {
		return nil, err
	}
	end := make([]byte, n)
	_, err = io.ReadFull(f, end)
	return end, err
}
