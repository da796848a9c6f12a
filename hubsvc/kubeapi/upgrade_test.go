package kubeapi_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/kubeapi"
)

const execTarget = "/api/v1/namespaces/a/pods/b/exec?command=sh"

// upgradeRequest is ana's, as it goes over HTTP/1.1.
func upgradeRequest(more ...string) string {
	lines := append([]string{
		"GET /k8s/edge" + execTarget + " HTTP/1.1", "Host: hub.example.com", "Authorization: Bearer token-ana",
		"Connection: Upgrade", "Upgrade: websocket",
	}, more...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// switching is a cluster that agrees to an upgrade, and gives the connection to talk.
func switching(talk func(conn net.Conn, from *bufio.Reader)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.Header().Set("Sec-Websocket-Protocol", "v5.channel.k8s.io")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		talk(conn, buffered.Reader)
	})
}

// upgraded sends the request, and reads the head of the answer.
func (w *world) upgraded(raw string) (net.Conn, *bufio.Reader, *http.Response) {
	w.t.Helper()
	conn := w.dial()
	if _, err := io.WriteString(conn, raw); err != nil {
		w.t.Fatal(err)
	}
	from := bufio.NewReader(conn)
	resp, err := http.ReadResponse(from, &http.Request{Method: http.MethodGet})
	if err != nil {
		w.t.Fatal(err)
	}
	return conn, from, resp
}

func TestConnectionGoesBothWaysAndEachHalfEndsByItself(t *testing.T) {
	w := newWorld(t, switching(func(conn net.Conn, from *bufio.Reader) {
		for {
			line, err := from.ReadString('\n')
			if err != nil {
				break
			}
			io.WriteString(conn, "heard "+line)
		}
		io.WriteString(conn, "goodbye\n") // after the client's half has ended
	}))
	// what follows the request at once is read as well
	conn, from, resp := w.upgraded(upgradeRequest() + "early\n")
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "websocket" ||
		resp.Header.Get("Connection") != "Upgrade" || resp.Header.Get("Sec-Websocket-Protocol") != "v5.channel.k8s.io" {
		t.Fatalf("answer is %d %v", resp.StatusCode, resp.Header)
	}
	if line, err := from.ReadString('\n'); line != "heard early\n" {
		t.Fatalf("first line is %q, %v", line, err)
	}
	io.WriteString(conn, "late\n")
	if line, err := from.ReadString('\n'); line != "heard late\n" {
		t.Fatalf("second line is %q, %v", line, err)
	}
	conn.(interface{ CloseWrite() error }).CloseWrite()
	if rest, err := io.ReadAll(from); string(rest) != "goodbye\n" || err != nil {
		t.Fatalf("rest is %q, %v", rest, err)
	}
	records := w.ended()
	if len(records) != 2 || records[0].Stage != "start" || records[1].Stage != "end" || records[0].ID != records[1].ID {
		t.Fatalf("records are %+v", records)
	}
	if r := records[1]; r.Status != 101 || r.Cause != "done" || r.BytesIn != 11 || r.BytesOut != 31 || r.Subresource != "exec" ||
		strings.Contains(r.Path, "command") || !r.Must {
		t.Errorf("record is %+v", r)
	}
}

func TestClusterEndsTheConnection(t *testing.T) {
	w := newWorld(t, switching(func(conn net.Conn, _ *bufio.Reader) { io.WriteString(conn, "bye") }))
	_, from, _ := w.upgraded(upgradeRequest())
	if rest, err := io.ReadAll(from); string(rest) != "bye" || err != nil {
		t.Fatalf("rest is %q, %v", rest, err)
	}
}

func TestClientThatGoesEndsTheConnection(t *testing.T) {
	left := make(chan struct{})
	w := newWorld(t, switching(func(conn net.Conn, from *bufio.Reader) {
		defer close(left)
		io.Copy(io.Discard, from)
	}))
	conn, _, _ := w.upgraded(upgradeRequest())
	conn.Close()
	<-left
	w.ended()
}

