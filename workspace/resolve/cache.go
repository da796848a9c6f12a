package resolve

import "sync"

// cache remembers results that depend on their key alone. It keeps the entries used since about the last cacheSize
// new ones, and forgets the rest. Two callers may work out the same entry at once. The zero value is empty and ready.
type cache[K comparable, V any] struct {
	mu    sync.Mutex // guards young and old
	young map[K]V
	old   map[K]V
}

// cacheSize is how many entries are added before those unused meanwhile are dropped.
const cacheSize = 20_000

func (c *cache[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.young[key]; ok {
		return v, true
	}
	v, ok := c.old[key]
	if ok {
		c.put(key, v)
	}
	return v, ok
}

func (c *cache[K, V]) set(key K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(key, v)
}

// put is called with mu held.
func (c *cache[K, V]) put(key K, v V) {
	if len(c.young) >= cacheSize || c.young == nil {
		c.old, c.young = c.young, make(map[K]V)
	}
	c.young[key] = v
}
