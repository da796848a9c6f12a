// Package hubsvc owns the hub: it wires the rooms below it into a process, and turns commits into plans (plan.go).
//
// The rooms know nothing of each other; what one needs of another is handed to it here as a function. Data passes
// through in one direction: gitagent brings commits, the planner makes of the newest one what every cluster should run,
// gateway serves that to agents with bundles from cache, state keeps what they report, view joins both, api shows it.
package hubsvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/cache"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/gitagent"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/state"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/buildinfo"
)

// Options are what a person can set.
type Options struct {
	// Data is the folder for mirrors, bundles and observed state: all of it can be rebuilt.
	Data string
	// Listen is the address for agents and people; TLSCert and TLSKey are PEM files, both or none.
	Listen, TLSCert, TLSKey string
	// URL is how agents reach the hub; empty means what plural.yaml says.
	URL string
	// TokenFile holds the token for people's tools; it is made when it is not there.
	TokenFile string
	// Repo and Branch are the installation repo.
	Repo, Branch string
	// Interval is the wait between two fetches of a repository that asks for none of its own; before jitter.
	Interval time.Duration
	// AllowFile lets repositories lie on this machine's own disk.
	AllowFile bool
	// Terms are what the hub asks of every agent; the budget in it is the fleet's own business, and ignored here.
	Terms gateway.Terms
	// CacheBytes bounds the bundles on disk.
	CacheBytes int64
	Log        *slog.Logger
}

// hub is one replica at work.
type hub struct {
	Options
	repos    *gitagent.Set
	planner  *planner
	state    *state.Store
	bundles  *cache.Cache
	view     *view.View
	registry *prometheus.Registry
}

// Run is the hub. It returns nil when ctx ends and all that it started has.
func Run(ctx context.Context, o Options) (err error) {
	nats, err := natsd.Start(ctx, filepath.Join(o.Data, "nats"))
	if err != nil {
		return err
	}
	defer nats.Close()
	h := &hub{Options: o, registry: prometheus.NewRegistry()}
	h.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if h.state, err = state.Open(ctx, nats.JetStream(), o.Log); err != nil {
		return err
	}
	if err := h.build(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.bundles.Close()) }()
	server, listener, err := h.server(ctx)
	if err != nil {
		return err
	}
	return h.run(ctx, server, listener)
}

// build makes the rooms that keep something on disk, and what joins them.
func (h *hub) build() (err error) {
	h.repos, err = gitagent.NewSet(gitagent.SetOptions{
		Dir: filepath.Join(h.Data, "mirrors"), Interval: h.Interval, AllowFile: h.AllowFile, Log: h.Log,
	})
	if err != nil {
		return err
	}
	h.planner = newPlanner(h.Options, h.repos)
	h.bundles, err = cache.New(cache.Options{
		Dir: filepath.Join(h.Data, "bundles"), MaxBytes: h.CacheBytes, Pack: h.planner.pack, Log: h.Log,
	})
	if err != nil {
		return err
	}
	h.view = &view.View{
		Desired: func() *view.Desired { return &h.planner.plan().desired },
		Report:  h.state.Report, Sources: h.sources, Now: time.Now,
		StaleAfter: max(3*h.Terms.ReportInterval, 10*time.Second), Version: buildinfo.Version(),
	}
	registerMetrics(h.registry, h)
	return nil
}

func (h *hub) run(ctx context.Context, server *http.Server, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.repos.Run(ctx) })
	group.Go(func() error { return h.planner.run(ctx) })
	group.Go(func() error { return h.state.Run(ctx) })
	group.Go(func() error { return h.forgetLeavers(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		return server.Shutdown(draining)
	})
	group.Go(func() error {
		serve := server.Serve
		if h.TLSCert != "" {
			serve = func(l net.Listener) error { return server.ServeTLS(l, h.TLSCert, h.TLSKey) }
		}
		if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	h.Log.Info("hub started", "listen", listener.Addr().String(), "repo", gitagent.Redact(h.Repo), "version", buildinfo.Version())
	if err := group.Wait(); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// drain is how long requests under way may take after the hub was asked to stop.
const drain = 5 * time.Second

// server builds the one port for agents and people.
func (h *hub) server(ctx context.Context) (*http.Server, net.Listener, error) {
	people, err := auth.NewPeople(h.TokenFile)
	if err != nil {
		return nil, nil, err
	}
	agents := &auth.Agents{HubURL: h.planner.url, Key: h.planner.key, Now: time.Now}
	mux := http.NewServeMux()
	gateway.New(gateway.Options{
		Cluster: agents.Cluster, Root: h.planner.root, Report: h.state.Put, Now: time.Now, Log: h.Log, Metrics: h.registry,
		Open: h.openBundle,
	}).Routes(mux)
	(&api.API{View: h.view, Sources: h.sources, Check: people.Check}).Routes(mux)
	h.operatorRoutes(mux, people.Check)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("listen: %w", err)
	}
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       5 * time.Minute, // agents keep their connection: a new one costs more than a poll
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug),
	}, listener, nil
}

func (h *hub) openBundle(ctx context.Context, key string) (gateway.Bundle, error) {
	bundle, err := h.bundles.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	return bundle, nil
}

// forgetLeavers drops what is known of clusters whose file has gone.
func (h *hub) forgetLeavers(ctx context.Context) error {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		desired := &h.planner.plan().desired
		if desired.Served.ID == "" {
			continue
		}
		for _, cluster := range h.state.Clusters() {
			if _, ok := desired.Fleet.Cluster(cluster); ok {
				continue
			}
			if err := h.state.Forget(ctx, cluster); err != nil {
				h.Log.Warn("cluster that left cannot be forgotten", "cluster", cluster, "error", err)
			}
		}
	}
}

// sources lists the installation repo as ".", then the fleet's sources.
func (h *hub) sources() []v1.Source {
	desired := &h.planner.plan().desired
	list := []v1.Source{h.source(".", h.Repo, h.Branch)}
	for i := range desired.Fleet.Sources {
		s := &desired.Fleet.Sources[i]
		if s.Spec.Git != nil {
			list = append(list, h.source(s.Metadata.Name, s.Spec.Git.URL, s.Spec.Git.Ref))
		}
	}
	return list
}

func (h *hub) source(name, url, ref string) v1.Source {
	status := h.repos.Status(url)
	out := v1.Source{
		Name: name, Kind: "git", URL: status.URL, Ref: ref, Commit: status.Commits[ref],
		Age: status.Age.Seconds(), Fetches: status.Attempts, Error: status.LastError,
	}
	if !status.LastFetch.IsZero() {
		at := status.LastFetch.UTC()
		out.LastFetch = &at
	}
	return out
}
