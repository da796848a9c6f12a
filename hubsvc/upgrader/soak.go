package upgrader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/hubsvc/upgrade"
	"github.com/pluralsh/plural/internal/kv"
)

// soakStore keeps what was seen of upgrades in a bucket, so that a restart lets nothing soak anew. What is lost of it costs time:
// a canary then soaks from the beginning.
type soakStore struct {
	js       jetstream.JetStream
	replicas int
	log      *slog.Logger

	kv jetstream.KeyValue // nil while it is not open
	// complete says that as many servers have the bucket as should.
	complete bool
	// recalled says that all that was kept before has been read, so that it may be overwritten.
	recalled bool
	written  *upgrade.Remembered
	said     string // what went wrong last, which is not said twice
}

const (
	upgradesBucket = "upgrades"
	memoryKey      = "memory"
	// memoryTimeout is short: decisions wait for it, and what was not written now is written next time.
	memoryTimeout = 2 * time.Second
	// memoryEvery is how often it is written that somebody still looks, while all stays as it is.
	memoryEvery = time.Minute
)

// recall has a memory take in what was kept, once.
func (r *soakStore) recall(ctx context.Context, m *upgrade.Memory) {
	if r.recalled {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	kept, err := r.read(ctx)
	r.told("reading what was seen before the restart", err)
	if err != nil {
		return
	}
	if r.recalled = true; kept != nil {
		m.Recall(kept)
	}
}

// open opens the bucket, and brings it to its number of copies.
func (r *soakStore) open(ctx context.Context) (err error) {
	if r.kv != nil && r.complete {
		return nil
	}
	r.kv, r.complete, err = kv.Bucket(ctx, r.js, jetstream.KeyValueConfig{
		Bucket: upgradesBucket, Description: "since when packages are healthy", History: 1,
		Storage: jetstream.FileStorage, Replicas: r.replicas,
	})
	return err
}

// read is what was kept, nil when nothing was. What cannot be understood is nothing either: it is about to be overwritten.
func (r *soakStore) read(ctx context.Context) (*upgrade.Remembered, error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	entry, err := r.kv.Get(ctx, memoryKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read bucket %s: %w", upgradesBucket, err)
	}
	kept := new(upgrade.Remembered)
	if err := json.Unmarshal(entry.Value(), kept); err != nil {
		r.log.Warn("what was seen of upgrades is unreadable; canaries soak anew", "error", err)
		return nil, nil
	}
	return kept, nil
}

// keep writes a memory down, when it has something new or is about to look as if nobody looked any more.
func (r *soakStore) keep(ctx context.Context, now *upgrade.Remembered) {
	if !r.recalled || r.written != nil && r.written.Same(now) && now.Seen.Sub(r.written.Seen) < memoryEvery {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	err := r.write(ctx, now)
	r.told("keeping what is seen", err)
	if err != nil {
		r.kv = nil // it may have been lost, and is made anew then
		return
	}
	r.written = now
}

func (r *soakStore) write(ctx context.Context, now *upgrade.Remembered) error {
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	if _, err := r.kv.Put(ctx, memoryKey, text); err != nil {
		return fmt.Errorf("write bucket %s: %w", upgradesBucket, err)
	}
	return nil
}

// told logs what goes wrong, once for as long as it stays the same.
func (r *soakStore) told(what string, err error) {
	said := ""
	if err != nil {
		said = what + ": " + err.Error()
	}
	if said != "" && said != r.said {
		r.log.Warn("the memory of upgrades fails: a restart would let canaries soak anew", "while", what, "error", err)
	}
	r.said = said
}
