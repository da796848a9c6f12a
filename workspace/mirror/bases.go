package mirror

import (
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// Bounds of what a mirror keeps in memory of the objects that deltas stand on, in bytes.
const (
	maxBases = 16 << 20
	maxBase  = 1 << 20
)

// deltaBaseCache remembers objects that deltas stand on: reading one object after the other makes them again and again. What was
// not asked for while half of the room filled up is forgotten.
type deltaBaseCache struct {
	mu         sync.Mutex // guards what follows
	young, old map[place]made
	size       int64
}

type place struct {
	pack *pack
	at   int64
}

// made is what stands at a place, with its deltas applied. The body is shared: nobody may change it.
type made struct {
	kind plumbing.ObjectType
	body []byte
}

func (b *deltaBaseCache) get(p place) (made, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m, ok := b.young[p]; ok {
		return m, true
	}
	m, ok := b.old[p]
	if ok {
		delete(b.old, p)
		b.keep(p, m)
	}
	return m, ok
}

func (b *deltaBaseCache) put(p place, m made) {
	if len(m.body) > maxBase {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(p, m)
}

// keep must be called with mu held.
func (b *deltaBaseCache) keep(p place, m made) {
	const overhead = 128
	if b.size += int64(len(m.body)) + overhead; b.size > maxBases/2 || b.young == nil {
		b.young, b.old, b.size = map[place]made{}, b.young, int64(len(m.body))+overhead
	}
	b.young[p] = m
}
