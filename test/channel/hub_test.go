package channel

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/reach"
	"github.com/pluralsh/plural/api/channel"
	"github.com/pluralsh/plural/api/channel/carry"
	"github.com/pluralsh/plural/hubsvc/kubeapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/person"
)

// hub puts the hub's side and the agent's before a cluster, in this process, and returns how the operator reaches it.
func hub(t testing.TB, kube *rest.Config) *rest.Config {
	t.Helper()
	handler, err := reach.New(reach.Options{Kube: kube, Cluster: "edge", Policy: func() reach.Policy { return reach.Policy{Mode: reach.Full} }})
	if err != nil {
		t.Fatal(err)
	}
	client := agentServing(t, handler)
	proxy := kubeapi.New(kubeapi.Options{
		Person: func(*http.Request, string) (person.Person, error) { return person.Person{Operator: true}, nil },
		Sees:   func(person.Person, string) bool { return true },
		Allow:  func(person.Person, string, kubeaccess.Request) error { return nil },
		Reach:  func(context.Context, string) (kubeapi.Backend, error) { return backend{client}, nil },
		Audit:  func(context.Context, kubeapi.Record) error { return nil },
		Limits: kubeapi.Limits{OpenRate: 100_000, PersonUnary: 400},
		Now:    time.Now, Log: slog.New(slog.DiscardHandler),
	})
	server := httptest.NewUnstartedServer(proxy)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{
		Host: server.URL + "/k8s/edge", BearerToken: "token",
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}
}

type backend struct{ client channel.ClusterClient }

func (b backend) Open(ctx context.Context) (channel.Cluster_ProxyClient, error) {
	return b.client.Proxy(ctx)
}
func (backend) Release()     {}
func (backend) Name() string { return "in process" }

type agent struct {
	channel.UnimplementedClusterServer
	handler http.Handler
}

func (a agent) Proxy(stream channel.Cluster_ProxyServer) error { return carry.Serve(stream, a.handler) }

func agentServing(t testing.TB, handler http.Handler) channel.ClusterClient {
	t.Helper()
	listener := bufconn.Listen(256 << 10)
	server := grpc.NewServer(grpc.StaticStreamWindowSize(channel.StreamWindow), grpc.StaticConnWindowSize(channel.ConnWindow),
		grpc.MaxRecvMsgSize(channel.MaxMessage))
	channel.RegisterClusterServer(server, agent{handler: handler})
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithStaticStreamWindowSize(channel.StreamWindow), grpc.WithStaticConnWindowSize(channel.ConnWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(channel.MaxMessage)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
	})
	return channel.NewClusterClient(conn)
}
