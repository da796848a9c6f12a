package shard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/internal/poll"
)

// forgetAfter is how many times a lease's time a member may be gone before its lease is removed.
const forgetAfter = 100

// lease is this replica's own.
type lease struct {
	// term is empty before the first, next the one to take when it ran out; told is what was last written, revision where.
	term     string
	next     string
	told     record
	revision uint64
	epoch    uint64
	// renewed is when the last renewal that went through was begun; zero when there is no lease.
	renewed time.Time
	// settled says that all others know this term.
	settled  bool
	draining bool
	// fenced says that another process holds the lease of this replica's name.
	fenced bool
}

// Run keeps this replica's lease and follows the others' until ctx ends, then gives the lease back. It goes on for ever
// when there is no majority to write to.
func (s *Shard) Run(ctx context.Context) error {
	hints, err := s.hints()
	if err != nil {
		return err
	}
	defer hints()
	var group errgroup.Group
	group.Go(func() error {
		s.loop(ctx)
		s.release(context.WithoutCancel(ctx))
		return nil
	})
	group.Go(func() error { // apart from requests, so that a lease that runs out is noticed while one hangs
		_ = s.rhythm().Run(ctx, nil, func(context.Context) error { s.notify(); return nil })
		return nil
	})
	return group.Wait()
}

func (s *Shard) rhythm() poll.Loop { return poll.Loop{Interval: s.TTL / looks, Jitter: 0.25} }

func (s *Shard) loop(ctx context.Context) {
	said := &leaseLogger{log: s.Log}
	_ = s.rhythm().Run(ctx, s.wake, func(ctx context.Context) error {
		err := s.step(ctx)
		if ctx.Err() == nil {
			said.say(s.standing(), err)
		}
		s.notify()
		return nil // the rhythm stays: a request that fails has waited long enough
	})
}

// standing is how the own lease fares.
func (s *Shard) standing() leaseState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return leaseState{
		held: s.own.term != "" && time.Since(s.own.renewed) < s.span(), fenced: s.own.fenced, epoch: s.own.epoch,
	}
}

// step renews the own lease if that is due, then looks at all.
func (s *Shard) step(ctx context.Context) error {
	var errs []error
	if s.due() {
		errs = append(errs, s.renew(ctx))
	}
	if err := s.look(ctx); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if s.due() { // somebody came or went: they wait to hear that this replica knows
		errs = append(errs, s.renew(ctx))
	}
	return errors.Join(errs...)
}

// due says whether the lease wants writing: a third of its time is over, or what it says has changed.
func (s *Shard) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.fenced {
		return false
	}
	return time.Since(s.own.renewed) >= s.TTL/renewals || s.own.told.Draining != s.own.draining ||
		!maps.Equal(s.own.told.Knows, s.view.knows(s.Self.ID))
}

// renew writes the lease: the same if it is still held, another one if it ran out.
func (s *Shard) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.TTL/patience)
	defer cancel()
	began := time.Now()
	s.mu.Lock()
	if began.Sub(s.own.renewed) >= s.span() && s.own.next == s.own.term {
		s.own.next = rand.Text()
	}
	next := record{Member: s.Self, Term: s.own.next, Beat: s.own.told.Beat + 1, Knows: s.view.knows(s.Self.ID)}
	next.Draining = s.own.draining
	after := &s.own.revision
	if s.own.term == "" {
		after = nil // of two processes with one name the later one is meant
	}
	before := s.own.told
	s.mu.Unlock()
	revision, err := s.leases.write(ctx, &next, after)
	if errors.Is(err, errOvertaken) {
		err = s.overtaken(ctx)
	}
	if err != nil {
		s.metrics.failed.Inc()
		return err
	}
	s.metrics.renewed.Inc()
	s.renewed(&next, revision, began)
	if next.Term != before.Term || next.Draining != before.Draining || !maps.Equal(next.Knows, before.Knows) {
		s.hint()
	}
	return nil
}

// renewed takes in that the lease was written.
func (s *Shard) renewed(told *record, revision uint64, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if told.Term != s.own.term {
		s.own.term, s.own.epoch, s.own.settled = told.Term, revision, false
	}
	s.own.told, s.own.revision, s.own.renewed = *told, revision, began
	close(s.written)
	s.written = make(chan struct{})
}

// overtaken finds out who wrote the lease: this replica, whose answer was lost; nobody, the leases were lost; or
// another process with the same name, for which this one stands down.
func (s *Shard) overtaken(ctx context.Context) error {
	found, err := s.leases.mine(ctx, s.Self.ID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own.revision = found.revision
	switch {
	case found.revision == 0:
		s.own.renewed, s.own.settled = time.Time{}, false
		return errors.New("the lease was lost and is taken anew")
	case found.Term == s.own.term, found.Term == s.own.next:
		signal(s.wake)
		return errors.New("the answer to an earlier renewal was lost")
	}
	s.own.renewed, s.own.settled, s.own.fenced = time.Time{}, false, true
	s.metrics.fenced.Inc()
	return fmt.Errorf("another process has taken the lease of %q: %w", s.Self.ID, errOvertaken)
}

// look reads all leases.
func (s *Shard) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.TTL/patience)
	defer cancel()
	began := time.Now()
	read, err := s.leases.read(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.view.look(began, time.Now(), read, s.TTL)
	mine, ok := s.view.members[s.Self.ID]
	switch {
	case s.own.fenced && (!ok || !mine.live): // the other one has gone
		s.own.fenced, s.own.revision = false, mine.revision
	case !s.own.fenced && s.own.term != "" && !s.own.settled:
		s.own.settled = s.view.known(s.Self.ID, s.own.term)
	}
	gone := s.gone()
	s.mu.Unlock()
	for i := range gone {
		if err := s.leases.forget(ctx, &gone[i]); err != nil {
			return err
		}
	}
	return nil
}

// gone are the members that have not been there for long.
func (s *Shard) gone() (list []sighting) {
	for id, m := range s.view.members {
		if id != s.Self.ID && !m.live && time.Since(m.seen) > forgetAfter*s.TTL {
			list = append(list, m)
		}
	}
	return list
}

// release gives the lease back, so that the others need not wait until it runs out.
func (s *Shard) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.TTL/patience)
	defer cancel()
	s.mu.Lock()
	last, revision, held := s.own.told, s.own.revision, s.own.term != "" && !s.own.fenced
	s.own.renewed, s.own.settled = time.Time{}, false
	s.mu.Unlock()
	s.notify()
	if !held {
		return
	}
	last.Left = true
	if _, err := s.leases.write(ctx, &last, &revision); err != nil {
		s.Log.Warn("the lease is not given back; it runs out by itself", "member", s.Self.ID, "after", s.TTL, "error", err)
		return
	}
	s.hint()
}
