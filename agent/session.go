package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/events"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/health/lua"
	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/join"
	"github.com/pluralsh/plural/agent/link"
	"github.com/pluralsh/plural/agent/lookup"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/servicetest"
	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/agent/sync"
	"github.com/pluralsh/plural/agent/tokenissuer"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/internal/buildinfo"
)

// firstPoll is the poll interval until the hub says another.
const firstPoll = 30 * time.Second

// userAgent is what the agent calls itself to its hub.
func userAgent() string { return "plural-agent/" + buildinfo.Version() }

// session is the agent's work as long as its registration stands.
type session struct {
	kube         *rest.Config
	client       dynamic.Interface
	registration identity.Registration
	engine       *apply.Engine
	warnings     *events.Reader
	scripts      *lua.Scripts
	renderer     *render.Renderer
	syncer       *sync.Syncer
	can          chan sync.Capabilities // what the cluster can do, when that is something else
	capable      atomic.Pointer[sync.Capabilities]
	issuers      chan *api.TokenIssuer // what verifies the cluster's service-account tokens, when that is something else
	people       *people
	log          *slog.Logger
}

// connect waits for the cluster's API server, and learns from it who this agent is.
func connect(ctx context.Context, o Options, keep *store.Store, ready *readiness) (*session, error) {
	kube := rest.CopyConfig(o.Kube)
	kube.Timeout = 0 // each question has its own; a watch has no end
	client, err := dynamic.NewForConfig(kube)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	joining := join.Options{Client: client, UserAgent: userAgent(), Now: time.Now, Log: o.Log}
	registration, err := retry(ctx, o.Log, func(ctx context.Context) (identity.Registration, error) {
		return join.Registration(ctx, joining)
	})
	if err != nil {
		return nil, err
	}
	if err := begin(keep, registration, ready, o.Log); err != nil {
		return nil, err
	}
	signer := token.NewSigner(registration.Identity.Auth(), registration.Cluster, registration.HubURL, time.Now)
	hub, err := link.New(link.Options{
		URL: registration.HubURL, CA: registration.HubCA, Token: signer.Token, UserAgent: userAgent(),
	})
	if err != nil {
		return nil, err
	}
	scripts := &lua.Scripts{Command: o.HealthCommand}
	engine, err := apply.New(o.Kube, apply.Options{DigestKey: registration.DigestKey(), Scripts: scripts, Log: o.Log})
	if err != nil {
		return nil, err
	}
	runner, err := servicetest.New(o.Kube, engine.Kinds())
	if err != nil {
		return nil, err
	}
	s := &session{
		kube: kube, client: client, registration: registration, engine: engine, scripts: scripts,
		warnings: events.New(client, engine.Kinds(), o.Log), can: make(chan sync.Capabilities, 1),
		issuers: make(chan *api.TokenIssuer), log: o.Log,
	}
	can, err := retry(ctx, o.Log, s.capabilities)
	if err != nil {
		return nil, err
	}
	s.capable.Store(&can)
	s.renderer = &render.Renderer{Command: o.RenderCommand, Plugins: o.Plugins, PluginDigests: o.PluginDigests, Warm: warm}
	s.syncer = sync.New(sync.Options{
		Hub: listening{hub, &ready.hub}, Store: keep, Renderer: s.renderer, Plugin: s.renderer.PluginDigest,
		Engine: engine, Checks: runner, Warnings: s.warnings, Log: o.Log,
		Cluster: unseal.Cluster{Name: registration.Cluster, Repository: registration.Repository, Identity: registration.Identity.Opener()},
		Passes:  cmp.Or(o.Concurrency, DefaultConcurrency), PollInterval: firstPoll, AgentVersion: buildinfo.Version(),
		Capabilities: can, NewCapabilities: s.can, Issuers: s.issuers,
		Lookup: func(account string) (render.Lookup, error) { return lookup.As(s.kube, engine.Kinds(), account) },
		Event:  func(e sync.Event) { s.people.tell(e) },
	})
	if s.people, err = newPeople(ctx, s, o, signer); err != nil {
		return nil, err
	}
	ready.cluster.Store(true)
	o.Log.Info("agent started", "cluster", registration.Cluster, "hub", registration.HubURL, "kubernetes", can.KubeVersion,
		"version", buildinfo.Version(), "health_catalogue", health.CatalogueVersion)
	return s, nil
}

// listening notes that the hub has answered.
type listening struct {
	*link.Hub
	heard *atomic.Bool
}

// Poll asks the hub.
func (l listening) Poll(ctx context.Context, etag string) (*api.Poll, string, string, error) {
	poll, next, edition, err := l.Hub.Poll(ctx, etag)
	if err == nil {
		l.heard.Store(true)
	}
	return poll, next, edition, err
}

// capabilities asks the cluster what it can do.
func (s *session) capabilities(ctx context.Context) (sync.Capabilities, error) {
	asking := rest.CopyConfig(s.kube)
	asking.Timeout = patience
	client, err := discovery.NewDiscoveryClientForConfig(asking)
	if err != nil {
		return sync.Capabilities{}, fmt.Errorf("connect to cluster: %w", err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		return sync.Capabilities{}, fmt.Errorf("ask cluster for its version: %w", err)
	}
	catalog, err := s.engine.Kinds().With(ctx, nil)
	if err != nil {
		return sync.Capabilities{}, fmt.Errorf("ask cluster for its kinds: %w", err)
	}
	return sync.Capabilities{KubeVersion: version.GitVersion, APIVersions: catalog.Versions()}, nil
}

// run works until ctx ends or the cluster is registered anew: the old keys are good for nothing then.
func (s *session) run(ctx context.Context) error {
	defer s.scripts.Close()
	defer s.renderer.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, working := errgroup.WithContext(ctx)
	for _, part := range append(s.people.parts(),
		s.engine.Run,
		s.syncer.Run,
		s.followIssuer,
		func(ctx context.Context) error { return s.engine.FollowKinds(ctx, func() { s.changed(ctx) }) },
		func(ctx context.Context) error {
			return identity.Watch(ctx, s.client, func(now identity.Registration, err error) { s.registered(now, err, cancel) })
		},
	) {
		group.Go(func() error {
			if err := part(working); working.Err() == nil {
				return err
			}
			return nil // it ended because it was told to
		})
	}
	return group.Wait()
}

// changed hands on what the cluster can do now, in place of what was not taken yet.
func (s *session) changed(ctx context.Context) {
	can, err := s.capabilities(ctx)
	if err != nil {
		s.log.Warn("cluster does not say what it can do; charts are rendered for what it could", "error", err)
		return
	}
	s.capable.Store(&can)
	select {
	case <-s.can:
	default:
	}
	s.can <- can
}

// followIssuer hands on what verifies the tokens of the cluster's service accounts.
func (s *session) followIssuer(ctx context.Context) error {
	follower, err := tokenissuer.New(s.kube, func(now *api.TokenIssuer) {
		select {
		case <-ctx.Done():
		case s.issuers <- now:
		}
	}, s.log)
	if err != nil {
		return err
	}
	return follower.Run(ctx)
}

// registered ends the session when the cluster was registered anew. A registration that cannot be read is not known to have
// changed.
func (s *session) registered(now identity.Registration, err error, end func()) {
	switch {
	case err != nil:
		s.log.Warn("registration cannot be read; the one before stays", "error", err)
	case !s.registration.Equal(now):
		s.log.Info("cluster was registered anew", "cluster", now.Cluster, "hub", now.HubURL)
		end()
	}
}
