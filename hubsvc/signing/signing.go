// Package signing owns the keys with which the hub signs tokens.
//
// It knows nothing of tokens. A [Ring] holds the keys of one purpose, and no ring finds another's. Keys are 256 random bits,
// made of nothing else that the hub has. Time is cut into days: each has its own key, which signs on that day alone and
// verifies until the last that it signed has expired.
//
// The keys lie in a JetStream bucket, one entry for a purpose and day. Whoever first misses one creates it, so replicas that
// start together have the same; tomorrow's is there a day before it signs anything, so a replica that lags has it in time. One
// that is shown an unknown key's ID reads the bucket again. While the bucket is out of reach, the keys in memory go on.
package signing

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"github.com/pluralsh/plural/internal/kv"
	"github.com/pluralsh/plural/internal/poll"
)

const (
	bucket = "signing-keys"
	// Day is how long a key signs.
	Day = 24 * time.Hour
	// keep is how long the bucket has a key: from the day before it signs until what it signed has expired, and some more.
	keep = 7 * Day
	// keyBytes is the length of a key.
	keyBytes = 32
)

const (
	// readTimeout bounds one reading of the bucket: somebody may wait for it.
	readTimeout = 2 * time.Second
	// rereadAfter lies between two readings for people's sake: whoever shows IDs that nobody has costs the bucket no more.
	rereadAfter = time.Second
	// lookEvery is how often the bucket is looked at when nobody asks.
	lookEvery = time.Minute
)

// Options of a ring. All must be set.
type Options struct {
	JetStream jetstream.JetStream
	// Replicas is how many servers should keep the bucket.
	Replicas int
	// Purpose names what is signed: a word.
	Purpose string
	// Lifetime is how long what is signed may be good, with the leeway for clocks: at most four days.
	Lifetime time.Duration
	Now      func() time.Time
	Log      *slog.Logger
}

// Ring is the keys of one purpose. It is safe for concurrent use.
type Ring struct {
	Options
	reading singleflight.Group

	mu sync.Mutex // guards what follows
	// known are all keys by ID, signs the one that signs on a day.
	known map[string]key
	signs map[int64]key
	// read is when the bucket was read last, and fault why that did not go well.
	read  time.Time
	fault error
}

// key prints as "[redacted]".
type key struct {
	id     string
	secret []byte
	day    int64
}

// String hides the key.
func (key) String() string { return "[redacted]" }

// GoString is String.
func (key) GoString() string { return "[redacted]" }

// stored is a key as the bucket has it.
type stored struct {
	ID     string `json:"id"`
	Secret []byte `json:"secret"`
}

// New is a ring without keys: the first that is asked for, or Run, reads the bucket.
func New(o Options) *Ring {
	return &Ring{Options: o, known: map[string]key{}, signs: map[int64]key{}}
}

// Run sees to it that there are keys for today and tomorrow, until ctx ends.
func (r *Ring) Run(ctx context.Context) error {
	said := ""
	return poll.Loop{Interval: lookEvery, Jitter: 0.2, MinBackoff: time.Second, MaxBackoff: lookEvery}.Run(ctx, nil,
		func(ctx context.Context) error {
			err := r.look(ctx)
			switch {
			case err == nil:
				said = ""
			case ctx.Err() == nil && err.Error() != said:
				said = err.Error()
				r.Log.Warn("signing keys are not kept up; those in memory go on", "purpose", r.Purpose, "error", err)
			}
			return err
		})
}

// Current is the key that signs now. An error says that there is none, and that the bucket cannot be asked for it.
func (r *Ring) Current(ctx context.Context) (id string, secret []byte, err error) {
	today := day(r.Now())
	k, ok := r.signing(today)
	if !ok {
		err = r.reread(ctx)
		if k, ok = r.signing(today); !ok {
			return "", nil, fmt.Errorf("find the key that signs: %w", err)
		}
	}
	return k.id, k.secret, nil
}

// Find is the key of an ID that somebody shows, if it is one of the ring's and what it signed may still be good. An error says
// that nobody can tell: no key is known at all.
func (r *Ring) Find(ctx context.Context, id string) (secret []byte, known bool, err error) {
	if secret, known = r.find(id); known {
		return secret, true, nil
	}
	err = r.reread(ctx)
	if secret, known = r.find(id); known {
		return secret, true, nil
	}
	if err != nil && r.empty() {
		return nil, false, fmt.Errorf("find a key: %w", err)
	}
	return nil, false, nil
}

