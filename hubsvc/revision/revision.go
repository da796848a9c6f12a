// Package revision owns the agreement of the hub's replicas on the commits that are served.
//
// An [Edition] names one commit of the installation repo, with the commit of every source that goes with it. One replica
// publishes it; all replicas, the publisher too, serve what the newest one says, so all give agents the same answers. The
// package decides nothing about commits and knows no repository.
//
// Editions are written to a JetStream key-value bucket by compare-and-set, followed by a watch, and remembered in a file:
// a replica that starts alone, or without a quorum, goes on from there.
package revision

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/kv"
)

const (
	bucket     = "edition"
	key        = "newest"
	retryAfter = 500 * time.Millisecond
	// openTimeout is short: what is asked before the servers have a leader is never answered.
	openTimeout = 2 * time.Second
	lookEvery   = 5 * time.Second
)

// Edition is what is served. It is immutable once it is published.
type Edition struct {
	// Commit is the served commit of the installation repo.
	Commit string `json:"commit"`
	// Pins are by source and ref, as [PinKey] writes them.
	Pins map[string]Pin `json:"pins,omitempty"`
	// Head is the newest commit that was looked at; Refused says why it is not the one served, when it is not.
	Head    v1.Commit    `json:"head"`
	Refused []v1.Problem `json:"refused,omitempty"`
}

// Pin is what a source's ref stands for.
type Pin struct {
	Commit string `json:"commit,omitempty"`
	// Version is what the source calls it, a chart's version or a tag, if it has a word for it.
	Version string `json:"version,omitempty"`
	// Problem is why there is no commit.
	Problem string `json:"problem,omitempty"`
	// Verified names the mirror that holds what was verified, of a source whose signatures count. One of another mirror is void:
	// by what counts now the commit was never looked at.
	Verified string `json:"verified,omitempty"`
}

// PinKey names a source's ref.
func PinKey(source, ref string) string { return source + "@" + ref }

// ID orders editions. The zero ID is that of none.
type ID struct {
	// Stream is the bucket's own name: another one starts counting anew.
	Stream string `json:"stream"`
	N      uint64 `json:"n"`
}

// String is "STREAM-N", or empty for the zero ID.
func (id ID) String() string {
	if id.Stream == "" {
		return ""
	}
	return id.Stream + "-" + strconv.FormatUint(id.N, 10)
}

// Published is an edition with its place among the others.
type Published struct {
	Edition Edition `json:"edition"`
	ID      ID      `json:"id"`
}

// Equal says whether two editions say the same.
func (e *Edition) Equal(o *Edition) bool {
	a, errA := json.Marshal(e)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// ErrOvertaken says that somebody else published first.
var ErrOvertaken = errors.New("another replica published a newer edition")

// ErrAway says that nothing can be published now: the bucket is out of reach.
var ErrAway = errors.New("the editions' bucket is out of reach")

// Options of a store.
type Options struct {
	// JetStream holds the bucket; nil when this replica is the only one: then the file is all there is.
	JetStream jetstream.JetStream
	// Replicas is how many servers keep the bucket.
	Replicas int
	// File remembers the newest edition on this replica's disk.
	File string
	Log  *slog.Logger
}

// Store is one replica's view of the editions. It is safe for concurrent use.
type Store struct {
	options Options
	changed chan struct{}

	mu sync.Mutex
	// newest is nil before the first; kept says that the bucket has it, not only the file.
	newest *Published
	kept   bool
	kv     jetstream.KeyValue // nil while out of reach
	stream string
}

// Open reads the file. Run must be running for anything else.
func Open(o Options) *Store {
	s := &Store{options: o, changed: make(chan struct{}, 1)}
	last, err := load(o.File)
	if err != nil {
		o.Log.Warn("what was served before the restart is not known", "error", err)
	}
	s.newest = last
	if o.JetStream == nil {
		s.kept, s.stream = last != nil, rand.Text()[:10]
		if last != nil {
			s.stream = last.ID.Stream
		}
	}
	return s
}

// Newest gives the newest edition, nil before the first. The second value says that a publisher need not publish it
// again.
func (s *Store) Newest() (*Published, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest, s.kept
}

// Changed has a value after Newest may give another, or publishing became possible.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Publish makes an edition the newest if after still is. The error is ErrOvertaken, ErrAway or another of the bucket.
func (s *Store) Publish(ctx context.Context, e *Edition, after *Published) (*Published, error) {
	s.mu.Lock()
	kv, stream := s.kv, s.stream
	s.mu.Unlock()
	if s.options.JetStream == nil {
		return s.publishAlone(e, stream)
	}
	if kv == nil {
		return nil, ErrAway
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode edition: %w", err)
	}
	last := uint64(0)
	if after != nil && after.ID.Stream == stream {
		last = after.ID.N
	}
	revision, err := kv.Update(ctx, key, body, last)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return nil, ErrOvertaken
	}
	if err != nil {
		return nil, fmt.Errorf("publish edition: %w", err)
	}
	p := &Published{*e, ID{stream, revision}}
	s.take(p)
	return p, nil
}

