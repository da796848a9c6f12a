// Package state owns the reports of agents.
//
// It knows neither what should be there nor who asks. A report is taken in at once, packed, into a map from which all
// reads are answered; [Store.Run] writes what changed to a JetStream key-value bucket, one key a cluster, and follows
// what other replicas write there. A report that only repeats the last one is not written: each replica tells the
// others from time to time which clusters it has heard from, in one message. While the bucket is out of reach all this
// goes on here alone, and is made up for later. All of it is disposable: delete the bucket, and the next reports fill
// it again.
package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/api"
)

const bucket = "reports"

// DefaultBeat is how often a replica tells the others whom it has heard from.
const DefaultBeat = 30 * time.Second

// ErrAway says that nothing can be written now: the bucket is out of reach.
var ErrAway = errors.New("the reports' bucket is out of reach")

// Options of a store.
type Options struct {
	JetStream jetstream.JetStream
	// Replicas is how many servers should keep the bucket.
	Replicas int
	// Self is this replica's name.
	Self string
	// Beat is how often this replica tells the others whom it has heard from; zero means DefaultBeat.
	Beat time.Duration
	// Changed is told of each cluster that was heard from, by whichever replica, or taken out; repeated, when it said nothing
	// new. It must not block; it may ask the store. Nil: nobody wants to know.
	Changed func(cluster string, repeated bool)
	Log     *slog.Logger
}

// Store keeps reports. It is safe for concurrent use.
type Store struct {
	Options
	packer *packer
	wake   chan struct{} // has a value when there is something to write
	again  chan struct{} // has a value when the watch is to start anew
	// replayed says that the watch has brought all that the bucket had.
	replayed atomic.Bool

	mu       sync.RWMutex // guards what follows
	kv       jetstream.KeyValue
	clusters map[string]known
	// dirty are the clusters whose newest report is here alone.
	dirty map[string]struct{}
	// others are what replicas said last, by key; applied is the newest revision that the watch has brought.
	others  map[string]time.Time
	applied uint64
}

// known is the newest report of one cluster.
type known struct {
	packed   packed
	sequence uint64
	received int64 // Unix milliseconds, by the clock of the replica that took it in
	// revision is the bucket's newest of this cluster.
	revision uint64
	// here says that this replica took the newest report in.
	here bool
	// forgotten says that the cluster was taken out, which the watch has yet to bring.
	forgotten bool
}

// Open returns an empty store. Run must be running for anything to be written or read.
func Open(o Options) (*Store, error) {
	if o.Beat == 0 {
		o.Beat = DefaultBeat
	}
	if o.Changed == nil {
		o.Changed = func(string, bool) {}
	}
	packer, err := newPacker()
	if err != nil {
		return nil, err
	}
	return &Store{
		Options: o, packer: packer, wake: make(chan struct{}, 1), again: make(chan struct{}, 1),
		clusters: make(map[string]known), dirty: make(map[string]struct{}), others: make(map[string]time.Time),
	}, nil
}

// An agent counts its reports, older ones also those that they never sent: at most twenty a second. A thousand more are for clocks
// of replicas that differ. So an agent that nobody heard for a day may come with any number that it can have got to.
const (
	countsAtOnce = 1000
	countsEach   = 20
)

// ErrLeap says that a report's number is not one that its agent can have got to: believed, it would make all of the agent's own
// reports old ones. It is no lock: the agent goes on under another boot, whose first number may be any.
var ErrLeap = errors.New("the report's sequence is far beyond that of the one before")

// leaps says whether a report of the same agent process cannot be a next one.
func (k *known) leaps(next *known) bool {
	if k.packed.boot != next.packed.boot || next.sequence <= k.sequence {
		return false
	}
	seconds := uint64(max(0, next.received-k.received)) / 1000
	return next.sequence-k.sequence > countsAtOnce+countsEach*seconds
}

