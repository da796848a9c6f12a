// Package agent owns one cluster's agent: it wires the rooms below it into a process.
//
// It knows of no room of the hub, and of no command line. Everything that a person can set is a field of Options;
// Run returns when all that it started has ended.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/agent/tail"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/logring"
	"github.com/pluralsh/plural/internal/privacy"
)

// Options are what a person can set.
type Options struct {
	// Kube reaches the agent's own cluster.
	Kube *rest.Config
	// Dir is where the agent keeps what survives its restart. No secret is written there.
	Dir string
	// RenderCommand starts a render in a child process: the binary itself and "render-child".
	RenderCommand []string
	// Listen is the address of /healthz, /readyz and /metrics; empty for none.
	Listen string
	// HealthCommand starts the child process in which the Lua of health rules runs: the binary itself and "health-child".
	HealthCommand []string
	// Plugins is a folder of programs that render what this one cannot; empty for none.
	Plugins string
	// PluginDigests are the SHA-256 of those programs, in hex, by name: with any, no other program renders.
	PluginDigests map[string]string
	// Concurrency is how many services are worked on at once, 2 at least; 0 means DefaultConcurrency.
	Concurrency int
	// PeopleTokenFile is the token of the account that people's requests are made with: it needs to be allowed to impersonate
	// them, and nothing else. Empty: the agent's own account.
	PeopleTokenFile string
	// PeopleAccount is that account itself, in plural-system, whose tokens the agent asks for; it goes before PeopleTokenFile.
	PeopleAccount string
	Log           *slog.Logger

	// ring is the newest of what Log was told, and boot names this process.
	ring *logring.Ring
	boot string
}

// DefaultConcurrency is how many services are worked on at once, where nobody says. Each but one may have a render's process beside it.
const DefaultConcurrency = 5

// patience bounds one question to the API server.
const patience = 30 * time.Second

// warm is how long a child that has rendered waits for the next service: a first rollout has many, a quiet cluster none.
const warm = 2 * time.Second

// Run is the agent. It returns nil when ctx ends. The process keeps its memory to itself from then on: it holds secrets.
func Run(ctx context.Context, o Options) error {
	if err := privacy.Close(); err != nil {
		return err
	}
	o.ring, o.boot = logring.New(tail.Lines), tunnelapi.NewBoot(time.Now())
	o.Log = slog.New(o.ring.Handler(o.Log.Handler()))
	keep, err := store.Open(o.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = keep.Close() }()
	var ready readiness
	group, working := errgroup.WithContext(ctx)
	if o.Listen != "" {
		if err := serve(working, group, o, &ready); err != nil {
			return err
		}
	}
	group.Go(func() error { return work(working, o, keep, &ready) })
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// readiness says what the agent has heard from since it started. It is ready once that was its hub: one that cannot talk to it
// does not take the place of one that can. What it has heard it does not forget, and its work waits for none of it: without its
// hub it keeps the cluster as it was told last.
type readiness struct {
	cluster, hub atomic.Bool
	// blank says that it was told nothing that it knows of.
	blank atomic.Bool
}

// missing is what the agent waits for, or "".
func (r *readiness) missing() string {
	switch {
	case r.hub.Load():
		return ""
	case r.cluster.Load() && r.blank.Load():
		return "waiting for the hub to answer: the data folder was empty when the agent started, so nothing is healed until then"
	case r.cluster.Load():
		return "waiting for the hub to answer; what it said last is healed meanwhile"
	}
	return "waiting for the cluster's API server"
}

// begin makes the data folder that of the registration, and notes whether the agent knows what it could keep the cluster by.
func begin(keep *store.Store, r identity.Registration, ready *readiness, log *slog.Logger) error {
	forgot, err := keep.Own(r.Cluster + " of " + cmp.Or(r.Repository, r.HubURL))
	if err != nil {
		return err
	}
	if forgot {
		log.Info("the data folder was that of another fleet or cluster: what it held is forgotten")
	}
	poll, _, _, unread := keep.Poll()
	good, unreadable := keep.Good()
	blank := poll == nil && len(good) == 0 && unread == nil && unreadable == nil
	if ready.blank.Store(blank); blank {
		log.Info("the data folder is empty: nothing is healed before the hub has answered")
	}
	return nil
}

// work keeps the cluster under one registration after another.
func work(ctx context.Context, o Options, keep *store.Store, ready *readiness) error {
	for ctx.Err() == nil {
		s, err := connect(ctx, o, keep, ready)
		if err != nil {
			return err
		}
		if err := s.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// retry asks until there is an answer: an agent that starts before its API server waits for it.
func retry[T any](ctx context.Context, log *slog.Logger, ask func(context.Context) (T, error)) (T, error) {
	said := ""
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		asking, done := context.WithTimeout(ctx, patience)
		answer, err := ask(asking)
		done()
		if err == nil {
			return answer, nil
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			log.Warn("cluster is not usable yet", "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return answer, ctx.Err()
		case <-timer.C:
		}
	}
}

// serve answers health checks beside the agent's work.
func serve(ctx context.Context, group *errgroup.Group, o Options, ready *readiness) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	server := &http.Server{Handler: healthHandler(ready), ReadHeaderTimeout: 5 * time.Second}
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve health checks: %w", err)
		}
		return nil
	})
	return nil
}

func healthHandler(ready *readiness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if missing := ready.missing(); missing != "" {
			http.Error(w, missing, http.StatusServiceUnavailable)
		}
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}
