package httpstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// answered is an answer as a caller sees it.
type answered struct {
	Status  int
	Length  int64
	Header  http.Header
	Body    string
	Trailer http.Header
}

func do(t testing.TB, rt http.RoundTripper, r *http.Request) answered {
	t.Helper()
	response, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{response.StatusCode, response.ContentLength, response.Header, string(body), response.Trailer}
}

func TestAnAnswerArrivesAsItWasGiven(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20_000)
	for name, tt := range map[string]struct {
		method  string
		handler http.HandlerFunc
		want    answered
	}{
		"nothing written": {handler: func(http.ResponseWriter, *http.Request) {}, want: answered{Status: 200, Length: -1, Header: http.Header{}}},
		"status alone": {
			handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
			want:    answered{Status: 418, Length: -1, Header: http.Header{}},
		},
		"length known": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "5")
				w.Header()["Warning"] = []string{"299 - one", "299 - two"}
				io.WriteString(w, "hello")
			},
			want: answered{200, 5, http.Header{"Content-Length": {"5"}, "Warning": {"299 - one", "299 - two"}}, "hello", nil},
		},
		"large": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, "<")
				io.WriteString(w, big)
				io.WriteString(w, ">")
			},
			want: answered{Status: 200, Length: -1, Header: http.Header{}, Body: "<" + big + ">"},
		},
		"HEAD": {
			method: http.MethodHead,
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "500")
				io.WriteString(w, "not sent")
			},
			want: answered{Status: 200, Length: 500, Header: http.Header{"Content-Length": {"500"}}},
		},
		"not modified": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Etag", `"x"`)
				w.Header().Set("Content-Length", "500")
				w.WriteHeader(http.StatusNotModified)
				if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
					panic(err)
				}
			},
			want: answered{Status: 304, Length: 500, Header: http.Header{"Etag": {`"x"`}, "Content-Length": {"500"}}},
		},
		"no content": {
			handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			want:    answered{Status: 204, Length: 0, Header: http.Header{}},
		},
		"early hints are left out": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusAccepted)
				w.WriteHeader(http.StatusTeapot)
			},
			want: answered{Status: 202, Length: -1, Header: http.Header{}},
		},
		"trailers": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Trailer", "Grpc-Status, Absent")
				io.WriteString(w, "x")
				w.Header().Set("Grpc-Status", "0")
				w.Header().Set(http.TrailerPrefix+"Late", "1")
			},
			want: answered{200, -1, http.Header{}, "x", http.Header{"Grpc-Status": {"0"}, "Late": {"1"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = http.MethodGet
			}
			got := do(t, transport(connect(t, tt.handler)), request(t.Context(), t, tunnelapi.Class_UNARY, tt.method, "/"))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARequestArrivesAsItWasMade(t *testing.T) {
	var got *http.Request
	var body []byte
	rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})))
	for _, target := range []string{
		"/api/v1/pods", "/a%2Fb", "//host/x", "/a//b/", "/%41?x=%zz;y&z", "/?", "/apis?fieldSelector=a%3Db&watch", "/\u00e9",
	} {
		r := request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodPut, "/")
		r.URL.Opaque, r.URL.RawQuery, r.URL.ForceQuery = target, "", false
		if path, query, found := strings.Cut(target, "?"); found {
			r.URL.Opaque, r.URL.RawQuery, r.URL.ForceQuery = path, query, true
		}
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("hello")), 5
		r.Header = http.Header{"Accept": {"a", "b"}, "X-Stuff": {""}}
		do(t, rt, r)
		if got.RequestURI != target || got.Method != http.MethodPut || got.ContentLength != 5 || string(body) != "hello" || got.Host != "" {
			t.Errorf("%s %s arrived with %d bytes %q", got.Method, got.RequestURI, got.ContentLength, body)
		}
		if diff := cmp.Diff(http.Header{"Accept": {"a", "b"}, "X-Stuff": {""}}, got.Header); diff != "" {
			t.Error(diff)
		}
		c, ok := httpstream.CallOf(got.Context())
		if !ok || c.ID != "r-1" || c.Identity.GetUser() != "plural:ana" || c.Class != tunnelapi.Class_UNARY {
			t.Errorf("the handler has call %v", c)
		}
	}
}

