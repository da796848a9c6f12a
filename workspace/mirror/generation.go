package mirror

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
)

// A generation is one folder of packs in git's layout.

const generationPrefix = "objects-"

// newGeneration makes an empty one.
func newGeneration(mirror string) (name string, err error) {
	if err := os.MkdirAll(mirror, 0o755); err != nil {
		return "", fmt.Errorf("make object folder: %w", err)
	}
	dir, err := os.MkdirTemp(mirror, generationPrefix)
	if err != nil {
		return "", fmt.Errorf("make object folder: %w", err)
	}
	if err := os.MkdirAll(packDir(dir), 0o755); err != nil {
		return "", fmt.Errorf("make object folder: %w", err)
	}
	return filepath.Base(dir), errors.Join(syncDir(filepath.Join(dir, "objects")), syncDir(dir), syncDir(mirror))
}

func packDir(generation string) string { return filepath.Join(generation, "objects", "pack") }

// sweep removes whatever the state does not name.
func (m *Mirror) sweep() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return fmt.Errorf("clean mirror: %w", err)
	}
	for _, e := range entries {
		stale := strings.HasPrefix(e.Name(), generationPrefix) && e.Name() != m.state.Generation
		if stale || strings.HasPrefix(e.Name(), tempPrefix) {
			if err := os.RemoveAll(filepath.Join(m.dir, e.Name())); err != nil {
				return fmt.Errorf("clean mirror: %w", err)
			}
		}
	}
	return nil
}

// store reads the packs of one generation. They stay open, so what was deleted under its feet is still read.
type store struct {
	dir string
	// packs are the newest first; a list is never changed.
	packs atomic.Pointer[[]*pack]
	cache cache
	left  leftFiles
}

// openStore opens all packs that are sound. The store is usable also beside an error, which tells what is not. Most is how large
// a file may be that is read.
func openStore(generation string, most int64) (*store, error) {
	s := &store{dir: packDir(generation)}
	s.packs.Store(&[]*pack{})
	s.cache.most = most
	if err := s.left.load(generation); err != nil {
		return s, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return s, fmt.Errorf("list packs: %w", err)
	}
	var problems []error
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), tempPrefix):
			problems = append(problems, os.Remove(filepath.Join(s.dir, e.Name())))
		case filepath.Ext(e.Name()) == ".pack":
			problems = append(problems, s.add(e.Name()))
		}
	}
	return s, errors.Join(problems...)
}

// cache is what the packs of a store share to read faster.
type cache struct {
	inflaters
	deltaBaseCache
}

// add opens a pack that has its name.
func (s *store) add(name string) error {
	if s.has(name) {
		return nil
	}
	p, err := openPack(s.dir, name, &s.cache)
	if err != nil {
		return fmt.Errorf("open pack %s: %w", name, err)
	}
	list := append([]*pack{p}, *s.packs.Load()...)
	slices.SortStableFunc(list, func(a, b *pack) int {
		return cmp.Or(b.made.Compare(a.made), strings.Compare(a.name, b.name))
	})
	s.packs.Store(&list)
	return nil
}

func (s *store) has(name string) bool {
	return slices.ContainsFunc(*s.packs.Load(), func(p *pack) bool { return p.name == name })
}

// find gives the pack that holds an object, and where in it.
func (s *store) find(id plumbing.Hash) (*pack, int64, error) {
	for _, p := range *s.packs.Load() {
		if at, ok := p.index.find(id); ok {
			return p, at, nil
		}
	}
	return nil, 0, plumbing.ErrObjectNotFound
}

// Has implements snapshot.Store.
func (s *store) Has(id plumbing.Hash) bool {
	_, _, err := s.find(id)
	return err == nil
}

// Size implements snapshot.Store.
func (s *store) Size(id plumbing.Hash) (int64, error) {
	p, at, err := s.find(id)
	if err != nil {
		return 0, err
	}
	return p.objectSize(at)
}

// Read implements snapshot.Store.
func (s *store) Read(id plumbing.Hash) (plumbing.ObjectType, []byte, error) {
	p, at, err := s.find(id)
	if err != nil {
		return plumbing.InvalidObject, nil, err
	}
	return p.object(at)
}

// lost says whether a file of the store has gone from disk.
func (s *store) lost() bool {
	for _, p := range *s.packs.Load() {
		for _, name := range []string{p.name, indexName(p.name)} {
			if _, err := os.Stat(filepath.Join(s.dir, name)); errors.Is(err, fs.ErrNotExist) {
				return true
			}
		}
	}
	_, err := os.Stat(s.dir)
	return errors.Is(err, fs.ErrNotExist)
}

// close is called when nobody reads any more.
func (s *store) close() {
	for _, p := range *s.packs.Load() {
		_ = p.file.Close() // it was only read
	}
}
