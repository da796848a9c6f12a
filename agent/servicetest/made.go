package servicetest

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// made are the objects that this process made for tests, by their uids: nobody chooses one. What an object says of itself does not
// show who made it: whoever may write into the namespace can put one there that bears a test's name and marks, and passes. It is not
// kept over a restart, after which a test that was running begins again.
type made struct {
	mu sync.Mutex // guards of
	of map[types.UID]purpose
}

// purpose is what an object was made for: a service's deployment, and the digest of what was to be made.
type purpose struct{ service, key, digest string }

func (m *made) note(uid types.UID, p purpose) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[uid] = p
}

// is says whether the object was made for that, here.
func (m *made) is(uid types.UID, p purpose) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[uid] == p
}

// forget drops what was made for a service's other deployments than keep.
func (m *made) forget(service, keep string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.of, func(_ types.UID, p purpose) bool { return p.service == service && p.key != keep })
}
