package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// staged is git's index, held under git's own lock: no git command changes it meanwhile.
type staged struct {
	index *index.Index
	lock  *os.File
	path  string
}

// lockIndex reads the index of g and takes its lock. The caller ends with save or release.
func lockIndex(g *git.Repository) (*staged, error) {
	storage, ok := g.Storer.(*filesystem.Storage)
	if !ok {
		return nil, errors.New("lock git index: the repository is not on disk")
	}
	path := filepath.Join(storage.Filesystem().Root(), "index")
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, refuse("wait for it; if there is none, remove "+path+".lock", "another git command holds the index")
	}
	if err != nil {
		return nil, fmt.Errorf("lock git index: %w", err)
	}
	s := &staged{lock: lock, path: path}
	if s.index, err = storage.Index(); err != nil {
		s.release()
		return nil, fmt.Errorf("read git index: %w", err)
	}
	return s, nil
}

// get is what is staged at path.
func (s *staged) get(path string) (entry, bool) {
	e, err := s.index.Entry(path)
	if err != nil {
		return entry{}, false
	}
	return entry{e.Hash, e.Mode}, true
}

// set stages e at path, or takes path out when e is gone. Sizes and times stay zero, so that git looks at the content.
func (s *staged) set(path string, e entry) {
	s.index.Entries = slices.DeleteFunc(s.index.Entries, func(old *index.Entry) bool { return old.Name == path })
	if !e.hash.IsZero() {
		s.index.Entries = append(s.index.Entries, &index.Entry{Name: path, Hash: e.hash, Mode: e.mode})
	}
}

// save writes the index and gives the lock back.
func (s *staged) save() error {
	err := index.NewEncoder(s.lock).Encode(s.index)
	if err == nil {
		err = s.lock.Close()
	}
	if err == nil {
		err = os.Rename(s.lock.Name(), s.path)
	}
	if err != nil {
		s.release()
		return fmt.Errorf("write git index: %w", err)
	}
	s.lock = nil
	return nil
}

// release gives the lock back and leaves the index as it was. It does nothing after save.
func (s *staged) release() {
	if s.lock == nil {
		return
	}
	_ = s.lock.Close()
	_ = os.Remove(s.lock.Name())
	s.lock = nil
}
