package audit

import "sync"

// ring holds the newest records.
type ring struct {
	mu    *sync.RWMutex // guards what follows
	items []Record
	next  int // where the next one goes, once there are as many as there may be
}

func newRing(size int) ring { return ring{mu: new(sync.RWMutex), items: make([]Record, 0, size)} }

func (r *ring) add(record Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.items) < cap(r.items) {
		r.items = append(r.items, record)
		return
	}
	r.items[r.next] = record
	r.next = (r.next + 1) % len(r.items)
}

func (r *ring) newest(n int, keep func(*Record) bool) []Record {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var found []Record
	for i := range r.items {
		if len(found) >= n {
			break
		}
		// next is the oldest one, so the one before it is the newest
		at := (r.next - 1 - i + 2*len(r.items)) % len(r.items)
		if record := &r.items[at]; keep == nil || keep(record) {
			found = append(found, *record)
		}
	}
	return found
}
