package signing

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/hubsvc/natsd"
)

const lifetime = 10 * time.Minute

// world is a NATS server with a clock that all rings have.
type world struct {
	*testing.T
	server *natsd.Server
	dir    string
	clock  atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir()}
	w.set(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	w.start()
	t.Cleanup(func() { w.server.Close() })
	return w
}

func (w *world) start() {
	w.Helper()
	var err error
	w.server, err = natsd.Start(w.Context(), natsd.Options{Dir: w.dir, Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) now() time.Time       { return time.Unix(w.clock.Load(), 0) }
func (w *world) set(at time.Time)     { w.clock.Store(at.Unix()) }
func (w *world) pass(d time.Duration) { w.set(w.now().Add(d)) }

func (w *world) ring(purpose string) *Ring {
	return New(Options{
		JetStream: w.server.JetStream(), Replicas: 1, Purpose: purpose, Lifetime: lifetime, Now: w.now,
		Log: slog.New(slog.DiscardHandler),
	})
}

func (w *world) current(r *Ring) (string, []byte) {
	w.Helper()
	id, secret, err := r.Current(w.Context())
	if err != nil || len(secret) != keyBytes {
		w.Fatalf("Current: %d bytes, %v", len(secret), err)
	}
	return id, secret
}

// finds says whether a ring finds a key as it is.
func (w *world) finds(r *Ring, id string, secret []byte) bool {
	w.Helper()
	got, known, err := r.Find(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return known && bytes.Equal(got, secret)
}

func TestReplicasThatStartTogetherSignWithOneKey(t *testing.T) {
	w := newWorld(t)
	var starting sync.WaitGroup
	ids := make([]string, 20)
	for i := range ids {
		starting.Go(func() {
			id, secret, err := w.ring("kube").Current(t.Context())
			if err != nil {
				t.Error(err)
			}
			ids[i] = fmt.Sprintf("%s %x", id, secret)
		})
	}
	starting.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatal("two replicas sign with different keys")
		}
	}
}

func TestAKeySignsForADayAndVerifiesUntilItsTokensHaveExpired(t *testing.T) {
	w := newWorld(t)
	r := w.ring("kube")
	old, secret := w.current(r)
	midnight := w.now().Truncate(Day).Add(Day)
	w.set(midnight.Add(-time.Second))
	if id, _ := w.current(r); id != old {
		t.Error("another key signs on the same day")
	}
	w.set(midnight)
	id, fresh := w.current(r)
	if id == old || bytes.Equal(fresh, secret) {
		t.Error("the key of yesterday signs")
	}
	w.set(midnight.Add(lifetime - time.Second))
	for _, r := range []*Ring{r, w.ring("kube")} { // one that has it, and one that was started since
		if !w.finds(r, old, secret) {
			t.Error("a token of yesterday is refused before it expires")
		}
	}
	w.set(midnight.Add(lifetime))
	if w.finds(r, old, secret) || w.finds(w.ring("kube"), old, secret) {
		t.Error("a key verifies when all that it signed has expired")
	}
	if !w.finds(r, id, fresh) {
		t.Error("the key of today is not found")
	}
}

func TestTomorrowsKeyIsThereBeforeItSigns(t *testing.T) {
	w := newWorld(t)
	a, b := w.ring("kube"), w.ring("kube")
	w.current(a)
	w.current(b)
	w.server.Close() // nothing can be asked any more
	w.pass(Day)
	id, secret := w.current(a)
	if !w.finds(b, id, secret) {
		t.Error("a replica does not have the key of another when it begins to sign")
	}
}

func TestKeysSurviveARestart(t *testing.T) {
	w := newWorld(t)
	id, secret := w.current(w.ring("kube"))
	w.server.Close()
	w.start()
	if r := w.ring("kube"); !w.finds(r, id, secret) {
		t.Error("after a restart the hub does not know what it signed")
	}
}

// counting counts how often the bucket is opened.
type counting struct {
	jetstream.JetStream
	opened atomic.Int32
}

func (c *counting) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	c.opened.Add(1)
	return c.JetStream.KeyValue(ctx, bucket)
}

