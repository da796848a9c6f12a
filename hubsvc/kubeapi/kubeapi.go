// Package kubeapi owns the proxy from people to the API servers of clusters.
//
// It knows neither who somebody is nor what they may do, nor where a cluster's connection ends: it asks. A request is read
// strictly, judged, given a place within the bounds, written down when it changes something, and passed on over one stream
// of the cluster's connection as the person who sent it; the cluster's own rules decide then. The answer goes back as it
// comes. What stays open is kept in a registry: it ends when the person, or what they may do, has gone.
package kubeapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
)

// Prefix is the beginning of the paths that are served here.
const Prefix = "/k8s/"

// OverPace is what people are told whom Pace refuses. Acts by way of /v1 come out of the same budget.
const OverPace = "you exceed 20 audited requests per second (kubectl and /v1 together)"

// Backend is a cluster's connection, or the way to it, for one request.
type Backend interface {
	// Open begins an exchange that ends with ctx.
	Open(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error)
	// Release says that the request is over; it is called once.
	Release()
	// Name is the connection's, for the record.
	Name() string
}

// Options are what a proxy needs. All functions but Again and Pace must be set.
type Options struct {
	// Person says who sends a request to a cluster.
	Person func(r *http.Request, cluster string) (principal.Person, error)
	// Again says who somebody is now who was let in before, by their Credential; an error when nobody any more. It is asked
	// when their Expires has passed, and by Recheck. Nil means that people are who they were until then.
	Again func(p principal.Person) (principal.Person, error)
	// Sees says whether somebody may know that there is such a cluster.
	Sees func(p principal.Person, cluster string) bool
	// Allow returns an error, fit to be shown, for what somebody may not ask of a cluster.
	Allow func(p principal.Person, cluster string, q kubeaccess.Request) error
	// Reach finds a cluster's connection; an error means that there is none now.
	Reach func(ctx context.Context, cluster string) (Backend, error)
	// Audit writes a record. What must not happen without one is refused when that fails.
	Audit func(ctx context.Context, r Record) error
	// Pace reports whether p may make one more audited request now. Nil means always.
	Pace    func(p principal.Person) bool
	Limits  Limits
	Now     func() time.Time
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

// Limits bound what people may have under way; zero fields have the values that their comments give.
type Limits struct {
	// ClusterStreams (512) bound all requests to one cluster, ClusterWatches (256) those without an end, ClusterUpgrades (32)
	// connections.
	ClusterStreams, ClusterWatches, ClusterUpgrades int
	// PersonUnary (64), PersonWatches (128) and PersonUpgrades (16) bound what one person has under way in the whole fleet.
	PersonUnary, PersonWatches, PersonUpgrades int
	// OpenRate (200) is how many requests a second begin at one cluster.
	OpenRate int
	// Wait (2 s) is how long a request waits for its place within these bounds.
	Wait time.Duration
	// Head (75 s) is how long a cluster may take for the beginning of an answer: longer than an API server takes.
	Head time.Duration
	// Stalled (5 min) is how long a client may read nothing of an answer.
	Stalled time.Duration
	// HalfClosed (10 s) is how long a connection stays of which one half has ended, and nothing comes from the other.
	HalfClosed time.Duration
}

func (l Limits) withDefaults() Limits {
	for field, value := range map[*int]int{
		&l.ClusterStreams: 512, &l.ClusterWatches: 256, &l.ClusterUpgrades: 32,
		&l.PersonUnary: 64, &l.PersonWatches: 128, &l.PersonUpgrades: 16, &l.OpenRate: 200,
	} {
		if *field == 0 {
			*field = value
		}
	}
	for field, value := range map[*time.Duration]time.Duration{
		&l.Wait: 2 * time.Second, &l.Head: 75 * time.Second, &l.Stalled: 5 * time.Minute, &l.HalfClosed: 10 * time.Second,
	} {
		if *field == 0 {
			*field = value
		}
	}
	return l
}

// Proxy passes requests on. It is safe for concurrent use.
type Proxy struct {
	Options
	quotas  *quotas
	metrics *metrics

	buffers sync.Pool

	mu        sync.Mutex // guards what follows
	draining  bool
	exchanges map[*exchange]struct{}
	idle      chan struct{} // closed when there are no exchanges any more, if somebody waits for that
}

// New returns a Proxy.
func New(o Options) *Proxy {
	o.Limits = o.Limits.withDefaults()
	p := &Proxy{Options: o, quotas: newQuotas(o.Limits), metrics: newMetrics(), exchanges: map[*exchange]struct{}{}}
	p.buffers.New = func() any { return new([tunnelapi.MaxData]byte) }
	if o.Metrics != nil {
		p.metrics.register(o.Metrics)
	}
	return p
}

// Routes adds the paths below Prefix to mux. A mux redirects from paths that it does not find clean before anybody sees
// them: whoever wants those refused too puts the Proxy in front of the mux, for all that Match.
func (p *Proxy) Routes(mux *http.ServeMux) { mux.Handle(Prefix, p) }

// Match says whether a request is for the Proxy.
func (p *Proxy) Match(r *http.Request) bool {
	return len(r.URL.Path) >= len(Prefix) && r.URL.Path[:len(Prefix)] == Prefix
}
