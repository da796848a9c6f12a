package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// staged is git's index, held under git's own lock: no git command changes it meanwhile.
type staged struct {
	index *index.Index
	lock  *os.File
	path  string
}

// lockIndex reads the index of g and takes its lock. The caller ends with save or release.
func lockIndex(g *git.Repository) (*staged, error) {
	on, ok := g.Storer.(*storage)
	if !ok {
		return nil, errors.New("lock git index: the repository is not on disk")
	}
	path := filepath.Join(on.Filesystem().Root(), "index")
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &staged{lock: lock, path: path}
	if s.index, err = on.Index(); err != nil {
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
	defer s.release()
	if err := s.write(s.path + ".plural"); err != nil { // nobody else writes there: we hold the lock
		return fmt.Errorf("write git index: %w", err)
	}
	if err := os.Rename(s.path+".plural", s.path); err != nil {
		return fmt.Errorf("write git index: %w", err)
	}
	return nil
}

func (s *staged) write(name string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(index.NewEncoder(file).Encode(s.index), file.Close())
}

// release gives the lock back. The index is left as it was unless it was saved.
func (s *staged) release() {
	if s.lock == nil {
		return
	}
	_ = os.Remove(s.path + ".lock") // while it is locked still: the next one takes over none that is about to go
	_ = s.lock.Close()
	s.lock = nil
}