// publishAlone counts without a bucket.
func (s *Store) publishAlone(e *Edition, stream string) (*Published, error) {
	p := &Published{*e, ID{stream, 1}}
	if last, _ := s.Newest(); last != nil {
		p.ID.N = last.ID.N + 1
	}
	s.take(p)
	return p, nil
}

// take makes p the newest if it is.
func (s *Store) take(p *Published) {
	s.mu.Lock()
	newer := s.newest == nil || !s.kept || s.newest.ID.Stream != p.ID.Stream || p.ID.N > s.newest.ID.N
	if newer {
		s.newest, s.kept = p, true
	}
	s.mu.Unlock()
	if newer {
		s.signal()
	}
}

// Remember keeps an edition over a restart. Whoever serves calls it when it does.
func (s *Store) Remember(p *Published) error { return save(s.options.File, p) }

func (s *Store) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Run follows the bucket until ctx ends, through all its absences.
func (s *Store) Run(ctx context.Context) error {
	if s.options.JetStream == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	said := ""
	for ctx.Err() == nil {
		err := s.follow(ctx)
		s.mu.Lock()
		s.kv = nil
		s.mu.Unlock()
		if ctx.Err() != nil {
			break
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			s.options.Log.Warn("editions are not followed; the last one stays", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
	return ctx.Err()
}

// follow opens the bucket, and watches it for as long as that goes well. It also looks by itself now and then: a watch
// may fall silent while servers elect a leader.
func (s *Store) follow(ctx context.Context) error {
	kv, stream, err := s.open(ctx)
	if err != nil {
		return err
	}
	watcher, err := kv.Watch(ctx, key)
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", bucket, err)
	}
	defer func() { _ = watcher.Stop() }()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.look(ctx, stream); err != nil {
				return err
			}
		case entry, open := <-watcher.Updates():
			switch {
			case !open:
				return errors.New("the watch ended")
			case entry == nil: // all there was has come: from here on publishing is safe
				s.mu.Lock()
				s.kv, s.stream = kv, stream
				s.mu.Unlock()
				s.signal()
			default:
				s.see(entry, stream)
			}
		}
	}
}

// open gives the bucket, with as many copies as can be had now, and the name that it was given when it was made.
func (s *Store) open(ctx context.Context) (jetstream.KeyValue, string, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	kv, _, err := kv.Bucket(ctx, s.options.JetStream, jetstream.KeyValueConfig{
		Bucket: bucket, Description: "what the hub serves", History: 1,
		Storage: jetstream.FileStorage, Replicas: s.options.Replicas,
	})
	if err != nil {
		return nil, "", err
	}
	stream, err := streamName(ctx, kv)
	if err != nil {
		return nil, "", fmt.Errorf("name bucket %s: %w", bucket, err)
	}
	return kv, stream, nil
}

// look reads the newest edition, and brings the bucket to its number of copies.
func (s *Store) look(ctx context.Context, stream string) error {
	kv, now, err := s.open(ctx)
	if err != nil {
		return err
	}
	if now != stream {
		return errors.New("the bucket was made anew")
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read newest edition: %w", err)
	}
	s.see(entry, stream)
	return nil
}

func (s *Store) see(entry jetstream.KeyValueEntry, stream string) {
	if entry.Operation() != jetstream.KeyValuePut {
		return
	}
	p := &Published{ID: ID{stream, entry.Revision()}}
	if err := json.Unmarshal(entry.Value(), &p.Edition); err != nil {
		s.options.Log.Error("edition cannot be read", "edition", p.ID.String(), "error", err)
		return
	}
	s.take(p)
}

// streamName tells this bucket from one that was lost: whoever comes first names it.
func streamName(ctx context.Context, kv jetstream.KeyValue) (string, error) {
	const name = "stream"
	_, err := kv.Create(ctx, name, []byte(rand.Text()[:10]))
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return "", err
	}
	entry, err := kv.Get(ctx, name)
	if err != nil {
		return "", err
	}
	return string(entry.Value()), nil
}
