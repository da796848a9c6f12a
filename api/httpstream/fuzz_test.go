package httpstream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// script is the other end of a stream: it says what it was told to, and remembers what it heard.
type script struct {
	grpc.ServerStream
	grpc.ClientStream
	says  []*tunnelapi.Frame
	heard []*tunnelapi.Frame
}

func (s *script) Recv() (*tunnelapi.Frame, error) {
	if len(s.says) == 0 {
		return nil, io.EOF
	}
	f := s.says[0]
	s.says = s.says[1:]
	return f, nil
}

func (s *script) Send(f *tunnelapi.Frame) error {
	s.heard = append(s.heard, &tunnelapi.Frame{
		Request: f.GetRequest(), Response: f.GetResponse(), Data: bytes.Clone(f.GetData()), Trailer: f.GetTrailer(),
	})
	return nil
}

// agentEnd and hubEnd have the methods that both kinds of streams share.
type agentEnd struct {
	*script
	context func() context.Context
}

func (a agentEnd) Context() context.Context        { return a.context() }
func (a agentEnd) SendMsg(any) error               { return errors.ErrUnsupported }
func (a agentEnd) RecvMsg(any) error               { return errors.ErrUnsupported }
func (a agentEnd) CloseSend() error                { return nil }
func (a agentEnd) Send(f *tunnelapi.Frame) error   { return a.script.Send(f) }
func (a agentEnd) Recv() (*tunnelapi.Frame, error) { return a.script.Recv() }

func encode(t testing.TB, frames ...*tunnelapi.Frame) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, f := range frames {
		if _, err := protodelim.MarshalTo(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func decode(data []byte) []*tunnelapi.Frame {
	var frames []*tunnelapi.Frame
	in := bytes.NewReader(data)
	for len(frames) < 100 {
		f := &tunnelapi.Frame{}
		if (protodelim.UnmarshalOptions{MaxSize: tunnelapi.MaxMessage}).UnmarshalFrom(in, f) != nil {
			break
		}
		frames = append(frames, f)
	}
	return frames
}

// FuzzServe has a hub say anything to an agent.
func FuzzServe(f *testing.F) {
	f.Add(encode(f, head(nil)))
	f.Add(encode(f, head(func(h *tunnelapi.RequestHead) { h.ContentLength = 2 }), &tunnelapi.Frame{Data: []byte("xy")}))
	f.Add(encode(f, head(func(h *tunnelapi.RequestHead) {
		h.Class, h.Headers = tunnelapi.Class_UPGRADE, []*tunnelapi.Header{{Name: "Upgrade", Value: "SPDY/3.1"}, {Name: "Impersonate-User", Value: "x"}}
	}), &tunnelapi.Frame{Data: []byte("xy")}, &tunnelapi.Frame{Data: []byte("z")}))
	f.Add(encode(f, head(func(h *tunnelapi.RequestHead) { h.Method, h.Target = "HEAD", "//x?%zz" }), head(nil)))
	f.Fuzz(func(t *testing.T, data []byte) {
		frames := decode(data)
		stream := agentEnd{&script{says: frames}, t.Context}
		err := httpstream.Serve(stream, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name := range r.Header {
				if secret(name) && name != "Connection" && name != "Upgrade" {
					t.Errorf("the handler sees %q", name)
				}
			}
			if !strings.HasPrefix(r.RequestURI, "/") || r.URL.Host != "" || r.Host != "" {
				t.Errorf("the handler sees a host: %q", r.RequestURI)
			}
			if call, ok := httpstream.CallOf(r.Context()); ok && call.Class == tunnelapi.Class_UPGRADE {
				upgrades(call.ID > "m", func(conn halves, _ *bufio.ReadWriter) { io.Copy(conn, conn) })(w, r)
				return
			}
			io.Copy(w, r.Body)
		}))
		checkAnswer(t, stream.heard, err)
	})
}

// checkAnswer holds an agent's half to the protocol.
func checkAnswer(t *testing.T, heard []*tunnelapi.Frame, err error) {
	t.Helper()
	for i, frame := range heard {
		switch {
		case (frame.GetResponse() != nil) != (i == 0):
			t.Errorf("frame %d of %d: head %v", i, len(heard), frame.GetResponse())
		case len(frame.GetData()) > tunnelapi.MaxData:
			t.Errorf("frame %d has %d bytes", i, len(frame.GetData()))
		case frame.GetTrailer() != nil && i < len(heard)-1:
			t.Errorf("frame %d of %d is the last", i, len(heard))
		}
	}
	if err == nil && (len(heard) == 0 || heard[len(heard)-1].GetTrailer() == nil) {
		t.Error("an answer without an end is no error")
	}
}

// FuzzRoundTrip has an agent say anything to its hub.
func FuzzRoundTrip(f *testing.F) {
	ok, end := &tunnelapi.ResponseHead{Status: 200, ContentLength: -1}, &tunnelapi.Trailer{}
	f.Add(encode(f, &tunnelapi.Frame{Response: ok, Data: []byte("x"), Trailer: end}), false)
	f.Add(encode(f, &tunnelapi.Frame{Response: ok}, &tunnelapi.Frame{Data: []byte("x")}, &tunnelapi.Frame{Trailer: end}, &tunnelapi.Frame{}), false)
	f.Add(encode(f, &tunnelapi.Frame{Response: &tunnelapi.ResponseHead{Status: 101, Headers: []*tunnelapi.Header{{Name: "Upgrade", Value: "SPDY/3.1"}}}},
		&tunnelapi.Frame{Data: []byte("x")}, &tunnelapi.Frame{Trailer: end}), true)
	f.Add(encode(f, &tunnelapi.Frame{Response: &tunnelapi.ResponseHead{Status: 302, ContentLength: 7, Headers: []*tunnelapi.Header{{Name: "Location", Value: "//x"}}}}), false)
	f.Fuzz(func(t *testing.T, data []byte, upgrade bool) {
		frames := decode(data)
		rt := &httpstream.Transport{Open: func(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error) {
			return hubEnd{agentEnd{&script{says: frames}, func() context.Context { return ctx }}}, nil
		}}
		r := request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodGet, "/")
		if upgrade {
			r = upgradeRequest(t.Context(), t)
		}
		response, err := rt.RoundTrip(r)
		if err != nil {
			return
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusSwitchingProtocols && !upgrade {
			t.Error("an upgrade that nobody asked for")
		}
		for name := range response.Header {
			if secret(name) && !asked(name) && name != "Connection" && name != "Upgrade" && name != "Content-Length" {
				t.Errorf("the hub sees %q", name)
			}
		}
		body, err := io.ReadAll(response.Body)
		if err == nil && !ended(frames) {
			t.Errorf("%d bytes without an end are taken for whole", len(body))
		}
		if err == nil && response.ContentLength > 0 && int64(len(body)) != response.ContentLength && !upgrade && response.StatusCode != http.StatusNotModified {
			t.Errorf("%d bytes for %d", len(body), response.ContentLength)
		}
		recorder := httptest.NewRecorder() // what is left is fit for any server
		for name, values := range response.Header {
			recorder.Header()[name] = values
		}
		recorder.WriteHeader(max(response.StatusCode, 200))
	})
}

type hubEnd struct{ agentEnd }

func (hubEnd) Header() (metadata.MD, error) { return nil, nil }
func (hubEnd) Trailer() metadata.MD         { return nil }

func ended(frames []*tunnelapi.Frame) bool {
	for _, f := range frames {
		if f.GetTrailer() != nil {
			return true
		}
	}
	return false
}
