// Package sync owns the agent's loop: make the cluster what the hub says, service by service, for ever.
//
// It knows neither HTTP nor disks nor the API server: the hub, the store, the renderer and the apply engine are each
// what it needs of them. One goroutine owns all state (loop.go); polls, passes and reports run beside it and hand it
// their results. What was believed before is checked again now and then (verify.go). A pass is one service once through: bundle, unseal (sealed.go), render, apply, health (pass.go). The state of a service
// is a function of its newest deployment and its last good one: whatever goes wrong on the way to the newest, the last
// good one keeps being healed, and nothing is deleted that a complete, successful render does not leave out.
package sync

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
)

// Hub is where orders come from and reports go.
type Hub interface {
	// Poll returns nil when nothing changed since etag. The edition is what the answer was made of, as api.EditionHeader
	// says; empty when the hub does not say.
	Poll(ctx context.Context, etag string) (poll *api.Poll, newETag, edition string, err error)
	Bundle(ctx context.Context, key string) ([]byte, error)
	Report(ctx context.Context, report *api.Report) error
}

// Store is what survives a restart of the agent.
type Store interface {
	SavePoll(etag, edition string, poll *api.Poll) error
	Poll() (poll *api.Poll, etag, edition string, err error)
	SaveGood(d *api.Deployment) error
	DropGood(service string) error
	Good() (map[string]*api.Deployment, error)
	SaveBundle(key string, archive []byte) error
	Bundle(key string) ([]byte, error)
	KeepBundles(keys map[string]bool) error
}

// Renderer turns files into objects.
type Renderer interface {
	Render(ctx context.Context, in render.Input) (*render.Output, error)
}

// Engine makes objects live.
type Engine interface {
	Apply(ctx context.Context, r apply.Request) (*apply.Result, error)
	Remove(ctx context.Context, service string) (*apply.Result, error)
	Services(ctx context.Context) ([]string, error)
}

// Options are a Syncer's neighbours and manners.
type Options struct {
	Hub      Hub
	Store    Store
	Renderer Renderer
	Engine   Engine
	// Cluster opens what is sealed for this cluster; what it opens stays in memory.
	Cluster unseal.Cluster
	Log     *slog.Logger
	// Heal is how long a healthy service is left alone before it is applied again; before jitter.
	Heal time.Duration
	// Verify is how long it takes until everything is asked for and checked again that was believed before; before
	// jitter. Zero means two hours.
	Verify time.Duration
	// Passes is how many services are worked on at once.
	Passes int
	// PollInterval is used until the hub says another.
	PollInterval time.Duration
	// AgentVersion and KubeVersion go into reports; KubeVersion and APIVersions into charts.
	AgentVersion, KubeVersion string
	APIVersions               []string
}

// Syncer keeps one cluster in sync.
type Syncer struct {
	Options
	// polls, listings and results bring news to the loop; reports and beats take its newest word to the reporter.
	polls    chan news
	listings chan listing
	verified chan struct{}
	results  chan result
	reports  chan *api.Report
	beats    chan time.Duration
}

// New returns a Syncer.
func New(o Options) *Syncer {
	o.Verify = cmp.Or(o.Verify, defaultVerify)
	return &Syncer{
		Options: o, polls: make(chan news), listings: make(chan listing), verified: make(chan struct{}), results: make(chan result),
		reports: make(chan *api.Report, 1), beats: make(chan time.Duration, 1),
	}
}

// Run works until ctx ends.
func (s *Syncer) Run(ctx context.Context) error {
	last := s.recall() // healing starts without the hub
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.poll(ctx, last) })
	group.Go(func() error { return s.loop(ctx, last) })
	group.Go(func() error { return s.report(ctx) })
	return group.Wait()
}
