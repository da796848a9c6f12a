package sync

import "time"

// An object that moves from one service to another must not be deleted by the one before the other has claimed it. So no
// service that changed in a poll deletes anything before all that changed with it were rendered.

// longestBarrier bounds how long deletions wait for renders.
const longestBarrier = 30 * time.Second

// barrier are the services that are still to be rendered, and how long each is waited for.
type barrier map[string]time.Time

// add makes deletions wait for a service.
func (b barrier) add(name string, now time.Time) { b[name] = now.Add(longestBarrier) }

// passed says that a service was rendered, or cannot be.
func (b barrier) passed(name string) { delete(b, name) }

// wall is a barrier as it stands: until when everybody waits, and until when the one that they wait for longest does itself.
type wall struct {
	longest        string
	others, itself time.Time
}

func (b barrier) wall() wall {
	var w wall
	for name, until := range b {
		switch {
		case until.After(w.others):
			w = wall{name, until, w.others}
		case until.After(w.itself):
			w.itself = until
		}
	}
	return w
}

// ends is when a service's deletions wait for no other any more; in the past when they do not.
func (w wall) ends(name string) time.Time {
	if name == w.longest {
		return w.itself
	}
	return w.others
}

// lift makes due what deferred its deletions, when there is nothing more to wait for.
func (state *loopState) lift(now time.Time) {
	wall := state.barrier.wall()
	for _, svc := range state.services {
		if svc.deferred && svc.cancel == nil && !wall.ends(svc.name).After(now) {
			svc.wake(now)
		}
	}
}