func (r *Ring) signing(day int64) (key, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.signs[day]
	return k, ok
}

func (r *Ring) find(id string) (secret []byte, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.known[id]
	if !ok || r.over(k.day) {
		return nil, false
	}
	return k.secret, true
}

func (r *Ring) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known) == 0
}

// day is which one a time is in. It is the same on all replicas, wherever they are.
func day(t time.Time) int64 { return t.Unix() / int64(Day/time.Second) }

// over says whether all that was signed on a day has expired.
func (r *Ring) over(day int64) bool {
	return !r.Now().Before(time.Unix((day+1)*int64(Day/time.Second), 0).Add(r.Lifetime))
}

// reread reads the bucket for whoever waits, all of them at once, and not more often than every rereadAfter.
func (r *Ring) reread(ctx context.Context) error {
	_, err, _ := r.reading.Do("", func() (any, error) {
		now := r.Now()
		r.mu.Lock()
		since, fault := now.Sub(r.read), r.fault
		r.mu.Unlock()
		if since >= 0 && since < rereadAfter { // a clock that was set back makes it negative
			return nil, fault
		}
		fault = r.look(context.WithoutCancel(ctx)) // the others wait for it too
		r.mu.Lock()
		r.read, r.fault = now, fault
		r.mu.Unlock()
		return nil, fault
	})
	return err
}

// look reads the keys of yesterday, today and tomorrow, and makes the latter two where they are missing.
func (r *Ring) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	kv, _, err := kv.Bucket(ctx, r.JetStream, jetstream.KeyValueConfig{
		Bucket: bucket, Description: "keys with which the hub signs", History: 1, TTL: keep,
		Storage: jetstream.FileStorage, Replicas: r.Replicas,
	})
	if err != nil {
		return err
	}
	today := day(r.Now())
	for _, day := range []int64{today, today + 1} {
		if err := r.agree(ctx, kv, day); err != nil {
			return err
		}
	}
	if err := r.take(ctx, kv, today-1); err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return err
	}
	r.forget()
	return nil
}

// agree takes the key of a day, or makes it. A bucket that was lost gets the one in memory back.
func (r *Ring) agree(ctx context.Context, kv jetstream.KeyValue, day int64) error {
	err := r.take(ctx, kv, day)
	if !errors.Is(err, jetstream.ErrKeyNotFound) {
		return err
	}
	k, ok := r.signing(day)
	if !ok {
		k = key{id: rand.Text(), secret: make([]byte, keyBytes), day: day}
		_, _ = rand.Read(k.secret) // never fails
	}
	text, err := json.Marshal(stored{k.id, k.secret}) //nolint:gosec // for the bucket alone
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	_, err = kv.Create(ctx, r.entry(day), text)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return r.take(ctx, kv, day) // another replica was faster
	}
	if err != nil {
		return fmt.Errorf("write key %s: %w", r.entry(day), err)
	}
	r.add(k)
	return nil
}

func (r *Ring) entry(day int64) string { return fmt.Sprintf("%s.%d", r.Purpose, day) }

// take reads the key of a day.
func (r *Ring) take(ctx context.Context, kv jetstream.KeyValue, day int64) error {
	entry, err := kv.Get(ctx, r.entry(day))
	if err != nil {
		return fmt.Errorf("read key %s: %w", r.entry(day), err)
	}
	var s stored
	if json.Unmarshal(entry.Value(), &s) != nil || s.ID == "" || len(s.Secret) != keyBytes { // its text may hold a key
		return fmt.Errorf("read key %s: it is not one of %d bytes: delete the bucket %s, and the hub makes new ones",
			r.entry(day), keyBytes, bucket)
	}
	r.add(key{s.ID, s.Secret, day})
	return nil
}

func (r *Ring) add(k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[k.id], r.signs[k.day] = k, k
}

// forget drops the keys that are over, and those of days that a clock which was wrong has made up.
func (r *Ring) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	ahead := day(r.Now()) + 1
	for id, k := range r.known {
		if r.over(k.day) || k.day > ahead {
			delete(r.known, id)
		}
	}
	for day := range r.signs {
		if r.over(day) || day > ahead {
			delete(r.signs, day)
		}
	}
}
