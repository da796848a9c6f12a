// Package hubsvc owns the hub's wiring.
//
// Data passes through in one direction: mirrors bring commits, the planner makes of the newest good one what every
// cluster should run, gateway serves that to agents with bundles from cache, state keeps what they report, view joins both, api
// shows it. What a room needs of another is handed to it here.
package hubsvc

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	agentapi "github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/hubsvc/acts"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/cache"
	"github.com/pluralsh/plural/hubsvc/certs"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/events"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/history"
	"github.com/pluralsh/plural/hubsvc/idp"
	"github.com/pluralsh/plural/hubsvc/listen"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/notify"
	"github.com/pluralsh/plural/hubsvc/oidc"
	"github.com/pluralsh/plural/hubsvc/onetime"
	"github.com/pluralsh/plural/hubsvc/planner"
	"github.com/pluralsh/plural/hubsvc/replica"
	"github.com/pluralsh/plural/hubsvc/revision"
	"github.com/pluralsh/plural/hubsvc/signin"
	"github.com/pluralsh/plural/hubsvc/signing"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/hubsvc/state"
	"github.com/pluralsh/plural/hubsvc/status"
	"github.com/pluralsh/plural/hubsvc/upgrader"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/hubsvc/web"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/buildinfo"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/logring"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/unread"
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
	RepoCredentials httpclient.Credentials
	RepoKeys        [][]byte
	// RepoDescendsFrom is a commit that the branch has to come out of, empty for none, where there are keys. RepoFollowRewinds
	// lets the branch leave what was verified of it.
	RepoDescendsFrom  string
	RepoFollowRewinds bool
	// Identities open what is sealed for the hub: the credentials of sources. Nil means that it has none.
	Identities func() ([]age.Identity, error)
	// Edits let the hub commit what people ask for; nil: it never writes to the installation repo.
	Edits *committer.Edits
	// AgentImage is what clusters that join by a token start their agents from; empty: the released one of this version.
	AgentImage string
	// HookSecret signs the calls of git hosts; empty means that only the hub's token opens the hooks.
	HookSecret []byte
	// Cluster makes this process one replica of several; nil means that it is the only one.
	Cluster *replica.Options
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
	replica   *replica.Replica
	sources   *sources.Set
	mirrors   *gitpoller.Set
	revisions *revision.Store
	planner   *planner.Planner
	committer *committer.Committer
	state     *state.Store
	bundles   *cache.Cache
	view      *view.View
	people    *auth.People
	// kubeKeys sign tokens for single clusters, sessionKeys sessions of people.
	kubeKeys, sessionKeys *signing.Ring
	// loginKeys seal what a browser's login remembers, and what applications are given.
	loginKeys *signing.Ring
	// once knows which of these were used.
	once      *onetime.Record
	agents    *auth.Agents
	acts      *acts.Recorder
	events    *events.Events
	history   *history.History
	reaching  reaching
	upgrader  *upgrader.Upgrader
	status    *status.Status
	nats      *natsd.Server
	registry  *prometheus.Registry
	listeners *listen.Listeners
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
	h := newHub(o, ring)
	listeners, err := h.open(ctx)
	if err != nil {
		return err
	}
	defer listeners.Close()
	unlock, err := lock(o.Data)
	if err != nil {
		return err
	}
	defer unlock()
	nats, err := natsd.Start(ctx, h.replica.NATS(filepath.Join(o.Data, "nats"), o.Log))
	if err != nil {
		return err
	}
	defer nats.Close()
	h.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := h.build(nats); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.bundles.Close()) }()
	server, err := h.server(listeners.TLS())
	if err != nil {
		return err
	}
	return h.run(ctx, server, listeners)
}

func newHub(o Options, ring *logring.Ring) *hub {
	return &hub{
		Options: o, registry: prometheus.NewRegistry(), ring: ring, left: make(chan struct{}), parted: make(chan struct{}),
	}
}

// open reads certificates and takes addresses before anything else: what is wrong with them is the commonest mistake.
func (h *hub) open(ctx context.Context) (_ *listen.Listeners, err error) {
	if h.replica, err = replica.New(h.Cluster, h.Log); err != nil {
		return nil, err
	}
	o := listen.Options{Address: h.Listen, Cert: h.TLSCert, Key: h.TLSKey, Log: h.Log}
	if !h.replica.Alone() {
		o.Peers = h.Cluster.PeerListen
	}
	h.listeners, err = listen.Open(ctx, o)
	return h.listeners, err
}

