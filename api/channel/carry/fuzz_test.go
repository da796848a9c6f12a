package carry_test

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

	"github.com/pluralsh/plural/api/channel"
	"github.com/pluralsh/plural/api/channel/carry"
)

// script is the other end of a stream: it says what it was told to, and remembers what it heard.
type script struct {
	grpc.ServerStream
	grpc.ClientStream
	says  []*channel.Frame
	heard []*channel.Frame
}

func (s *script) Recv() (*channel.Frame, error) {
	if len(s.says) == 0 {
		return nil, io.EOF
	}
	f := s.says[0]
	s.says = s.says[1:]
	return f, nil
}

func (s *script) Send(f *channel.Frame) error {
	s.heard = append(s.heard, &channel.Frame{
		Request: f.GetRequest(), Response: f.GetResponse(), Data: bytes.Clone(f.GetData()), Trailer: f.GetTrailer(),
	})
	return nil
}

// agentEnd and hubEnd have the methods that both kinds of streams share.
type agentEnd struct {
	*script
	context func() context.Context
}

func (a agentEnd) Context() context.Context      { return a.context() }
func (a agentEnd) SendMsg(any) error             { return errors.ErrUnsupported }
func (a agentEnd) RecvMsg(any) error             { return errors.ErrUnsupported }
func (a agentEnd) CloseSend() error              { return nil }
func (a agentEnd) Send(f *channel.Frame) error   { return a.script.Send(f) }
func (a agentEnd) Recv() (*channel.Frame, error) { return a.script.Recv() }

func encode(t testing.TB, frames ...*channel.Frame) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, f := range frames {
		if _, err := protodelim.MarshalTo(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func decode(data []byte) []*channel.Frame {
	var frames []*channel.Frame
	in := bytes.NewReader(data)
	for len(frames) < 100 {
		f := &channel.Frame{}
		if (protodelim.UnmarshalOptions{MaxSize: channel.MaxMessage}).UnmarshalFrom(in, f) != nil {
			break
		}
		frames = append(frames, f)
	}
	return frames
}

// FuzzServe has a hub say anything to an agent.
func FuzzServe(f *testing.F) {
	f.Add(encode(f, head(nil)))
	f.Add(encode(f, head(func(h *channel.RequestHead) { h.ContentLength = 2 }), &channel.Frame{Data: []byte("xy")}))
	f.Add(encode(f, head(func(h *channel.RequestHead) {
		h.Class, h.Headers = channel.Class_UPGRADE, []*channel.Header{{Name: "Upgrade", Value: "SPDY/3.1"}, {Name: "Impersonate-User", Value: "x"}}
	}), &channel.Frame{Data: []byte("xy")}, &channel.Frame{Data: []byte("z")}))
	f.Add(encode(f, head(func(h *channel.RequestHead) { h.Method, h.Target = "HEAD", "//x?%zz" }), head(nil)))
	f.Fuzz(func(t *testing.T, data []byte) {
		frames := decode(data)
		stream := agentEnd{&script{says: frames}, t.Context}
		err := carry.Serve(stream, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name := range r.Header {
				if secret(name) && name != "Connection" && name != "Upgrade" {
					t.Errorf("the handler sees %q", name)
				}
			}
			if !strings.HasPrefix(r.RequestURI, "/") || r.URL.Host != "" || r.Host != "" {
				t.Errorf("the handler sees a host: %q", r.RequestURI)
			}
			if call, ok := carry.CallOf(r.Context()); ok && call.Class == channel.Class_UPGRADE {
				upgrades(call.ID > "m", func(conn halves, _ *bufio.ReadWriter) { io.Copy(conn, conn) })(w, r)
				return
			}
			io.Copy(w, r.Body)
		}))
		checkAnswer(t, stream.heard, err)
	})
}

// checkAnswer holds an agent's half to the protocol.
func checkAnswer(t *testing.T, heard []*channel.Frame, err error) {
	t.Helper()
	for i, frame := range heard {
		switch {
		case (frame.GetResponse() != nil) != (i == 0):
			t.Errorf("frame %d of %d: head %v", i, len(heard), frame.GetResponse())
		case len(frame.GetData()) > channel.MaxData:
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
	ok, end := &channel.ResponseHead{Status: 200, ContentLength: -1}, &channel.Trailer{}
	f.Add(encode(f, &channel.Frame{Response: ok, Data: []byte("x"), Trailer: end}), false)
	f.Add(encode(f, &channel.Frame{Response: ok}, &channel.Frame{Data: []byte("x")}, &channel.Frame{Trailer: end}, &channel.Frame{}), false)
	f.Add(encode(f, &channel.Frame{Response: &channel.ResponseHead{Status: 101, Headers: []*channel.Header{{Name: "Upgrade", Value: "SPDY/3.1"}}}},
		&channel.Frame{Data: []byte("x")}, &channel.Frame{Trailer: end}), true)
	f.Add(encode(f, &channel.Frame{Response: &channel.ResponseHead{Status: 302, ContentLength: 7, Headers: []*channel.Header{{Name: "Location", Value: "//x"}}}}), false)
	f.Fuzz(func(t *testing.T, data []byte, upgrade bool) {
		frames := decode(data)
		rt := &carry.Transport{Open: func(ctx context.Context) (channel.Cluster_ProxyClient, error) {
			return hubEnd{agentEnd{&script{says: frames}, func() context.Context { return ctx }}}, nil
		}}
		r := request(t.Context(), t, channel.Class_UNARY, http.MethodGet, "/")
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

func ended(frames []*channel.Frame) bool {
	for _, f := range frames {
		if f.GetTrailer() != nil {
			return true
		}
	}
	return false
}
