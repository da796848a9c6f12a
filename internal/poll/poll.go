// Package poll owns a jittered polling loop.
//
// A [Loop] calls its function at jittered intervals, sooner when it is woken, and later and later while it fails. The
// function looks at the newest state each time, so wake-ups may be lost, doubled or late without harm. What it looks at,
// the loop does not know.
package poll

import (
	"context"
	"math/rand/v2"
	"time"
)

// DefaultMaxBackoff is the longest wait after failures when a Loop sets none.
const DefaultMaxBackoff = 15 * time.Minute

// Loop is a rhythm. Its fields are not to be changed once it runs.
type Loop struct {
	// Interval lies between two successful calls, measured from the end of the first. It must be positive.
	Interval time.Duration
	// Jitter is the share of each wait that is random, from 0 to 1: 0.1 makes it 90 to 110 percent.
	Jitter float64
	// MinBackoff is the wait after a first failure, doubled with each further one; zero means Interval.
	MinBackoff time.Duration
	// MaxBackoff bounds the wait after failures; zero means DefaultMaxBackoff. It is never less than Interval.
	MaxBackoff time.Duration
	// Due is told when the next call is due unless somebody wakes the loop; nil is not told.
	Due func(time.Time)
}

// Run calls fn at once and then again until ctx ends, whose error it returns. A value on wake makes the next call due:
// it shortens a regular wait to nothing, and a wait after failures to MinBackoff since the last call at the least, so
// that a storm of wake-ups cannot hammer what is failing. A nil wake is allowed. An error of fn only sets the pace; fn
// reports it where it belongs.
func (l Loop) Run(ctx context.Context, wake <-chan struct{}, fn func(context.Context) error) error {
	failures := 0
	for ctx.Err() == nil {
		if fn(ctx) != nil {
			failures++
		} else {
			failures = 0
		}
		if !l.pause(ctx, wake, failures) {
			break
		}
	}
	return ctx.Err()
}

// pause waits until the next call is due, and says whether there is to be one.
func (l Loop) pause(ctx context.Context, wake <-chan struct{}, failures int) bool {
	wait := l.jittered(l.wait(failures))
	if l.Due != nil {
		l.Due(time.Now().Add(wait))
	}
	due := time.NewTimer(wait)
	defer due.Stop()
	if failures > 0 {
		floor := time.NewTimer(min(l.minBackoff(), l.wait(failures)))
		defer floor.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-floor.C:
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-due.C:
	case <-wake:
	}
	return true
}

// wait is the pause before jitter.
func (l Loop) wait(failures int) time.Duration {
	if failures == 0 {
		return l.Interval
	}
	longest := l.MaxBackoff
	if longest == 0 {
		longest = DefaultMaxBackoff
	}
	longest = max(longest, l.Interval)
	wait := l.minBackoff()
	for range failures - 1 {
		if wait >= longest/2 {
			return longest
		}
		wait *= 2
	}
	return min(wait, longest)
}

func (l Loop) minBackoff() time.Duration {
	if l.MinBackoff > 0 {
		return l.MinBackoff
	}
	return l.Interval
}

func (l Loop) jittered(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*l.Jitter*(2*rand.Float64()-1))
}
