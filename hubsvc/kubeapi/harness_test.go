package kubeapi_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/kubeapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
)

// leavesNothing checks, after everything else of the test has been cleaned up, that no goroutine is left.
func leavesNothing(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
}

// world is a hub with one cluster, "edge": requests go over TLS to the hub, and over gRPC to an agent that answers with a
// handler.
type world struct {
	*kubeapi.Proxy
	t      testing.TB
	server *httptest.Server
	logged *bytes.Buffer

	mu      sync.Mutex // guards what follows
	people  map[string]principal.Person
	denied  map[string]bool // "person verb resource"
	hidden  bool
	records []kubeapi.Record
	audit   func(kubeapi.Record) error
	reach   []func() (kubeapi.Backend, error) // what Reach does first, before it finds the agent
	reached int
	freed   int
	agent   tunnelapi.ClusterClient
	now     time.Time // zero: the time
	looks   int       // how often somebody was looked at again
}

func newWorld(t testing.TB, cluster http.Handler, change ...func(*kubeapi.Options)) *world {
	t.Helper()
	leavesNothing(t)
	return makeWorld(t, cluster, change...)
}

func makeWorld(t testing.TB, cluster http.Handler, change ...func(*kubeapi.Options)) *world {
	t.Helper()
	w := &world{t: t, people: map[string]principal.Person{
		"token-ana": {Name: "ana", Groups: []string{"devs", "oncall"}, Credential: "ana/laptop"},
		"token-bob": {Name: "bob", Credential: "bob/ci"},
		"token-hub": {Operator: true, Credential: "hub"},
	}, denied: map[string]bool{}, logged: new(bytes.Buffer)}
	w.agent = connect(t, func(stream tunnelapi.Cluster_ProxyServer) error { return httpstream.Serve(stream, cluster) })
	o := kubeapi.Options{
		Person: w.person, Again: w.again, Sees: w.sees, Allow: w.allow, Reach: w.find, Audit: w.write, Now: w.clock,
		Log: slog.New(slog.NewTextHandler(&locked{w: w.logged}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&o)
	}
	w.Proxy = kubeapi.New(o)
	w.server = httptest.NewUnstartedServer(w.Proxy)
	w.server.EnableHTTP2 = true
	w.server.Config.ReadTimeout, w.server.Config.WriteTimeout = time.Minute, 2*time.Minute
	w.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	w.server.StartTLS()
	server := w.server
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.Drain(ctx)
		server.CloseClientConnections()
		server.Close()
	})
	return w
}

// locked lets goroutines write one buffer.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// agent serves the channel on one connection.
type agent struct {
	tunnelapi.UnimplementedClusterServer
	proxy func(tunnelapi.Cluster_ProxyServer) error
}

func (a *agent) Proxy(stream tunnelapi.Cluster_ProxyServer) error { return a.proxy(stream) }

func connect(t testing.TB, proxy func(tunnelapi.Cluster_ProxyServer) error) tunnelapi.ClusterClient {
	t.Helper()
	listener := bufconn.Listen(256 << 10)
	server := grpc.NewServer(grpc.StaticStreamWindowSize(tunnelapi.StreamWindow), grpc.StaticConnWindowSize(tunnelapi.ConnWindow),
		grpc.MaxRecvMsgSize(tunnelapi.MaxMessage))
	tunnelapi.RegisterClusterServer(server, &agent{proxy: proxy})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithStaticStreamWindowSize(tunnelapi.StreamWindow), grpc.WithStaticConnWindowSize(tunnelapi.ConnWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(tunnelapi.MaxMessage)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-served
	})
	return tunnelapi.NewClusterClient(conn)
}

// backend is the agent's connection for one request.
type backend struct {
	w      *world
	client tunnelapi.ClusterClient
	once   sync.Once
}

func (b *backend) Open(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error) {
	return b.client.Proxy(ctx)
}

func (b *backend) Name() string { return "conn-1" }

func (b *backend) Release() {
	released := false
	b.once.Do(func() { released = true })
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if b.w.freed++; !released {
		b.w.t.Error("a connection was released twice")
	}
}

