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
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/cache"
	"github.com/pluralsh/plural/hubsvc/certs"
	"github.com/pluralsh/plural/hubsvc/edition"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/gitagent"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/signing"
	"github.com/pluralsh/plural/hubsvc/state"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/buildinfo"
	"github.com/pluralsh/plural/internal/halfopen"
	"github.com/pluralsh/plural/internal/logring"
	"github.com/pluralsh/plural/workspace/outbound"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Bounds of Options.MaxFileBytes. No file can have more than all of a bundle.
const (
	DefaultMaxFile = snapshot.MaxBlob
	LeastMaxFile   = 1 << 20
	MostMaxFile    = 128 << 20
)

// Options are what a person can set.
type Options struct {
	// Data is the folder for mirrors, bundles and observed state, all of which can be rebuilt, and for the audit log and what
	// sinks write to files, which cannot. One hub at a time may use it.
	Data string
	// Listen is the address for agents and people; TLSCert and TLSKey are PEM files, both or none.
	Listen, TLSCert, TLSKey string
	// URL is how agents reach the hub; empty means what plural.yaml says.
	URL string
	// TokenFile holds the operator's token; it is made when it is not there, and read again when it changes.
	TokenFile string
	// Repo and Branch are the installation repo; RepoCredentials open it, and RepoKeys are the public keys by which its
	// commits are believed. None: all are.
	Repo, Branch    string
	RepoCredentials outbound.Credentials
	RepoKeys        [][]byte
	// RepoDescendsFrom is a commit that the branch has to come out of, empty for none, where there are keys. RepoFollowRewinds
	// lets the branch leave what was verified of it.
	RepoDescendsFrom  string
	RepoFollowRewinds bool
	// Identities open what is sealed for the hub: the credentials of sources. Nil means that it has none.
	Identities func() ([]age.Identity, error)
	// Edits let the hub commit what people ask for; nil: it never writes to the installation repo.
	Edits *EditOptions
	// AgentImage is what clusters that join by a token start their agents from; empty: the released one of this version.
	AgentImage string
	// HookSecret signs the calls of git hosts; empty means that only the hub's token opens the hooks.
	HookSecret []byte
	// Cluster makes this process one replica of several; nil means that it is the only one.
	Cluster *ClusterOptions
	// Interval is the wait between two fetches of a repository that asks for none of its own; before jitter.
	Interval time.Duration
	// AllowFile lets repositories lie on this machine's own disk.
	AllowFile bool
	// AllowLoopback lets sources and sinks be servers of this machine.
	AllowLoopback bool
	// Terms are what the hub asks of every agent; the budget in it is the fleet's own business, and ignored here.
	Terms gateway.Terms
	// DrainGrace is how long connections of people into clusters may go on after the hub was asked to stop; zero means half a
	// minute.
	DrainGrace time.Duration
	// DrainDelay is how long a hub that was asked to stop still answers, not ready any more, so that load balancers notice.
	DrainDelay time.Duration
	// CacheBytes bounds the bundles on disk.
	CacheBytes int64
	// MaxFileBytes is how large a file of a repository may be that a service reads; larger ones are not fetched. Zero means
	// DefaultMaxFile.
	MaxFileBytes int64
	// Log must be set.
	Log *slog.Logger
}

// hub is one replica at work.
type hub struct {
	Options
	replica  replica
	repos    *gitagent.Set
	editions *edition.Store
	planner  *planner
	state    *state.Store
	bundles  *cache.Cache
	view     *view.View
	people   *auth.People
	// kubeKeys sign tokens for single clusters.
	kubeKeys *signing.Ring
	agents   *auth.Agents
	refusals *refusals
	notices  notices
	reaching reaching
	upgrades *upgrading
	nats     *natsd.Server
	registry *prometheus.Registry
	// signatures are those of the installation repo that are believed; nil means that nobody looks.
	signatures *signatures
	// certs are the certificates that this replica shows: to everybody, to the other replicas. Nil without.
	certs, peerCerts *certs.Pair
	// ring is the newest of what Log was told.
	ring *logring.Ring
	// left is closed when this replica is about to end, parted when nothing goes over its connections to clusters any more.
	left, parted chan struct{}
}

// Run is the hub. It returns nil when ctx ends and all that it started has. An address that is taken, a certificate that
// cannot be read and a data folder that another hub uses are errors before anything is opened.
func Run(ctx context.Context, o Options) (err error) {
	collectOften()
	ring := logring.New(logLines)
	o.Log = slog.New(ring.Handler(o.Log.Handler()))
	h := &hub{Options: o, registry: prometheus.NewRegistry(), replica: replica{options: o.Cluster}, ring: ring}
	h.left, h.parted = make(chan struct{}), make(chan struct{})
	doors, err := h.open(ctx)
	if err != nil {
		return err
	}
	defer doors.close()
	unlock, err := lock(o.Data)
	if err != nil {
		return err
	}
	defer unlock()
	nats, err := natsd.Start(ctx, o.natsOptions(h.replica.tls))
	if err != nil {
		return err
	}
	defer nats.Close()
	h.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := h.build(nats); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.bundles.Close()) }()
	server, err := h.server(doors.certificates)
	if err != nil {
		return err
	}
	return h.run(ctx, server, doors)
}

