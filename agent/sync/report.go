package sync

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

const (
	// gather is how long news is collected before it is sent, so that a burst of passes is one report.
	gather = 100 * time.Millisecond
	// defaultBeat is the longest silence until the hub says another.
	defaultBeat = 30 * time.Second
	// retryReport is the wait after a report that did not arrive.
	retryReport = 3 * time.Second
)

// report tells the hub what changed soon, and everything once a beat.
func (s *Syncer) report(ctx context.Context) error {
	var newest, sent *api.Report
	beat := defaultBeat
	timer := time.NewTimer(beat)
	defer timer.Stop()
	due := time.Now().Add(beat)
	for {
		select {
		case <-ctx.Done():
			return nil
		case b := <-s.beats:
			beat = b
			due = earlier(due, time.Now().Add(jitter(beat)))
		case newest = <-s.reports:
			if !same(newest, sent) {
				due = earlier(due, time.Now().Add(gather))
			}
		case <-timer.C:
			due = time.Now().Add(beat)
			if newest != nil {
				due = time.Now().Add(s.send(ctx, newest, &sent, beat))
			}
		}
		timer.Reset(max(time.Until(due), time.Millisecond))
	}
}

// send reports, and says when to report again.
func (s *Syncer) send(ctx context.Context, newest *api.Report, sent **api.Report, beat time.Duration) time.Duration {
	if err := s.Hub.Report(ctx, newest); err != nil {
		s.Log.Debug("report did not arrive", "error", err)
		return jitter(retryReport)
	}
	*sent = newest
	return jitter(beat)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// same says whether two reports differ in nothing but their number.
func same(a, b *api.Report) bool {
	if b == nil || a.GetRoot() != b.GetRoot() || len(a.GetServices()) != len(b.GetServices()) {
		return false
	}
	for i, s := range a.GetServices() {
		if !proto.Equal(s, b.GetServices()[i]) {
			return false
		}
	}
	return true
}
