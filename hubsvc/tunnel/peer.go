package tunnel

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/netconn"
)

const (
	// PeerPath is where a replica asks another for a connection that carries streams to clusters.
	PeerPath = "/peer/tunnel/v1"
	// peerUpgrade names what the connection becomes.
	peerUpgrade = "plural-peer/1"
	// peerTime is how long a replica may take until streams can go over it.
	peerTime = 3 * time.Second
	// maxPeerStreams bounds what one replica has under way over another.
	maxPeerStreams = 10_000
)

// Metadata of a stream from one replica to another.
const (
	clusterKey = "plural-cluster"
	hopsKey    = "plural-hops"
	// lastingKey is set for what has no end of its own, such as a watch: whoever reads it goes on elsewhere.
	lastingKey = "plural-lasting"
)

// PeerHandler is what other replicas dial; whatever it is mounted on passes PeerPath on to it, over HTTP/1.1. It serves who
// came with a verified certificate, and without TLS this machine alone.
func (h *Hub) PeerHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isReplica(r):
			http.Error(w, "only replicas of this hub are served here", http.StatusForbidden)
			return
		case r.ProtoMajor != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), peerUpgrade):
			http.Error(w, "want an upgrade to "+peerUpgrade, http.StatusUpgradeRequired)
			return
		}
		stream, err := hijack(w, peerUpgrade)
		if err != nil {
			h.Log.Warn("another replica's connection was not taken over", "remote", r.RemoteAddr, "error", err)
			return
		}
		if conn := netconn.New(stream, netconn.Addr(h.Self), netconn.Addr(r.RemoteAddr)); !h.arrived.Give(conn) {
			_ = conn.Close()
		}
	})
}

func isReplica(r *http.Request) bool {
	if r.TLS != nil {
		return len(r.TLS.VerifiedChains) > 0
	}
	return loopback(r.RemoteAddr)
}

// loopback says whether an address of the form host:port is this machine's own.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// newPeerServer passes streams of other replicas on to agents that are connected here.
func (h *Hub) newPeerServer() *grpc.Server {
	return grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(h.forward),
		grpc.ConnectionTimeout(step),
		grpc.StaticStreamWindowSize(tunnelapi.StreamWindow), grpc.StaticConnWindowSize(tunnelapi.ConnWindow),
		grpc.MaxRecvMsgSize(tunnelapi.MaxMessage), grpc.MaxSendMsgSize(tunnelapi.MaxMessage),
		grpc.MaxConcurrentStreams(maxPeerStreams), grpc.MaxHeaderListSize(maxHeaderList),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: ping, Timeout: pong}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: ping / 4, PermitWithoutStream: true}),
	)
}

// forwarded are the methods that pass from one replica to another. Control belongs to the replica with the connection.
func forwarded(method string) bool {
	switch method {
	case tunnelapi.Cluster_Proxy_FullMethodName, tunnelapi.Cluster_Objects_FullMethodName, tunnelapi.Cluster_Diff_FullMethodName,
		tunnelapi.Cluster_Logs_FullMethodName:
		return true
	}
	return false
}

// forward passes one stream on to the agent, as it is. A stream that came from another replica goes to none.
func (h *Hub) forward(_ any, from grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(from)
	if !forwarded(method) {
		return status.Errorf(codes.PermissionDenied, "%q does not pass between replicas", method)
	}
	said, _ := metadata.FromIncomingContext(from.Context())
	clusters := said.Get(clusterKey)
	if len(clusters) != 1 || !slices.Equal(said.Get(hopsKey), []string{"1"}) {
		return status.Error(codes.InvalidArgument, "the stream does not say for which cluster it is, or went over another replica")
	}
	route := h.local(clusters[0])
	if route == nil {
		return status.Error(tunnelapi.NotPassedOn, ErrAbsent.Error())
	}
	defer route.Release()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(from.Context(), nil)) // nothing that was said goes on
	defer cancel()
	if lasts := method == tunnelapi.Cluster_Objects_FullMethodName || method == tunnelapi.Cluster_Logs_FullMethodName; lasts || len(said.Get(lastingKey)) > 0 {
		go func() { // ends when this function has
			select {
			case <-h.leaving:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	to, err := route.over.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return status.Error(tunnelapi.NotPassedOn, status.Convert(err).Message())
	}
	go func() { // ends when this function has: its stream ends then
		if !errors.Is(pass(to, from), io.EOF) {
			cancel() // the other replica gave up: the agent is to hear of it
			return
		}
		_ = to.CloseSend()
	}()
	err = pass(from, to)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case h.isDraining():
		return status.Error(codes.Unavailable, errEnding.Error())
	}
	return err
}