func TestHalfOpenConnectionDoesNotStay(t *testing.T) {
	stay := make(chan struct{})
	w := newWorld(t, switching(func(net.Conn, *bufio.Reader) { <-stay }),
		func(o *kubeapi.Options) { o.Limits.HalfClosed = 20 * time.Millisecond })
	t.Cleanup(func() { close(stay) })
	conn, _, _ := w.upgraded(upgradeRequest())
	conn.(interface{ CloseWrite() error }).CloseWrite()
	if last := w.last(); last.Cause != "the other half stayed open" {
		t.Errorf("record is %+v", last)
	}
}

// CVE-2018-1002105, U6: a refusal is an answer, and nothing goes over the connection after it.
func TestRefusedUpgradeIsAnAnswerAndLeavesNoConnection(t *testing.T) {
	for _, code := range []int{200, 302, 400, 403, 404, 500} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "https://elsewhere.example.com/")
				w.WriteHeader(code)
				io.WriteString(w, "no")
			}))
			_, from, resp := w.upgraded(upgradeRequest() + "GET /k8s/edge/smuggled HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer token-ana\r\n\r\n")
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != code || string(body) != "no" || !resp.Close || resp.Header.Get("Location") != "" {
				t.Errorf("answer is %d %q, close %v, %v", resp.StatusCode, body, resp.Close, resp.Header)
			}
			if rest, _ := io.ReadAll(from); len(rest) > 0 {
				t.Errorf("more came: %q", rest)
			}
			if records := w.ended(); len(records) != 2 {
				t.Errorf("records are %+v", records)
			}
		})
	}
}

func TestSwitchToAnotherProtocolIsAnError(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "h2c")
		w.WriteHeader(http.StatusSwitchingProtocols)
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	}))
	_, _, resp := w.upgraded(upgradeRequest())
	if resp.StatusCode < 500 {
		t.Errorf("answer is %d", resp.StatusCode)
	}
	w.ended()
}

// U8, Gitpod CVE-2023-0957, Teleport 8.3.14
func TestPagesOfOtherHostsOpenNoConnections(t *testing.T) {
	w := newWorld(t, switching(func(net.Conn, *bufio.Reader) {}))
	tests := map[string]int{
		"https://hub.example.com":      101,
		"https://HUB.example.com":      101,
		"https://evil.example.com":     403,
		"https://hub.example.com.evil": 403,
		"https://hub.example.com:444":  403,
		"null":                         403,
		"":                             403,
		"file://":                      403,
		"chrome-extension://abc":       403,
	}
	for origin, want := range tests {
		_, _, resp := w.upgraded(upgradeRequest("Origin: " + origin))
		if resp.StatusCode != want {
			t.Errorf("origin %q is answered %d, want %d", origin, resp.StatusCode, want)
		}
	}
	if _, _, resp := w.upgraded(upgradeRequest("Origin: https://hub.example.com", "Origin: https://evil.example.com")); resp.StatusCode != http.StatusForbidden {
		t.Errorf("two origins are answered %d", resp.StatusCode)
	}
}

