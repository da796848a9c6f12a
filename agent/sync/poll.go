package sync

import (
	"context"
	"time"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/internal/poll"
)

// news is a poll that brought something new.
type news struct {
	poll    *api.Poll
	etag    string
	edition edition
}

// poller asks the hub for ever.
type poller struct {
	*Syncer
	etag     string
	edition  edition // the newest that was taken in or confirmed
	interval time.Duration
	silent   bool      // the hub did not answer the last time
	verify   time.Time // when to ask for everything, changed or not
}

// recall is what the hub said last, as the store remembers it; empty when it does not.
func (s *Syncer) recall() news {
	last, etag, written, err := s.Store.Poll()
	if err != nil {
		s.Log.Error("what the hub said last is unreadable", "error", err)
	}
	return news{last, etag, parseEdition(written)}
}

// poll hands the loop what the hub says after last.
func (s *Syncer) poll(ctx context.Context, last news) error {
	p := &poller{
		Syncer: s, etag: last.etag, edition: last.edition, interval: pollInterval(last.poll, s.PollInterval),
		verify: time.Now().Add(jitter(s.Verify)),
	}
	for ctx.Err() == nil {
		p.ask(ctx)
	}
	return nil
}

// firstRetry is the wait after a first poll that failed: most failures are a hub that is being replaced.
const firstRetry = 2 * time.Second

// ask polls at one interval, until ctx ends or the hub wants another.
func (p *poller) ask(ctx context.Context) {
	loop := poll.Loop{Interval: p.interval, Jitter: 0.2, MinBackoff: min(firstRetry, p.interval), MaxBackoff: time.Minute}
	same, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = loop.Run(same, p.looks, func(ctx context.Context) error {
		fresh, err := p.question(ctx)
		if err != nil || fresh == nil {
			return err
		}
		if next := pollInterval(fresh, p.interval); next != p.interval {
			p.interval = next
			cancel()
		}
		return nil
	}) // it ends with its context alone
}

// question asks once, and hands on what is new. It returns nil when nothing is.
func (p *poller) question(ctx context.Context) (*api.Poll, error) {
	known, all := p.etag, !time.Now().Before(p.verify)
	if all {
		known = ""
	}
	fresh, etag, written, err := p.Hub.Poll(ctx, known)
	p.notice(ctx, err)
	if err != nil {
		return nil, err
	}
	if all {
		p.verify = time.Now().Add(jitter(p.Verify))
	}
	if now := parseEdition(written); now.before(p.edition) {
		if fresh != nil {
			p.Log.Debug("answer of an older edition is not taken", "edition", written, "root", etag)
		}
		return nil, nil
	} else if p.edition = now; fresh == nil {
		return nil, nil
	}
	p.take(ctx, news{fresh, etag, p.edition})
	p.etag = etag
	return fresh, nil
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

// take remembers a poll, then hands it to the loop. A disk that is full must not keep the cluster from its newest state. Where an agent
// that is about to replace this one has heard of a newer edition, that one stays on the disk that both write to.
func (s *Syncer) take(ctx context.Context, n news) {
	if _, _, written, err := s.Store.Poll(); err != nil || !n.edition.before(parseEdition(written)) {
		if err := s.Store.SavePoll(n.etag, n.edition.String(), n.poll); err != nil {
			s.Log.Error("poll cannot be kept over a restart", "error", err)
		}
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
