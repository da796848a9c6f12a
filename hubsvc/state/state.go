// Package state owns what has been observed of the fleet: the newest report of every cluster.
//
// It knows neither what should be there nor who asks. Reports are written to a JetStream key-value bucket, one key a
// cluster, and read from a map that follows the bucket, so reading costs no round trip. All of it is disposable:
// delete the bucket, and the next reports fill it again.
package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

const bucket = "reports"

// Store keeps reports. Reports that it returns are shared: callers do not change them.
type Store struct {
	kv  jetstream.KeyValue
	log *slog.Logger

	mu      sync.RWMutex // guards reports
	reports map[string]observed
}

// observed is a report with the bucket's revision of it. Without a report it stands for a cluster that was forgotten, until
// the watcher has seen that too.
type observed struct {
	report   *api.Report
	revision uint64
}

// after says whether o came after last. Agents count their reports; between two agent processes the bucket's order
// decides, and never the hub's clock, which can be set back.
func (o observed) after(last observed) bool {
	if last.report != nil && o.report.GetBoot() == last.report.GetBoot() && o.report.GetSequence() != last.report.GetSequence() {
		return o.report.GetSequence() > last.report.GetSequence()
	}
	return o.revision > last.revision
}

// Open returns the store in the given JetStream, made if it is not there. Run must be running for reads to follow.
func Open(ctx context.Context, js jetstream.JetStream, log *slog.Logger) (*Store, error) {
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: bucket, Description: "newest report of each cluster", History: 1, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	return &Store{kv: kv, log: log, reports: make(map[string]observed)}, nil
}

// Put stores a cluster's report, unless a newer one of the same agent process is there already.
func (s *Store) Put(ctx context.Context, cluster string, report *api.Report) error {
	if last, ok := s.Report(cluster); ok && late(report, last) {
		return nil
	}
	encoded, err := proto.Marshal(report)
	if err != nil {
		return fmt.Errorf("encode report of %s: %w", cluster, err)
	}
	revision, err := s.kv.Put(ctx, cluster, encoded)
	if err != nil {
		return fmt.Errorf("store report of %s: %w", cluster, err)
	}
	s.take(cluster, observed{report, revision})
	return nil
}

// late says whether an agent process made report before last.
func late(report, last *api.Report) bool {
	return report.GetBoot() == last.GetBoot() && report.GetSequence() < last.GetSequence()
}

// Report returns a cluster's newest report.
func (s *Store) Report(cluster string) (*api.Report, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	report := s.reports[cluster].report
	return report, report != nil
}

// Forget removes what is known of a cluster that has left the fleet.
func (s *Store) Forget(ctx context.Context, cluster string) error {
	s.mu.RLock()
	known := s.reports[cluster].revision
	s.mu.RUnlock()
	if err := s.kv.Purge(ctx, cluster); err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("forget %s: %w", cluster, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.reports[cluster]; ok && last.revision == known {
		s.reports[cluster] = observed{revision: known}
	}
	return nil
}

// Clusters lists the clusters that have reported.
func (s *Store) Clusters() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.reports))
	for name, last := range s.reports {
		if last.report != nil {
			names = append(names, name)
		}
	}
	return names
}

// Run follows the bucket until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.follow(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("reports are not followed", "error", err)
			wait(ctx, time.Second)
		}
	}
	return nil
}

func (s *Store) follow(ctx context.Context) error {
	watcher, err := s.kv.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", bucket, err)
	}
	defer func() { _ = watcher.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case entry, open := <-watcher.Updates():
			if !open {
				return errors.New("watch ended")
			}
			if entry != nil { // nil marks the end of what was there at the start
				s.apply(entry)
			}
		}
	}
}

func (s *Store) apply(entry jetstream.KeyValueEntry) {
	if entry.Operation() != jetstream.KeyValuePut {
		s.drop(entry.Key(), entry.Revision())
		return
	}
	report := new(api.Report)
	if err := proto.Unmarshal(entry.Value(), report); err != nil {
		s.log.Error("stored report is unreadable", "cluster", entry.Key(), "error", err)
		return
	}
	s.take(entry.Key(), observed{report, entry.Revision()})
}

// take keeps a report unless the one in hand is newer: the watcher lags behind this replica's own writes, and two
// requests of one agent may overtake each other on their way.
func (s *Store) take(cluster string, next observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next.after(s.reports[cluster]) {
		s.reports[cluster] = next
	}
}

// drop takes a cluster out at a revision of the bucket; one that is back may have reported since.
func (s *Store) drop(cluster string, before uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reports[cluster].revision < before {
		delete(s.reports, cluster)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
