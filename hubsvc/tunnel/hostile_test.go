package tunnel_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// knock asks for a connection as an agent would, with whatever headers, and returns it with the answer.
func (r *replica) knock(header http.Header) (net.Conn, *http.Response) {
	r.tb.Helper()
	conn, err := tls.Dial("tcp", r.server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { conn.Close() })
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://hub.example.com"+tunnelapi.Path, nil)
	if err != nil {
		r.tb.Fatal(err)
	}
	request.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {tunnelapi.Upgrade}}
	for name, values := range header {
		request.Header[name] = values
	}
	if err := request.Write(conn); err != nil {
		r.tb.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), request)
	if err != nil {
		r.tb.Fatal(err)
	}
	return conn, response
}

// open is a connection of the cluster's on which nothing was said yet.
func (r *replica) open(f *fleet, cluster string) net.Conn {
	r.tb.Helper()
	raw, err := f.signer(cluster).Token(nil)
	if err != nil {
		r.tb.Fatal(err)
	}
	conn, response := r.knock(http.Header{"Authorization": {"Bearer " + raw}})
	if response.StatusCode != http.StatusSwitchingProtocols {
		r.tb.Fatal(response.Status)
	}
	return conn
}

// hostile is an agent that answers as a test wants, below the bounds that ours keeps.
type hostile struct {
	tunnelapi.UnimplementedClusterServer
	hello *tunnelapi.Hello
	// first is what it says first on Control, being asked to sign a nonce; nil: its hello, in clear.
	first func(nonce []byte) *tunnelapi.AgentMessage
	logs  func(tunnelapi.Cluster_LogsServer) error
	// gone is sent to, if it is there, when a connection on which it said something has ended.
	gone chan struct{}
}

// proves is the first word of whoever holds the signer's key; its TLS connection, where there is one, has the binding.
func (h *hostile) proves(signer *token.Signer, binding []byte) func([]byte) *tunnelapi.AgentMessage {
	return func(nonce []byte) *tunnelapi.AgentMessage {
		hello, err := proto.Marshal(h.hello)
		if err != nil {
			panic(err)
		}
		signature, err := signer.Prove(token.Proof{Nonce: nonce, Binding: binding, Said: hello})
		if err != nil {
			panic(err)
		}
		return &tunnelapi.AgentMessage{Proven: &tunnelapi.Proven{Hello: hello, Binding: binding, Signature: signature}}
	}
}

func (h *hostile) Control(stream tunnelapi.Cluster_ControlServer) error {
	first := &tunnelapi.AgentMessage{Hello: h.hello}
	if said, _ := metadata.FromIncomingContext(stream.Context()); h.first != nil {
		first = h.first([]byte(said.Get(tunnelapi.NonceKey)[0]))
	}
	if err := stream.Send(first); err != nil {
		return err
	}
	for err := error(nil); err == nil; { // until the hub has no more to say, or the connection ends
		_, err = stream.Recv()
	}
	if h.gone != nil {
		h.gone <- struct{}{}
	}
	return nil
}

// shed waits until the hub has ended a connection of its.
func (h *hostile) shed(tb testing.TB) {
	tb.Helper()
	select {
	case <-h.gone:
	case <-time.After(patience):
		tb.Fatalf("the hub has not ended the connection in %v", patience)
	}
}

func (h *hostile) Logs(_ *tunnelapi.LogsRequest, stream tunnelapi.Cluster_LogsServer) error {
	return h.logs(stream)
}

// once is a listener of one connection.
type once struct {
	net.Conn
	taken atomic.Bool
	done  chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	if o.taken.Swap(true) {
		<-o.done
		return nil, io.EOF
	}
	return o.Conn, nil
}

func (o *once) Addr() net.Addr { return o.LocalAddr() }

func (h *hostile) serve(tb testing.TB, conn net.Conn) {
	server := grpc.NewServer(grpc.MaxSendMsgSize(1<<30), grpc.MaxRecvMsgSize(1<<30), grpc.WaitForHandlers(true))
	tunnelapi.RegisterClusterServer(server, h)
	listener := &once{Conn: conn, done: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	tb.Cleanup(func() { close(listener.done); server.Stop(); serving.Wait() })
}

// ended waits until the hub has ended a connection.
func ended(tb testing.TB, conn net.Conn) {
	tb.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		tb.Fatalf("the hub has not ended the connection in %v", patience)
	}
}

