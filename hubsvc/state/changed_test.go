package state_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/hubsvc/state"
)

// ear hears what a store tells of its clusters.
type ear struct {
	mu    sync.Mutex // guards what follows
	heard map[string]int
}

func (e *ear) hear(cluster string, repeated bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard[fmt.Sprintf("%s %v", cluster, repeated)]++
}

func (e *ear) has(what string) func() error {
	return func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.heard[what] == 0 {
			return fmt.Errorf("%q was not told: %v", what, e.heard)
		}
		return nil
	}
}

func TestWhoWantsToKnowIsToldOfEachClusterHeardFromAnywhere(t *testing.T) {
	server := serve(t, t.TempDir())
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	defer func() { cancel(); _ = group.Wait() }()
	stores, ears := map[string]*state.Store{}, map[string]*ear{}
	for _, replica := range []string{"a", "b"} {
		ears[replica] = &ear{heard: map[string]int{}}
		store, err := state.Open(state.Options{
			JetStream: server.JetStream(), Replicas: 1, Self: replica, Beat: beat, Log: slog.New(slog.DiscardHandler),
			Changed: ears[replica].hear,
		})
		if err != nil {
			t.Fatal(err)
		}
		stores[replica] = store
		group.Go(func() error { return store.Run(ctx) })
	}
	report := func(sequence uint64) {
		t.Helper()
		at := time.Now().UnixMilli()
		if err := stores["a"].Put(ctx, "prod", &api.Report{Boot: "x", Sequence: sequence, ReceivedUnixMs: at}); err != nil {
			t.Fatal(err)
		}
		if got, ok := stores["a"].Received("prod"); !ok || got != at {
			t.Errorf("received %d, %v, want %d", got, ok, at)
		}
	}
	report(1)
	eventually(t, ears["b"].has("prod false"))
	report(2)
	eventually(t, ears["a"].has("prod true"))
	eventually(t, ears["b"].has("prod true"))
	if err := stores["a"].Forget(ctx, "prod"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if at, ok := stores["b"].Received("prod"); ok {
			return fmt.Errorf("b has still heard of it at %d", at)
		}
		return nil
	})
}
