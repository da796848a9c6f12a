package state_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/state"
)

// open runs a store on a real server in dir and stops both when stop is called.
func open(t *testing.T, dir string) (store *state.Store, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	server, err := natsd.Start(ctx, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	store, err = state.Open(ctx, server.JetStream(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	group.Go(func() error { return store.Run(ctx) })
	return store, func() {
		cancel()
		_ = group.Wait()
		server.Close()
	}
}

func report(boot string, sequence uint64, at int64) *api.Report {
	return &api.Report{Boot: boot, Sequence: sequence, ReceivedUnixMs: at}
}

func TestReportsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	store, stop := open(t, dir)
	if err := store.Put(t.Context(), "edge-1", report("a", 7, 1)); err != nil {
		t.Fatal(err)
	}
	stop()
	store, stop = open(t, dir)
	defer stop()
	deadline := time.After(10 * time.Second)
	for {
		if got, ok := store.Report("edge-1"); ok {
			if got.GetSequence() != 7 {
				t.Errorf("sequence = %d", got.GetSequence())
			}
			return
		}
		select {
		case <-deadline:
			t.Fatal("the report did not come back")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestALateReportOfTheSameBootIsDropped(t *testing.T) {
	store, stop := open(t, t.TempDir())
	defer stop()
	for _, r := range []*api.Report{report("a", 2, 1), report("a", 1, 2)} {
		if err := store.Put(t.Context(), "edge-1", r); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := store.Report("edge-1"); got.GetSequence() != 2 {
		t.Errorf("sequence = %d, want 2", got.GetSequence())
	}
	if err := store.Put(t.Context(), "edge-1", report("b", 1, 3)); err != nil {
		t.Fatal(err)
	}
	if got, _ := store.Report("edge-1"); got.GetBoot() != "b" {
		t.Error("a new agent process was not heard")
	}
}

func TestForgetRemovesACluster(t *testing.T) {
	store, stop := open(t, t.TempDir())
	defer stop()
	if err := store.Put(t.Context(), "edge-1", report("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := store.Forget(t.Context(), "edge-1"); err != nil {
		t.Fatal(err)
	}
	if _, ok := store.Report("edge-1"); ok || len(store.Clusters()) != 0 {
		t.Error("the cluster is still known")
	}
}

func TestHubClockSetBackDoesNotSilenceAgents(t *testing.T) {
	store, stop := open(t, t.TempDir())
	defer stop()
	for _, r := range []*api.Report{report("a", 1, 1_000_000), report("a", 2, 5)} {
		if err := store.Put(t.Context(), "edge-1", r); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := store.Report("edge-1"); got.GetSequence() != 2 {
		t.Errorf("sequence = %d, want 2", got.GetSequence())
	}
}

func TestConcurrentReportsOfOneAgentEndWithTheNewest(t *testing.T) {
	store, stop := open(t, t.TempDir())
	defer stop()
	var group errgroup.Group
	for sequence := range uint64(50) {
		group.Go(func() error { return store.Put(t.Context(), "edge-1", report("a", sequence, 1)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, _ := store.Report("edge-1"); got.GetSequence() != 49 {
		t.Errorf("sequence = %d, want 49", got.GetSequence())
	}
}

func TestClusterThatCameBackIsHeardAgain(t *testing.T) {
	store, stop := open(t, t.TempDir())
	defer stop()
	for i := range uint64(20) {
		if err := store.Put(t.Context(), "edge-1", report("a", 1, 1)); err != nil {
			t.Fatal(err)
		}
		if err := store.Forget(t.Context(), "edge-1"); err != nil {
			t.Fatal(err)
		}
		if err := store.Put(t.Context(), "edge-1", report("b", i, 1)); err != nil {
			t.Fatal(err)
		}
		if _, ok := store.Report("edge-1"); !ok {
			t.Fatal("the mark of the cluster's removal took its new report away")
		}
	}
}

func TestReportAsLargeAsTheHubTakesInIsStored(t *testing.T) {
	store, stop := open(t, t.TempDir())
	defer stop()
	large := report("a", 1, time.Now().UnixMilli())
	large.Services = []*api.ServiceReport{{Message: strings.Repeat("x", api.MaxReportBytes)}}
	if err := store.Put(t.Context(), "edge-1", large); err != nil {
		t.Error(err)
	}
}
