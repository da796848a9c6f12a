package apiproxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/api/httpstream"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// TestRedirectsAreNotFollowed is A11 and CVE-2020-8559: for the agent there is one server.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var strayed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	defer elsewhere.Close()
	for _, location := range []string{elsewhere.URL + "/x", strings.TrimPrefix(elsewhere.URL, "http:"), "/api/v1/other"} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			asked := 0
			rt := through(t, func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Location", location)
				w.Header().Set("Set-Cookie", "a=b")
				w.WriteHeader(code)
			})
			for _, r := range []*http.Request{
				ask(t.Context(), t, ana(), http.MethodGet, "/api/v1/pods", ""),
				upgrading(ask(t.Context(), t, ana(), http.MethodPost, "/api/v1/namespaces/x/pods/y/exec", ""), "SPDY/3.1"),
			} {
				asked = 0
				got := do(t, rt, r)
				own := strings.HasPrefix(location, "/api")
				if got.Status != code || asked != 1 || (got.Header.Get("Location") != "") != own || len(got.Header["Set-Cookie"]) > 0 {
					t.Errorf("%d to %s: %d after %d requests, %v", code, location, got.Status, asked, got.Header)
				}
			}
		}
	}
	if strayed.Load() > 0 {
		t.Errorf("%d requests went elsewhere", strayed.Load())
	}
}

// TestNoPathLeadsElsewhere is about SSRF (CVE-2026-66794): paths that programs on the way could read differently.
func TestNoPathLeadsElsewhere(t *testing.T) {
	reached := []string{}
	rt := through(t, func(_ http.ResponseWriter, r *http.Request) { reached = append(reached, r.RequestURI) })
	for _, target := range []string{
		"//169.254.169.254/latest", "/api//v1/pods", "/api/v1/../../x", "/api/v1/./pods", "/api/v1/%2e%2e/x", "/api/v1/%2E%2E%2fx",
		"/api/v1/pods%2f..", "/api/v1/pods;x=y", "/api/v1/pods\\x", "/api/v1/pods%5cx", "/api/v1/pods%00", "/api/v1/%252e%252e/x",
	} {
		if got := do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, target, "")); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", target, got.Status)
		}
	}
	if len(reached) > 0 {
		t.Errorf("reached %q", reached)
	}
	for _, target := range []string{"/api/v1/pods?labelSelector=a%2Fb&x=//", "/apis/x.io/v1/things/a%20b", "/api/v1/pods?"} {
		do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, target, ""))
		if n := len(reached); n == 0 || reached[n-1] != target {
			t.Errorf("%s arrived as %q", target, reached)
		}
	}
}

// raw is an API server of which a test writes each byte.
func raw(t *testing.T, serve func(net.Conn, *http.Request)) *rest.Config {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					serve(conn, r)
				}
			}()
		}
	}()
	return &rest.Config{Host: "http://" + listener.Addr().String()}
}

// TestARefusedUpgradeLeavesNoConnectionBehind is CVE-2018-1002105: whatever is not a 101 for what was asked ends the connection, and
// nothing that the client sends reaches the API server.
func TestARefusedUpgradeLeavesNoConnectionBehind(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		want   int
	}{
		"200":                {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200},
		"302":                {"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 302},
		"400 with upgrade":   {"HTTP/1.1 400 Bad\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n", 400},
		"403":                {"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", 403},
		"500 without length": {"HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\noops", 500},
		"100, then 403":      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403},
		"101 to another":     {"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 502},
		"101 to nothing":     {"HTTP/1.1 101 Switching\r\n\r\n", 502},
		"101 to two":         {"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nUpgrade: SPDY/3.1\r\n\r\n", 502},
		"garbage":            {"SSH-2.0-OpenSSH\r\n", 503},
		"nothing":            {"", 503},
		"status 99":          {"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			ended := make(chan string, 1)
			o, _ := options(raw(t, func(conn net.Conn, _ *http.Request) {
				io.WriteString(conn, tt.answer)
				if tt.answer == "" || strings.Contains(tt.answer, "close") {
					conn.Close()
				}
				rest, _ := io.ReadAll(conn) // until the agent closes it
				ended <- string(rest)
			}), apiproxy.Policy{})
			rt := transport(hub(t, handler(t, o)))
			response, err := rt.RoundTrip(upgrading(ask(t.Context(), t, ana(), http.MethodPost, "/api/v1/namespaces/x/pods/y/exec", "smuggled"), "SPDY/3.1"))
			if err == nil {
				if w, ok := response.Body.(io.Writer); ok {
					w.Write([]byte("GET /api/v1/secrets HTTP/1.1\r\n\r\n"))
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode != tt.want {
					t.Errorf("the person is told %d", response.StatusCode)
				}
			} else if tt.want != 0 {
				t.Error(err)
			}
			if rest := <-ended; rest != "" {
				t.Errorf("the API server was sent %q", rest)
			}
		})
	}
}

type halves interface {
	io.ReadWriteCloser
	CloseWrite() error
}

