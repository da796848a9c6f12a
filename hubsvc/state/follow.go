package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/internal/kv"
	"github.com/pluralsh/plural/internal/poll"
)

const (
	// requestTimeout bounds one request to the bucket.
	requestTimeout = 2 * time.Second
	// openTimeout bounds the opening of the bucket, for which there may be an election first.
	openTimeout = 10 * time.Second
	// retryEvery lies between two attempts at what failed.
	retryEvery = time.Second
)

// Run writes and follows the bucket until ctx ends, through all its absences; then it writes what is left.
func (s *Store) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { s.follow(ctx); return nil })
	group.Go(func() error { s.write(ctx); return nil })
	group.Go(func() error { s.beat(ctx); return nil })
	return group.Wait()
}

// follow has the bucket opened and watched for as long as that goes well, and then again.
func (s *Store) follow(ctx context.Context) {
	said := ""
	_ = poll.Loop{Interval: retryEvery, Jitter: 0.5}.Run(ctx, nil, func(ctx context.Context) error {
		err := s.open(ctx)
		if err == nil {
			said = ""
			err = s.watch(ctx)
		}
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			s.Log.Warn("reports of other replicas are not followed", "error", err)
		}
		return nil
	})
}

// open opens the bucket, with as many copies as can be had now.
func (s *Store) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	kv, _, err := kv.Bucket(ctx, s.JetStream, jetstream.KeyValueConfig{
		Bucket: bucket, Description: "newest report of each cluster", History: 1,
		Storage: jetstream.FileStorage, Replicas: s.Replicas,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.kv = kv
	s.mu.Unlock()
	signal(s.wake)
	return nil
}

func (s *Store) watch(ctx context.Context) error {
	watcher, err := s.kv.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", bucket, err)
	}
	defer func() { _ = watcher.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.again:
			return errors.New("the watch has fallen silent")
		case entry, open := <-watcher.Updates():
			if !open {
				return errors.New("the watch ended")
			}
			if entry == nil { // all that was there at the start has come
				s.replayed.Store(true)
				continue
			}
			s.apply(entry)
			s.mu.Lock()
			s.applied = max(s.applied, entry.Revision())
			s.mu.Unlock()
		}
	}
}

// apply takes in what the bucket says.
func (s *Store) apply(entry jetstream.KeyValueEntry) {
	key, revision := entry.Key(), entry.Revision()
	switch {
	case strings.HasPrefix(key, heardPrefix):
		s.hear(key, entry)
	case entry.Operation() != jetstream.KeyValuePut:
		s.drop(key, revision)
	default:
		next, err := parse(entry.Value())
		if err != nil {
			s.Log.Warn("stored report is unreadable; its agent's next one replaces it", "cluster", key, "error", err)
			return
		}
		next.revision = revision
		s.take(key, next)
	}
}

// take keeps a report that the bucket has, unless the one in hand is newer. Agents count their reports; between two
// agent processes the bucket's order decides, and never a clock: an agent whose newest process lost reports again.
func (s *Store) take(cluster string, next known) {
	s.mu.Lock()
	last, ok := s.clusters[cluster]
	newer := !ok || next.revision > last.revision
	if newer && ok && !last.forgotten && last.packed.boot == next.packed.boot && last.sequence >= next.sequence {
		last.revision = next.revision
		s.clusters[cluster] = last
		newer = false
	}
	if newer {
		delete(s.dirty, cluster)
		s.clusters[cluster] = next
	}
	s.mu.Unlock()
	if newer {
		s.Changed(cluster, false)
	}
}

// drop takes a cluster out at a revision of the bucket; one that is back may have reported since.
func (s *Store) drop(cluster string, revision uint64) {
	s.mu.Lock()
	_, back := s.dirty[cluster]
	gone := !back && s.clusters[cluster].revision < revision
	if gone {
		delete(s.clusters, cluster)
	}
	s.mu.Unlock()
	if gone {
		s.Changed(cluster, false)
	}
}
