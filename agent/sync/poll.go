package sync

import (
	"context"
	"time"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/internal/poll"
)

// news is a poll that brought something new.
type news struct {
	poll *api.Poll
	etag string
}

// poll asks the hub for ever. What the store remembers comes first, so that healing starts without the hub.
func (s *Syncer) poll(ctx context.Context) error {
	last, etag, err := s.Store.Poll()
	if err != nil {
		s.Log.Error("what the hub said last is unreadable", "error", err)
	}
	interval := s.PollInterval
	if last != nil {
		interval = pollInterval(last, interval)
		if !s.hand(ctx, news{last, etag}) {
			return nil
		}
	}
	quiet := false
	for ctx.Err() == nil {
		loop := poll.Loop{Interval: interval, Jitter: 0.2, MaxBackoff: time.Minute}
		// The loop runs until the hub asks for another interval.
		changed, cancel := context.WithCancel(ctx)
		_ = loop.Run(changed, nil, func(ctx context.Context) error {
			fresh, tag, err := s.Hub.Poll(ctx, etag)
			if err != nil {
				if !quiet && ctx.Err() == nil {
					s.Log.Warn("hub does not answer; keeping what is on disk", "error", err)
				}
				quiet = true
				return err
			}
			if quiet {
				s.Log.Info("hub answers again")
			}
			quiet = false
			if fresh == nil {
				return nil
			}
			s.take(ctx, news{fresh, tag})
			etag = tag
			if next := pollInterval(fresh, interval); next != interval {
				interval = next
				cancel()
			}
			return nil
		})
		cancel()
	}
	return nil
}

// take remembers a poll, then hands it to the loop. A disk that is full must not keep the cluster from its newest state.
func (s *Syncer) take(ctx context.Context, n news) {
	if err := s.Store.SavePoll(n.etag, n.poll); err != nil {
		s.Log.Error("poll cannot be kept over a restart", "error", err)
	}
	s.hand(ctx, n)
}

func (s *Syncer) hand(ctx context.Context, n news) bool {
	select {
	case s.polls <- n:
		return true
	case <-ctx.Done():
		return false
	}
}

// Bounds of what a hub can ask for.
const (
	minPoll = 100 * time.Millisecond
	maxPoll = 10 * time.Minute
)

func pollInterval(p *api.Poll, otherwise time.Duration) time.Duration {
	if p.GetIntervalMs() <= 0 {
		return otherwise
	}
	return min(max(time.Duration(p.GetIntervalMs())*time.Millisecond, minPoll), maxPoll)
}
