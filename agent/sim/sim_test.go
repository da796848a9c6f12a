package sim_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/agent/sim"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/tunnel"
	"github.com/pluralsh/plural/workspace/resolve"
)

const (
	size     = 5
	channels = 2
	quick    = 50 * time.Millisecond
)

// world is a hub's real gateway, over TLS, with a swarm at work on it.
type world struct {
	t       *testing.T
	swarm   *sim.Swarm
	tunnel  *tunnel.Hub
	mu      sync.Mutex // guards what follows
	roots   map[string]*gateway.Root
	bundles map[string][]byte
	reports map[string]*api.Report
}

func identity(i int) sim.Identity {
	return sim.Identity{Cluster: fmt.Sprint("c", i), Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i)}, 32))}
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, roots: map[string]*gateway.Root{}, bundles: map[string][]byte{}, reports: map[string]*api.Report{}}
	mux := http.NewServeMux()
	server := httptest.NewUnstartedServer(mux)
	server.StartTLS()
	t.Cleanup(server.Close)
	keys, agents := map[string]ed25519.PublicKey{}, []sim.Identity{}
	for i := range size {
		agents = append(agents, identity(i))
		keys[agents[i].Cluster] = agents[i].Key.Public().(ed25519.PublicKey)
	}
	who := auth.NewAgents(func() string { return server.URL }, func(c string) ed25519.PublicKey { return keys[c] }, time.Now)
	gateway.New(gateway.Options{
		Cluster: who.Cluster, Root: w.root, Edition: func() string { return "s-1" }, Open: w.open, Report: w.report,
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	}).Routes(mux)
	w.tunnel = tunnel.New(tunnel.Options{
		Self: "hub-0", Cluster: who.Cluster, URL: func() string { return server.URL },
		Key: func(c string) ed25519.PublicKey { return keys[c] },
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	w.tunnel.Routes(mux)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	var err error
	if w.swarm, err = sim.New(sim.Options{
		URL: server.URL, CA: ca, Agents: agents, Interval: quick, Channels: channels, Seed: 1, Version: "test",
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

// run lets the agents work until the test ends.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { w.swarm.Run(ctx) })
	all.Go(func() { _ = w.tunnel.Run(ctx) })
	w.t.Cleanup(func() { cancel(); all.Wait() })
}

// serve lets every cluster run a service with that content from now on.
func (w *world) serve(content string) (key string) {
	w.t.Helper()
	var archive bytes.Buffer
	inputs := []string{"apps/web"}
	if err := bundle.Pack(&archive, fstest.MapFS{"apps/web/a.yaml": {Data: []byte(content)}}, inputs, bundle.DefaultLimits()); err != nil {
		w.t.Fatal(err)
	}
	files, err := bundle.Unpack(bytes.NewReader(archive.Bytes()), bundle.DefaultLimits())
	if err != nil {
		w.t.Fatal(err)
	}
	if key, err = files.Key(inputs); err != nil {
		w.t.Fatal(err)
	}
	w.put(key, archive.Bytes())
	return key
}

func (w *world) put(key string, archive []byte) {
	w.t.Helper()
	d := &resolve.Deployment{Service: "web", Key: "d-" + key, Bundle: key, Inputs: []string{"apps/web"}, Path: "apps/web"}
	encoder := gateway.NewEncoder(gateway.Terms{PollInterval: quick, ReportInterval: quick})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bundles[key] = archive
	for i := range size {
		root, err := encoder.Root(identity(i).Cluster, []*resolve.Deployment{d}, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		w.roots[identity(i).Cluster] = root
	}
}

func (w *world) root(cluster string) *gateway.Root {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roots[cluster]
}

type file struct{ *bytes.Reader }

func (file) Close() error { return nil }

func (w *world) open(_ context.Context, key string) (io.ReadSeekCloser, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return file{bytes.NewReader(w.bundles[key])}, nil
}

func (w *world) report(_ context.Context, cluster string, r *api.Report) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports[cluster] = r
	return nil
}

// done waits for a round.
func (w *world) done(r *sim.Round) time.Duration {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	last, missing := w.swarm.Wait(ctx, r)
	if missing > 0 {
		w.t.Fatalf("%d agents are missing: %v", missing, w.swarm.Take().Errors)
	}
	return last
}

func (w *world) eventually(what string, yes func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !yes(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("never: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestEveryAgentDownloadsVerifiesAndReportsOverOneConnection(t *testing.T) {
	w := newWorld(t)
	key := w.serve("a: 1\n")
	round := w.swarm.Begin(sim.Updated, size)
	w.run()
	w.done(round)
	w.eventually("every cluster reports the key as healthy", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range size {
			services := w.reports[identity(i).Cluster].GetServices()
			if len(services) != 1 || services[0].GetAppliedKey() != "d-"+key || services[0].GetPhase() != api.Phase_HEALTHY {
				return false
			}
		}
		return true
	})
	seen := w.swarm.Take()
	if seen.Bundles != size || seen.Connections < size || seen.Connections > size+channels || seen.Retries != 0 || seen.Polls < size || seen.P99 <= 0 {
		t.Errorf("figures = %+v", seen)
	}
	round = w.swarm.Begin(sim.Updated, size)
	w.serve("a: 2\n")
	w.done(round)
}

func TestABundleThatIsNotWhatItsKeySaysIsAFailure(t *testing.T) {
	w := newWorld(t)
	key := w.serve("a: 1\n")
	other := w.serve("a: 2\n")
	w.put(key, w.bundles[other])
	w.run()
	var errors []string
	w.eventually("an agent fails", func() bool {
		errors = append(errors, w.swarm.Take().Errors...)
		return len(errors) > 0
	})
	if !strings.Contains(errors[0], "verify bundle") {
		t.Errorf("errors = %q", errors)
	}
}

func TestAgentsWhoseConnectionsWereCutComeBack(t *testing.T) {
	w := newWorld(t)
	w.serve("a: 1\n")
	round := w.swarm.Begin(sim.Updated, size)
	w.run()
	w.done(round)
	w.swarm.Take()
	w.swarm.Cut()
	round = w.swarm.Begin(sim.Polled, size)
	w.swarm.Wake()
	w.done(round)
	if seen := w.swarm.Take(); seen.Connections < size || seen.Failures > 0 {
		t.Errorf("figures = %+v", seen)
	}
}

func TestWhoIsStalledHearsNothingUntilItIsNot(t *testing.T) {
	w := newWorld(t)
	w.serve("a: 1\n")
	round := w.swarm.Begin(sim.Updated, size)
	w.run()
	w.done(round)
	w.swarm.Stall(2)
	near, all := w.swarm.Begin(sim.Updated, size-2), w.swarm.Begin(sim.Updated, size)
	w.serve("a: 2\n")
	w.done(near)
	heard := w.swarm.Begin(sim.Polled, size)
	for range 3 { // time enough for those that are stalled, however busy the machine is
		w.done(w.swarm.Begin(sim.Polled, size-2))
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if _, missing := w.swarm.Wait(now, heard); missing != 2 {
		t.Errorf("%d agents do not hear the hub, want 2", missing)
	}
	w.swarm.Resume()
	w.done(all)
}

func TestASlowLineTakesItsTime(t *testing.T) {
	w := newWorld(t)
	w.serve("a: 1\n")
	w.swarm.Slow(1, 8<<10)
	fast, all := w.swarm.Begin(sim.Updated, size-1), w.swarm.Begin(sim.Updated, size)
	w.run()
	near, far := w.done(fast), w.done(all)
	if far < 100*time.Millisecond { // the others may take longer where the machine is busy
		t.Errorf("the others took %v, the slow one %v", near, far)
	}
}

func TestAnAgentTakesNothingThatIsMeantForAnotherCluster(t *testing.T) {
	w := newWorld(t)
	w.serve("a: 1\n")
	w.mu.Lock()
	w.roots["c1"] = w.roots["c0"]
	w.mu.Unlock()
	w.run()
	var errors []string
	w.eventually("c1 complains", func() bool {
		errors = append(errors, w.swarm.Take().Errors...)
		return slices.ContainsFunc(errors, func(e string) bool {
			return strings.HasPrefix(e, "c1: ") && strings.Contains(e, "the deployments of c0")
		})
	})
}

func TestEachChangeOfHealthIsReportedOfAnotherCluster(t *testing.T) {
	w := newWorld(t)
	w.serve("a: 1\n")
	round := w.swarm.Begin(sim.Updated, size)
	w.run()
	w.done(round)
	ctx, cancel := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	changing.Go(func() { w.swarm.Change(ctx, 200) })
	ill := map[string]bool{}
	w.eventually("every cluster falls ill, and recovers", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for cluster, r := range w.reports {
			if s := r.GetServices()[0]; s.GetPhase() == api.Phase_DEGRADED && s.GetReady() < s.GetObjects() && s.GetMessage() != "" {
				ill[cluster] = true
			} else if ill[cluster] && s.GetPhase() == api.Phase_HEALTHY && s.GetReady() == s.GetObjects() && s.GetMessage() == "" {
				ill[cluster+" again well"] = true
			}
		}
		return len(ill) == 2*size
	})
	cancel()
	changing.Wait()
	var turns, reports int64
	w.eventually("all of them are counted", func() bool { // by their agents, which the hub's answer reaches later
		seen := w.swarm.Take()
		turns, reports = turns+seen.Turns, reports+seen.Reports
		return turns >= 2*size
	})
	if turns > reports {
		t.Errorf("%d turns in %d reports", turns, reports)
	}
}

func TestSomeAgentsKeepTheChannelOpenAndComeBackToItWhenItWasCut(t *testing.T) {
	w := newWorld(t)
	w.serve("a: 1\n")
	w.run()
	open := func() (all []string) {
		for _, c := range w.tunnel.Connections() {
			all = append(all, c.Cluster+" "+c.ID)
		}
		slices.Sort(all)
		return all
	}
	var first []string
	w.eventually("two agents have a channel", func() bool { first = open(); return len(first) == channels })
	if !strings.HasPrefix(first[0], "c0 ") || !strings.HasPrefix(first[1], "c1 ") {
		t.Errorf("channels: %v", first)
	}
	w.swarm.Cut()
	w.eventually("they have another one", func() bool {
		now := open()
		return len(now) == channels && now[0] != first[0] && now[1] != first[1]
	})
}