// build makes the rooms that keep something, and what joins them.
func (h *hub) build(nats *natsd.Server) (err error) {
	h.nats = nats
	h.replica.Join(nats, h.Log, h.registry)
	if err := h.buildPlanning(); err != nil {
		return err
	}
	h.state, err = state.Open(state.Options{
		JetStream: nats.JetStream(), Replicas: nats.Replicas(), Self: h.replica.Name(), Log: h.Log,
		Changed: func(cluster string, repeated bool) { h.view.Reported(cluster, repeated) }, // nothing changes before run
		Beat:    min(state.DefaultBeat, h.staleAfter()/3),                                   // or others take its clusters for silent
	})
	if err != nil {
		return err
	}
	h.bundles, err = cache.New(cache.Options{
		Dir: filepath.Join(h.Data, "bundles"), MaxBytes: h.CacheBytes, Pack: h.planner.Pack, Peer: h.elsewhere, Log: h.Log,
		Metrics: h.registry,
	})
	if err != nil {
		return err
	}
	h.view = view.New(view.Options{
		Desired: func() *view.Desired { return &h.planner.Plan().Desired },
		Report:  h.state.Report, Received: h.state.Received, Sources: func() []v1.Source { return h.status.List() }, Now: time.Now,
		StaleAfter: h.staleAfter(), Version: buildinfo.Version(), Event: func(e v1.Event) { h.events.Pass(e) },
		Connected: func(cluster string) bool { return h.reaching.presence.Connected(cluster) }, // nothing is asked before reach
		Upgrades:  func() []v1.Upgrade { return h.upgrader.List() },
		Notices:   func() []v1.Notice { return h.events.Notices.Newest(time.Now()) },
	})
	h.events = events.New(events.Options{
		Conn: h.replica.Conn(), Note: h.view.Note, Tell: func(e notify.Event) { h.reaching.notifier.Note(e) }, Speaks: h.publishes,
		Known: func(cluster string) bool { _, ok := h.planner.Plan().Desired.Fleet.Cluster(cluster); return ok },
		Log:   h.Log, Metrics: h.registry,
	})
	h.upgrader = upgrader.New(upgrader.Options{
		Plan: h.planner.Plan, Sources: h.sources, Mirrors: h.mirrors, Committer: h.committer, View: h.view, Acts: h.publishes,
		Hint: h.hintInstallation, Announce: h.events.Announce, Interval: h.Interval,
		JetStream: nats.JetStream(), Replicas: nats.Replicas(), Log: h.Log, Metrics: h.registry,
	})
	h.history = history.New(history.Options{
		Dir: filepath.Join(h.Data, "history"), Kept: filepath.Join(h.Data, "refused.json"), Sources: h.sources, Branch: h.Branch,
		Plan: h.planner.Plan, Log: h.Log,
	})
	keys := func(purpose string, lifetime time.Duration) *signing.Ring {
		return signing.New(signing.Options{
			JetStream: nats.JetStream(), Replicas: nats.Replicas(), Purpose: purpose, Lifetime: lifetime, Now: time.Now, Log: h.Log,
		})
	}
	h.kubeKeys, h.sessionKeys = keys("kube", auth.KubeValidity), keys("session", auth.SessionValidity)
	h.loginKeys = keys("login", max(signin.Lifetime, idp.Validity))
	h.once = onetime.New(nats.JetStream(), nats.Replicas())
	h.people, err = auth.NewPeople(auth.Options{
		File: h.TokenFile, Directory: h.planner.Directory, URL: h.planner.AgentURL, Keys: h.kubeKeys, SessionKeys: h.sessionKeys,
		Verifier:        oidc.New(oidc.Options{NoLoopback: !h.AllowLoopback, Now: time.Now, Log: h.Log}),
		ServiceAccounts: h.serviceAccounts, Now: time.Now, Replaced: h.events.Notices.TokenReplaced, Log: h.Log,
	})
	if err != nil {
		return err
	}
	h.agents = auth.NewAgents(h.planner.AgentURL, h.planner.Key, time.Now)
	if err := h.reach(); err != nil {
		return err
	}
	shown := slices.DeleteFunc([]*certs.Pair{h.listeners.Certificate, h.replica.Certificates()}, func(p *certs.Pair) bool { return p == nil })
	h.status = status.New(status.Options{
		Planner: h.planner, Sources: h.sources, Mirrors: h.mirrors, Replica: h.replica, View: h.view, People: h.people, State: h.state,
		NATS: nats, Channels: h.reaching.channels, Leaving: h.left, Certificates: shown, Registry: h.registry, Log: h.Log,
	})
	return nil
}