func TestWhoIsNoAgentGetsNoConnection(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	good, err := f.signer("edge").Token(nil)
	if err != nil {
		t.Fatal(err)
	}
	agent := []string{"Bearer " + good}
	for name, test := range map[string]struct {
		header http.Header
		want   int
	}{
		"no credential":         {nil, http.StatusUnauthorized},
		"a bad one":             {http.Header{"Authorization": {"Bearer " + good[:len(good)-4] + "AAAA"}}, http.StatusUnauthorized},
		"a page in a browser":   {http.Header{"Authorization": agent, "Origin": {"https://hub.example.com"}}, http.StatusForbidden},
		"a page without origin": {http.Header{"Authorization": agent, "Origin": {"null"}}, http.StatusForbidden},
		"no upgrade":            {http.Header{"Authorization": agent, "Upgrade": nil}, http.StatusUpgradeRequired},
		"an unknown upgrade":    {http.Header{"Authorization": agent, "Upgrade": {"h2c"}}, http.StatusUpgradeRequired},
	} {
		t.Run(name, func(t *testing.T) {
			_, response := hub.knock(test.header)
			if response.StatusCode != test.want || response.Header.Get(tunnelapi.HubHeader) != "hub-0" {
				t.Errorf("%s by %q, want %d", response.Status, response.Header.Get(tunnelapi.HubHeader), test.want)
			}
		})
	}
}

// A6: what says nothing, or nonsense, is shed in time, and others do not notice.
func TestConnectionsThatSayNothingSensibleAreShed(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0")
	a := f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	for name, say := range map[string]func(net.Conn){
		"nothing":          func(net.Conn) {},
		"one byte":         func(c net.Conn) { _, _ = c.Write([]byte{0}) },
		"garbage":          func(c net.Conn) { _, _ = c.Write([]byte(strings.Repeat("garbage", 1000))) },
		"a client's words": func(c net.Conn) { _, _ = c.Write([]byte(http2.ClientPreface)) },
		"settings alone":   func(c net.Conn) { _ = http2.NewFramer(c, nil).WriteSettings() },
		"a frame too long": func(c net.Conn) { _, _ = c.Write([]byte{0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0}) },
	} {
		conn := hub.open(f, "silent "+name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			say(conn)
			hub.answers("edge", a)
			ended(t, conn)
		})
	}
}

