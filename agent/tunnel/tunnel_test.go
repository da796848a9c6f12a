package tunnel_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
	hubtunnel "github.com/pluralsh/plural/hubsvc/tunnel"
)

const patience = time.Minute

// proxied counts what went through the proxy that the environment of this process names; it leads to forward.
var (
	proxied atomic.Int32
	forward atomic.Value
)

// TestMain sets the environment once: Go reads it once.
func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Header.Get("Authorization") != "" {
			http.Error(w, "not here", http.StatusBadRequest)
			return
		}
		proxied.Add(1)
		to, err := net.Dial("tcp", forward.Load().(string))
		if err != nil {
			http.Error(w, "gone", http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { _, _ = io.Copy(to, from); to.Close() }()
		_, _ = io.Copy(from, to)
	}))
	os.Setenv("HTTPS_PROXY", proxy.URL)
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		proxy.Close()
		os.Exit(code)
	}))
}

// hubURL is what the agents here call every hub.
const hubURL = "https://hub.example.com"

// key is the cluster's.
func key() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

// hub is a real one that takes everybody for the cluster edge.
func hub(t *testing.T, before func(http.Handler) http.Handler) (*hubtunnel.Hub, *httptest.Server) {
	t.Helper()
	h := hubtunnel.New(hubtunnel.Options{
		Self: "hub-0", Cluster: func(*http.Request) (string, error) { return "edge", nil },
		Key: func(string) ed25519.PublicKey { return key().Public().(ed25519.PublicKey) }, Now: time.Now,
		URL: func() string { return hubURL },
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	mux := http.NewServeMux()
	h.Routes(mux)
	server := httptest.NewUnstartedServer(before(mux))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		cancel()
		running.Wait()
		server.CloseClientConnections()
		server.Close()
	})
	return h, server
}

func straight(h http.Handler) http.Handler { return h }

// log is what an agent logged.
type log struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

// run runs an agent until the test ends.
func run(t *testing.T, o tunnel.Options) *log {
	t.Helper()
	said := new(log)
	o.Log = slog.New(slog.NewTextHandler(said, nil))
	o.Token = func([]byte) (string, error) { return "secret", nil }
	o.Prove = token.NewSigner(key(), "edge", hubURL, time.Now).Prove
	o.Hello = func() *tunnelapi.Hello { return &tunnelapi.Hello{Cluster: "edge", Boot: "1"} }
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := tunnel.Run(ctx, o); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return said
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v: %s", patience, what)
		}
	}
}

func authority(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		options tunnel.Options
		want    string
	}{
		"plain HTTP to another machine": {tunnel.Options{URL: "http://hub.example.com"}, "speaks https"},
		"no scheme":                     {tunnel.Options{URL: "hub.example.com"}, "want https"},
		"a credential in it":            {tunnel.Options{URL: "https://a:secret@hub.example.com"}, "carries a credential"},
		"a query":                       {tunnel.Options{URL: "https://hub.example.com?a"}, "want https"},
		"no certificate in the CA":      {tunnel.Options{URL: "https://hub.example.com", CA: []byte("x")}, "no PEM"},
	} {
		err := tunnel.Run(t.Context(), test.options)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheProxyOfTheEnvironmentIsUsedByEveryWay(t *testing.T) {
	for name, keep := range map[string]func(*http.Request) bool{
		"upgrade":   func(*http.Request) bool { return true },
		"websocket": func(r *http.Request) bool { return r.Header.Get("Upgrade") == "websocket" },
		"pipe":      func(r *http.Request) bool { return r.ProtoMajor == 2 },
	} {
		t.Run(name, func(t *testing.T) {
			h, server := hub(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !keep(r) {
						http.NotFound(w, r)
						return
					}
					next.ServeHTTP(w, r)
				})
			})
			forward.Store(server.Listener.Addr().String())
			before := proxied.Load()
			run(t, tunnel.Options{URL: "https://example.com", CA: authority(server)}) // whose name is in the certificate
			eventually(t, "it is connected", func() bool { return len(h.Connections()) == 1 })
			if h.Connections()[0].Transport != name || proxied.Load() == before {
				t.Errorf("by %s, %d through the proxy", h.Connections()[0].Transport, proxied.Load()-before)
			}
		})
	}
}

