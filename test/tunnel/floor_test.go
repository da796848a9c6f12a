package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// floor is a way of the same hops as the hub's and the agent's, on which nothing is looked at: HTTP/2 and TLS to a server, a gRPC
// stream over a connection of TLS of its own, HTTP/1.1 and TLS to the API server. It passes one question on, and its answer in
// one message.
func floor(tb testing.TB, api *httptest.Server) way {
	tb.Helper()
	there := direct(tb, api)
	plain := there.client.Transport.(*http.Transport).Clone()
	plain.ForceAttemptHTTP2, plain.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
	there.client = &http.Client{Transport: plain}
	tb.Cleanup(plain.CloseIdleConnections)
	client := tunnelapi.NewClusterClient(pipe(tb, &passer{there: there}))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := pass(w, r, client); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	tb.Cleanup(server.Close)
	return direct(tb, server)
}

// pipe is a gRPC connection over TLS to the server, as an agent's is.
func pipe(tb testing.TB, serve tunnelapi.ClusterServer) *grpc.ClientConn {
	tb.Helper()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificate.TLS.Certificates, MinVersion: tls.VersionTLS13})
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.StaticStreamWindowSize(tunnelapi.StreamWindow), grpc.StaticConnWindowSize(tunnelapi.ConnWindow), grpc.NumStreamWorkers(2),
	)
	tunnelapi.RegisterClusterServer(server, serve)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	trusted := client(tb, authority(certificate), nil).Transport.(*http.Transport).TLSClientConfig
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&tls.Dialer{Config: &tls.Config{RootCAs: trusted.RootCAs, ServerName: "example.com", MinVersion: tls.VersionTLS13}}).
				DialContext(ctx, "tcp", listener.Addr().String())
		}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithReadBufferSize(0),
		grpc.WithStaticStreamWindowSize(tunnelapi.StreamWindow), grpc.WithStaticConnWindowSize(tunnelapi.ConnWindow),
	)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return conn
}

// passer asks the API server what a stream asks for.
type passer struct {
	tunnelapi.UnimplementedClusterServer
	there way
}

func (p *passer) Proxy(stream tunnelapi.Cluster_ProxyServer) error {
	asked, err := stream.Recv()
	if err != nil {
		return err
	}
	answer, err := p.there.get(stream.Context(), asked.GetRequest().GetTarget())
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := make([]byte, small)
	if _, err := io.ReadFull(answer.Body, body); err != nil {
		return err
	}
	return stream.Send(&tunnelapi.Frame{Response: &tunnelapi.ResponseHead{Status: int32(answer.StatusCode)}, Data: body})
}

// pass sends a question over a stream, and answers with what comes back.
func pass(w http.ResponseWriter, r *http.Request, over tunnelapi.ClusterClient) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stream, err := over.Proxy(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&tunnelapi.Frame{Request: &tunnelapi.RequestHead{Method: r.Method, Target: r.URL.Path}})
	if err = errors.Join(err, stream.CloseSend()); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(answer.GetData())
	if _, ended := stream.Recv(); !errors.Is(ended, io.EOF) {
		return errors.Join(err, ended)
	}
	return err
}
