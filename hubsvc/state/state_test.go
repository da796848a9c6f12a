package state_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/state"
)

// open runs a store on a real server in dir and stops both when stop is called.
func open(t *testing.T, dir string) (store *state.Store, stop func()) {
	t.Helper()
	server := serve(t, dir)
	store, leave := run(t, server, "hub")
	return store, func() { leave(); server.Close() }
}

func serve(t testing.TB, dir string) *natsd.Server {
	t.Helper()
	server, err := natsd.Start(t.Context(), natsd.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// run runs one replica's store until stop is called.
func run(t testing.TB, server *natsd.Server, replica string) (store *state.Store, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	store, err := state.Open(state.Options{
		JetStream: server.JetStream(), Replicas: server.Replicas(), Self: replica, Beat: beat,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	group.Go(func() error { return store.Run(ctx) })
	return store, func() {
		cancel()
		_ = group.Wait()
	}
}

// beat is quicker than it should be where thousands report.
const beat = 20 * time.Millisecond

func eventually(t testing.TB, condition func() error) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// has says why a store does not have the wanted report.
func has(store *state.Store, cluster string, want *api.Report) func() error {
	return func() error {
		got, _ := store.Report(cluster)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			return errors.New(diff)
		}
		return nil
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
	eventually(t, has(store, "edge-1", report("a", 7, 1)))
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
	if err := forget(t, store); err != nil {
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
		if err := forget(t, store); err != nil {
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

func TestAnotherReplicaKnowsWhatWasReportedAndWhen(t *testing.T) {
	server := serve(t, t.TempDir())
	defer server.Close()
	one, stopOne := run(t, server, "hub-0")
	two, stopTwo := run(t, server, "hub-1")
	defer stopTwo()
	put(t, one, report("a", 1, 1))
	eventually(t, has(two, "edge-1", report("a", 1, 1)))
	before := written(t, server, "edge-1")
	put(t, one, report("a", 2, 60_001)) // says the same again
	eventually(t, has(two, "edge-1", report("a", 2, 60_001)))
	if after := written(t, server, "edge-1"); after != before {
		t.Errorf("a report that says nothing new was written as revision %d", after)
	}
	put(t, two, report("a", 3, 5)) // to a replica whose clock is behind
	eventually(t, has(one, "edge-1", report("a", 3, 5)))
	stopOne()
}

func TestWhenAClusterReportedLastSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	store, stop := open(t, dir)
	put(t, store, report("a", 1, 1))
	put(t, store, report("a", 2, 60_001))
	stop()
	for range 2 { // what was said before the first restart is not lost with the second
		store, stop = open(t, dir)
		eventually(t, has(store, "edge-1", report("a", 2, 60_001)))
		stop()
	}
}

func TestReportsAreTakenInWithoutABucketAndWrittenLater(t *testing.T) {
	dir := t.TempDir()
	server := serve(t, dir)
	store, stop := run(t, server, "hub")
	defer stop()
	eventually(t, func() error { return store.Forget(t.Context(), "none") }) // the bucket is open
	server.Close()
	put(t, store, report("a", 1, 1))
	if err := has(store, "edge-1", report("a", 1, 1))(); err != nil {
		t.Error(err)
	}
	if err := store.Forget(t.Context(), "edge-2"); err == nil {
		t.Error("forgot a cluster in a bucket that is out of reach")
	}
	away, stopAway := run(t, server, "hub") // begins without
	put(t, away, report("b", 1, 1))
	if err := has(away, "edge-1", report("b", 1, 1))(); err != nil {
		t.Error(err)
	}
	if err := away.Forget(t.Context(), "edge-1"); !errors.Is(err, state.ErrAway) {
		t.Errorf("Forget = %v", err)
	}
	stopAway()
}

func TestTwoReplicasThatHearTheSameAgentAgree(t *testing.T) {
	server := serve(t, t.TempDir())
	defer server.Close()
	one, stopOne := run(t, server, "hub-0")
	defer stopOne()
	two, stopTwo := run(t, server, "hub-1")
	defer stopTwo()
	var group errgroup.Group
	for sequence := range uint64(200) {
		store := []*state.Store{one, two}[sequence%2]
		group.Go(func() error {
			r := report("a", sequence, int64(sequence))
			r.Services = []*api.ServiceReport{{Service: fmt.Sprint(sequence / 5)}}
			return store.Put(t.Context(), "edge-1", r)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	want := report("a", 199, 199)
	want.Services = []*api.ServiceReport{{Service: "39"}}
	eventually(t, has(one, "edge-1", want))
	eventually(t, has(two, "edge-1", want))
}

func put(t *testing.T, store *state.Store, r *api.Report) {
	t.Helper()
	if err := store.Put(t.Context(), "edge-1", r); err != nil {
		t.Fatal(err)
	}
}

// written is the bucket's newest revision of a cluster's report.
func written(t *testing.T, server *natsd.Server, cluster string) uint64 {
	t.Helper()
	return entry(t, server, cluster).Revision()
}

func entry(t *testing.T, server *natsd.Server, cluster string) jetstream.KeyValueEntry {
	t.Helper()
	kv, err := server.JetStream().KeyValue(t.Context(), "reports")
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// forget waits until the bucket is open.
func forget(t *testing.T, store *state.Store) error {
	t.Helper()
	eventually(t, func() error {
		if err := store.Forget(t.Context(), "edge-1"); errors.Is(err, state.ErrAway) {
			return err
		}
		return nil
	})
	return nil
}

// With a stolen token, one report with the agent's boot and the last of all numbers made all of its own reports old ones.
func TestAForgedNumberDoesNotSilenceAnAgent(t *testing.T) {
	store, stop := open(t, t.TempDir())
	defer stop()
	const second = 1000
	for _, r := range []struct {
		sequence uint64
		at       int64
		leaps    bool
	}{
		{7, 0, false},
		{math.MaxUint64, second, true},
		{7 + 2000, 2 * second, true},
		{8, 2 * second, false},
		{8 + 20*3600, 3602 * second, false}, // nobody took its reports for an hour in which all of its services changed all the time
		{8 + 20*3600 + 1, 3603 * second, false},
		{8 + 20*3600 + 500, 3 * second, false}, // this replica's clock is an hour behind
	} {
		err := store.Put(t.Context(), "edge-1", report("a", r.sequence, r.at))
		if errors.Is(err, state.ErrLeap) != r.leaps || err != nil && !r.leaps {
			t.Errorf("report %d: %v", r.sequence, err)
		}
	}
	if got, _ := store.Report("edge-1"); got.GetSequence() != 8+20*3600+500 {
		t.Errorf("what is known is report %d", got.GetSequence())
	}
	if err := store.Put(t.Context(), "edge-1", report("b", math.MaxUint64, 3604*second)); err != nil {
		t.Errorf("the first report of another count: %v", err)
	}
}

func TestWhatABucketLostAfterItWasConfirmedIsWrittenAgain(t *testing.T) {
	server := serve(t, t.TempDir())
	defer server.Close()
	store, stop := run(t, server, "hub")
	defer stop()
	version := func(n uint64) *api.Report {
		r := report("a", n, int64(n))
		r.AgentVersion = fmt.Sprint("v", n)
		return r
	}
	var older []byte
	for n := range uint64(2) {
		put(t, store, version(n))
		eventually(t, func() error {
			if store.Unwritten() > 0 {
				return errors.New("not written")
			}
			return nil
		})
		if older == nil {
			older = entry(t, server, "edge-1").Value()
		}
	}
	if err := server.JetStream().DeleteKeyValue(t.Context(), "reports"); err != nil {
		t.Fatal(err)
	}
	kv, err := server.JetStream().CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "reports"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "edge-1", older); err != nil {
		t.Fatal(err)
	}
	store.Rewrite()
	other, leave := run(t, server, "another")
	defer leave()
	eventually(t, has(other, "edge-1", version(1)))
	eventually(t, has(store, "edge-1", version(1)))
}