func TestABodyArrivesWhateverItsSize(t *testing.T) {
	rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d of %d, %v", n, r.ContentLength, err)
	})))
	for _, size := range []int{0, 1, tunnelapi.MaxData - 1, tunnelapi.MaxData, tunnelapi.MaxData + 1, 300_000} {
		for _, known := range []bool{true, false} {
			r := request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodPost, "/")
			r.Body, r.ContentLength = io.NopCloser(iotest.HalfReader(bytes.NewReader(make([]byte, size)))), -1
			if known {
				r.ContentLength = int64(size)
			}
			declared := r.ContentLength
			if known && size == 0 {
				declared = -1 // a body of which nothing is said
			}
			if got, want := do(t, rt, r).Body, fmt.Sprintf("%d of %d, <nil>", size, declared); got != want {
				t.Errorf("%d bytes, known %v: %s", size, known, got)
			}
		}
	}
}

// messages are the frames that an agent answers with.
func messages(t *testing.T, client tunnelapi.ClusterClient, frames ...*tunnelapi.Frame) ([]*tunnelapi.Frame, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := client.Proxy(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := stream.Send(f); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	stream.CloseSend()
	var got []*tunnelapi.Frame
	for {
		f, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, f)
	}
}

func head(change func(*tunnelapi.RequestHead)) *tunnelapi.Frame {
	h := &tunnelapi.RequestHead{Id: "r-1", Method: http.MethodGet, Target: "/api", Class: tunnelapi.Class_UNARY}
	if change != nil {
		change(h)
	}
	return &tunnelapi.Frame{Request: h}
}

func TestAShortAnswerIsOneMessage(t *testing.T) {
	got, err := messages(t, connect(t, http.HandlerFunc(servePage)), head(nil))
	if err != nil || len(got) != 1 || got[0].GetResponse() == nil || len(got[0].GetData()) != len(page) || got[0].GetTrailer() == nil {
		t.Errorf("%d messages: %v, %v", len(got), got, err)
	}
}

func TestAShortRequestIsOneMessage(t *testing.T) {
	frames := make(chan *tunnelapi.Frame, 1)
	rt := transport(connectTo(t, func(stream tunnelapi.Cluster_ProxyServer) error {
		f, err := stream.Recv()
		if err != nil {
			return err
		}
		frames <- f
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("a second message, %v", err)
		}
		return stream.Send(&tunnelapi.Frame{Response: &tunnelapi.ResponseHead{Status: 200, ContentLength: -1}, Trailer: &tunnelapi.Trailer{}})
	}))
	r := request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodPost, "/api")
	r.Body, r.ContentLength = io.NopCloser(iotest.OneByteReader(strings.NewReader("hello"))), 5
	do(t, rt, r)
	if f := <-frames; f.GetRequest() == nil || string(f.GetData()) != "hello" {
		t.Errorf("the message is %v", f)
	}
}

func TestEachFlushArrivesAtOnce(t *testing.T) {
	seen := make(chan struct{})
	rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for i := range 3 {
			fmt.Fprintf(w, "event %d", i)
			w.(http.Flusher).Flush()
			<-seen // nothing more is written until it has arrived
		}
	})))
	response, err := rt.RoundTrip(request(t.Context(), t, tunnelapi.Class_WATCH, http.MethodGet, "/api?watch=1"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for i := range 3 {
		event := make([]byte, 7)
		if _, err := io.ReadFull(response.Body, event); err != nil || string(event) != fmt.Sprintf("event %d", i) {
			t.Fatal(string(event), err)
		}
		seen <- struct{}{}
	}
}

func TestBodyAndAnswerFlowAtTheSameTime(t *testing.T) {
	rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := http.NewResponseController(w)
		if err := at.EnableFullDuplex(); err != nil {
			panic(err)
		}
		for one := make([]byte, 1); ; {
			if _, err := io.ReadFull(r.Body, one); err != nil {
				return
			}
			w.Write(one)
			at.Flush()
		}
	})))
	body, says := io.Pipe()
	r := request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodPost, "/")
	r.Body, r.ContentLength = body, -1
	go says.Write([]byte("a"))
	response, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for _, letter := range "abc" {
		if letter != 'a' {
			says.Write([]byte(string(letter)))
		}
		one := make([]byte, 1)
		if _, err := io.ReadFull(response.Body, one); err != nil || rune(one[0]) != letter {
			t.Fatal(string(one), err)
		}
	}
	says.Close()
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Error(rest, err)
	}
}