// doors are the addresses that a hub listens on.
type doors struct {
	main, peers  net.Listener // peers is nil for a hub that is alone
	certificates *tls.Config
}

func (d *doors) close() {
	for _, l := range []net.Listener{d.main, d.peers} {
		if l != nil {
			_ = l.Close() // closed already, once its server has run
		}
	}
}

// open takes the addresses before anything else: what is wrong with them is the commonest mistake.
func (h *hub) open(ctx context.Context) (d *doors, err error) {
	d = new(doors)
	if h.certs, d.certificates, err = h.certificates(); err != nil {
		return nil, err
	}
	if c := h.Cluster; c != nil {
		if err := c.validate(); err != nil {
			return nil, err
		}
		if h.peerCerts, h.replica.tls, err = c.tlsConfig(h.Log); err != nil {
			return nil, err
		}
	}
	var config net.ListenConfig
	if d.main, err = config.Listen(ctx, "tcp", h.Listen); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if h.Cluster == nil {
		return d, nil
	}
	if d.peers, err = config.Listen(ctx, "tcp", h.Cluster.PeerListen); err != nil {
		d.close()
		return nil, fmt.Errorf("listen for other replicas: %w", err)
	}
	return d, nil
}

// certificates are what the port is served with; nil means plain HTTP.
func (o *Options) certificates() (*certs.Pair, *tls.Config, error) {
	if o.TLSCert == "" && o.TLSKey == "" {
		return nil, nil, nil
	}
	pair, err := certs.Open(certs.Options{Name: "hub", Cert: o.TLSCert, Key: o.TLSKey, Now: time.Now, Log: o.Log})
	if err != nil {
		return nil, nil, err
	}
	return pair, &tls.Config{GetCertificate: pair.Server, MinVersion: tls.VersionTLS13}, nil
}

// build makes the rooms that keep something, and what joins them.
func (h *hub) build(nats *natsd.Server) (err error) {
	h.nats = nats
	agreed := edition.Options{File: filepath.Join(h.Data, "edition.json"), Log: h.Log}
	agents := gitagent.SetOptions{
		Dir: filepath.Join(h.Data, "mirrors"), Interval: h.Interval, MaxFile: h.MaxFileBytes, Log: h.Log,
		Role: h.replica.role, News: h.replica.news, Damaged: h.mirrorDamaged,
	}
	if h.Cluster != nil {
		h.join(nats)
		agreed.JetStream, agreed.Replicas = nats.JetStream(), nats.Replicas()
		agents.Owner, agents.Warm = h.replica.following, h.replica.warming
	}
	if h.repos, err = gitagent.NewSet(agents); err != nil {
		return err
	}
	h.replica.repos = h.repos
	h.editions = edition.Open(agreed)
	h.state, err = state.Open(state.Options{
		JetStream: nats.JetStream(), Replicas: nats.Replicas(), Self: h.replica.name(), Log: h.Log,
		Changed: func(cluster string, repeated bool) { h.view.Reported(cluster, repeated) }, // nothing changes before run
		Beat:    min(state.DefaultBeat, h.staleAfter()/3),                                   // or others take its clusters for silent
	})
	if err != nil {
		return err
	}
	if h.signatures, err = newSignatures(&h.Options, h.look); err != nil {
		return err
	}
	h.planner = newPlanner(h.Options, h.repos, h.editions, h.edits, h.signatures)
	h.bundles, err = cache.New(cache.Options{
		Dir: filepath.Join(h.Data, "bundles"), MaxBytes: h.CacheBytes, Pack: h.planner.pack, Peer: h.elsewhere, Log: h.Log,
		Metrics: h.registry,
	})
	if err != nil {
		return err
	}
	h.view = view.New(view.Options{
		Desired: func() *view.Desired { return &h.planner.plan().desired },
		Report:  h.state.Report, Received: h.state.Received, Sources: h.sources, Now: time.Now,
		StaleAfter: h.staleAfter(), Version: buildinfo.Version(), Event: h.tell,
		Connected: func(cluster string) bool { return h.reaching.presence.Connected(cluster) }, // nothing is asked before reach
		Upgrades:  func() []v1.Upgrade { return h.upgrades.all() },
		Notices:   func() []v1.Notice { return h.notices.newest(time.Now()) },
	})
	h.upgrades = h.newUpgrading(nats)
	h.kubeKeys = signing.New(signing.Options{
		JetStream: nats.JetStream(), Replicas: nats.Replicas(), Purpose: "kube", Lifetime: auth.KubeValidity, Now: time.Now, Log: h.Log,
	})
	h.people, err = auth.NewPeople(auth.Options{
		File: h.TokenFile, Users: h.planner.person, Keys: h.kubeKeys, Now: time.Now, Replaced: h.tokenReplaced, Log: h.Log,
	})
	if err != nil {
		return err
	}
	h.agents = auth.NewAgents(h.planner.url, h.planner.key, time.Now)
	h.refusals = newRefusals(h.registry)
	if err := h.reach(); err != nil {
		return err
	}
	h.planner.moved = h.moved
	registerMetrics(h.registry, h)
	return nil
}

