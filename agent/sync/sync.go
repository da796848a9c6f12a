// Package sync owns the reconcile loop of the agent.
//
// It knows neither HTTP nor disks nor the API server: the hub, the store, the renderer, the apply engine and the runner of
// tests are each what it needs of them. One goroutine owns all state (loop.go); polls, passes, tests and reports run beside it
// and hand it their results. Nothing is done by time alone: a service is due when the hub says something new of it, when the
// engine tells that its objects changed, when a pass asked to be called again, when a failure's backoff has ended, when it is
// time to ask what keeps its objects from being well (verdict.go), or when a dependency is there (service.go). What was believed
// before is checked again now and then (verify.go).
//
// A pass is one service once through: bundle, unseal (sealed.go), render (rendered.go), apply (pass.go), verdict (verdict.go). It
// never waits for what the cluster does with it, and the engine asks for a render only when something has to be applied. The
// state of a service is a function of its newest deployment and its last good one: whatever goes wrong on the way to the
// newest, the last good one keeps being healed, and nothing is deleted that a complete, successful render does not leave out.
// What is live and healthy is tried by its tests (trials.go); a test that gates keeps a deployment from becoming the last good one.
package sync

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/events"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/servicetest"
	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
)

// Hub is where orders come from and reports go.
type Hub interface {
	// Poll returns nil when nothing changed since etag. The edition is what the answer was made of, as api.EditionHeader
	// says; empty when the hub does not say.
	Poll(ctx context.Context, etag string) (poll *api.Poll, newETag, edition string, err error)
	Bundle(ctx context.Context, key string) ([]byte, error)
	// Report's error may have a method RetryAfter() time.Duration: how long the hub asks to be left alone.
	Report(ctx context.Context, report *api.Report) error
}

// Store is what survives a restart of the agent. It is large because each kind of state is written whole, and tests kill the agent between
// any two writes.
type Store interface {
	SavePoll(etag, edition string, poll *api.Poll) error
	Poll() (poll *api.Poll, etag, edition string, err error)
	SaveGood(d *api.Deployment) error
	Good() (map[string]*api.Deployment, error)
	SaveMemory(service string, m store.Memory) error
	Memories() (map[string]store.Memory, error)
	Forget(service string) error
	SaveBundle(key string, archive []byte) error
	Bundle(key string) ([]byte, error)
	KeepBundles(keys map[string]bool) error
}

// Renderer turns files into objects.
type Renderer interface {
	Render(ctx context.Context, in render.Input) (*render.Output, error)
}

// Engine makes objects live, and watches them. It is large because what is applied, diffed, removed and told of is one engine's memory.
type Engine interface {
	Apply(ctx context.Context, r apply.Request) (*apply.Result, error)
	Diff(ctx context.Context, r apply.Request) ([]apply.Change, error)
	Remove(ctx context.Context, r apply.Removal) (*apply.Result, error)
	Services(ctx context.Context) ([]string, error)
	SetRules(service string, rules []health.Rule) error
	// Changed is sent on when objects of some service changed, or the API server went away or came back; Take names the services
	// since the last call.
	Changed() <-chan struct{}
	Take() []string
}

// Warnings tells what a cluster says of a service's objects that are not well.
type Warnings interface {
	// Of returns what is known by uid, and when to ask again; zero is never.
	Of(
		ctx context.Context, service string, unhealthy []events.Object, mask func(string) string,
	) (warnings map[string][]string, again time.Duration)
}

// Checks runs tests.
type Checks interface {
	// Run tries one test until it passes, or has failed as often as it may, or ctx ends.
	Run(ctx context.Context, target servicetest.Target, test servicetest.Test) servicetest.Result
	// Sweep deletes what tests of a service left behind for other keys, and notes what it did in another way than as the service.
	Sweep(ctx context.Context, target servicetest.Target, keep string) (notes []string, err error)
}

// Capabilities is what charts may ask of a cluster.
type Capabilities struct {
	KubeVersion string
	APIVersions []string
}

// Options are a Syncer's neighbours and manners.
type Options struct {
	Hub      Hub
	Store    Store
	Renderer Renderer
	Engine   Engine
	// Checks is nil where no tests are run: what has tests is then taken for untested.
	Checks Checks
	// Warnings is nil where nobody is asked.
	Warnings Warnings
	// Cluster opens what is sealed for this cluster; what it opens stays in memory.
	Cluster unseal.Cluster
	Log     *slog.Logger
	// Verify is how long it takes until everything is asked for and checked again that was believed before; before
	// jitter. Zero means two hours.
	Verify time.Duration
	// Passes is how many services are worked on at once.
	Passes int
	// PollInterval is used until the hub says another.
	PollInterval time.Duration
	// AgentVersion goes into reports.
	AgentVersion string
	// Capabilities are what the cluster can do at first, and what it can do from then on.
	Capabilities    Capabilities
	NewCapabilities <-chan Capabilities
	// Issuers says what verifies the tokens of the cluster's service accounts, from then on; nil: nothing is said of it.
	Issuers <-chan *api.TokenIssuer
	// Lookup reads objects for charts that may look them up, as a service account, NAMESPACE/NAME; nil: they find none.
	Lookup func(account string) (render.Lookup, error)
	// Event is called with what became of services, for people; nil: nobody wants to know. It may not block.
	Event func(Event)
	// Plugin gives the digest of the renderer of that name that is no part of this program; nil: there are none.
	Plugin func(name string) (string, error)
}

// Syncer keeps one cluster in sync.
type Syncer struct {
	Options
	// polls, listings, results and tried bring news to the loop; reports and beats take its newest word to the reporter.
	polls    chan news
	listings chan listing
	verified chan struct{}
	results  chan result
	tried    chan outcome
	reports  chan *api.Report
	beats    chan time.Duration
	// questions are put to the loop by diffs, of which diffs holds the one under way. diffKey masks what they show.
	questions chan question
	diffs     chan struct{}
	diffKey   []byte
	press     zstdPool
	// looks and hurries hold a value when somebody cannot wait: for the next poll, for the passes of what is named below.
	looks, hurries chan struct{}
	// masked are the values that no view of a service may repeat, by service: []string, or unopened.
	masked sync.Map
	// polled says that the services are known: the hub, or the disk, has said them.
	polled atomic.Bool

	mu      sync.Mutex // guards what follows
	hurried []string
	all     bool
}

// New returns a Syncer.
func New(o Options) *Syncer {
	o.Verify = cmp.Or(o.Verify, defaultVerify)
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return &Syncer{
		questions: make(chan question), diffs: make(chan struct{}, 1), diffKey: key,
		Options: o, polls: make(chan news), listings: make(chan listing), verified: make(chan struct{}), results: make(chan result),
		tried: make(chan outcome), reports: make(chan *api.Report, 1), beats: make(chan time.Duration, 1),
		looks: make(chan struct{}, 1), hurries: make(chan struct{}, 1),
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