// messages are those of one side of a stream.
type messages interface {
	RecvMsg(m any) error
	SendMsg(m any) error
}

// pass sends all messages on until one side ends, with its error.
func pass(to, from messages) error {
	for {
		var m raw
		if err := from.RecvMsg(&m); err != nil {
			return err
		}
		err := to.SendMsg(&m)
		m.data.Free()
		if err != nil {
			return err
		}
	}
}

// hop is a connection to another replica as one to a cluster.
type hop struct {
	grpc.ClientConnInterface
	cluster string
}

func (p *hop) context(ctx context.Context) context.Context {
	said := metadata.Pairs(clusterKey, p.cluster, hopsKey, "1")
	if call, ok := httpstream.CallOf(ctx); ok && call.Class == tunnelapi.Class_WATCH {
		said.Set(lastingKey, "1")
	}
	return metadata.NewOutgoingContext(ctx, said)
}

// Invoke is that of grpc.ClientConnInterface.
func (p *hop) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	return p.ClientConnInterface.Invoke(p.context(ctx), method, args, reply, options...)
}

// NewStream is that of grpc.ClientConnInterface.
func (p *hop) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return p.ClientConnInterface.NewStream(p.context(ctx), desc, method, options...)
}

// peers are connections to other replicas, one each.
type peers struct {
	certificates *tls.Config

	mu     sync.Mutex // guards both
	closed bool
	known  map[string]peer
}

type peer struct {
	address string
	client  *grpc.ClientConn
}

// ready is a connection to a replica that streams can go over.
func (p *peers) ready(ctx context.Context, replica, address string) (*grpc.ClientConn, error) {
	client, err := p.get(replica, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	for {
		state := client.GetState()
		switch state {
		case connectivity.Ready:
			return client, nil
		case connectivity.Idle:
			client.Connect()
		case connectivity.TransientFailure, connectivity.Shutdown:
			return nil, fmt.Errorf("%s does not answer", address)
		}
		if !client.WaitForStateChange(ctx, state) {
			return nil, fmt.Errorf("%s does not answer: %w", address, ctx.Err())
		}
	}
}

func (p *peers) get(replica, address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.known[replica]
	switch {
	case p.closed:
		return nil, net.ErrClosed
	case ok && known.address == address:
		return known.client, nil
	case ok: // it was started anew, elsewhere
		_ = known.client.Close()
	}
	client, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // what is below has TLS
		grpc.WithContextDialer(p.dial),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(),
		grpc.WithStaticStreamWindowSize(tunnelapi.StreamWindow), grpc.WithStaticConnWindowSize(tunnelapi.ConnWindow),
		grpc.WithMaxHeaderListSize(maxHeaderList),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(tunnelapi.MaxMessage), grpc.MaxCallSendMsgSize(tunnelapi.MaxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: peerTime,
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: .2, MaxDelay: peerTime},
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: ping, Timeout: pong}),
	)
	if err != nil {
		return nil, err
	}
	if p.known == nil {
		p.known = make(map[string]peer)
	}
	p.known[replica] = peer{address, client}
	return client, nil
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, known := range p.known {
		_ = known.client.Close()
	}
}

// dial gets a connection to a replica's PeerHandler that carries gRPC.
func (p *peers) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	conn, err := p.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	stream, err := switchOver(conn, address)
	if err != nil || !stop() {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to replica at %s: %w", address, errors.Join(err, ctx.Err()))
	}
	return stream, nil
}

func (p *peers) connect(ctx context.Context, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: peerTime, KeepAlive: 15 * time.Second}
	if p.certificates != nil {
		certificates := p.certificates.Clone()
		certificates.MinVersion = tls.VersionTLS13
		return (&tls.Dialer{NetDialer: dialer, Config: certificates}).DialContext(ctx, "tcp", address)
	}
	if !loopback(address) {
		return nil, fmt.Errorf("replica at %s is not on this machine, and there are no certificates", address)
	}
	return dialer.DialContext(ctx, "tcp", address)
}

// switchOver asks for the upgrade.
func switchOver(conn net.Conn, address string) (net.Conn, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+address+PeerPath, nil) //nolint:noctx // conn ends with the context
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", peerUpgrade)
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(conn)
	response, err := http.ReadResponse(buffered, request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close() // of an upgrade it is empty
	if response.StatusCode != http.StatusSwitchingProtocols || !strings.EqualFold(response.Header.Get("Upgrade"), peerUpgrade) {
		return nil, fmt.Errorf("it answered %q", response.Status)
	}
	return early(conn, buffered), nil
}
