package auth

import (
	"crypto/sha256"
	"sync"
)

// maxRemembered bounds each half of a memory: room for the tokens that ten thousand agents use at a time, each on a connection
// for polls and one for what is downloaded or reported meanwhile.
const maxRemembered = 20_000

// digest stands for a token, which is kept nowhere in clear.
type digest = [sha256.Size]byte

// memory holds statements in two halves. When the younger is full it becomes the older, which is forgotten: whoever is
// still in use comes back with the next request. The zero value is empty.
type memory struct {
	mu           sync.RWMutex // guards both
	young, older map[digest]statement
}

func (m *memory) find(d digest) (statement, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if s, ok := m.young[d]; ok {
		return s, true
	}
	s, ok := m.older[d]
	return s, ok
}

func (m *memory) keep(d digest, s statement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= maxRemembered {
		m.older, m.young = m.young, make(map[digest]statement)
	}
	m.young[d] = s
}