func TestACompromisedClusterOpensNoMoreThanAFewSilentConnections(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	raw, err := f.signer("edge").Token(nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 20 {
		if _, response := hub.knock(http.Header{"Authorization": {"Bearer " + raw}}); response.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 12 {
		t.Errorf("%d of 20 were refused", refused)
	}
	f.agent(t, "other", []*replica{hub})
	eventually(t, "another cluster is connected", func() bool { return len(hub.Connections()) == 1 })
}

// A5: frames that nobody asked for, and those that are too large.
func TestAnAgentThatSendsTooMuchHarmsItselfAlone(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	honest := f.agent(t, "edge", []*replica{hub})
	h := &hostile{hello: &tunnelapi.Hello{Cluster: "evil", MinProtocol: 1, MaxProtocol: 1, Boot: "1", Host: strings.Repeat("h", 1<<19), Capabilities: make([]string, 10_000)}}
	h.first = h.proves(f.signer("evil"), nil)
	h.serve(t, hub.open(f, "evil"))
	hub.connected(2)
	if got := hub.Connections()[1]; len(got.Host) > 253 || len(got.Capabilities) > 32 {
		t.Errorf("its hello is kept: %d bytes of host, %d capabilities", len(got.Host), len(got.Capabilities))
	}
	for name, test := range map[string]struct {
		logs func(tunnelapi.Cluster_LogsServer) error
		want codes.Code
	}{
		"a message of 4 MiB": {func(s tunnelapi.Cluster_LogsServer) error {
			return s.Send(&tunnelapi.LogLine{Message: string(make([]byte, 4<<20))})
		}, codes.ResourceExhausted},
		"16 MiB of headers": {func(s tunnelapi.Cluster_LogsServer) error {
			return s.SendHeader(metadata.Pairs("x", strings.Repeat("x", 16<<20)))
		}, codes.Internal},
		"100,000 headers": {func(s tunnelapi.Cluster_LogsServer) error {
			md := metadata.MD{}
			for i := range 100_000 {
				md.Append(fmt.Sprint("x-", i), "x")
			}
			return s.SendHeader(md)
		}, codes.Internal},
		"what is no message": {func(s tunnelapi.Cluster_LogsServer) error {
			return s.SendMsg(&tunnelapi.Hello{MinProtocol: 1, Cluster: "x"})
		}, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			h.logs = test.logs
			stream, err := hub.reach("evil").Logs(t.Context(), &tunnelapi.LogsRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			if test.want == codes.OK && status.Code(err) == codes.Unknown || test.want != codes.OK && err == nil {
				t.Errorf("%v", err)
			}
			hub.answers("edge", honest)
		})
	}
}

// A5, with frames that no gRPC library sends.
func TestFramesThatNobodyAskedForEndTheConnectionOrNothing(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	honest := f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	for name, say := range map[string]func(*http2.Framer) error{
		"answers to no question": func(fr *http2.Framer) error { return fr.WriteData(99, false, make([]byte, 16<<10)) },
		"pushed streams": func(fr *http2.Framer) error {
			return fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: []byte{0x82}, EndHeaders: true})
		},
		"pings":      func(fr *http2.Framer) error { return fr.WritePing(false, [8]byte{1}) },
		"settings":   func(fr *http2.Framer) error { return fr.WriteSettings() },
		"windows":    func(fr *http2.Framer) error { return fr.WriteWindowUpdate(0, 1<<31-1) },
		"resets":     func(fr *http2.Framer) error { return fr.WriteRSTStream(99, http2.ErrCodeCancel) },
		"empty data": func(fr *http2.Framer) error { return fr.WriteData(1, false, nil) },
		"endless headers": func(fr *http2.Framer) error {
			return fr.WriteContinuation(1, false, make([]byte, 16<<10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := memory()
			conn := hub.open(f, "evil")
			framer := http2.NewFramer(conn, conn)
			_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
			if err := framer.WriteSettings(); err != nil {
				t.Fatal(err)
			}
			for range 50_000 { // nothing is read: answers pile up, where they are not bounded
				if say(framer) != nil {
					break
				}
			}
			if after := memory(); after > before+32<<20 {
				t.Errorf("the hub has taken %d MiB", (after-before)>>20)
			}
			hub.answers("edge", honest)
			_ = conn.Close()
		})
	}
}

func memory() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse
}

// A7: who does not read holds up nobody else, and what waits for it is bounded.
func TestAStoppedReaderHoldsUpNobody(t *testing.T) {
	j := join(t)
	a := j.agent(t, "edge", j.hubs[1:2])
	for _, hub := range j.hubs[:2] { // over another replica, and here
		t.Run(hub.name, func(t *testing.T) {
			before := memory()
			for range 8 {
				if _, err := hub.found("edge").Objects(t.Context(), &tunnelapi.ObjectsRequest{}); err != nil { // without an end
					t.Fatal(err)
				}
			}
			for range 200 {
				if boot, err := asks(t.Context(), hub.found("edge")); err != nil || boot != a.boot {
					t.Fatalf("%q, %v", boot, err)
				}
			}
			// Eight windows at each of at most four ends, with what decoding adds.
			if after := memory(); after > before+128<<20 {
				t.Errorf("what is not read takes %d MiB", (after-before)>>20)
			}
		})
	}
}

func TestAFloodOfStreamsWaitsForItsTurn(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	a := f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	route := hub.reach("edge")
	ctx, cancel := contextWithCancel(t)
	var calls sync.WaitGroup
	for range 3000 {
		calls.Go(func() { _, _ = route.Diff(ctx, &tunnelapi.DiffRequest{Service: "slow"}) })
	}
	eventually(t, "as many are under way as may be", func() bool { return a.diffs.Load() == 1023 }) // and Control
	cancel()
	calls.Wait()
	hub.answers("edge", a)
}

// A6: connections on which no request comes are shed by the server's own deadline.
func TestTenThousandHalfOpenConnectionsHoldUpNoAgent(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0")
	many := 10_000
	if testing.Short() {
		many = 500
	}
	var list []net.Conn
	defer func() {
		for _, conn := range list {
			conn.Close()
		}
	}()
	for range many {
		conn, err := net.Dial("tcp", hub.server.Listener.Addr().String())
		if err != nil {
			break // as many as this process may have
		}
		list = append(list, conn)
	}
	if len(list) < many/10 {
		t.Fatalf("only %d connections", len(list))
	}
	a := f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	hub.answers("edge", a)
	for _, conn := range list[:min(20, len(list))] {
		ended(t, conn)
	}
}
