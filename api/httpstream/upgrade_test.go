package httpstream_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// eventually polls, since what other goroutines do has no moment that can be waited for.
func eventually(t testing.TB, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to pass")
		}
	}
}

type halves interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// upgrades answers with 101 in one of the ways that handlers have, and does something with the connection.
func upgrades(asText bool, with func(conn halves, in *bufio.ReadWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !asText {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
			w.Header().Set("Sec-Websocket-Protocol", "v5.channel.k8s.io")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		if asText {
			in.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n")
			in.Flush()
			in.WriteString("Upgrade: " + r.Header.Get("Upgrade") + "\r\nSec-Websocket-Protocol: v5.channel.k8s.io\r\n\r\n")
			in.Flush()
		}
		with(conn.(halves), in)
	}
}

func upgradeRequest(ctx context.Context, t testing.TB) *http.Request {
	r := request(ctx, t, tunnelapi.Class_UPGRADE, http.MethodPost, "/exec")
	r.Header.Set("Connection", "keep-alive, upgrade")
	r.Header.Set("Upgrade", "SPDY/3.1")
	return r
}

func dial(ctx context.Context, t *testing.T, rt http.RoundTripper) halves {
	t.Helper()
	response, err := rt.RoundTrip(upgradeRequest(ctx, t))
	if err != nil {
		t.Fatal(err)
	}
	h := response.Header
	if response.StatusCode != http.StatusSwitchingProtocols || h.Get("Upgrade") != "SPDY/3.1" || h.Get("Connection") != "Upgrade" || h.Get("Sec-Websocket-Protocol") != "v5.channel.k8s.io" {
		t.Fatalf("%s %v", response.Status, response.Header)
	}
	return response.Body.(halves)
}

func TestAnUpgradedConnectionCarriesBytesAndHalfClosesBothWays(t *testing.T) {
	for name, asText := range map[string]bool{"head by WriteHeader": false, "head as text": true} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan string, 1)
			rt := transport(connect(t, upgrades(asText, func(conn halves, in *bufio.ReadWriter) {
				said, _ := io.ReadAll(in) // until the hub's half ends
				io.WriteString(conn, strings.ToUpper(string(said)))
				conn.CloseWrite()
				heard <- string(said)
			})))
			conn := dial(t.Context(), t, rt)
			defer conn.Close()
			big := strings.Repeat("half ", 50_000)
			for _, part := range []string{"a", "", big} {
				if _, err := io.WriteString(conn, part); err != nil {
					t.Fatal(err)
				}
			}
			if err := conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte("x")); err == nil {
				t.Error("a half that was closed is written to")
			}
			answer, err := io.ReadAll(conn)
			if said := "a" + big; err != nil || string(answer) != strings.ToUpper(said) || <-heard != said {
				t.Errorf("%d bytes came back, %v", len(answer), err)
			}
		})
	}
}

func TestTheClusterMayEndItsHalfFirst(t *testing.T) {
	heard := make(chan string, 1)
	rt := transport(connect(t, upgrades(false, func(conn halves, in *bufio.ReadWriter) {
		io.WriteString(conn, "bye")
		conn.CloseWrite()
		said, _ := io.ReadAll(in)
		heard <- string(said)
	})))
	conn := dial(t.Context(), t, rt)
	defer conn.Close()
	if answer, err := io.ReadAll(conn); string(answer) != "bye" || err != nil {
		t.Fatal(string(answer), err)
	}
	io.WriteString(conn, "still here")
	conn.CloseWrite()
	if got := <-heard; got != "still here" {
		t.Error(got)
	}
}

func TestClosingAnUpgradedConnectionEndsItsReaders(t *testing.T) {
	rt := transport(connect(t, upgrades(false, func(conn halves, _ *bufio.ReadWriter) {
		var reading sync.WaitGroup
		reading.Go(func() {
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("reading ends with %v", err)
			}
		})
		conn.Close()
		reading.Wait()
		if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("writing ends with %v", err)
		}
	})))
	conn := dial(t.Context(), t, rt)
	defer conn.Close()
	if answer, err := io.ReadAll(conn); len(answer) > 0 || err != nil {
		t.Error(answer, err)
	}
	eventually(t, func() bool {
		_, err := conn.Write([]byte("x"))
		return err != nil
	})
}

