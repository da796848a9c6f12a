package tunnel_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	agenttunnel "github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/tunnel"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests: the machine may be busy.
const patience = time.Minute

const hubURL = "https://hub.example.com"

// eventually waits until ok says so.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			tb.Fatalf("waited %v: %s", patience, what)
		}
	}
}

// fleet is the clusters that the hub knows.
type fleet struct {
	mu      sync.Mutex
	private map[string]ed25519.PrivateKey
	public  map[string]ed25519.PublicKey
}

func newFleet() *fleet {
	return &fleet{private: map[string]ed25519.PrivateKey{}, public: map[string]ed25519.PublicKey{}}
}

// register gives a cluster a new key.
func (f *fleet) register(cluster string) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.public[cluster], f.private[cluster] = public, private
}

func (f *fleet) revoke(cluster string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.public, cluster)
}

func (f *fleet) key(cluster string) ed25519.PublicKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.public[cluster]
}

// signer signs for an agent of the cluster, which is registered first if it is not.
func (f *fleet) signer(cluster string) *token.Signer {
	if f.key(cluster) == nil {
		f.register(cluster)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return token.NewSigner(f.private[cluster], cluster, hubURL, time.Now)
}

// replica is one of the hub's, on real addresses.
type replica struct {
	*tunnel.Hub
	tb      testing.TB
	name    string
	server  *httptest.Server
	peers   *httptest.Server
	events  chan *tunnelapi.Event
	arrived atomic.Int32
	// unready is set for a replica that a load balancer sends nobody to.
	unready atomic.Bool
	stop    func()
	log     *record
}

// settings of a replica; a test changes what it is about.
type settings struct {
	tunnel.Options
	// before stands between agents and the hub.
	before func(http.Handler) http.Handler
	// plain serves without TLS; bare changes the server.
	plain bool
	bare  func(*http.Server)
}

func (f *fleet) hub(tb testing.TB, name string, change ...func(*settings)) *replica {
	tb.Helper()
	r := &replica{tb: tb, name: name, events: make(chan *tunnelapi.Event, 1000), log: newRecord()}
	s := settings{before: func(h http.Handler) http.Handler { return h }, Options: tunnel.Options{
		Self: name, URL: func() string { return hubURL }, Key: f.key, Now: time.Now, Log: slog.New(r.log),
		Metrics: prometheus.NewRegistry(),
		Cluster: auth.NewAgents(func() string { return hubURL }, f.key, time.Now).Cluster,
		Arrived: func(string) { r.arrived.Add(1) },
	}}
	s.Event = func(_ string, e *tunnelapi.Event) {
		select {
		case r.events <- e:
		default:
		}
	}
	s.Found = s.Event
	for _, c := range change {
		c(&s)
	}
	r.Hub = tunnel.New(s.Options)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	mux := http.NewServeMux()
	r.Routes(mux)
	r.server = httptest.NewUnstartedServer(s.before(mux))
	// Short, so that a connection which they still hold for is seen to end.
	r.server.Config.ReadHeaderTimeout, r.server.Config.ReadTimeout, r.server.Config.WriteTimeout = 2*time.Second, time.Second, time.Second
	r.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	if s.bare != nil {
		s.bare(r.server.Config)
	}
	if s.plain {
		r.server.Start()
	} else {
		r.server.EnableHTTP2 = true
		r.server.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
		r.server.StartTLS()
	}
	if s.PeerTLS != nil || s.Conn != nil {
		peerMux := http.NewServeMux()
		peerMux.Handle(tunnel.PeerPath, r.PeerHandler())
		r.peers = httptest.NewUnstartedServer(peerMux)
		r.peers.Config.ReadTimeout, r.peers.Config.WriteTimeout = time.Second, time.Second
		if s.PeerTLS != nil {
			r.peers.TLS = s.PeerTLS
			r.peers.StartTLS()
		} else {
			r.peers.Start()
		}
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("Run: %v", err)
		}
		r.server.CloseClientConnections()
		r.server.Close()
		if r.peers != nil {
			r.peers.CloseClientConnections()
			r.peers.Close()
		}
	})
	tb.Cleanup(r.stop)
	return r
}

// ca is what agents trust: all servers of these tests have one certificate.
func ca(server *httptest.Server) []byte {
	if server.Certificate() == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// agent is one agent process.
type agent struct {
	boot    string
	stop    func()
	events  chan *tunnelapi.Event
	changed chan string
	synced  chan []string
	diffs   atomic.Int32
	// release lets calls of Diff for the service "slow" go on.
	release chan struct{}
	log     *record
}

var errNoReplica = errors.New("no replica is there")

// balanced dials one of the replicas at random, as a load balancer would.
func balanced(replicas ...*replica) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		if len(replicas) == 0 {
			return nil, errNoReplica
		}
		for _, i := range rand.Perm(len(replicas)) {
			if replicas[i].unready.Load() {
				continue
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, replicas[i].server.Listener.Addr().String())
			if err == nil {
				return conn, nil
			}
		}
		return nil, errNoReplica
	}
}

