package sync

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

const (
	// gather is how long news is collected before it is sent, so that a burst of passes is one report.
	gather = 100 * time.Millisecond
	// defaultBeat is the longest silence until the hub says another.
	defaultBeat = 30 * time.Second
	// retryReport is the wait after a report that did not arrive, doubled with each further one up to a beat.
	retryReport = time.Second
	// longestPause bounds how long a hub may ask to be left alone: it could ask for ever.
	longestPause = 5 * time.Minute
)

// report tells the hub what changed soon, and everything once a beat.
func (s *Syncer) report(ctx context.Context) error {
	var newest, sent *api.Report
	beat, failures, sending := defaultBeat, 0, count{boot: rand.Text()}
	due := time.Now().Add(beat)
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case beat = <-s.beats:
			due = earlier(due, time.Now().Add(jitter(beat)))
		case newest = <-s.reports:
			if failures == 0 && !same(newest, sent) { // a hub that is away hears no sooner of more news
				due = earlier(due, time.Now().Add(gather))
			}
		case <-timer.C:
			if arrived, pause := s.deliver(ctx, newest, &sending, failures); arrived {
				sent, failures = newest, 0
				due = time.Now().Add(jitter(beat))
			} else {
				failures++
				due = time.Now().Add(max(pause, jitter(min(retryReport<<min(failures-1, 10), max(beat, retryReport)))))
			}
		}
		timer.Reset(max(time.Until(due), time.Millisecond))
	}
}

// count numbers reports in the order in which they are sent: of those with one boot, the hub keeps the one with the highest number.
type count struct {
	boot     string
	sequence uint64
}

// next is a copy of the report with the next number: each attempt has its own, so that a hub tells a repetition from a late arrival.
func (c *count) next(r *api.Report) *api.Report {
	c.sequence++
	r = proto.CloneOf(r)
	r.Boot, r.Sequence = c.boot, c.sequence
	return r
}

// deliver says whether there is nothing, or the report arrived; and if not, how long the hub asks to wait. When the hub cannot
// follow the numbers, the next report begins another count, which it believes from any number on.
func (s *Syncer) deliver(ctx context.Context, r *api.Report, sending *count, failures int) (arrived bool, pause time.Duration) {
	if r == nil {
		return true, 0
	}
	err := s.Hub.Report(ctx, sending.next(fitting(r)))
	var refused interface{ Conflict() bool }
	switch {
	case errors.As(err, &refused) && refused.Conflict():
		if sending.sequence > 1 { // else the hub would refuse any
			s.Log.Warn("hub cannot follow the numbers of the reports; counting anew", "error", err)
		}
		*sending = count{boot: rand.Text()}
	case err != nil && failures == 0 && ctx.Err() == nil:
		s.Log.Warn("report did not arrive; trying again", "error", err)
	}
	var asked interface{ RetryAfter() time.Duration }
	if errors.As(err, &asked) {
		pause = min(asked.RetryAfter(), longestPause)
	}
	return err == nil, pause
}

// Bounds of what a report says in words.
const (
	maxMessage   = 1000
	shortMessage = 100
)

// fitting is the report as the hub takes it: of a cluster with very much to say, details are left out, the longest first.
func fitting(r *api.Report) *api.Report {
	for _, leaveOut := range []func(*api.ServiceReport){
		func(s *api.ServiceReport) {
			for _, t := range s.GetTests() {
				t.Log = ""
			}
		},
		func(s *api.ServiceReport) { s.Notes = nil },
		func(s *api.ServiceReport) {
			s.Problems, s.Message = nil, clip(s.GetMessage(), shortMessage)
			if s.GetHeld() != nil {
				s.Held.Names, s.Held.Message = nil, clip(s.GetHeld().GetMessage(), shortMessage)
			}
			for _, t := range s.GetTests() {
				t.Message = clip(t.GetMessage(), shortMessage)
			}
		},
		func(s *api.ServiceReport) { s.Tests = nil },
	} {
		if proto.Size(r) <= api.MaxReportBytes {
			return r
		}
		r = proto.CloneOf(r) // the loop's own statuses are never changed
		for _, s := range r.GetServices() {
			leaveOut(s)
		}
	}
	return r
}

// clip shortens a message, and makes it text that a report can carry.
func clip(message string, most int) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= most {
		return message
	}
	for most > 0 && !utf8.RuneStart(message[most]) {
		most--
	}
	return message[:most] + "…"
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// same says whether two reports say the same.
func same(a, b *api.Report) bool {
	if b == nil || a.GetRoot() != b.GetRoot() || !proto.Equal(a.GetHeld(), b.GetHeld()) || a.GetTokenIssuer() != b.GetTokenIssuer() ||
		len(a.GetServices()) != len(b.GetServices()) {
		return false
	}
	for i, s := range a.GetServices() {
		if other := b.GetServices()[i]; s != other && !proto.Equal(s, other) { // most were not made anew
			return false
		}
	}
	return true
}
