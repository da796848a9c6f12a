package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// A file over the limit is not needed as long as no service reads it. What is known of those that commits here name lies beside
// the packs: an id that stands there is not missing.

const (
	leftName = "left.json"
	// maxLeft bounds how many there are in a generation, by far more than a repository has.
	maxLeft = 10_000
)

// leftFiles are the files over the limit that a generation does without, with what each measures; zero: nobody has said. The map
// is never changed.
type leftFiles struct {
	known atomic.Pointer[map[plumbing.Hash]int64]
}

func (l *leftFiles) all() map[plumbing.Hash]int64 {
	if known := l.known.Load(); known != nil {
		return *known
	}
	return nil
}

func (l *leftFiles) load(generation string) error {
	data, err := os.ReadFile(filepath.Join(generation, leftName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var list map[string]int64
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return fmt.Errorf("read which files are left out: %w", err)
	}
	known := hashes(list)
	l.known.Store(&known)
	return nil
}

func hashes(list map[string]int64) map[plumbing.Hash]int64 {
	known := make(map[plumbing.Hash]int64, len(list))
	for id, size := range list {
		known[plumbing.NewHash(id)] = size
	}
	return known
}

// listed is for JSON, whose keys are in order.
func (l *leftFiles) listed() map[string]int64 {
	list := make(map[string]int64, len(l.all()))
	for id, size := range l.all() {
		list[id.String()] = size
	}
	return list
}

// leave notes files that the store does without. What a file measures is not forgotten for what nobody knows.
func (s *store) leave(more map[plumbing.Hash]int64) error {
	all := maps.Clone(s.left.all())
	if all == nil {
		all = make(map[plumbing.Hash]int64, len(more))
	}
	for id, size := range more {
		all[id] = max(size, all[id])
	}
	if maps.Equal(all, s.left.all()) {
		return nil
	}
	if len(all) > maxLeft {
		return &snapshot.LimitError{What: "number of files that are too large", Size: int64(len(all)), Max: maxLeft}
	}
	s.left.known.Store(&all)
	data, err := json.Marshal(s.left.listed())
	if err == nil {
		err = writeFile(filepath.Join(filepath.Dir(filepath.Dir(s.dir)), leftName), data)
	}
	if err != nil {
		return fmt.Errorf("keep which files are left out: %w", err)
	}
	return nil
}

// MaxBlob implements snapshot.Limited.
func (s *store) MaxBlob() int64 { return s.cache.limit() }

// LeftOut implements snapshot.Limited.
func (s *store) LeftOut(id plumbing.Hash) (size int64, ok bool) {
	size, ok = s.left.all()[id]
	return size, ok && !s.Has(id) // another pack may have brought it
}