func (w *world) person(r *http.Request, _ string) (principal.Person, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.mu.Lock()
	defer w.mu.Unlock()
	p, known := w.people[token]
	if !ok || !known {
		return principal.Person{}, errors.New("not logged in")
	}
	return p, nil
}

func (w *world) again(p principal.Person) (principal.Person, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	for _, is := range w.people {
		if is.Credential == p.Credential {
			return is, nil
		}
	}
	return principal.Person{}, errors.New("revoked")
}

func (w *world) sees(_ principal.Person, cluster string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cluster == "edge" && !w.hidden
}

func (w *world) allow(p principal.Person, _ string, q kubeaccess.Request) error {
	resource := q.Kind
	if q.Subresource != "" {
		resource += "/" + q.Subresource
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.denied[p.Name+" "+q.Verb+" "+resource] {
		return errors.New("no role lets " + p.Name + " " + q.Verb + " " + resource)
	}
	return nil
}

func (w *world) find(context.Context, string) (kubeapi.Backend, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reach) > 0 {
		next := w.reach[0]
		w.reach = w.reach[1:]
		b, err := next()
		if err == nil {
			w.reached++
		}
		return b, err
	}
	w.reached++
	return &backend{w: w, client: w.agent}, nil
}

func (w *world) write(_ context.Context, r kubeapi.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.audit != nil {
		if err := w.audit(r); err != nil {
			return err
		}
	}
	w.records = append(w.records, r)
	return nil
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.IsZero() {
		return time.Now()
	}
	return w.now
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// client speaks HTTP/1.1 or HTTP/2 to the hub.
func (w *world) client(version int) *http.Client {
	w.t.Helper()
	config := w.server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetHTTP1(version == 1)
	transport.Protocols.SetHTTP2(version == 2)
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// request is ana's, to the cluster.
func (w *world) request(method, target string, body io.Reader) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.(interface{ Context() context.Context }).Context(), method, w.server.URL+"/k8s/edge"+target, body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token-ana")
	return r
}

// do sends a request, and reads the whole answer.
func (w *world) do(r *http.Request, version int) (*http.Response, string) {
	w.t.Helper()
	resp, err := w.client(version).Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(body)
}

// get is an answer to ana.
func (w *world) get(target string) (*http.Response, string) {
	w.t.Helper()
	return w.do(w.request(http.MethodGet, target, nil), 2)
}

// dial opens a TLS connection to the hub for bytes as a test wants them.
func (w *world) dial() *tls.Conn {
	w.t.Helper()
	config := w.server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", w.server.Listener.Addr().String(), config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

// ended waits until nothing is under way, and gives the records.
func (w *world) ended() []kubeapi.Record {
	w.t.Helper()
	w.until("nothing is under way", func() bool { return w.Streams() == 0 })
	w.until("every connection is released", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.reached == w.freed
	})
	var ends int
	w.until("ends are on record", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		starts := 0
		ends = 0
		for _, r := range w.records {
			if r.Stage == "start" {
				starts++
			} else {
				ends++
			}
		}
		return ends >= starts
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records)
}

// last is the newest record.
func (w *world) last() kubeapi.Record {
	w.t.Helper()
	records := w.ended()
	if len(records) == 0 {
		w.t.Fatal("nothing is on record")
	}
	return records[len(records)-1]
}

func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited too long until %s", what)
		}
		<-tick.C
	}
}

// echo answers with what it is asked.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, r.Method+" "+r.RequestURI+"\n")
	io.Copy(w, r.Body)
}

type channelStream = tunnelapi.Cluster_ProxyServer

// shut is a connection that ended before anything went over it.
type shut struct{ backend }

func (*shut) Open(context.Context) (tunnelapi.Cluster_ProxyClient, error) {
	return nil, status.Error(codes.Unavailable, "connection closed")
}

// wantStatus compares an answer of the hub's own.
func wantStatus(t *testing.T, resp *http.Response, body string, code int, reason, message string) {
	t.Helper()
	var got metav1.Status
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("answer is %d %q: %v", resp.StatusCode, body, err)
	}
	if resp.StatusCode != code || got.Kind != "Status" || got.APIVersion != "v1" || got.Status != "Failure" || int(got.Code) != code ||
		string(got.Reason) != reason || got.Message != message || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answer is %d %q", resp.StatusCode, body)
	}
}

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
