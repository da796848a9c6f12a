package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/internal/poll"
)

// writers is how many reports are written at once: a majority's answer takes a fraction of a millisecond.
const writers = 8

// write stores what is here alone, whenever there is some, until ctx ends; then once more.
func (s *Store) write(ctx context.Context) {
	failing := false
	flush := func(ctx context.Context) error {
		err := s.flush(ctx)
		if (err != nil) != failing && ctx.Err() == nil {
			if failing = err != nil; failing {
				s.Log.Warn("reports are kept here alone; they are written later", "error", err)
			} else {
				s.Log.Info("reports are written again")
			}
		}
		return err
	}
	_ = poll.Loop{Interval: s.Beat, Jitter: 0.1, MinBackoff: retryEvery, MaxBackoff: s.Beat}.Run(ctx, s.wake, flush)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	err := s.flush(last)
	if errors.Is(err, ErrAway) && s.open(last) == nil { // a short life
		err = s.flush(last)
	}
	if err != nil {
		s.Log.Warn("some reports were not written; their agents report again", "error", err)
	}
}

// flush writes all that is here alone, and stops at the first failure.
func (s *Store) flush(ctx context.Context) error {
	s.mu.RLock()
	kv := s.kv
	todo := make([]string, 0, len(s.dirty))
	for cluster := range s.dirty {
		todo = append(todo, cluster)
	}
	s.mu.RUnlock()
	if len(todo) == 0 {
		return nil
	}
	if kv == nil {
		return ErrAway
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, cluster := range todo {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return s.save(ctx, kv, cluster)
		})
	}
	return group.Wait()
}

// save writes one cluster's report, over none but the one that it was taken in after.
func (s *Store) save(ctx context.Context, kv jetstream.KeyValue, cluster string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s.mu.RLock()
	last := s.clusters[cluster]
	_, dirty := s.dirty[cluster]
	s.mu.RUnlock()
	if !dirty {
		return nil
	}
	value, err := last.value()
	if err != nil {
		return fmt.Errorf("store report of %s: %w", cluster, err)
	}
	var revision uint64
	if last.revision == 0 {
		revision, err = kv.Create(ctx, cluster, value)
	} else {
		revision, err = kv.Update(ctx, cluster, value, last.revision)
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		return s.overtaken(ctx, kv, cluster, last.revision)
	}
	if err != nil {
		return fmt.Errorf("store report of %s: %w", cluster, err)
	}
	s.saved(cluster, last, revision)
	return nil
}

// saved notes that a report was written.
func (s *Store) saved(cluster string, was known, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.clusters[cluster]
	if !ok || now.forgotten {
		return // since
	}
	if now.packed == was.packed {
		delete(s.dirty, cluster)
	}
	now.revision = max(now.revision, revision)
	s.clusters[cluster] = now
}

// Rewrite has all reports written again that this replica took in: the bucket may have lost what it had confirmed.
func (s *Store) Rewrite() {
	s.mu.Lock()
	for cluster, last := range s.clusters {
		if last.here && !last.forgotten {
			s.dirty[cluster] = struct{}{}
		}
	}
	s.mu.Unlock()
	signal(s.wake)
}

// overtaken takes in what another replica wrote, or that the cluster was taken out; what is newer here is written next.
func (s *Store) overtaken(ctx context.Context, kv jetstream.KeyValue, cluster string, after uint64) error {
	entry, err := kv.Get(ctx, cluster)
	switch {
	case err == nil && entry.Revision() < after: // it has lost what it had confirmed
		s.lower(cluster, after, entry.Revision())
	case err == nil:
		s.apply(entry)
	case errors.Is(err, jetstream.ErrKeyNotFound):
		s.lower(cluster, after, 0)
	default:
		return fmt.Errorf("read report of %s: %w", cluster, err)
	}
	signal(s.wake)
	return nil
}

// lower takes in that the bucket has a report's revision before, or none, where after was thought to be there.
func (s *Store) lower(cluster string, after, before uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.clusters[cluster]; ok && last.revision == after {
		last.revision = before
		s.clusters[cluster] = last
	}
}