// A12: the credential goes to nobody but the hub.
func TestTheTokenIsShownToTheHubAlone(t *testing.T) {
	var seen atomic.Int32
	thief := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	thief.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	defer thief.Close()
	redirecting := httptest.NewTLSServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer redirecting.Close()
	old := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS12}
	old.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	old.StartTLS()
	defer old.Close()
	for name, test := range map[string]struct {
		options tunnel.Options
		want    string
	}{
		"another authority":     {tunnel.Options{URL: thief.URL}, "certificate"},
		"an old version of TLS": {tunnel.Options{URL: old.URL, CA: authority(old)}, "protocol version"},
		"a redirect":            {tunnel.Options{URL: redirecting.URL, CA: authority(redirecting)}, "answered 307"},
	} {
		t.Run(name, func(t *testing.T) {
			said := run(t, test.options)
			eventually(t, "the agent says "+test.want, func() bool { return strings.Contains(said.String(), test.want) })
			if seen.Load() > 0 || strings.Contains(said.String(), "secret") {
				t.Errorf("the token was shown: %s", said)
			}
		})
	}
}

func TestWhatTheAgentCannotDoIsSaidToBeSo(t *testing.T) {
	h, server := hub(t, straight)
	run(t, tunnel.Options{URL: server.URL, CA: authority(server)})
	eventually(t, "it is connected", func() bool { return len(h.Connections()) == 1 })
	route, err := h.Reach(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	defer route.Release()
	_, err = route.Diff(t.Context(), new(tunnelapi.DiffRequest))
	streams := map[string]interface{ RecvMsg(any) error }{}
	streams["Objects"], _ = route.Objects(t.Context(), new(tunnelapi.ObjectsRequest))
	streams["Logs"], _ = route.Logs(t.Context(), new(tunnelapi.LogsRequest))
	streams["Proxy"], _ = route.Proxy(t.Context())
	streams["Control"], _ = route.Control(t.Context())
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("Diff: %v", err)
	}
	for name, stream := range streams {
		want := codes.Unimplemented
		if name == "Control" { // there is one already
			want = codes.AlreadyExists
		}
		if err := stream.RecvMsg(new(tunnelapi.Frame)); status.Code(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheHubsRefusalIsNotTriedToGetAround(t *testing.T) {
	var asked atomic.Int32
	_, server := hub(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set(tunnelapi.HubHeader, "hub-0")
			http.Error(w, "unknown agent", http.StatusUnauthorized)
		})
	})
	said := run(t, tunnel.Options{URL: server.URL, CA: authority(server)})
	eventually(t, "the agent says why", func() bool { return strings.Contains(said.String(), "is the cluster's file in git") })
	if strings.Contains(said.String(), "websocket:") || strings.Contains(said.String(), "pipe:") {
		t.Errorf("other ways were tried: %s", said)
	}
}

// asking is a hub of one connection, which opens Control with the metadata, and hands over what the agent says.
func asking(t *testing.T, said ...string) (*httptest.Server, chan *tunnelapi.AgentMessage, chan error) {
	t.Helper()
	first, failed := make(chan *tunnelapi.AgentMessage, 1), make(chan error, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", tunnelapi.Upgrade)
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			failed <- err
			return
		}
		client, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return conn, nil }))
		if err != nil {
			failed <- err
			return
		}
		defer client.Close()
		control, err := tunnelapi.NewClusterClient(client).Control(metadata.AppendToOutgoingContext(t.Context(), said...), grpc.WaitForReady(true))
		if err != nil {
			failed <- err
			return
		}
		message, err := control.Recv()
		if err != nil {
			failed <- err
			return
		}
		first <- message
		_ = control.Send(&tunnelapi.HubMessage{Welcome: &tunnelapi.Welcome{Hub: "hub-0", Protocol: 1, Replicas: 1}})
		_, _ = control.Recv() // until the test ends
	}))
	t.Cleanup(server.Close)
	return server, first, failed
}

// A hub of the version before asks for no proof.
func TestAHubThatAsksForNoProofIsToldWhoTheAgentIs(t *testing.T) {
	server, first, failed := asking(t)
	said := run(t, tunnel.Options{URL: server.URL, CA: authority(server)})
	select {
	case message := <-first:
		if message.GetHello().GetCluster() != "edge" || message.GetProven() != nil {
			t.Errorf("it says %v", message)
		}
	case err := <-failed:
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("it says nothing")
	}
	eventually(t, "it is connected", func() bool { return strings.Contains(said.String(), "connected to the hub") })
}

func TestNothingButANonceIsSigned(t *testing.T) {
	server, _, failed := asking(t, tunnelapi.NonceKey, "transfer everything")
	run(t, tunnel.Options{URL: server.URL, CA: authority(server)})
	select {
	case err := <-failed:
		if status.Code(err) != codes.InvalidArgument {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it refuses nothing")
	}
}
