package render

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// warmChildren are children that have rendered and wait to be asked again, each for the tenant whose files it has seen. Starting a
// child, and reading what kustomize knows of kinds, takes longer than most renders.
type warmChildren struct {
	mu      sync.Mutex
	waiting []*warmChild
}

// warmChild is killed when its time is over, unless it is taken before.
type warmChild struct {
	*conversation
	tenant string
	over   *time.Timer
}

// take gives a child of that tenant, or nil.
func (w *warmChildren) take(tenant string, limits Limits) *conversation {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.waiting) - 1; i >= 0; i-- {
		child := w.waiting[i]
		if child.tenant != tenant || child.limits != limits {
			continue
		}
		w.waiting = slices.Delete(w.waiting, i, i+1)
		if child.over.Stop() {
			return child.conversation
		}
	}
	return nil
}

// keep has a child wait for that long, unless as many as there are processors wait already, or the child is old.
func (w *warmChildren) keep(tenant string, c *conversation, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) >= runtime.NumCPU() || time.Since(c.born) > c.limits.Wall {
		go func() { _, _ = c.end(false) }()
		return
	}
	child := &warmChild{conversation: c, tenant: tenant}
	child.over = time.AfterFunc(wait, func() {
		w.drop(child)
		_, _ = c.end(false)
	})
	w.waiting = append(w.waiting, child)
}

// Close ends the children that wait. Renders go on to work, and may keep others.
func (r *Renderer) Close() {
	r.warm.mu.Lock()
	waiting := r.warm.waiting
	r.warm.waiting = nil
	r.warm.mu.Unlock()
	for _, child := range waiting {
		if child.over.Stop() {
			_, _ = child.end(false)
		}
	}
}

func (w *warmChildren) drop(child *warmChild) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.waiting {
		if other == child {
			w.waiting = slices.Delete(w.waiting, i, i+1)
			return
		}
	}
}