func TestARefusedUpgradeIsAnAnswer(t *testing.T) {
	rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "SPDY/3.1" || r.Header.Get("Connection") != "Upgrade" || r.Body != http.NoBody {
			t.Errorf("asked with %v", r.Header)
		}
		http.Error(w, "no such pod", http.StatusNotFound)
	})))
	if got := do(t, rt, upgradeRequest(t.Context(), t)); got.Status != 404 || got.Body != "no such pod\n" {
		t.Error(got)
	}
}

func TestNothingIsUpgradedThatDidNotAskFor(t *testing.T) {
	rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if up := r.Header.Get("Upgrade") + r.Header.Get("Connection"); up != "" {
			t.Errorf("%q crossed", up)
		}
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack: %v", err)
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "SPDY/3.1")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})))
	r := upgradeRequest(t.Context(), t)
	r = r.WithContext(request(t.Context(), t, tunnelapi.Class_UNARY, http.MethodGet, "/").Context())
	if response, err := rt.RoundTrip(r); err == nil {
		t.Errorf("answered with %s", response.Status)
	}
}

// TestCancellingEndsTheExchangeInEveryPhase looks for goroutines on both sides.
func TestCancellingEndsTheExchangeInEveryPhase(t *testing.T) {
	hang := func(r *http.Request) { <-r.Context().Done() }
	for name, phase := range map[string]struct {
		handler http.HandlerFunc
		request func(ctx context.Context) *http.Request
		// until brings the exchange to the phase.
		until func(*http.Response)
	}{
		"before the head": {handler: func(_ http.ResponseWriter, r *http.Request) { hang(r) }},
		"in the request's body": {
			handler: func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) },
			request: func(ctx context.Context) *http.Request {
				r := request(ctx, t, tunnelapi.Class_UNARY, http.MethodPost, "/")
				r.Body, _ = io.Pipe()
				r.ContentLength = -1
				return r
			},
		},
		"in a body that is not read": {
			handler: func(_ http.ResponseWriter, r *http.Request) { hang(r) },
			request: func(ctx context.Context) *http.Request {
				r := request(ctx, t, tunnelapi.Class_UNARY, http.MethodPost, "/")
				r.Body, r.ContentLength = io.NopCloser(endless{}), -1
				return r
			},
		},
		"in the answer": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				hang(r)
			},
			until: func(*http.Response) {},
		},
		"in an answer that is not read": {
			handler: func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, endless{}) },
			until:   func(*http.Response) {},
		},
		"upgraded": {
			handler: upgrades(false, func(conn halves, _ *bufio.ReadWriter) { io.Copy(io.Discard, conn) }),
			request: func(ctx context.Context) *http.Request { return upgradeRequest(ctx, t) },
			until:   func(r *http.Response) { io.WriteString(r.Body.(halves), "x") },
		},
		"upgraded, half closed": {
			handler: upgrades(true, func(conn halves, _ *bufio.ReadWriter) {
				conn.CloseWrite()
				io.Copy(io.Discard, conn)
			}),
			request: func(ctx context.Context) *http.Request { return upgradeRequest(ctx, t) },
			until:   func(r *http.Response) { io.ReadAll(r.Body) },
		},
	} {
		for _, how := range []string{"by the context", "by closing the answer"} {
			if phase.until == nil && how != "by the context" {
				continue
			}
			t.Run(name+" "+how, func(t *testing.T) {
				entered, left := make(chan struct{}), make(chan struct{})
				rt := transport(connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					close(entered)
					defer close(left)
					phase.handler(w, r)
				})))
				warm, err := rt.Open(t.Context()) // the connection's own goroutines are there before
				if err != nil {
					t.Fatal(err)
				}
				warm.CloseSend()
				warm.Recv()
				before := goleak.IgnoreCurrent()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				r := request(ctx, t, tunnelapi.Class_UNARY, http.MethodGet, "/")
				if phase.request != nil {
					r = phase.request(ctx)
				}
				if phase.until == nil {
					go func() {
						<-entered
						cancel()
					}()
					if _, err := rt.RoundTrip(r); !errors.Is(err, context.Canceled) {
						t.Errorf("RoundTrip ends with %v", err)
					}
				} else {
					response, err := rt.RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					phase.until(response)
					if how == "by the context" {
						cancel()
					} else {
						response.Body.Close()
					}
				}
				<-left
				if err := goleak.Find(before); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
