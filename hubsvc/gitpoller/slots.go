package gitpoller

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// parallel is how many upstreams are fetched at a time: a thousand that come with one commit must not all be asked at once.
	parallel = 64
	// parallelSlow is how many more are that take their time.
	parallelSlow = 16
	// DefaultPatience is how long a fetch may take among those that are quick.
	DefaultPatience = 10 * time.Second
)

// errSlow is a fetch that was given up for the sake of others.
var errSlow = errors.New("the upstream is slow, and no more slow ones are fetched at a time: it waits for its turn among them")

// Slots bound how many agents fetch at a time. An upstream that is slow has a slot of the few for slow ones, so that those
// cannot keep others waiting, whoever names them and however many there are. A nil *Slots bounds nothing.
type Slots struct {
	quick, slow chan struct{}
	patience    time.Duration
}

func newSlots(patience time.Duration) *Slots {
	return &Slots{make(chan struct{}, parallel), make(chan struct{}, parallelSlow), patience}
}

// enter waits for a slot. One among the quick is left for one among the slow when patience ends; where there is none, the
// context that enter gives ends with errSlow. Leave says whether it took longer than that; it must be called once.
func (s *Slots) enter(ctx context.Context, slow bool) (limited context.Context, leave func() (slow bool), err error) {
	if s == nil {
		return ctx, func() bool { return false }, nil
	}
	lane := s.quick
	if slow {
		lane = s.slow
	}
	select {
	case lane <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	limited, cancel := context.WithCancelCause(ctx)
	var mu sync.Mutex // guards lane, and that it is left once
	late, left := false, false
	timer := time.AfterFunc(s.patience, func() {
		mu.Lock()
		defer mu.Unlock()
		if late = true; left || slow {
			return
		}
		select {
		case s.slow <- struct{}{}:
			<-lane
			lane = s.slow
		default:
			cancel(errSlow)
		}
	})
	return limited, func() bool {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		cancel(nil)
		left = true
		<-lane
		return late
	}, nil
}
