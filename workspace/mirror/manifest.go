package mirror

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Manifest tells a replica that follows what to hold. Its packs are all that are here: a pack that is gone by the time it
// is opened was compacted, and the next manifest names another.
func (m *Mirror) Manifest() Manifest {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := Manifest{
		Fetched: m.state.Fetched, Tips: m.state.tips(), Packs: []Pack{}, MaxFile: m.store.MaxBlob(), LeftOut: m.store.left.listed(),
	}
	for _, tip := range m.state.Refs {
		list.Before = append(list.Before, tip.Before...)
	}
	slices.Sort(list.Before)
	list.Before = slices.Compact(list.Before)
	for _, p := range *m.store.packs.Load() {
		list.Packs = append(list.Packs, Pack{Name: p.name, Size: p.size})
	}
	return list
}

// OpenPack opens a pack that a manifest names; the caller closes it. It is fs.ErrNotExist when it is gone, and for what is
// no pack's name.
func (m *Mirror) OpenPack(name string) (*os.File, error) {
	if _, ok := packSum(name); !ok {
		return nil, fmt.Errorf("open pack %.80q: %w", name, fs.ErrNotExist)
	}
	m.mu.Lock()
	dir := m.store.dir
	m.mu.Unlock()
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	return f, nil
}