// Put takes a cluster's report in, unless a newer one of the same agent process is there already. The store owns the
// report from then on. It waits for nothing: what cannot be written now is written later.
func (s *Store) Put(_ context.Context, cluster string, report *api.Report) error {
	next := known{sequence: report.GetSequence(), received: report.GetReceivedUnixMs(), here: true}
	var err error
	if next.packed, err = s.packer.pack(report); err != nil {
		return fmt.Errorf("take in report of %s: %w", cluster, err)
	}
	s.mu.Lock()
	last, ok := s.clusters[cluster]
	ok = ok && !last.forgotten
	if ok && last.packed.boot == next.packed.boot && next.sequence < last.sequence {
		s.mu.Unlock()
		return nil
	}
	if ok && last.leaps(&next) {
		s.mu.Unlock()
		return fmt.Errorf("take in report of %s: %w", cluster, ErrLeap)
	}
	next.revision = last.revision
	repeated := ok && last.packed == next.packed
	s.clusters[cluster] = next
	if !repeated {
		s.dirty[cluster] = struct{}{}
	}
	s.mu.Unlock()
	if !repeated {
		signal(s.wake)
	}
	s.Changed(cluster, repeated)
	return nil
}

// Received is when a cluster was heard from last, in Unix milliseconds by the clock of the replica that heard it.
func (s *Store) Received(cluster string) (int64, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	last, ok := s.clusters[cluster]
	return last.received, ok && !last.forgotten
}

// TokenIssuer is what a cluster's newest report says of the tokens of its service accounts, and when that was received, in Unix
// milliseconds; nil: nothing.
func (s *Store) TokenIssuer(cluster string) (issuer *api.TokenIssuer, received int64) {
	s.mu.RLock()
	last, ok := s.clusters[cluster]
	s.mu.RUnlock()
	if !ok || last.forgotten {
		return nil, 0
	}
	issuer, err := last.packed.tokenIssuer()
	if err != nil {
		s.Log.Error("token issuer is unreadable; its agent's next report replaces it", "cluster", cluster, "error", err)
		return nil, 0
	}
	return issuer, last.received
}

// Report returns a cluster's newest report, which is the caller's.
func (s *Store) Report(cluster string) (*api.Report, bool) {
	s.mu.RLock()
	last, ok := s.clusters[cluster]
	s.mu.RUnlock()
	if !ok || last.forgotten {
		return nil, false
	}
	report, err := s.packer.unpack(last.packed)
	if err != nil {
		s.Log.Error("report is unreadable; its agent's next one replaces it", "cluster", cluster, "error", err)
		return nil, false
	}
	report.Sequence, report.ReceivedUnixMs = last.sequence, last.received
	return report, true
}

// Forget removes what is known of a cluster that has left the fleet.
func (s *Store) Forget(ctx context.Context, cluster string) error {
	s.mu.Lock()
	kv, before := s.kv, s.clusters[cluster].revision
	delete(s.dirty, cluster)
	s.mu.Unlock()
	if kv == nil {
		return fmt.Errorf("forget %s: %w", cluster, ErrAway)
	}
	if err := kv.Purge(ctx, cluster); err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("forget %s: %w", cluster, err)
	}
	s.mu.Lock()
	last, ok := s.clusters[cluster]
	if _, back := s.dirty[cluster]; ok && !back && last.revision == before {
		s.clusters[cluster] = known{revision: before, forgotten: true}
	}
	s.mu.Unlock()
	s.Changed(cluster, false)
	return nil
}

// ForgetLeavers drops, from time to time until ctx ends, what is known of clusters that have left the fleet, as left says.
func (s *Store) ForgetLeavers(ctx context.Context, left func(cluster string) bool) error {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, cluster := range s.Clusters() {
			if !left(cluster) {
				continue
			}
			if err := s.Forget(ctx, cluster); err != nil {
				s.Log.Warn("cluster that left cannot be forgotten", "cluster", cluster, "error", err)
			}
		}
	}
}

// Clusters lists the clusters that have reported.
func (s *Store) Clusters() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.clusters))
	for name, last := range s.clusters {
		if !last.forgotten {
			names = append(names, name)
		}
	}
	return names
}

// Unwritten is how many clusters' newest report is on this replica alone.
func (s *Store) Unwritten() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.dirty)
}

// signal makes sure that there is a value in c, which holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
