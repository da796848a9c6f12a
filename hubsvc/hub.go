// Package hubsvc owns the hub: the process that its rooms make together.
//
// It refuses to know how a room does its work, or another room: what one needs of another is handed to it here as a
// function. Data passes through in one direction: gitagent brings commits, the planner makes of the newest good one what
// every cluster should run, gateway serves that to agents with bundles from cache, state keeps what they report, view
// joins both, api shows it.
package hubsvc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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
	// Data is the folder for mirrors, bundles and observed state: all of it can be rebuilt. One hub at a time may use it.
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
	// Log must be set.
	Log *slog.Logger
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

// Run is the hub. It returns nil when ctx ends and all that it started has. An address that is taken, a certificate that
// cannot be read and a data folder that another hub uses are errors before anything is opened.
func Run(ctx context.Context, o Options) (err error) {
	certificates, err := o.certificates()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = listener.Close() }() // closed already, once the server has run
	unlock, err := lock(o.Data)
	if err != nil {
		return err
	}
	defer unlock()
	nats, err := natsd.Start(ctx, filepath.Join(o.Data, "nats"), o.Log)
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
	server, err := h.server(certificates)
	if err != nil {
		return err
	}
	return h.run(ctx, server, listener)
}

// certificates are what the port is served with; nil means plain HTTP.
func (o *Options) certificates() (*tls.Config, error) {
	if o.TLSCert == "" && o.TLSKey == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("read certificate %q with key %q: %w", o.TLSCert, o.TLSKey, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, nil
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

// run serves until ctx ends or a part fails, and waits for all parts.
func (h *hub) run(ctx context.Context, server *http.Server, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.repos.Run(ctx) })
	group.Go(func() error { return h.planner.run(ctx) })
	group.Go(func() error { return h.state.Run(ctx) })
	group.Go(func() error { return h.forgetLeavers(ctx) })
	group.Go(func() error { return h.serve(server, listener) })
	group.Go(func() error {
		<-ctx.Done()
		return h.drain(context.WithoutCancel(ctx), server)
	})
	h.Log.Info("hub started", "listen", listener.Addr().String(), "repo", gitagent.Redact(h.Repo), "version", buildinfo.Version())
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (h *hub) serve(server *http.Server, listener net.Listener) error {
	serve := server.Serve
	if server.TLSConfig != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// drainTime is how long requests under way may take after the hub was asked to stop.
const drainTime = 5 * time.Second

// drain lets requests under way end, and cuts off those that do not.
func (h *hub) drain(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	err := server.Shutdown(ctx)
	if err == nil {
		return nil
	}
	h.Log.Warn("requests under way were cut off", "after", drainTime, "error", err)
	if err := server.Close(); err != nil {
		return fmt.Errorf("stop server: %w", err)
	}
	return nil
}

// server builds the one port for agents and people.
func (h *hub) server(certificates *tls.Config) (*http.Server, error) {
	people, err := auth.NewPeople(h.TokenFile)
	if err != nil {
		return nil, err
	}
	agents := auth.NewAgents(h.planner.url, h.planner.key, time.Now)
	mux := http.NewServeMux()
	gateway.New(gateway.Options{
		Cluster: agents.Cluster, Root: h.planner.root, Report: h.state.Put, Now: time.Now, Log: h.Log, Metrics: h.registry,
		Open: h.openBundle,
	}).Routes(mux)
	(&api.API{View: h.view, Sources: h.sources, Check: people.Check}).Routes(mux)
	h.operatorRoutes(mux, people.Check)
	return &http.Server{
		Handler:           mux,
		TLSConfig:         certificates,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 64},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       5 * time.Minute, // agents keep their connection: a new one costs more than a poll
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug),
	}, nil
}

// openBundle keeps a nil bundle from becoming an interface that is not nil.
func (h *hub) openBundle(ctx context.Context, key string) (io.ReadSeekCloser, error) {
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

// sources lists the installation repo as ".", then the fleet's sources by name.
func (h *hub) sources() []v1.Source {
	desired := &h.planner.plan().desired
	own := h.source(".", h.Repo, h.Branch)
	own.Commit = desired.Served.ID // while the newest is refused, it is another
	list := []v1.Source{own}
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