// buildPlanning makes the rooms between the installation repo and what every cluster should run.
func (h *hub) buildPlanning() (err error) {
	h.committer, err = committer.New(committer.Options{
		Repo: h.Repo, Branch: h.Branch, Edits: h.Edits, Keys: h.RepoKeys, Dir: filepath.Join(h.Data, "edits"),
		Waiting: func(service string) map[string]bool { return h.view.Waiting(service) },
		Judge: func(ctx context.Context, next *snapshot.Snapshot) []v1.Problem {
			if h.MaxFileBytes > 0 {
				next.Limit(h.MaxFileBytes)
			}
			return h.planner.Judge(ctx, next)
		},
		Unread:    func(next *snapshot.Snapshot, service string) []unread.Name { return h.planner.Unread(next, service) },
		Committed: h.hintInstallation, Log: h.Log,
	})
	if err != nil {
		return err
	}
	wanted := sources.Options{
		Repo: h.Repo, Credentials: h.RepoCredentials, Keys: h.RepoKeys, HubKey: h.committer.PublicKey(), DescendsFrom: h.RepoDescendsFrom,
		FollowRewinds: h.RepoFollowRewinds, Interval: h.Interval, AllowFile: h.AllowFile, AllowLoopback: h.AllowLoopback,
		Identities: h.Identities,
	}
	if len(h.RepoKeys) > 0 {
		wanted.Check = h.committer.Check
	}
	h.sources = sources.New(wanted)
	agreed := revision.Options{File: filepath.Join(h.Data, "edition.json"), Log: h.Log}
	fetched := gitpoller.SetOptions{
		Dir: filepath.Join(h.Data, "mirrors"), Interval: h.Interval, MaxFile: h.MaxFileBytes, Log: h.Log, Role: h.replica.Role,
		News: h.replica.News, Damaged: func(name string, mended bool) { h.events.Notices.MirrorDamaged(name, mended) },
	}
	if !h.replica.Alone() {
		agreed.JetStream, agreed.Replicas = h.nats.JetStream(), h.nats.Replicas()
		fetched.Owner, fetched.Warm = h.replica.Following, h.replica.Warming
	}
	if h.mirrors, err = gitpoller.NewSet(fetched); err != nil {
		return err
	}
	h.replica.Share(h.mirrors)
	h.revisions = revision.Open(agreed)
	h.planner = planner.New(planner.Options{
		URL: h.URL, Branch: h.Branch, Notifications: filepath.Join(h.Data, "notifications"), Terms: h.Terms, Sources: h.sources,
		Mirrors: h.mirrors, Revisions: h.revisions, Publishes: h.publishes, Changed: h.planChanged, Log: h.Log,
	})
	return nil
}

// staleAfter is how long a cluster may be silent before what is known of it counts as old.
func (h *hub) staleAfter() time.Duration { return max(3*h.Terms.ReportInterval, 10*time.Second) }

// publishes says whether this replica decides now what is served.
func (h *hub) publishes() bool { return h.replica.Owns(h.sources.Own().ID) }

// hintInstallation has the installation repo looked at now.
func (h *hub) hintInstallation() { h.replica.Hint(h.sources.Own().ID) }

// elsewhere fetches a bundle from the replica that owns the upstream behind it.
func (h *hub) elsewhere(ctx context.Context, key string) (io.ReadCloser, error) {
	if h.replica.Alone() {
		return nil, fs.ErrNotExist
	}
	return h.replica.Bundle(ctx, h.planner.Plan().Upstream(key), key)
}

// agentOf is the cluster whose agent sent a request. Who is refused is told of.
func (h *hub) agentOf(r *http.Request) (string, error) {
	cluster, err := h.agents.Cluster(r)
	if err != nil {
		h.events.AgentRefused(addrlimit.Sender(r), err)
	}
	return cluster, err
}

// serviceAccounts is what a cluster's agent of today has reported of the tokens of its service accounts.
func (h *hub) serviceAccounts(cluster string) (auth.ServiceAccounts, bool) {
	issuer, received := h.state.TokenIssuer(cluster)
	if key := h.planner.Key(cluster); issuer == nil || key == nil || !key.Equal(ed25519.PublicKey(issuer.GetAgent())) {
		return auth.ServiceAccounts{}, false
	}
	return auth.ServiceAccounts{Issuer: issuer.GetIssuer(), Keys: issuer.GetKeys(), Reported: time.UnixMilli(received)}, true
}