// staleAfter is how long a cluster may be silent before what is known of it counts as old.
func (h *hub) staleAfter() time.Duration { return max(3*h.Terms.ReportInterval, 10*time.Second) }

// edits says whether this replica publishes what is served.
func (h *hub) edits() bool { return h.replica.owns(h.planner.upstreams.own.ID) }

// elsewhere fetches a bundle from the replica that owns the upstream behind it.
func (h *hub) elsewhere(ctx context.Context, key string) (io.ReadCloser, error) {
	if h.replica.shard == nil {
		return nil, fs.ErrNotExist
	}
	return h.replica.bundle(ctx, h.planner.plan().recipes[key].upstream, key)
}

// run serves until ctx ends or a part fails, and waits for all parts.
func (h *hub) run(ctx context.Context, server *http.Server, d *doors) error {
	group, ctx := errgroup.WithContext(ctx)
	closed, end := context.WithCancel(context.WithoutCancel(ctx)) // when nobody is served any more
	defer end()
	if d.peers != nil {
		if err := h.runReplica(ctx, group, d.peers); err != nil {
			return err
		}
	}
	h.runReaching(ctx, closed, group)
	group.Go(func() error { return h.repos.Run(ctx) })
	group.Go(func() error { return h.planner.run(ctx) })
	group.Go(func() error { return h.editions.Run(ctx) })
	group.Go(func() error { return h.state.Run(ctx) })
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-h.nats.Anew():
				h.state.Rewrite()
			}
		}
	})
	group.Go(func() error { return h.view.Run(ctx) })
	group.Go(func() error { return h.upgrades.run(ctx) })
	group.Go(func() error { return h.kubeKeys.Run(ctx) })
	group.Go(func() error { return h.people.Run(ctx) })
	group.Go(func() error { return h.forgetLeavers(ctx) })
	group.Go(func() error { return h.serve(server, d.main) })
	group.Go(func() error {
		defer end()
		<-ctx.Done()
		ending := context.WithoutCancel(ctx)
		close(h.left)
		server.SetKeepAlivesEnabled(false) // agents come back on another connection, and find another replica
		h.leave(ending)
		<-time.After(h.DrainDelay)
		h.part(ending)
		close(h.parted)
		return h.drain(ending, server)
	})
	h.Log.Info("hub started", "listen", d.main.Addr().String(), "repo", h.planner.upstreams.own.Name, "version", buildinfo.Version())
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

// drainTime is how long requests under way may take after the hub was asked to stop. The server waits five seconds for
// connections on which nothing was asked yet.
const drainTime = 15 * time.Second

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
	mux := http.NewServeMux()
	gateway.New(gateway.Options{
		Cluster: h.agentOf, Root: h.planner.root, Edition: h.planner.edition,
		Report: h.takeReport, Excess: h.exceeded, Now: time.Now, Log: h.Log, Metrics: h.registry,
		Open: func(ctx context.Context, key string) (io.ReadSeekCloser, error) {
			return seekable(h.bundles.Open(ctx, key))
		},
	}).Routes(mux)
	document, err := openapi.Document(buildinfo.Version(), apiRoutes()...)
	if err != nil {
		return nil, err
	}
	api.New(h.apiOptions(document)).Routes(mux)
	h.me().Routes(mux)
	h.reaching.live.Routes(mux)
	h.reaching.channels.Routes(mux)
	h.door().Routes(mux)
	h.toolRoutes(mux)
	return &http.Server{
		Handler:           h.front(mux),
		TLSConfig:         certificates,
		ConnState:         halfopen.New(maxHalfOpen).ConnState,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 64},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       5 * time.Minute, // agents keep their connection: a new one costs more than a poll
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug),
	}, nil
}

// maxHalfOpen bounds the connections from one address over which nobody has asked anything yet. All of a fleet may come from
// one, that of a load balancer, and at once.
const maxHalfOpen = 16 << 10

// seekable keeps a nil bundle from becoming an interface that is not nil.
func seekable(bundle *cache.Object, err error) (io.ReadSeekCloser, error) {
	if err != nil {
		return nil, err
	}
	return bundle.ReadSeekCloser, nil // an *os.File as such: the kernel sends it by itself where there is no TLS
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
