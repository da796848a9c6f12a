package apiproxy_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// leavesNothing checks, after everything else of the test has been cleaned up, that no goroutine is left.
func leavesNothing(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
}

type agent struct {
	tunnelapi.UnimplementedClusterServer
	handler http.Handler
}

func (a *agent) Proxy(stream tunnelapi.Cluster_ProxyServer) error {
	return httpstream.Serve(stream, a.handler)
}

// hub is a cluster as its hub has it: streams to the agent whose handler it is.
func hub(t testing.TB, handler http.Handler) tunnelapi.ClusterClient {
	t.Helper()
	listener := bufconn.Listen(256 << 10)
	server := grpc.NewServer()
	tunnelapi.RegisterClusterServer(server, &agent{handler: handler})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
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

func transport(client tunnelapi.ClusterClient) *httpstream.Transport {
	return &httpstream.Transport{Open: func(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error) { return client.Proxy(ctx) }}
}

// options are those of the agent of cluster "edge", with a policy that the test may change.
func options(kube *rest.Config, policy apiproxy.Policy) (apiproxy.Options, *atomic.Pointer[apiproxy.Policy]) {
	current := &atomic.Pointer[apiproxy.Policy]{}
	current.Store(&policy)
	return apiproxy.Options{Kube: kube, Cluster: "edge", Policy: func() apiproxy.Policy { return *current.Load() }}, current
}

func handler(t testing.TB, o apiproxy.Options) *apiproxy.Handler {
	t.Helper()
	h, err := apiproxy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ana is somebody that the hub vouches for.
func ana() *tunnelapi.Identity {
	return &tunnelapi.Identity{
		User: "plural:ana", Uid: "u-1", Groups: []string{"plural:devs", "plural:oncall"}, Cluster: "edge",
		Extra:         []*tunnelapi.Extra{{Key: "plural.sh/credential", Values: []string{"c1"}}},
		ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
	}
}

// ask makes a request of a person. Class is UPGRADE when the header asks for an upgrade.
func ask(ctx context.Context, t testing.TB, who *tunnelapi.Identity, method, target, body string) *http.Request {
	t.Helper()
	ctx = httpstream.WithCall(ctx, httpstream.Call{ID: "req-42", Identity: who, Class: tunnelapi.Class_UNARY})
	r, err := http.NewRequestWithContext(ctx, method, "http://cluster/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = target
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func upgrading(r *http.Request, protocol string) *http.Request {
	call, _ := httpstream.CallOf(r.Context())
	call.Class = tunnelapi.Class_UPGRADE
	r = r.WithContext(httpstream.WithCall(r.Context(), call))
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	return r
}

// answered is an answer, read.
type answered struct {
	Status int
	Header http.Header
	Body   string
}

func (a answered) status(t testing.TB) metav1.Status {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal([]byte(a.Body), &s); err != nil || s.Kind != "Status" || int(s.Code) != a.Status || s.Message == "" {
		t.Errorf("%d %q is no metav1.Status: %v", a.Status, a.Body, err)
	}
	return s
}

func do(t testing.TB, rt http.RoundTripper, r *http.Request) answered {
	t.Helper()
	response, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{response.StatusCode, response.Header, string(body)}
}

// server stands in for an API server that does what no real one does.
func server(t testing.TB, h http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return config(s)
}

func config(s *httptest.Server) *rest.Config {
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificate(s.Certificate())}, BearerToken: "the agent's"}
}

func certificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// through is a cluster whose API server is the function.
func through(t testing.TB, h http.HandlerFunc) *httpstream.Transport {
	t.Helper()
	o, _ := options(server(t, h), apiproxy.Policy{})
	return transport(hub(t, handler(t, o)))
}

// unauthenticated talks to an API server and shows nothing of itself.
func unauthenticated(t testing.TB, kube *rest.Config) http.RoundTripper {
	t.Helper()
	rt, err := rest.TransportFor(rest.AnonymousClientConfig(kube))
	if err != nil {
		t.Fatal(err)
	}
	return rt
}
