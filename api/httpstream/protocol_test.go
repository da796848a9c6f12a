package httpstream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// TestAHubThatBreaksTheProtocolLosesOneExchange: the connection goes on.
func TestAHubThatBreaksTheProtocolLosesOneExchange(t *testing.T) {
	client := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == http.NoBody {
			return
		}
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done() // a violation ends it
	}))
	big := &tunnelapi.Frame{Data: make([]byte, tunnelapi.MaxData+1)}
	post := func(h *tunnelapi.RequestHead) { h.ContentLength = -1 }
	for name, frames := range map[string][]*tunnelapi.Frame{
		"no head":             {{Data: []byte("x")}},
		"empty frame first":   {{}},
		"two heads":           {head(post), head(nil)},
		"answers itself":      {head(post), {Response: &tunnelapi.ResponseHead{Status: 200}}},
		"ends the answer":     {head(post), {Trailer: &tunnelapi.Trailer{}}},
		"oversized data":      {head(post), big},
		"oversized with head": {{Request: head(post).GetRequest(), Data: big.GetData()}},
		"longer than it said": {head(func(h *tunnelapi.RequestHead) { h.ContentLength = 1 }), {Data: []byte("xy")}},
		"body of none":        {{Request: head(nil).GetRequest(), Data: []byte("x")}},
		"no id":               {head(func(h *tunnelapi.RequestHead) { h.Id = "" })},
		"id of lines":         {head(func(h *tunnelapi.RequestHead) { h.Id = "a\nb" })},
		"no method":           {head(func(h *tunnelapi.RequestHead) { h.Method = "" })},
		"method of words":     {head(func(h *tunnelapi.RequestHead) { h.Method = "GET /x" })},
		"CONNECT":             {head(func(h *tunnelapi.RequestHead) { h.Method = http.MethodConnect })},
		"no target":           {head(func(h *tunnelapi.RequestHead) { h.Target = "" })},
		"target with host":    {head(func(h *tunnelapi.RequestHead) { h.Target = "http://169.254.169.254/" })},
		"target of lines":     {head(func(h *tunnelapi.RequestHead) { h.Target = "/x HTTP/1.1\r\nHost: y" })},
		"unknown class":       {head(func(h *tunnelapi.RequestHead) { h.Class = 9 })},
		"no class":            {head(func(h *tunnelapi.RequestHead) { h.Class = 0 })},
		"negative length":     {head(func(h *tunnelapi.RequestHead) { h.ContentLength = -2 })},
		"upgrade to nothing":  {head(func(h *tunnelapi.RequestHead) { h.Class = tunnelapi.Class_UPGRADE })},
		"header with a line":  {head(func(h *tunnelapi.RequestHead) { h.Headers = []*tunnelapi.Header{{Name: "A", Value: "b\r\nC: d"}} })},
		"header with a space": {head(func(h *tunnelapi.RequestHead) {
			h.Headers = []*tunnelapi.Header{{Name: "Impersonate-User ", Value: "b"}}
		})},
		"too many headers": {head(func(h *tunnelapi.RequestHead) {
			for range 2000 {
				h.Headers = append(h.Headers, &tunnelapi.Header{Name: "A"})
			}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := messages(t, client, frames...); status.Code(err) != codes.InvalidArgument {
				t.Errorf("it ends with %v", err)
			}
			if got, err := messages(t, client, head(nil)); err != nil || len(got) != 1 {
				t.Errorf("the next exchange: %v, %v", got, err)
			}
		})
	}
}

