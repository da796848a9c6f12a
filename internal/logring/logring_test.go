package logring_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/logring"
)

func printed(l logring.Line) string {
	return strings.Join(append([]string{l.Level.String(), l.Message}, l.Attributes...), " ")
}

func read(t *testing.T, r *logring.Ring, q logring.Query) []string {
	t.Helper()
	var lines []string
	if err := r.Read(t.Context(), q, func(l logring.Line) error {
		lines = append(lines, printed(l))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestTheNewestLinesStay(t *testing.T) {
	ring := logring.New(3)
	log := slog.New(ring.Handler(slog.DiscardHandler))
	if log.Info("nobody writes it"); read(t, ring, logring.Query{Tail: 9}) != nil {
		t.Error("a line was kept that the log does not write")
	}
	log = slog.New(ring.Handler(slog.NewTextHandler(new(strings.Builder), nil)))
	for i := range 5 {
		log.Info("pass", "n", i)
	}
	if diff := cmp.Diff([]string{"INFO pass n=2", "INFO pass n=3", "INFO pass n=4"}, read(t, ring, logring.Query{Tail: 9})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"INFO pass n=4"}, read(t, ring, logring.Query{Tail: 1})); diff != "" {
		t.Error(diff)
	}
	if got := read(t, ring, logring.Query{}); got != nil {
		t.Errorf("got %q where nothing was asked for", got)
	}
}

func TestAttributesAreThoseThatTheLogWrites(t *testing.T) {
	ring := logring.New(10)
	log := slog.New(ring.Handler(slog.NewTextHandler(new(strings.Builder), nil)))
	log.With("cluster", "edge-1").WithGroup("outer").With("a", 1).Warn("said", slog.Group("inner", "b", "two words"), "c", errors.New("line\nbreak"), "d", "")
	want := `WARN said cluster=edge-1 outer.a=1 outer.inner.b="two words" outer.c="line\nbreak" outer.d=""`
	if diff := cmp.Diff([]string{want}, read(t, ring, logring.Query{Tail: 1})); diff != "" {
		t.Error(diff)
	}
	log.LogAttrs(t.Context(), slog.LevelInfo, "long", slog.String(strings.Repeat("x", 1<<20), strings.Repeat("y", 1<<20)))
	if got := read(t, ring, logring.Query{Tail: 1})[0]; len(got) > 6<<10 {
		t.Errorf("%d bytes of a line are kept", len(got))
	}
}

func TestLinesOfOneService(t *testing.T) {
	ring := logring.New(10)
	log := slog.New(ring.Handler(slog.NewTextHandler(new(strings.Builder), nil)))
	for _, service := range []string{"web", "db", "web", "web-2"} {
		log.With("service", service).Info("pass")
	}
	want := []string{"INFO pass service=web", "INFO pass service=web"}
	if diff := cmp.Diff(want, read(t, ring, logring.Query{Tail: 9, Service: "web"})); diff != "" {
		t.Error(diff)
	}
}

func TestAFollowerHearsWhatComesAndWhatItMissed(t *testing.T) {
	ring := logring.New(4)
	log := slog.New(ring.Handler(slog.NewTextHandler(new(strings.Builder), nil)))
	log.Info("before")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines, proceed, ended := make(chan string), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- ring.Read(ctx, logring.Query{Tail: 1, Follow: true}, func(l logring.Line) error {
			lines <- printed(l)
			<-proceed
			return nil
		})
	}()
	if got := <-lines; got != "INFO before" {
		t.Fatal(got)
	}
	for i := range 6 {
		log.Info("later", "n", i)
	}
	proceed <- struct{}{}
	var got []string
	for range 5 {
		got = append(got, <-lines)
		proceed <- struct{}{}
	}
	want := []string{"WARN lines are missing: they were read too slowly lines=2"}
	for i := range 4 {
		want = append(want, fmt.Sprintf("INFO later n=%d", i+2))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	go log.Info("one more")
	if got := <-lines; got != "INFO one more" {
		t.Error(got)
	}
	cancel()
	close(proceed)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAReaderThatFailsIsLetGo(t *testing.T) {
	ring := logring.New(4)
	slog.New(ring.Handler(slog.NewTextHandler(new(strings.Builder), nil))).Info("one")
	gone := errors.New("gone")
	if err := ring.Read(t.Context(), logring.Query{Tail: 1, Follow: true}, func(logring.Line) error { return gone }); !errors.Is(err, gone) {
		t.Error(err)
	}
}

func TestNothingKeptIsChangedByALaterLine(t *testing.T) {
	ring := logring.New(10)
	log := slog.New(ring.Handler(slog.NewTextHandler(new(strings.Builder), nil))).With("a", 1)
	log.Info("one", "b", 1)
	log.Info("two", "c", 1)
	if got := read(t, ring, logring.Query{Tail: 9}); !slices.Equal(got, []string{"INFO one a=1 b=1", "INFO two a=1 c=1"}) {
		t.Error(got)
	}
}