func TestAnUnknownIDHasTheBucketReadAndNotMoreThanOnceASecond(t *testing.T) {
	w := newWorld(t)
	b := w.ring("kube")
	count := &counting{JetStream: b.JetStream}
	b.JetStream = count
	w.current(b)
	// The bucket was made anew, by a replica that this one has not heard of.
	if err := w.server.JetStream().DeleteKeyValue(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	id, secret := w.current(w.ring("kube"))
	w.pass(rereadAfter)
	if !w.finds(b, id, secret) {
		t.Error("the key of another replica is not found")
	}
	before := count.opened.Load()
	for i := range 1000 {
		if _, known, err := b.Find(t.Context(), fmt.Sprint("guess", i)); known || err != nil {
			t.Fatal(known, err)
		}
	}
	if n := count.opened.Load() - before; n != 0 {
		t.Errorf("a thousand guesses in the second had the bucket read %d times", n)
	}
	w.pass(-time.Hour) // the clock was set back
	if _, _, err := b.Find(t.Context(), "guess"); err != nil || count.opened.Load() != before+1 {
		t.Errorf("a clock that was set back: read %d times, %v", count.opened.Load()-before, err)
	}
}

func TestKeysInMemoryGoOnWhileTheBucketIsAway(t *testing.T) {
	w := newWorld(t)
	r, fresh := w.ring("kube"), w.ring("kube")
	id, secret := w.current(r)
	w.server.Close()
	if again, _ := w.current(r); again != id || !w.finds(r, id, secret) {
		t.Error("the keys in memory are not used")
	}
	w.pass(time.Minute)
	if w.finds(r, "of nobody", nil) {
		t.Error("an unknown key is found")
	}
	if _, _, err := fresh.Current(t.Context()); err == nil {
		t.Error("a ring that knows no key signs")
	}
	if _, _, err := fresh.Find(t.Context(), id); err == nil {
		t.Error("a ring that knows no key says that it does not know this one")
	}
	w.pass(2 * Day)
	if _, known, _ := r.Find(t.Context(), id); known {
		t.Error("a key verifies for ever while the bucket is away")
	}
	if _, _, err := r.Current(t.Context()); err == nil {
		t.Error("a key signs for ever while the bucket is away")
	}
}

func TestALostBucketGetsTheKeysInUseBack(t *testing.T) {
	w := newWorld(t)
	r := w.ring("kube")
	id, secret := w.current(r)
	if err := w.server.JetStream().DeleteKeyValue(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	if err := r.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !w.finds(w.ring("kube"), id, secret) {
		t.Error("a replica that starts after the loss does not know what was signed before")
	}
}

func TestARingFindsNoKeyOfAnotherPurpose(t *testing.T) {
	w := newWorld(t)
	sessions, kube := w.ring("sessions"), w.ring("kube")
	id, secret := w.current(sessions)
	other, _ := w.current(kube)
	w.pass(time.Minute)
	if id == other || w.finds(kube, id, secret) {
		t.Error("a key is good for another purpose")
	}
}

func TestAClockThatWasWrongLeavesNothingThatSigns(t *testing.T) {
	w := newWorld(t)
	r := w.ring("kube")
	right, secret := w.current(r)
	w.pass(3650 * Day)
	wrong, made := w.current(r)
	w.pass(-3650 * Day)
	if id, _ := w.current(r); id != right || !w.finds(r, right, secret) {
		t.Error("the key of the day is lost")
	}
	if err := r.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if wrong == right || w.finds(r, wrong, made) {
		t.Error("a key of another decade stays")
	}
	for at := range r.signs {
		if at > day(w.now())+1 {
			t.Errorf("the key of day %d is kept to sign on it", at)
		}
	}
}

func TestAKeyIsNeverPrinted(t *testing.T) {
	w := newWorld(t)
	r := w.ring("kube")
	_, secret := w.current(r)
	kv, err := w.server.JetStream().KeyValue(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), r.entry(day(w.now())), []byte(`{"id":"x","secret":"c2hvcnQga2V5"}`)); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.ring("kube").Current(t.Context())
	if err == nil || bytes.Contains([]byte(err.Error()), []byte("c2hvcnQga2V5")) {
		t.Errorf("a damaged key: %v", err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		text := fmt.Sprintf(format, r.signs)
		if bytes.Contains([]byte(text), secret) || !bytes.Contains([]byte(text), []byte("[redacted]")) {
			t.Errorf("%s: %s", format, text)
		}
	}
}

func TestAnEntryThatIsNoKeySignsAndVerifiesNothing(t *testing.T) {
	whole := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), keyBytes))
	for _, text := range []string{
		`{`, `{}`, `{"secret":"` + whole + `"}`, `{"id":"x"}`, `{"id":"x","secret":"c2hvcnQ="}`,
		`["` + whole + `"]`,
	} {
		w := newWorld(t)
		w.current(w.ring("kube")) // makes the bucket
		w.put(day(w.now()), text)
		r := w.ring("kube")
		if id, secret, err := r.Current(t.Context()); err == nil || !strings.Contains(err.Error(), "is not one of 32 bytes") {
			t.Errorf("%s signs as %q, %d bytes, %v", text, id, len(secret), err)
		}
		for _, id := range []string{"", "x"} {
			if _, known, err := r.Find(t.Context(), id); known || err == nil {
				t.Errorf("%s verifies as %q: %v", text, id, err)
			}
		}
	}
}

func TestAnEntryOfYesterdayThatIsNoKeyIsToldAndStopsNobody(t *testing.T) {
	w := newWorld(t)
	w.current(w.ring("kube"))
	w.put(day(w.now())-1, "{}")
	r := w.ring("kube")
	if err := r.look(t.Context()); err == nil || !strings.Contains(err.Error(), r.entry(day(w.now())-1)) {
		t.Errorf("look: %v", err)
	}
	w.current(r)
}

// put writes an entry past every ring.
func (w *world) put(day int64, text string) {
	w.Helper()
	kv, err := w.server.JetStream().KeyValue(w.Context(), bucket)
	if err == nil {
		_, err = kv.Put(w.Context(), w.ring("kube").entry(day), []byte(text))
	}
	if err != nil {
		w.Fatal(err)
	}
}

// full has buckets to which nothing can be added.
type full struct{ jetstream.JetStream }

type fullBucket struct{ jetstream.KeyValue }

func (f full) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	kv, err := f.JetStream.KeyValue(ctx, bucket)
	return fullBucket{kv}, err
}

func (fullBucket) Create(context.Context, string, []byte, ...jetstream.KVCreateOpt) (uint64, error) {
	return 0, errors.New("no space left")
}

func TestAKeyThatCannotBeKeptSignsNothing(t *testing.T) {
	w := newWorld(t)
	w.current(w.ring("other")) // makes the bucket
	r := w.ring("kube")
	r.JetStream = full{r.JetStream}
	if id, _, err := r.Current(t.Context()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("signs as %q, %v", id, err)
	}
	if _, known, err := r.Find(t.Context(), "of another replica"); known || err == nil {
		t.Errorf("a ring without a key says that it does not know this one: %v", err)
	}
}
