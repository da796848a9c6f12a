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
	reports map[string]*api.Report
}

// Open returns the store in the given JetStream, made if it is not there. Run must be running for reads to follow.
func Open(ctx context.Context, js jetstream.JetStream, log *slog.Logger) (*Store, error) {
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: bucket, Description: "newest report of each cluster", History: 1, Storage: jetstream.FileStorage,
		MaxValueSize: api.MaxReportBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	return &Store{kv: kv, log: log, reports: make(map[string]*api.Report)}, nil
}

// Put stores a cluster's report, unless a newer one of the same agent process is there already.
func (s *Store) Put(ctx context.Context, cluster string, report *api.Report) error {
	if last, ok := s.Report(cluster); ok && last.GetBoot() == report.GetBoot() && last.GetSequence() > report.GetSequence() {
		return nil
	}
	encoded, err := proto.Marshal(report)
	if err != nil {
		return fmt.Errorf("encode report of %s: %w", cluster, err)
	}
	if _, err := s.kv.Put(ctx, cluster, encoded); err != nil {
		return fmt.Errorf("store report of %s: %w", cluster, err)
	}
	s.take(cluster, report)
	return nil
}

// Report returns a cluster's newest report.
func (s *Store) Report(cluster string) (*api.Report, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	report, ok := s.reports[cluster]
	return report, ok
}

// Forget removes what is known of a cluster that has left the fleet.
func (s *Store) Forget(ctx context.Context, cluster string) error {
	s.drop(cluster)
	if err := s.kv.Purge(ctx, cluster); err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("forget %s: %w", cluster, err)
	}
	return nil
}

// Clusters lists the clusters that have reported.
func (s *Store) Clusters() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.reports))
	for name := range s.reports {
		names = append(names, name)
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
		s.drop(entry.Key())
		return
	}
	report := new(api.Report)
	if err := proto.Unmarshal(entry.Value(), report); err != nil {
		s.log.Error("stored report is unreadable", "cluster", entry.Key(), "error", err)
		return
	}
	s.take(entry.Key(), report)
}

// take keeps a report unless the one in hand came later: a watcher lags behind this replica's own writes.
func (s *Store) take(cluster string, report *api.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.reports[cluster]; ok && last.GetReceivedUnixMs() > report.GetReceivedUnixMs() {
		return
	}
	s.reports[cluster] = report
}

func (s *Store) drop(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reports, cluster)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