// TestAStoppedReaderStallsOnlyItself is about a tunnel on which konnectivity serves nobody any more.
func TestAStoppedReaderStallsOnlyItself(t *testing.T) {
	rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			servePage(w, r)
			return
		}
		for range 64 << 20 / tunnelapi.MaxData {
			if _, err := w.Write(make([]byte, tunnelapi.MaxData)); err != nil {
				return
			}
		}
	})))
	for range 4 {
		response, err := rt.RoundTrip(request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodGet, "/huge"))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close() // nobody reads it
	}
	for range 100 {
		do(t, rt, request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodGet, "/small"))
	}
}

func TestAnAnswerThatIsNotWholeIsNotTakenForWhole(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"aborted": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"shorter than it said": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			io.WriteString(w, "part")
			w.(http.Flusher).Flush()
		},
		"panic": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			panic("x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt := transport(connect(t, handler))
			response, err := rt.RoundTrip(request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodGet, "/"))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); string(body) != "part" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q, %v", body, err)
			}
		})
	}
}

func TestARequestBodyThatFailsIsNotTakenForWhole(t *testing.T) {
	broken := errors.New("the client went away")
	for name, tt := range map[string]struct {
		length int64
		body   io.Reader
		want   error
	}{
		"fails":     {-1, io.MultiReader(strings.NewReader("part"), iotest.ErrReader(broken)), broken},
		"short":     {100, strings.NewReader("part"), io.ErrUnexpectedEOF},
		"too short": {1 << 20, strings.NewReader("part"), io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			rt := transport(connect(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				ended <- err
			})))
			r := request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodPost, "/")
			r.Body, r.ContentLength = io.NopCloser(tt.body), tt.length
			if _, err := rt.RoundTrip(r); !errors.Is(err, tt.want) {
				t.Errorf("the caller is told %v", err)
			}
			select {
			case err := <-ended:
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("the agent is told %v", err)
				}
			default: // the stream ended before the handler saw it
			}
		})
	}
}

func TestARefusalBeforeTheBodyIsReadArrives(t *testing.T) {
	rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })))
	body, _ := io.Pipe() // never says anything
	r := request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodPost, "/")
	r.Body, r.ContentLength = body, -1
	if got := do(t, rt, r); got.Status != http.StatusForbidden {
		t.Error(got)
	}
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		eventually(t, func() bool {
			_, err := body.Read(make([]byte, 1))
			return errors.Is(err, io.ErrClosedPipe)
		})
	}
}

func TestErrorsHaveAnHTTPStatus(t *testing.T) {
	want := map[codes.Code]int{
		codes.Unavailable: 503, codes.ResourceExhausted: 429, codes.DeadlineExceeded: 504, codes.PermissionDenied: 403,
		codes.InvalidArgument: 400, codes.Unimplemented: 501, codes.Internal: 502, codes.Unknown: 502, codes.Unauthenticated: 502,
	}
	for _, code := range slices.Collect(maps.Keys(want)) {
		rt := transport(connectTo(t, func(tunnelapi.Cluster_ProxyServer) error { return &httpstream.Error{Code: code, Message: "because"} }))
		_, err := rt.RoundTrip(request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodGet, "/"))
		e, ok := errors.AsType[*httpstream.Error](err)
		if !ok || e.HTTPStatus() != want[code] || e.Message != "because" || e.Unsent {
			t.Errorf("%s: %v", code, err)
		}
	}
	rt := transport(connectTo(t, func(tunnelapi.Cluster_ProxyServer) error { return status.Error(tunnelapi.NotPassedOn, "because") }))
	_, err := rt.RoundTrip(request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodPost, "/"))
	if e, ok := errors.AsType[*httpstream.Error](err); !ok || e.HTTPStatus() != http.StatusServiceUnavailable || !e.Unsent {
		t.Errorf("not passed on: %v", err)
	}
	failing := &httpstream.Transport{Open: func(context.Context) (tunnelapi.Cluster_ProxyClient, error) {
		return nil, &httpstream.Error{Code: codes.ResourceExhausted, Message: "full"}
	}}
	_, err = failing.RoundTrip(request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodGet, "/"))
	if e, ok := errors.AsType[*httpstream.Error](err); !ok || e.HTTPStatus() != http.StatusTooManyRequests || !e.Unsent {
		t.Errorf("no stream: %v", err)
	}
}