func TestAnUpgradedConnectionIsPassedThroughWithItsLeftoversAndHalves(t *testing.T) {
	leavesNothing(t)
	heard := make(chan string, 1)
	o, _ := options(raw(t, func(conn net.Conn, r *http.Request) {
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\nfirst words", r.Header.Get("Upgrade"))
		said, _ := io.ReadAll(conn) // until the person's half ends
		io.WriteString(conn, "last words")
		conn.(*net.TCPConn).CloseWrite()
		heard <- string(said)
	}), apiproxy.Policy{})
	rt := transport(hub(t, handler(t, o)))
	response, err := rt.RoundTrip(upgrading(ask(t.Context(), t, ana(), http.MethodPost, "/api/v1/namespaces/x/pods/y/exec", ""), "spdy/3.1"))
	if err != nil {
		t.Fatal(err)
	}
	conn, ok := response.Body.(halves)
	if !ok || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(response.Status)
	}
	defer conn.Close()
	first := make([]byte, len("first words"))
	if _, err := io.ReadFull(conn, first); err != nil || string(first) != "first words" {
		t.Fatal(string(first), err)
	}
	io.WriteString(conn, "hello")
	conn.CloseWrite()
	if last, err := io.ReadAll(conn); string(last) != "last words" || err != nil {
		t.Error(string(last), err)
	}
	if got := <-heard; got != "hello" {
		t.Errorf("the API server heard %q", got)
	}
}

func TestWhenAPersonLeavesTheAPIServerIsLeftToo(t *testing.T) {
	for name, upgrade := range map[string]bool{"watch": false, "upgrade": true} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			left := make(chan struct{})
			o, _ := options(raw(t, func(conn net.Conn, _ *http.Request) {
				answer := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
				if upgrade {
					answer = "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nx"
				}
				io.WriteString(conn, answer)
				io.Copy(io.Discard, conn)
				close(left)
			}), apiproxy.Policy{})
			rt := transport(hub(t, handler(t, o)))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := ask(ctx, t, ana(), http.MethodGet, "/api/v1/pods?watch=1", "")
			if upgrade {
				r = upgrading(r, "SPDY/3.1")
			}
			response, err := rt.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if _, err := io.ReadFull(response.Body, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			cancel()
			<-left
		})
	}
}

// TestAPartIsNotTakenForTheWhole: an answer that breaks off does so for the person too.
func TestAPartIsNotTakenForTheWhole(t *testing.T) {
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\npart",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := options(raw(t, func(conn net.Conn, _ *http.Request) { io.WriteString(conn, answer) }), apiproxy.Policy{})
			response, err := transport(hub(t, handler(t, o))).RoundTrip(ask(t.Context(), t, ana(), http.MethodGet, "/api", ""))
			if err == nil {
				defer response.Body.Close()
				_, err = io.ReadAll(response.Body)
			}
			e, ok := errors.AsType[*httpstream.Error](err)
			if !errors.Is(err, io.ErrUnexpectedEOF) && (!ok || e.HTTPStatus() < 500) {
				t.Error(err)
			}
		})
	}
}

// TestThePersonIsNotAskedToLogInForTheAgent: a 401 is about the agent's account, unless it is a service's own.
func TestThePersonIsNotAskedToLogInForTheAgent(t *testing.T) {
	rt := through(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	if got := do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, "/api/v1/pods", "")); got.status(t).Code != http.StatusServiceUnavailable {
		t.Error(got)
	}
	if got := do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, "/api/v1/namespaces/x/services/y/proxy/", "")); got.Status != http.StatusUnauthorized {
		t.Error(got)
	}
}

func TestAnAPIServerThatIsAwayIsSaidToBe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	o, _ := options(&rest.Config{Host: "http://" + listener.Addr().String()}, apiproxy.Policy{})
	got := do(t, transport(hub(t, handler(t, o))), ask(t.Context(), t, ana(), http.MethodGet, "/api", ""))
	if s := got.status(t); s.Code != http.StatusServiceUnavailable || strings.Contains(s.Message, listener.Addr().String()) {
		t.Error(s)
	}
}

// TestAnEventPassesAtOnce: nothing is held back until more comes.
func TestAnEventPassesAtOnce(t *testing.T) {
	more := make(chan struct{})
	rt := through(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			io.WriteString(w, "event")
			http.NewResponseController(w).Flush()
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	response, err := rt.RoundTrip(ask(ctx, t, ana(), http.MethodGet, "/api/v1/pods?watch=true", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for range 3 {
		if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		more <- struct{}{}
	}
}

// TestAnAPIServerMayStandBelowAPath, as those of some providers do.
func TestAnAPIServerMayStandBelowAPath(t *testing.T) {
	var got string
	kube := server(t, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	kube.Host += "/k8s/clusters/c-1"
	o, _ := options(kube, apiproxy.Policy{})
	rt := transport(hub(t, handler(t, o)))
	do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, "/apis/x.io/v1/things/a%20b?x=%2F", ""))
	if got != "/k8s/clusters/c-1/apis/x.io/v1/things/a%20b?x=%2F" {
		t.Error(got)
	}
}

// TestCompressedAnswersAreNotOpened: what an API server sends costs the agent no more than its bytes.
func TestCompressedAnswersAreNotOpened(t *testing.T) {
	rt := through(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "no gzip, asked with "+r.Header.Get("Accept-Encoding"))
	})
	for _, accept := range []string{"", "gzip"} {
		r := ask(t.Context(), t, ana(), http.MethodGet, "/api", "")
		if accept != "" {
			r.Header.Set("Accept-Encoding", accept)
		}
		if got := do(t, rt, r); got.Body != "no gzip, asked with "+accept || got.Header.Get("Content-Encoding") != "gzip" {
			t.Error(got)
		}
	}
}