// agent starts one for a cluster, at the replicas.
func (f *fleet) agent(tb testing.TB, cluster string, replicas []*replica, change ...func(*agenttunnel.Options)) *agent {
	tb.Helper()
	a := &agent{
		boot: tunnelapi.NewBoot(time.Now()), events: make(chan *tunnelapi.Event), changed: make(chan string, 100), synced: make(chan []string, 100),
		release: make(chan struct{}), log: newRecord(),
	}
	signer := f.signer(cluster)
	o := agenttunnel.Options{
		URL: replicas[0].server.URL, CA: ca(replicas[0].server), Token: signer.Token, Prove: signer.Prove, UserAgent: "test",
		Dial: balanced(replicas...),
		Hello: func() *tunnelapi.Hello {
			return &tunnelapi.Hello{Cluster: cluster, Host: "agent-0", Boot: a.boot, AgentVersion: "1.0.0", KubernetesVersion: "v1.35.0", Capabilities: []string{tunnelapi.CanDiff}}
		},
		Objects: a.objects, Diff: a.diff, Logs: a.logs,
		Changed: func(edition string) { a.changed <- edition }, Sync: func(services []string) { a.synced <- services },
		Events: a.events, Log: slog.New(a.log),
	}
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agenttunnel.Run(ctx, o) }()
	a.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("Run: %v", err)
		}
	})
	tb.Cleanup(a.stop)
	return a
}

// diff answers with the agent's boot, so that a test sees who answered.
func (a *agent) diff(ctx context.Context, r *tunnelapi.DiffRequest) (*tunnelapi.DiffReply, error) {
	a.diffs.Add(1)
	if r.GetService() == "slow" {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-a.release:
		}
	}
	return &tunnelapi.DiffReply{Objects: []*tunnelapi.ObjectDiff{{Name: a.boot}}}, nil
}

// objects sends as many events of 1000 bytes as the service's name says; none: until nobody listens.
func (a *agent) objects(ctx context.Context, r *tunnelapi.ObjectsRequest, send func(*tunnelapi.ObjectsEvent) error) error {
	many := -1
	_, _ = fmt.Sscan(r.GetService(), &many)
	for i := 0; i != many && ctx.Err() == nil; i++ {
		if err := send(&tunnelapi.ObjectsEvent{Changed: []*tunnelapi.Object{{Uid: fmt.Sprint(i), Message: string(make([]byte, 1000))}}}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// logs says one line and waits.
func (a *agent) logs(ctx context.Context, r *tunnelapi.LogsRequest, send func(*tunnelapi.LogLine) error) error {
	if err := send(&tunnelapi.LogLine{Message: a.boot}); err != nil || !r.GetFollow() {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// connected waits until the replica holds so many connections.
func (r *replica) connected(n int) {
	r.tb.Helper()
	eventually(r.tb, fmt.Sprintf("%s holds %d connections", r.name, n), func() bool { return len(r.Connections()) == n })
}

// streams are those over all of the replica's connections: an agent that has but one replica holds a second connection there
// until it notices, and what was begun meanwhile may go over either.
func (r *replica) streams() int {
	n := 0
	for _, c := range r.Connections() {
		n += c.Streams
	}
	return n
}

// reach is a route that ends with the test.
func (r *replica) reach(cluster string) *tunnel.Route {
	r.tb.Helper()
	route, err := r.Reach(r.tb.Context(), cluster)
	if err != nil {
		r.tb.Fatalf("%s reaches %s: %v", r.name, cluster, err)
	}
	r.tb.Cleanup(route.Release)
	return route
}

// asks is the boot of the agent that answers at the end of a route.
func asks(ctx context.Context, route *tunnel.Route) (string, error) {
	reply, err := route.Diff(ctx, &tunnelapi.DiffRequest{Service: "any"})
	if err != nil {
		return "", err
	}
	return reply.GetObjects()[0].GetName(), nil
}

// answers checks that the agent answers at the end of a route.
func (r *replica) answers(cluster string, a *agent) {
	r.tb.Helper()
	route, err := r.Reach(r.tb.Context(), cluster)
	if err != nil {
		r.tb.Fatalf("%s reaches %s: %v", r.name, cluster, err)
	}
	defer route.Release()
	if boot, err := asks(r.tb.Context(), route); err != nil || boot != a.boot {
		r.tb.Fatalf("over %s %s answers %q, %v; want %q", r.name, cluster, boot, err, a.boot)
	}
}

// record is a log that tests look at.
type record struct {
	mu   *sync.Mutex
	text *bytes.Buffer
	slog.Handler
}

func newRecord() *record {
	r := &record{mu: new(sync.Mutex), text: new(bytes.Buffer)}
	r.Handler = slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})
	return r
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) says(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.text.Bytes(), []byte(text))
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// conns are an agent's, which a test cuts.
type conns struct {
	mu   sync.Mutex
	list []net.Conn
}

func (c *conns) kept(o *agenttunnel.Options) {
	dial := o.Dial
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, conn)
		return conn, err
	}
}

func (c *conns) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.list {
		if conn != nil {
			_ = conn.Close()
		}
	}
	c.list = nil
}

func contextWithCancel(tb testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	return ctx, cancel
}
