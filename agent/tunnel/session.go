package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// ping is how often a silent connection is tried, and pong how long the answer may take. Load balancers end what is
	// silent for a minute.
	ping = 20 * time.Second
	pong = 10 * time.Second
	// maxStreams bounds what the hub may have under way over one connection.
	maxStreams = 1024
	// workers answer short requests one after the other, on stacks that have grown already.
	workers = 2
	// grace is how long requests under way may take when the agent ends.
	grace = 3 * time.Second
	// maxHeaderList bounds the metadata of one call, in bytes.
	maxHeaderList = 64 << 10
)

// session is one connection, on which the hub is the client.
type session struct {
	tunnelapi.UnimplementedClusterServer
	agent *agent
	conn  *dialled
	// welcome has the hub's first word, drain is closed when it asks for another connection.
	welcome chan *tunnelapi.HubMessage
	drain   chan struct{}
	once    sync.Once // closes drain
	// ended is closed when everything on the connection has.
	ended chan struct{}
	// What the hub said first; set before anybody else sees the session.
	greeting *tunnelapi.Welcome

	mu      sync.Mutex // guards control, with what is sent on it
	control tunnelapi.Cluster_ControlServer
}

// start serves the connection until it ends, or ctx does.
func (a *agent) start(ctx context.Context, conn *dialled) *session {
	s := &session{
		agent: a, conn: conn,
		welcome: make(chan *tunnelapi.HubMessage, 1), drain: make(chan struct{}), ended: make(chan struct{}),
	}
	server := grpc.NewServer(
		grpc.ConnectionTimeout(step),
		grpc.StaticStreamWindowSize(tunnelapi.StreamWindow), grpc.StaticConnWindowSize(tunnelapi.ConnWindow),
		grpc.MaxRecvMsgSize(tunnelapi.MaxMessage), grpc.MaxSendMsgSize(tunnelapi.MaxMessage),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderList),
		grpc.WaitForHandlers(true), grpc.NumStreamWorkers(workers),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: ping, Timeout: pong}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: ping / 4, PermitWithoutStream: true}),
	)
	tunnelapi.RegisterClusterServer(server, s)
	a.sessions.Go(func() {
		defer close(s.ended)
		_ = server.Serve(&single{conn: conn}) // ends with the connection
		server.Stop()
	})
	a.sessions.Go(func() {
		select {
		case <-ctx.Done():
			s.depart()
		case <-s.ended:
		}
	})
	return s
}

// depart ends the connection because the agent ends, but gives what is under way a moment.
func (s *session) depart() {
	s.leave()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
		s.end()
	}
}

// single is a listener that accepts one connection, and ends with it.
type single struct {
	conn     *dialled
	accepted bool
}

func (l *single) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l.conn, nil
	}
	<-l.conn.Done()
	return nil, net.ErrClosed
}

func (l *single) Close() error   { return l.conn.Close() }
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }

var (
	errSilent = errors.New("the hub said nothing on it")
	errEnded  = errors.New("the connection ended before the hub said anything")
)

// hear waits for the hub's first word.
func (s *session) hear(ctx context.Context) error {
	timer := time.NewTimer(step)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errSilent
	case <-s.ended:
		return errEnded
	case first := <-s.welcome:
		if s.greeting = first.GetWelcome(); s.greeting == nil {
			return &refusedError{first.GetRefused().GetReason()}
		}
		return nil
	}
}

// refusedError says why the hub does not take this agent.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return fmt.Sprintf("hub refused the agent: %.500q", e.reason) }

// end ends the connection, and waits for what was under way on it.
func (s *session) end() {
	_ = s.conn.Close()
	<-s.ended
}

// Control says who the agent is, and then does what the hub asks for until the connection ends.
func (s *session) Control(stream tunnelapi.Cluster_ControlServer) error {
	s.mu.Lock()
	if s.control != nil {
		s.mu.Unlock()
		return status.Error(codes.AlreadyExists, "there is one already")
	}
	s.control = stream
	first, err := s.introduce(stream.Context())
	if err == nil {
		err = stream.Send(first)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	s.welcome <- answer
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		s.take(message)
	}
}

// introduce says who the agent is, and proves that it holds the cluster's key now: the hub's nonce was never signed before, and
// the proof is good on no other TLS connection. A hub of an earlier version asks for none.
func (s *session) introduce(ctx context.Context) (*tunnelapi.AgentMessage, error) {
	said, _ := metadata.FromIncomingContext(ctx)
	asked := said.Get(tunnelapi.NonceKey)
	if len(asked) == 0 {
		return &tunnelapi.AgentMessage{Hello: s.agent.hello()}, nil
	}
	hello, err := proto.Marshal(s.agent.hello())
	if err != nil {
		return nil, err
	}
	proof := token.Proof{Nonce: []byte(asked[0]), Binding: s.conn.binding, Said: hello}
	signature, err := s.agent.Prove(proof)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &tunnelapi.AgentMessage{Proven: &tunnelapi.Proven{Hello: hello, Binding: proof.Binding, Signature: signature}}, nil
}

// take does what one message asks for. What it does not know is from a newer hub, and of no concern.
func (s *session) take(message *tunnelapi.HubMessage) {
	if message.GetDrain() != nil {
		s.once.Do(func() { close(s.drain) })
	}
	if changed := message.GetChanged(); changed != nil {
		s.agent.hint(changed)
	}
	if sync := message.GetSync(); sync != nil && s.agent.Sync != nil {
		s.agent.Sync(sync.GetServices())
	}
}

var errNoControl = errors.New("the hub has not opened the control stream")

// say sends a message to the hub.
func (s *session) say(message *tunnelapi.AgentMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control == nil {
		return errNoControl
	}
	return s.control.Send(message)
}

// leave tells the hub that the connection may end. The hub ends it, when nothing is under way on it any more.
func (s *session) leave() {
	if s.say(&tunnelapi.AgentMessage{Drained: &tunnelapi.Drained{}}) != nil {
		_ = s.conn.Close()
	}
}

// Proxy answers one request to the cluster's API server.
func (s *session) Proxy(stream tunnelapi.Cluster_ProxyServer) error {
	if s.agent.Handler == nil {
		return status.Error(codes.Unimplemented, "this agent lets nobody reach its API server")
	}
	return httpstream.Serve(stream, s.agent.Handler)
}

// Objects follows objects.
func (s *session) Objects(request *tunnelapi.ObjectsRequest, stream tunnelapi.Cluster_ObjectsServer) error {
	if s.agent.Objects == nil {
		return s.UnimplementedClusterServer.Objects(request, stream)
	}
	return s.agent.Objects(stream.Context(), request, stream.Send)
}

// Diff compares a service with what is live.
func (s *session) Diff(ctx context.Context, request *tunnelapi.DiffRequest) (*tunnelapi.DiffReply, error) {
	if s.agent.Diff == nil {
		return s.UnimplementedClusterServer.Diff(ctx, request)
	}
	return s.agent.Diff(ctx, request)
}

// Logs tails the agent's log.
func (s *session) Logs(request *tunnelapi.LogsRequest, stream tunnelapi.Cluster_LogsServer) error {
	if s.agent.Logs == nil {
		return s.UnimplementedClusterServer.Logs(request, stream)
	}
	return s.agent.Logs(stream.Context(), request, stream.Send)
}
