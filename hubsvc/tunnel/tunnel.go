// Package tunnel owns the connections of agents to this replica.
//
// It refuses to know what goes over them. An agent dials and says who it is; from then on it is a gRPC server, and the
// hub its client. Who wants to reach a cluster gets a route: over a connection that this replica holds, or, found by NATS,
// over one of another replica, which passes streams on as they are, one hop and no further.
package tunnel

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/netconn"
)

// Options are the tunnel's neighbours, each by what is needed of it.
type Options struct {
	// Self names this replica.
	Self string
	// Cluster tells whose agent sent a request.
	Cluster func(*http.Request) (string, error)
	// URL is the hub's, for which agents sign.
	URL func() string
	// Key is the public key of a cluster's agent as the desired state has it now; nil: it has none.
	Key func(cluster string) ed25519.PublicKey
	// Conn joins this replica with the others; nil when it is alone.
	Conn *nats.Conn
	// Address is that of this replica's own PeerHandler, which it tells others.
	Address string
	// Peer is the address (host:port) of another replica's PeerHandler, and PeerTLS the configuration for both ends; nil
	// means plain HTTP, on this machine alone.
	Peer    func(replica string) (address string, ok bool)
	PeerTLS *tls.Config
	// Replicas is how many there are; nil means one.
	Replicas func() int
	// Event takes what agents say happened. It must not block.
	Event func(cluster string, e *tunnelapi.Event)
	// Found takes what the hub itself finds out about a cluster's agents. It must not block.
	Found func(cluster string, e *tunnelapi.Event)
	// Arrived is told of a cluster that has a connection now. It must not block.
	Arrived func(cluster string)
	// Held is told of a cluster that this replica comes to hold a usable connection of, or holds none of any more. It must
	// neither block nor ask the hub. May be nil.
	Held func(cluster string, held bool)
	// MaxAge is how old a connection gets before its agent replaces it; zero means an hour. One that is not replaced ends.
	MaxAge time.Duration
	// Versions of the protocol to speak; zero means those that are spoken here.
	Versions tunnelapi.Versions
	Now      func() time.Time
	Log      *slog.Logger
	Metrics  prometheus.Registerer
}

// defaultAge is how old a connection gets.
const defaultAge = time.Hour

// ErrAbsent says that no agent of the cluster is connected to any replica.
var ErrAbsent = errors.New("the cluster's agent is not connected to the hub")

// Hub is what this replica holds. It is safe for concurrent use.
type Hub struct {
	Options
	metrics *metrics
	running group
	removed chan struct{}  // a connection has ended
	asked   chan *nats.Msg // what other replicas ask
	peers   *peers
	server  *grpc.Server // for other replicas
	arrived *netconn.Listener
	leaving chan struct{} // closed once this replica is draining

	mu       sync.Mutex // guards what follows, with what connections say that it does
	clusters map[string]*held
	unheard  map[string]int
	doubted  map[string]time.Time // when somebody was told last of an agent of the cluster that proved nothing
	paces    map[string]*pace     // by cluster
	ends     map[*netconn.Conn]context.CancelCauseFunc
	draining bool
}

// New returns a Hub without connections. Run has to run.
func New(o Options) *Hub {
	h := &Hub{
		Options: o, metrics: newMetrics(o.Metrics), removed: make(chan struct{}, 1), asked: make(chan *nats.Msg, maxAsked),
		peers: &peers{certificates: o.PeerTLS}, arrived: netconn.NewListener(), leaving: make(chan struct{}),
		clusters: make(map[string]*held), unheard: make(map[string]int), doubted: make(map[string]time.Time),
		paces: make(map[string]*pace), ends: make(map[*netconn.Conn]context.CancelCauseFunc),
	}
	h.server = h.newPeerServer()
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plural_hub_tunnel_connections", Help: "Connections of agents to this replica.",
	}, func() float64 { return float64(len(h.all())) }))
	return h
}

func (h *Hub) replicas() int {
	if h.Replicas == nil {
		return 1
	}
	return max(1, h.Replicas())
}

func (h *Hub) maxAge() time.Duration { return cmp.Or(h.MaxAge, defaultAge) }

// longest is how old a connection gets whose agent does not replace it. Agents replace theirs at up to a tenth more than the age;
// the rest is time to do it, and chance, so that a fleet that connected at once is not ended at once.
func (h *Hub) longest() time.Duration {
	return time.Duration(float64(h.maxAge()) * (1.2 + 0.1*rand.Float64()))
}

func (h *Hub) versions() tunnelapi.Versions { return cmp.Or(h.Versions, tunnelapi.Spoken()) }

func (h *Hub) isDraining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining
}

// Connection is one agent's connection.
type Connection struct {
	// ID names it in logs; Hub is the replica that holds it.
	ID, Cluster, Hub string
	// Host is the agent's, Boot a digest of what tells its process from others, and Remote the address that it came from.
	Host, Boot, Remote string
	// Transport is websocket, upgrade or pipe.
	Transport string
	// Bound says that TLS of the agent ends here: its proof is good on this connection alone.
	Bound                           bool
	Since                           time.Time
	AgentVersion, KubernetesVersion string
	Capabilities                    []string
	// Streams are the routes that lead over it now.
	Streams int
	// Leaving says that it gets no new ones.
	Leaving bool
}

// Run answers other replicas until ctx ends; then it ends all connections, and waits until they have.
func (h *Hub) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.server.Serve(h.arrived) }) // ends with Stop
	ticker := time.NewTicker(sweep)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			h.watchBoots()
			h.forgetPaces()
			h.forgetDoubts()
		case question := <-h.asked:
			h.answer(question)
		}
	}
	h.running.close()
	h.mu.Lock()
	for _, end := range h.ends {
		end(errEnding)
	}
	h.mu.Unlock()
	h.server.Stop()
	h.running.running.Wait()
	h.peers.close()
	serving.Wait()
	return nil
}
