package tunnel

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apiproxy"
	agenttunnel "github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/audit"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/kubeapi"
	"github.com/pluralsh/plural/hubsvc/tunnel"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
)

const (
	cluster = "edge"
	// small is the answer of an ordinary question, bulk that of a large one.
	small = 2 << 10
	bulk  = 64 << 20
)

// Paths of the API server.
const (
	smallPath = "/api/v1/namespaces/default/configmaps/small"
	bulkPath  = "/api/v1/namespaces/default/configmaps/bulk"
	execPath  = "/api/v1/namespaces/default/pods/echo/exec?command=cat&stdin=true&stdout=true"
)

// apiServer answers as fast as anything can: what is measured is the way there.
func apiServer(tb testing.TB) *httptest.Server {
	tb.Helper()
	little, much := make([]byte, small), make([]byte, 64<<10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == smallPath:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(small))
			_, _ = w.Write(little)
		case r.URL.Path == bulkPath:
			w.Header().Set("Content-Type", "application/json")
			for range bulk / len(much) {
				if _, err := w.Write(much); err != nil {
					return
				}
			}
		case r.Header.Get("Upgrade") != "":
			echo(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	tb.Cleanup(server.Close)
	return server
}

// echo sends what comes on a WebSocket back.
func echo(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"v5.channel.k8s.io"}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		kind, message, err := conn.Read(r.Context())
		if err != nil || conn.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

// authority is what a test server's certificate is trusted by.
func authority(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// client is one that keeps its connections, over HTTP/2 where the server can, as Kubernetes' own does.
func client(tb testing.TB, ca []byte, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	tb.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true, DialContext: dial,
		MaxIdleConnsPerHost: 256,
	}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// hub is the hub's part of the way, joined as the hub joins it.
type hub struct {
	*httptest.Server
	channels *tunnel.Hub
	token    string
}

func newHub(tb testing.TB) *hub {
	tb.Helper()
	log := slog.New(slog.DiscardHandler)
	dir := tb.TempDir()
	records, err := audit.Open(audit.Options{Dir: dir, Now: time.Now, Log: log})
	if err != nil {
		tb.Fatal(err)
	}
	keys := auth.NewAgents(func() string { return audience }, publicKey, time.Now)
	h := &hub{token: "the hub's own token, of some length"}
	h.channels = tunnel.New(tunnel.Options{
		Self: "hub", Cluster: keys.Cluster, URL: func() string { return audience }, Key: publicKey, Now: time.Now, Log: log,
		Event: func(string, *tunnelapi.Event) {}, Metrics: prometheus.NewRegistry(),
	})
	front := kubeapi.New(kubeapi.Options{
		Person: func(*http.Request, string) (principal.Person, error) {
			return principal.Person{Name: "operator", Groups: []string{"operators"}, Operator: true, Credential: "hub"}, nil
		},
		Sees:  func(principal.Person, string) bool { return true },
		Allow: func(principal.Person, string, kubeaccess.Request) error { return nil },
		Reach: func(ctx context.Context, cluster string) (kubeapi.Backend, error) {
			route, err := h.channels.Reach(ctx, cluster)
			if err != nil {
				return nil, err
			}
			return backend{route}, nil
		},
		Audit:  func(ctx context.Context, r kubeapi.Record) error { return records.Write(ctx, audit.Record(r)) },
		Limits: kubeapi.Limits{OpenRate: 1 << 20, PersonUnary: 1 << 10}, Now: time.Now, Log: log,
	})
	mux := http.NewServeMux()
	h.channels.Routes(mux)
	front.Routes(mux)
	h.Server = httptest.NewUnstartedServer(mux)
	h.EnableHTTP2 = true
	h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	h.StartTLS()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = h.channels.Run(ctx) })
	running.Go(func() { _ = records.Run(ctx) })
	tb.Cleanup(func() {
		cancel()
		h.CloseClientConnections()
		h.Close()
		running.Wait()
	})
	return h
}

// backend is a route to a cluster as the front of its API uses it.
type backend struct{ *tunnel.Route }

func (b backend) Open(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error) {
	return b.Proxy(ctx)
}

func (b backend) Name() string { return b.Connection }

// await waits until so many connections are there.
func (h *hub) await(tb testing.TB, connections int) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); len(h.channels.Connections()) < connections; {
		if time.Now().After(deadline) {
			tb.Fatalf("%d of %d connections", len(h.channels.Connections()), connections)
		}
		<-time.After(time.Millisecond)
	}
}

// audience is the hub's URL in agents' tokens.
const audience = "https://hub.example.com"

// keyOf is a cluster's, the same in every process.
func keyOf(cluster string) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, cluster)
	return ed25519.NewKeyFromSeed(seed)
}

func publicKey(cluster string) ed25519.PublicKey { return keyOf(cluster).Public().(ed25519.PublicKey) }

// agent is a cluster's end of the way. It ends with the test.
func agent(tb testing.TB, h *hub, api *httptest.Server, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	tb.Helper()
	handler, err := apiproxy.New(apiproxy.Options{
		Kube: &rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority(api)}}, Cluster: cluster,
		Policy: func() apiproxy.Policy { return apiproxy.Policy{Mode: apiproxy.Full} }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = agenttunnel.Run(ctx, dialled(h.URL, authority(h.Server), cluster, handler, dial)) })
	tb.Cleanup(func() {
		cancel()
		running.Wait()
	})
	h.await(tb, 1)
}

func dialled(
	url string, ca []byte, cluster string, handler http.Handler, dial func(ctx context.Context, network, address string) (net.Conn, error),
) agenttunnel.Options {
	signer := token.NewSigner(keyOf(cluster), cluster, audience, time.Now)
	return agenttunnel.Options{
		URL: url, CA: ca, UserAgent: "bench", Handler: handler, Dial: dial, Log: slog.New(slog.DiscardHandler),
		Token: signer.Token, Prove: signer.Prove,
		Hello: func() *tunnelapi.Hello { return &tunnelapi.Hello{Cluster: cluster, Boot: "1"} },
	}
}

// way is one way to an API server: whose client asks it, and at which URL.
type way struct {
	client *http.Client
	base   string
	token  string
}

func (w way) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+path, nil)
	if err != nil {
		return nil, err
	}
	if w.token != "" {
		request.Header.Set("Authorization", "Bearer "+w.token)
	}
	return w.client.Do(request)
}

// fetch reads an answer to its end.
func (w way) fetch(ctx context.Context, path string, want int64) error {
	answer, err := w.get(ctx, path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || n != want) {
		err = &badAnswer{answer.Status, n}
	}
	return err
}

type badAnswer struct {
	status string
	bytes  int64
}

func (e *badAnswer) Error() string {
	return e.status + " with " + strconv.FormatInt(e.bytes, 10) + " bytes"
}

func direct(tb testing.TB, api *httptest.Server) way {
	return way{client: client(tb, authority(api), nil), base: api.URL}
}

func through(tb testing.TB, h *hub) way {
	return way{client: client(tb, authority(h.Server), nil), base: h.URL + "/k8s/" + cluster, token: h.token}
}
