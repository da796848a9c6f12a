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
	"golang.org/x/sys/unix"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/link"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/agent/sync"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/internal/buildinfo"
	"github.com/pluralsh/plural/internal/poll"
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
	// Heal is how often a healthy service is applied again, to heal what drifted.
	Heal time.Duration
	// Watch is how often the agent looks whether its cluster was registered anew; 15 s when zero.
	Watch time.Duration
	Log   *slog.Logger
}

const (
	// passes is how many services are worked on at once. Each may have a render's process beside it.
	passes = 4
	// firstPoll is the poll interval until the hub says another.
	firstPoll    = 30 * time.Second
	defaultWatch = 15 * time.Second
	// patience bounds one question to the API server.
	patience = 30 * time.Second
)

// Run is the agent. It returns nil when ctx ends. The process writes no core from then on: its memory holds secrets.
func Run(ctx context.Context, o Options) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	keep, err := store.Open(o.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = keep.Close() }()
	var ready atomic.Bool
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

// work keeps the cluster under one registration after another.
func work(ctx context.Context, o Options, keep *store.Store, ready *atomic.Bool) error {
	for ctx.Err() == nil {
		s, err := connect(ctx, o, keep)
		if err != nil {
			return err
		}
		ready.Store(true)
		if err := s.run(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// session is the agent's work as long as its registration stands.
type session struct {
	client       dynamic.Interface
	registration identity.Registration
	syncer       *sync.Syncer
}

// connect waits for the cluster's API server, and learns from it who this agent is.
func connect(ctx context.Context, o Options, keep *store.Store) (*session, error) {
	client, err := dynamic.NewForConfig(o.Kube)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	registration, err := retry(ctx, o.Log, func(ctx context.Context) (identity.Registration, error) { return identity.Read(ctx, client) })
	if err != nil {
		return nil, err
	}
	facts, err := retry(ctx, o.Log, func(context.Context) (facts, error) { return lookAround(o.Kube) })
	if err != nil {
		return nil, err
	}
	signer := token.NewSigner(registration.Identity.Auth(), registration.Cluster, registration.HubURL, time.Now)
	hub, err := link.New(link.Options{
		URL: registration.HubURL, CA: registration.HubCA, Token: signer.Token, UserAgent: "plural-agent/" + buildinfo.Version(),
	})
	if err != nil {
		return nil, err
	}
	engine, err := apply.New(o.Kube, apply.Options{})
	if err != nil {
		return nil, err
	}
	cluster := unseal.Cluster{Name: registration.Cluster, Repository: registration.Repository, Identity: registration.Identity.Opener()}
	o.Log.Info("agent started", "cluster", registration.Cluster, "hub", registration.HubURL, "kubernetes", facts.version, "version", buildinfo.Version())
	return &session{client, registration, sync.New(sync.Options{
		Hub: hub, Store: keep, Renderer: &render.Renderer{Command: o.RenderCommand}, Engine: engine, Cluster: cluster, Log: o.Log,
		Heal: o.Heal, Passes: passes, PollInterval: firstPoll,
		AgentVersion: buildinfo.Version(), KubeVersion: facts.version, APIVersions: facts.apis,
	})}, nil
}

// run works until ctx ends or the cluster is registered anew: the old keys are good for nothing then.
func (s *session) run(ctx context.Context, o Options) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() error { return s.syncer.Run(ctx) })
	group.Go(func() error {
		watch := poll.Loop{Interval: cmp.Or(o.Watch, defaultWatch), Jitter: 0.2, MaxBackoff: time.Minute}
		_ = watch.Run(ctx, nil, func(ctx context.Context) error {
			asking, done := context.WithTimeout(ctx, patience)
			defer done()
			now, err := identity.Read(asking, s.client)
			if err != nil || s.registration.Equal(now) {
				return err // a registration that cannot be read is not known to have changed
			}
			o.Log.Info("cluster was registered anew", "cluster", now.Cluster, "hub", now.HubURL)
			cancel()
			return nil
		}) // it ends with its context alone
		return nil
	})
	return group.Wait()
}

// facts are what charts may ask of a cluster.
type facts struct {
	version string
	apis    []string
}

func lookAround(config *rest.Config) (facts, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return facts{}, fmt.Errorf("connect to cluster: %w", err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		return facts{}, fmt.Errorf("ask cluster for its version: %w", err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return facts{}, fmt.Errorf("ask cluster for its kinds: %w", err)
	}
	out := facts{version: version.GitVersion}
	for _, list := range lists {
		out.apis = append(out.apis, list.GroupVersion)
		for i := range list.APIResources {
			out.apis = append(out.apis, list.GroupVersion+"/"+list.APIResources[i].Kind)
		}
	}
	return out, nil
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
func serve(ctx context.Context, group *errgroup.Group, o Options, ready *atomic.Bool) error {
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

func healthHandler(ready *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "waiting for the cluster's API server", http.StatusServiceUnavailable)
		}
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}
