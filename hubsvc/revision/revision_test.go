package revision

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/hubsvc/natsd"
)

func bucketServer(t *testing.T) jetstream.JetStream {
	t.Helper()
	server, err := natsd.Start(t.Context(), natsd.Options{Dir: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.JetStream()
}

// open starts a store of one replica.
func open(t *testing.T, js jetstream.JetStream, file string) *Store {
	t.Helper()
	s := Open(Options{JetStream: js, Replicas: 1, File: file, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func of(commit string) *Edition {
	return &Edition{Commit: strings.Repeat(commit, 40), Pins: map[string]Pin{PinKey("podinfo", "main"): {Commit: commit}}}
}

// until waits for a condition, looking again whenever the store changed.
func until(t *testing.T, s *Store, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !condition() {
		select {
		case <-s.Changed():
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// publish waits for the bucket.
func publish(t *testing.T, s *Store, e *Edition) (*Published, error) {
	t.Helper()
	var p *Published
	var err error
	until(t, s, "the bucket is there", func() bool {
		last, _ := s.Newest()
		p, err = s.Publish(t.Context(), e, last)
		return !errors.Is(err, ErrAway)
	})
	return p, err
}

func newest(s *Store) string {
	p, _ := s.Newest()
	if p == nil {
		return ""
	}
	return p.Edition.Commit[:1]
}

func TestWhatOneReplicaPublishesAllServe(t *testing.T) {
	js := bucketServer(t)
	a, b := open(t, js, filepath.Join(t.TempDir(), "e")), open(t, js, filepath.Join(t.TempDir(), "e"))
	first, err := publish(t, a, of("1"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, b, "the other has it", func() bool { return newest(b) == "1" })
	second, err := publish(t, b, of("2"))
	if err != nil || second.ID.Stream != first.ID.Stream || second.ID.N <= first.ID.N {
		t.Fatalf("after %v came %v, %v", first.ID, second, err)
	}
	until(t, a, "the first has that", func() bool { return newest(a) == "2" })
	if got, kept := a.Newest(); !kept || !cmp.Equal(&got.Edition, of("2")) {
		t.Errorf("newest is %+v, kept %v", got, kept)
	}
}

func TestOfTwoPublishersOneIsOvertaken(t *testing.T) {
	js := bucketServer(t)
	a, b := open(t, js, filepath.Join(t.TempDir(), "e")), open(t, js, filepath.Join(t.TempDir(), "e"))
	first, err := publish(t, a, of("1"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, b, "both know it", func() bool { return newest(b) == "1" })
	if _, err := a.Publish(t.Context(), of("2"), first); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish(t.Context(), of("3"), first); !errors.Is(err, ErrOvertaken) {
		t.Errorf("the second publisher got %v", err)
	}
	until(t, b, "the winner's is the newest", func() bool { return newest(b) == "2" })
}

func TestReplicaGoesOnFromItsFileUntilTheBucketIsThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e")
	lost := open(t, bucketServer(t), file)
	old, err := publish(t, lost, of("1"))
	if err == nil {
		err = lost.Remember(old)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := Open(Options{JetStream: bucketServer(t), Replicas: 1, File: file, Log: slog.New(slog.DiscardHandler)})
	if got, kept := s.Newest(); kept || got == nil || got.ID != old.ID {
		t.Fatalf("from the file: %v, kept %v", got, kept)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = s.Run(ctx) }()
	next, err := publish(t, s, of("1"))
	if err != nil || next.ID.Stream == old.ID.Stream {
		t.Errorf("a new bucket counts in %v after %v, %v", next, old.ID, err)
	}
}

func TestOneReplicaNeedsNoBucket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e")
	s := open(t, nil, file)
	for _, commit := range []string{"1", "2"} {
		last, _ := s.Newest()
		p, err := s.Publish(t.Context(), of(commit), last)
		if err == nil {
			err = s.Remember(p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before, _ := s.Newest()
	again := open(t, nil, file)
	after, kept := again.Newest()
	if !kept || !cmp.Equal(before, after) || after.ID.N != 2 {
		t.Errorf("after a restart %+v, kept %v", after, kept)
	}
	if p, err := again.Publish(t.Context(), of("3"), after); err != nil || p.ID.N != 3 || p.ID.Stream != before.ID.Stream {
		t.Errorf("the next is %v, %v", p, err)
	}
}

func TestDamagedFileIsNoEdition(t *testing.T) {
	for name, content := range map[string]string{"no JSON": "{", "no commit": `{"edition":{"commit":"x"}}`, "empty": ""} {
		file := filepath.Join(t.TempDir(), "e")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, kept := open(t, nil, file).Newest(); got != nil || kept {
			t.Errorf("%s: %+v, kept %v", name, got, kept)
		}
	}
}

func TestAnOlderEditionTakesTheNewestsPlaceFromNobody(t *testing.T) {
	s := Open(Options{File: filepath.Join(t.TempDir(), "e"), Log: slog.New(slog.DiscardHandler)})
	take := func(commit, stream string, n uint64) string {
		t.Helper()
		s.take(&Published{*of(commit), ID{stream, n}})
		return newest(s)
	}
	for _, step := range []struct {
		commit, stream string
		n              uint64
		want           string
	}{
		{"a", "x", 5, "a"},
		{"b", "x", 4, "a"}, // it comes late
		{"c", "x", 5, "a"}, // the same again
		{"d", "x", 6, "d"},
		{"e", "y", 1, "e"}, // a new bucket counts from the beginning
	} {
		if got := take(step.commit, step.stream, step.n); got != step.want {
			t.Errorf("after %s %d the newest is %s, want %s", step.stream, step.n, got, step.want)
		}
	}
}