// TestAnAgentThatBreaksTheProtocolLosesOneExchange: what arrives is an error, never part of another answer.
func TestAnAgentThatBreaksTheProtocolLosesOneExchange(t *testing.T) {
	ok := func() *tunnelapi.ResponseHead { return &tunnelapi.ResponseHead{Status: 200, ContentLength: -1} }
	end := &tunnelapi.Trailer{}
	for name, frames := range map[string][]*tunnelapi.Frame{
		"no answer":            {},
		"no head":              {{Data: []byte("x")}},
		"two heads":            {{Response: ok()}, {Response: ok()}},
		"no end":               {{Response: ok(), Data: []byte("x")}},
		"more after the end":   {{Response: ok(), Trailer: end}, {Data: []byte("x")}},
		"two ends":             {{Response: ok(), Trailer: end}, {Trailer: end}},
		"oversized data":       {{Response: ok()}, {Data: make([]byte, tunnelapi.MaxData+1)}, {Trailer: end}},
		"oversized with head":  {{Response: ok(), Data: make([]byte, tunnelapi.MaxData+1), Trailer: end}},
		"longer than it said":  {{Response: &tunnelapi.ResponseHead{Status: 200, ContentLength: 1}}, {Data: []byte("xy"), Trailer: end}},
		"shorter than it said": {{Response: &tunnelapi.ResponseHead{Status: 200, ContentLength: 9}}, {Data: []byte("xy"), Trailer: end}},
		"body of none":         {{Response: &tunnelapi.ResponseHead{Status: 204}, Data: []byte("xy"), Trailer: end}},
		"status zero":          {{Response: &tunnelapi.ResponseHead{}, Trailer: end}},
		"status 100":           {{Response: &tunnelapi.ResponseHead{Status: 100}, Trailer: end}},
		"status 9000":          {{Response: &tunnelapi.ResponseHead{Status: 9000}, Trailer: end}},
		"an upgrade unasked":   {{Response: &tunnelapi.ResponseHead{Status: 101, Headers: []*tunnelapi.Header{{Name: "Upgrade", Value: "SPDY/3.1"}}}}},
		"header with a line":   {{Response: &tunnelapi.ResponseHead{Status: 200, Headers: []*tunnelapi.Header{{Name: "A", Value: "b\r\nC: d"}}}, Trailer: end}},
		"trailer with a line":  {{Response: ok()}, {Trailer: &tunnelapi.Trailer{Headers: []*tunnelapi.Header{{Name: "A", Value: "\n"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			rt := transport(connectTo(t, func(stream tunnelapi.Cluster_ProxyServer) error {
				for _, f := range frames {
					if err := stream.Send(f); err != nil {
						return err
					}
				}
				return nil
			}))
			response, err := rt.RoundTrip(request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodGet, "/"))
			if err == nil {
				defer response.Body.Close()
				_, err = io.ReadAll(response.Body)
			}
			e, ok := errors.AsType[*httpstream.Error](err)
			if !errors.Is(err, io.ErrUnexpectedEOF) && (!ok || e.HTTPStatus() < 500) {
				t.Errorf("the caller is told %v", err)
			}
		})
	}
}

// TestAnUpgradeIsOnlyToWhatWasAskedFor is about upgrade confusion.
func TestAnUpgradeIsOnlyToWhatWasAskedFor(t *testing.T) {
	for name, headers := range map[string][]*tunnelapi.Header{
		"nothing named": nil,
		"another":       {{Name: "Upgrade", Value: "websocket"}},
		"two":           {{Name: "Upgrade", Value: "SPDY/3.1"}, {Name: "upgrade", Value: "SPDY/3.1"}},
		"a list":        {{Name: "Upgrade", Value: "SPDY/3.1, websocket"}},
	} {
		t.Run(name, func(t *testing.T) {
			rt := transport(connectTo(t, func(stream tunnelapi.Cluster_ProxyServer) error {
				return stream.Send(&tunnelapi.Frame{Response: &tunnelapi.ResponseHead{Status: 101, Headers: headers}})
			}))
			if response, err := rt.RoundTrip(upgradeRequest(t.Context(), t)); err == nil {
				t.Errorf("the hub is told %s %v", response.Status, response.Header)
			}
		})
		t.Run(name+", at the agent", func(t *testing.T) {
			rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Connection", "Upgrade")
				for _, h := range headers {
					w.Header().Add(h.GetName(), h.GetValue())
				}
				w.WriteHeader(http.StatusSwitchingProtocols)
				if _, err := w.Write(nil); err == nil {
					t.Error("it was taken")
				}
			})))
			if response, err := rt.RoundTrip(upgradeRequest(t.Context(), t)); err == nil {
				t.Errorf("the hub is told %s %v", response.Status, response.Header)
			}
		})
	}
}

// TestAHandlerThatFailsAfterItTookTheConnectionLeavesNothing has what the hub wrote wait to be read, when the handler has gone.
func TestAHandlerThatFailsAfterItTookTheConnectionLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("exchanges", func(t *testing.T) {
		for name, leave := range map[string]func(){"panics": func() { panic(http.ErrAbortHandler) }, "returns": func() {}} {
			taken, wrote := make(chan struct{}), make(chan struct{})
			client := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Connection"], w.Header()["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
				w.WriteHeader(http.StatusSwitchingProtocols)
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				close(taken)
				<-wrote
				if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // of two frames
					t.Error(err)
				}
				leave()
			}))
			r := request(t.Context(), t, tunnelapi.Class_UPGRADE, http.MethodGet, "/x")
			r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
			response, err := transport(client).RoundTrip(r)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			<-taken
			conn, ok := response.Body.(io.ReadWriteCloser)
			if !ok {
				t.Fatal("no connection")
			}
			for range 2 {
				if _, err := conn.Write(make([]byte, tunnelapi.MaxData)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			close(wrote)
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	})
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// TestWhatBecameOfAConnectionIsForTheLogAlone: whoever asked for something of a cluster is not told the addresses of the hub and of
// the agent.
func TestWhatBecameOfAConnectionIsForTheLogAlone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	began := make(chan struct{})
	server := grpc.NewServer()
	tunnelapi.RegisterClusterServer(server, &agent{proxy: func(stream tunnelapi.Cluster_ProxyServer) error {
		close(began)
		<-stream.Context().Done()
		return nil
	}})
	served := make(chan error, 1)
	go func() { served <- server.Serve(noting{listener, accepted}) }()
	dial := func(context.Context, string) (net.Conn, error) { // which is not a bare one at the hub either
		conn, err := net.Dial("tcp", listener.Addr().String())
		return struct{ net.Conn }{conn}, err
	}
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		conn.Close()
		server.Stop()
		<-served
	}()
	failed := make(chan error, 1)
	go func() {
		_, err := transport(tunnelapi.NewClusterClient(conn)).RoundTrip(request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodGet, "/x"))
		failed <- err
	}()
	<-began
	tcp, ok := (<-accepted).(*net.TCPConn)
	if !ok {
		t.Fatal("no TCP")
	}
	tcp.SetLinger(0) // a reset, whose error names both ends
	tcp.Close()
	err = <-failed
	lost, ok := errors.AsType[*httpstream.Error](err)
	if !ok || lost.Code != codes.Unavailable || strings.Contains(lost.Message+lost.Error(), "127.0.0.1") {
		t.Errorf("told: %v", err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("lost", "error", err)
	if !strings.Contains(log.String(), "127.0.0.1") {
		t.Errorf("logged: %s", log.String())
	}
}

// noting hands over the connections that it accepts.
type noting struct {
	net.Listener
	accepted chan<- net.Conn
}

func (l noting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted <- conn
	}
	return conn, err
}
