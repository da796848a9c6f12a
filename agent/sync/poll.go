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

// poller asks the hub for ever.
type poller struct {
	*Syncer
	etag     string
	interval time.Duration
	silent   bool // the hub did not answer the last time
}

// recall is what the hub said last, as the store remembers it; empty when it does not.
func (s *Syncer) recall() news {
	last, etag, err := s.Store.Poll()
	if err != nil {
		s.Log.Error("what the hub said last is unreadable", "error", err)
	}
	return news{last, etag}
}

// poll hands the loop what the hub says after last.
func (s *Syncer) poll(ctx context.Context, last news) error {
	p := &poller{Syncer: s, etag: last.etag, interval: pollInterval(last.poll, s.PollInterval)}
	for ctx.Err() == nil {
		p.ask(ctx)
	}
	return nil
}

// ask polls at one interval, until ctx ends or the hub wants another.
func (p *poller) ask(ctx context.Context) {
	loop := poll.Loop{Interval: p.interval, Jitter: 0.2, MaxBackoff: time.Minute}
	same, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = loop.Run(same, nil, func(ctx context.Context) error {
		fresh, etag, err := p.Hub.Poll(ctx, p.etag)
		p.notice(ctx, err)
		if err != nil || fresh == nil {
			return err
		}
		p.take(ctx, news{fresh, etag})
		p.etag = etag
		if next := pollInterval(fresh, p.interval); next != p.interval {
			p.interval = next
			cancel()
		}
		return nil
	}) // it ends with its context alone
}

// notice logs that the hub went away, or came back, once.
func (p *poller) notice(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() != nil: // our own end
	case err != nil && !p.silent:
		p.silent = true
		p.Log.Warn("hub does not answer; keeping what is on disk", "error", err)
	case err == nil && p.silent:
		p.silent = false
		p.Log.Info("hub answers again")
	}
}

// take remembers a poll, then hands it to the loop. A disk that is full must not keep the cluster from its newest state.
func (s *Syncer) take(ctx context.Context, n news) {
	if err := s.Store.SavePoll(n.etag, n.poll); err != nil {
		s.Log.Error("poll cannot be kept over a restart", "error", err)
	}
	select {
	case s.polls <- n:
	case <-ctx.Done():
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
