package httpstream_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent serves the channel on one connection, as an agent does.
type agent struct {
	tunnelapi.UnimplementedClusterServer
	proxy func(tunnelapi.Cluster_ProxyServer) error
}

func (a *agent) Proxy(stream tunnelapi.Cluster_ProxyServer) error { return a.proxy(stream) }

// connect gives the hub's client of an agent that answers with the handler.
func connect(t testing.TB, handler http.Handler) tunnelapi.ClusterClient {
	t.Helper()
	return connectTo(t, func(stream tunnelapi.Cluster_ProxyServer) error { return httpstream.Serve(stream, handler) })
}

func connectTo(t testing.TB, proxy func(tunnelapi.Cluster_ProxyServer) error) tunnelapi.ClusterClient {
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

// transport is a cluster as the hub sees it.
func transport(client tunnelapi.ClusterClient) *httpstream.Transport {
	return &httpstream.Transport{Open: func(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error) { return client.Proxy(ctx) }}
}

func call(class tunnelapi.Class) httpstream.Call {
	return httpstream.Call{ID: "r-1", Class: class, Identity: &tunnelapi.Identity{User: "plural:ana", Cluster: "edge"}}
}

// request is for the transport. The path is as it goes over the wire.
func request(ctx context.Context, t testing.TB, class tunnelapi.Class, method, target string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(httpstream.WithCall(ctx, call(class)), method, "http://cluster"+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
