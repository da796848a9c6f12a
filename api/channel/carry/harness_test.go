package carry_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pluralsh/plural/api/channel"
	"github.com/pluralsh/plural/api/channel/carry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent serves the channel on one connection, as an agent does.
type agent struct {
	channel.UnimplementedClusterServer
	proxy func(channel.Cluster_ProxyServer) error
}

func (a *agent) Proxy(stream channel.Cluster_ProxyServer) error { return a.proxy(stream) }

// connect gives the hub's client of an agent that answers with the handler.
func connect(t testing.TB, handler http.Handler) channel.ClusterClient {
	t.Helper()
	return connectTo(t, func(stream channel.Cluster_ProxyServer) error { return carry.Serve(stream, handler) })
}

func connectTo(t testing.TB, proxy func(channel.Cluster_ProxyServer) error) channel.ClusterClient {
	t.Helper()
	listener := bufconn.Listen(256 << 10)
	server := grpc.NewServer(grpc.StaticStreamWindowSize(channel.StreamWindow), grpc.StaticConnWindowSize(channel.ConnWindow),
		grpc.MaxRecvMsgSize(channel.MaxMessage))
	channel.RegisterClusterServer(server, &agent{proxy: proxy})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
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
		<-served
	})
	return channel.NewClusterClient(conn)
}

// transport is a cluster as the hub sees it.
func transport(client channel.ClusterClient) *carry.Transport {
	return &carry.Transport{Open: func(ctx context.Context) (channel.Cluster_ProxyClient, error) { return client.Proxy(ctx) }}
}

func call(class channel.Class) carry.Call {
	return carry.Call{ID: "r-1", Class: class, Identity: &channel.Identity{User: "plural:ana", Cluster: "edge"}}
}

// request is for the transport. The path is as it goes over the wire.
func request(ctx context.Context, t testing.TB, class channel.Class, method, target string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(carry.WithCall(ctx, call(class)), method, "http://cluster"+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
