package sync

import "time"

// Look has the hub polled now. It only shortens the wait: a poll that is under way counts, and a hub that does not answer is
// asked no more often. It returns at once.
func (s *Syncer) Look() {
	select {
	case s.looks <- struct{}{}:
	default:
	}
}

// Hurry makes a pass over services due now, also of one that failed a moment ago; none named means all. It returns at once.
func (s *Syncer) Hurry(services []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all = s.all || len(services) == 0; s.all {
		s.hurried = nil
	} else {
		s.hurried = append(s.hurried, services[:min(len(services), maxHurried-len(s.hurried))]...)
	}
	select {
	case s.hurries <- struct{}{}:
	default:
	}
}

// maxHurried bounds the names that are kept for the loop.
const maxHurried = 1000

// hurry makes due what was asked for since the last time.
func (s *Syncer) hurry(state *loopState) {
	s.mu.Lock()
	names, all := s.hurried, s.all
	s.hurried, s.all = nil, false
	s.mu.Unlock()
	now := time.Now()
	for _, name := range names {
		state.services[name].hurry(now)
	}
	if !all {
		return
	}
	for _, svc := range state.services {
		svc.hurry(now)
	}
}

// hurry makes the service due, whatever it waits for. It may be nil.
func (svc *service) hurry(now time.Time) {
	if svc == nil {
		return
	}
	svc.failures, svc.broken, svc.stirred = 0, renderFailure{}, svc.cancel != nil
	svc.wake(now)
}