// takeReport takes a cluster's report in.
func (h *hub) takeReport(ctx context.Context, cluster string, report *agentapi.Report) error {
	if report.GetTokenIssuer() != nil {
		report.TokenIssuer.Agent = h.planner.Key(cluster)
	}
	err := h.state.Put(ctx, cluster, report)
	if errors.Is(err, state.ErrLeap) {
		return fmt.Errorf("%w: %w", gateway.ErrLeap, err)
	}
	return err
}

// run serves until ctx ends or a part fails, and waits for all parts.
func (h *hub) run(ctx context.Context, server *http.Server, l *listen.Listeners) error {
	group, ctx := errgroup.WithContext(ctx)
	closed, end := context.WithCancel(context.WithoutCancel(ctx)) // when nobody is served any more
	defer end()
	h.replica.Run(ctx, group, h.planner.Look)
	if l.Peers != nil {
		peers, err := h.replica.Server(h.bundles, h.reaching.audit.ServePeer, h.reaching.channels.PeerHandler())
		if err != nil {
			return err
		}
		group.Go(func() error { return listen.Serve(peers, l.Peers) })
		group.Go(func() error {
			<-ctx.Done()
			<-h.parted // until then others reach clusters by way of this replica
			return listen.Drain(context.WithoutCancel(ctx), peers, h.Log)
		})
	}
	h.runReaching(ctx, closed, group)
	group.Go(func() error { return h.mirrors.Run(ctx) })
	group.Go(func() error { return h.planner.Run(ctx) })
	group.Go(func() error { return h.revisions.Run(ctx) })
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
	group.Go(func() error { return h.upgrader.Run(ctx) })
	group.Go(func() error { return h.kubeKeys.Run(ctx) })
	group.Go(func() error { return h.sessionKeys.Run(ctx) })
	group.Go(func() error { return h.loginKeys.Run(ctx) })
	group.Go(func() error { return h.people.Run(ctx) })
	group.Go(func() error { return h.events.Run(ctx) })
	group.Go(func() error { return h.state.ForgetLeavers(ctx, h.planner.Left) })
	group.Go(func() error { return listen.Serve(server, l.Main) })
	group.Go(func() error {
		defer end()
		<-ctx.Done()
		ending := context.WithoutCancel(ctx)
		close(h.left)
		server.SetKeepAlivesEnabled(false) // agents come back on another connection, and find another replica
		if err := h.replica.Leave(ending); err != nil {
			h.Log.Warn("others take over only when this replica's lease ends", "error", err)
		}
		<-time.After(h.DrainDelay)
		h.part(ending)
		close(h.parted)
		return listen.Drain(ending, server, h.Log)
	})
	h.Log.Info("hub started", "listen", l.Main.Addr().String(), "repo", h.sources.Own().Name, "version", buildinfo.Version())
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// server builds the one port for agents and people.
func (h *hub) server(certificates *tls.Config) (*http.Server, error) {
	mux := http.NewServeMux()
	gateway.New(gateway.Options{
		Cluster: h.agentOf, Root: h.planner.Root, Edition: h.planner.Revision,
		Report: h.takeReport, Excess: h.events.Exceeded, Now: time.Now, Log: h.Log, Metrics: h.registry,
		Open: func(ctx context.Context, key string) (io.ReadSeekCloser, error) {
			return seekable(h.bundles.Open(ctx, key))
		},
	}).Routes(mux)
	document, err := openapi.Document(buildinfo.Version(), apiRoutes()...)
	if err != nil {
		return nil, err
	}
	api.New(h.apiOptions(document)).Routes(mux)
	pages := h.signin()
	h.me(pages).Routes(mux)
	h.auditAPI().Routes(mux)
	h.login().Routes(mux, h.registry)
	pages.Routes(mux)
	if page := web.Open(); page != nil {
		page.Routes(mux)
	} else {
		mux.HandleFunc("GET /{$}", pages.Home)
	}
	h.idp(pages).Routes(mux)
	h.reaching.live.Routes(mux)
	h.reaching.channels.Routes(mux)
	h.door().Routes(mux)
	h.toolRoutes(mux)
	return listen.Server(h.front(mux), certificates, h.Log), nil
}

// seekable keeps a nil bundle from becoming an interface that is not nil.
func seekable(bundle *cache.Object, err error) (io.ReadSeekCloser, error) {
	if err != nil {
		return nil, err
	}
	return bundle.ReadSeekCloser, nil // an *os.File as such: the kernel sends it by itself where there is no TLS
}
