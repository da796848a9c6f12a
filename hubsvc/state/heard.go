package state

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/internal/poll"
)

const (
	// heardPrefix begins the keys under which replicas say whom they have heard from; no cluster's name holds a slash.
	heardPrefix = "heard/"
	// perMessage is how many clusters one message names: it stays far below what a message may hold.
	perMessage = 8192
	// forgetAfter is how many beats a replica may be silent before what it said is removed.
	forgetAfter = 100
)

// heard is the newest report of one cluster that a replica took in.
type heard struct {
	Boot     string `json:"b"`
	Sequence uint64 `json:"s"`
	Received int64  `json:"r"`
}

// beat tells the other replicas, from time to time, whom this one has heard from, and looks after the bucket.
func (s *Store) beat(ctx context.Context) {
	var told uint64
	beat := func(ctx context.Context) error {
		s.mu.RLock()
		kv, silent := s.kv, s.applied < told
		s.mu.RUnlock()
		if kv == nil || !s.replayed.Load() { // what this replica said before a restart must not be overwritten unread
			return ErrAway
		}
		if silent { // its own last words have not come back
			signal(s.again)
		}
		revision, err := s.tell(ctx, kv)
		if err == nil {
			told = revision
			err = s.tidy(ctx, kv)
		}
		if err == nil {
			err = s.open(ctx) // with more copies, if there are more servers now
		}
		if err != nil && ctx.Err() == nil {
			s.Log.Debug("other replicas are not told who has reported", "error", err)
		}
		return err
	}
	_ = poll.Loop{Interval: s.Beat, Jitter: 0.1, MinBackoff: retryEvery, MaxBackoff: s.Beat}.Run(ctx, nil, beat)
	s.mu.RLock()
	kv := s.kv
	s.mu.RUnlock()
	if kv == nil || !s.replayed.Load() {
		return
	}
	if _, err := s.tell(context.WithoutCancel(ctx), kv); err != nil {
		s.Log.Debug("other replicas are not told who has reported", "error", err)
	}
}

// tell writes whom this replica has heard from. It gives the bucket's revision of the last message.
func (s *Store) tell(ctx context.Context, kv jetstream.KeyValue) (revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	mine := make(map[string]heard)
	var names []string
	s.mu.RLock()
	for cluster, last := range s.clusters {
		if _, dirty := s.dirty[cluster]; last.here && !dirty && !last.forgotten {
			names = append(names, cluster)
			mine[cluster] = heard{short(last.packed.boot.Value()), last.sequence, last.received}
		}
	}
	s.mu.RUnlock()
	slices.Sort(names)
	for number := 0; number == 0 || len(names) > 0; number++ {
		part := make(map[string]heard, min(len(names), perMessage))
		for _, cluster := range names[:min(len(names), perMessage)] {
			part[cluster] = mine[cluster]
		}
		names = names[len(part):]
		body, err := json.Marshal(part)
		if err != nil {
			return 0, fmt.Errorf("encode who has reported: %w", err)
		}
		if revision, err = kv.Put(ctx, s.prefix()+strconv.Itoa(number), s.packer.encoder.EncodeAll(body, nil)); err != nil {
			return 0, fmt.Errorf("store who has reported: %w", err)
		}
	}
	return revision, nil
}

// prefix begins this replica's own keys.
func (s *Store) prefix() string {
	return heardPrefix + base64.RawURLEncoding.EncodeToString([]byte(s.Self)) + "/"
}

// short is enough of a boot to tell it from another.
func short(boot string) string { return boot[:min(len(boot), 8)] }

// hear takes in whom a replica has heard from, this one before a restart too. Only the same agent's later reports
// count: what an agent said first comes as a report of its own.
func (s *Store) hear(key string, entry jetstream.KeyValueEntry) {
	for _, cluster := range s.heardOf(key, entry) {
		s.Changed(cluster, true)
	}
}

// heardOf lists the clusters of which something later was heard than was known here.
func (s *Store) heardOf(key string, entry jetstream.KeyValueEntry) (later []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry.Operation() != jetstream.KeyValuePut {
		delete(s.others, key)
		return nil
	}
	s.others[key] = time.Now()
	body, err := s.packer.decoder.DecodeAll(entry.Value(), nil)
	theirs := make(map[string]heard)
	if err == nil {
		err = json.Unmarshal(body, &theirs)
	}
	if err != nil {
		s.Log.Warn("what another replica has heard is unreadable", "key", key, "error", err)
		return nil
	}
	for cluster, h := range theirs {
		last, ok := s.clusters[cluster]
		if !ok || last.forgotten || short(last.packed.boot.Value()) != h.Boot || h.Sequence <= last.sequence {
			continue
		}
		last.sequence, last.received, last.here = h.Sequence, h.Received, strings.HasPrefix(key, s.prefix())
		s.clusters[cluster] = last
		later = append(later, cluster)
	}
	return later
}

// tidy removes what replicas said that have long been gone.
func (s *Store) tidy(ctx context.Context, kv jetstream.KeyValue) error {
	var gone []string
	s.mu.RLock()
	for key, at := range s.others {
		if time.Since(at) > forgetAfter*s.Beat {
			gone = append(gone, key)
		}
	}
	s.mu.RUnlock()
	for _, key := range gone {
		if err := kv.Purge(ctx, key); err != nil {
			return fmt.Errorf("remove %s: %w", strings.TrimPrefix(key, heardPrefix), err)
		}
	}
	return nil
}