func TestBrowsersShowTheirTokenAsASubprotocol(t *testing.T) {
	heard := make(chan http.Header, 8)
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard <- r.Header
		switching(func(net.Conn, *bufio.Reader) {}).ServeHTTP(w, r)
	}))
	token := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("token-ana"))
	request := func(lines ...string) string {
		return strings.Replace(upgradeRequest(lines...), "Authorization: Bearer token-ana\r\n", "", 1)
	}
	tests := map[string]struct {
		raw  string
		want int
	}{
		"with another protocol":   {request("Sec-WebSocket-Protocol: v5.channel.k8s.io, " + token), 101},
		"in a header of its own":  {request("Sec-WebSocket-Protocol: v5.channel.k8s.io", "Sec-WebSocket-Protocol: "+token), 101},
		"alone":                   {request("Sec-WebSocket-Protocol: " + token), 401},
		"twice":                   {request("Sec-WebSocket-Protocol: v5.channel.k8s.io, " + token + ", " + token), 401},
		"with a header":           {upgradeRequest("Sec-WebSocket-Protocol: v5.channel.k8s.io, " + token), 401},
		"of nobody":               {request("Sec-WebSocket-Protocol: v5.channel.k8s.io, " + token + "x"), 401},
		"not encoded":             {request("Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.!!"), 401},
		"in a cookie":             {request("Cookie: token=token-ana; Authorization=Bearer token-ana"), 401},
		"with a line feed in it":  {request("Sec-WebSocket-Protocol: a, base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("token-ana\nX: y"))), 401},
		"in the query, as a path": {strings.Replace(request(), "?command=sh", "?token=token-ana", 1), 401},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, resp := w.upgraded(test.raw)
			if resp.StatusCode != test.want {
				t.Fatalf("answer is %d, want %d", resp.StatusCode, test.want)
			}
			if test.want != 101 {
				return
			}
			if h := <-heard; h.Get("Sec-Websocket-Protocol") != "v5.channel.k8s.io" || h.Get("Authorization") != "" {
				t.Errorf("the cluster heard %v", h)
			}
		})
	}
}

func TestUpgradeThatCannotBecomeAConnectionIsRefused(t *testing.T) {
	w := newWorld(t, switching(func(net.Conn, *bufio.Reader) {}))
	for name, raw := range map[string]string{
		"a body":          upgradeRequest("Content-Length: 3") + "abc",
		"a chunked body":  upgradeRequest("Transfer-Encoding: chunked") + "0\r\n\r\n",
		"two protocols":   upgradeRequest("Upgrade: SPDY/3.1"),
		"a list of them":  strings.Replace(upgradeRequest(), "Upgrade: websocket", "Upgrade: websocket, h2c", 1),
		"no protocol":     strings.Replace(upgradeRequest(), "Upgrade: websocket", "Upgrade: ", 1),
		"something else?": strings.Replace(upgradeRequest(), "Upgrade: websocket", "Upgrade: a b", 1),
	} {
		if _, _, resp := w.upgraded(raw); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s is answered %d", name, resp.StatusCode)
		}
	}
}

func TestConnectionEndsWithAccess(t *testing.T) {
	w := newWorld(t, switching(func(_ net.Conn, from *bufio.Reader) { io.Copy(io.Discard, from) }))
	_, from, _ := w.upgraded(upgradeRequest())
	w.Recheck()
	if w.Streams() != 1 {
		t.Fatal("a connection of somebody who may have it has ended")
	}
	w.set(func() { delete(w.people, "token-ana") })
	w.Recheck()
	io.Copy(io.Discard, from) // ends
	if last := w.last(); last.Cause != "access was withdrawn" {
		t.Errorf("record is %+v", last)
	}
}

func TestConnectionsGetTheirGraceWhenTheHubGoes(t *testing.T) {
	finish := make(chan struct{})
	w := newWorld(t, switching(func(conn net.Conn, _ *bufio.Reader) {
		<-finish
		io.WriteString(conn, "done")
	}))
	conn, from, _ := w.upgraded(upgradeRequest())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		w.Drain(ctx)
	}()
	w.until("new requests are refused", func() bool {
		resp, _ := w.get("/api/v1/pods")
		return resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "1"
	})
	select {
	case <-drained:
		t.Fatal("the hub did not wait for a connection")
	default:
	}
	close(finish)
	if rest, err := io.ReadAll(from); string(rest) != "done" || err != nil {
		t.Errorf("rest is %q, %v", rest, err)
	}
	conn.Close()
	<-drained
}

func TestConnectionsThatStayAreCutOffAtTheEndOfTheirGrace(t *testing.T) {
	w := newWorld(t, switching(func(_ net.Conn, from *bufio.Reader) { io.Copy(io.Discard, from) }))
	_, from, _ := w.upgraded(upgradeRequest())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	w.Drain(ctx)
	io.Copy(io.Discard, from)
	if last := w.last(); last.Cause != "this replica of the hub is going" {
		t.Errorf("record is %+v", last)
	}
}
