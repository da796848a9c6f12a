package kubeapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/hubsvc/kubeapi"
)

// versions runs a test over HTTP/1.1 and over HTTP/2.
func versions(t *testing.T, test func(t *testing.T, version int)) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP%d", version), func(t *testing.T) { test(t, version) })
	}
}

func TestTargetReachesTheClusterAsItWasWritten(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	for _, target := range []string{
		"/api/v1/pods", "/api/v1/pods?", "/api/v1/pods?limit=1&fieldSelector=a%3Db", "/api/v1/namespaces/a/configmaps/x%3Ay",
		"/api/v1/namespaces/a/pods/b/log?container=c%20d", "/apis/", "/",
	} {
		if _, body := w.get(target); body != "GET "+target+"\n" {
			t.Errorf("%s came as %q", target, body)
		}
	}
}

func TestBodiesFlowBothWaysAtTheSameTime(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			w.WriteHeader(http.StatusOK)
			rc.Flush()
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				fmt.Fprintf(w, "heard %s\n", lines.Text())
				rc.Flush()
			}
		}))
		body, write := io.Pipe()
		resp, err := w.client(version).Do(w.request(http.MethodPost, "/api/v1/namespaces/a/services/b/proxy/", body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answers := bufio.NewReader(resp.Body)
		for _, word := range []string{"one", "two", "three"} {
			fmt.Fprintln(write, word)
			if line, err := answers.ReadString('\n'); line != "heard "+word+"\n" {
				t.Fatalf("answer is %q, %v", line, err)
			}
		}
		write.Close()
		if rest, err := io.ReadAll(answers); len(rest) > 0 || err != nil {
			t.Fatalf("rest is %q, %v", rest, err)
		}
		if last := w.last(); last.Cause != "done" || last.BytesIn != 14 || last.BytesOut != 32 {
			t.Errorf("record is %+v", last)
		}
	})
}

func TestEventsOfAWatchArriveOneByOne(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		next := make(chan string)
		w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			for {
				select {
				case event := <-next:
					io.WriteString(w, event)
					http.NewResponseController(w).Flush()
				case <-r.Context().Done():
					return
				}
			}
		}))
		resp, err := w.client(version).Do(w.request(http.MethodGet, "/api/v1/pods?watch=1", nil))
		if err != nil { // the head comes before the first event
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got := make([]byte, 64)
		for _, event := range []string{"{1}\n", "{2}\n"} {
			next <- event
			n, err := resp.Body.Read(got)
			if string(got[:n]) != event {
				t.Fatalf("event is %q, %v", got[:n], err)
			}
		}
	})
}

func TestLargeAnswersAndRequestsAreWhole(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	versions(t, func(t *testing.T, version int) {
		w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
		_, body := w.do(w.request(http.MethodPut, "/api/v1/namespaces/a/configmaps/b", bytes.NewReader(large)), version)
		if body != string(large) {
			t.Errorf("%d bytes came back, not the same", len(body))
		}
	})
}

func TestAnswerThatWasCutOffDoesNotLookWhole(t *testing.T) {
	for _, target := range []string{"/api/v1/pods", "/api/v1/pods?watch=1", "/api/v1/namespaces/a/pods/b/log?follow=true"} {
		versions(t, func(t *testing.T, version int) {
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, "beginning")
				http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}))
			resp, err := w.client(version).Do(w.request(http.MethodGet, target, nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("%s: %q looks whole", target, body)
			}
			if last := w.last(); last.Cause == "done" || last.Status != http.StatusOK {
				t.Errorf("record is %+v", last)
			}
		})
	}
}

func TestStatusesOfTheClusterAreItsOwn(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var code int
		fmt.Sscanf(r.URL.Path, "/code/%d", &code)
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Warning", `299 - "old API"`)
		w.WriteHeader(code)
	}))
	for _, code := range []int{200, 201, 204, 304, 401, 404, 409, 410, 422, 429, 500, 503, 504} {
		resp, _ := w.get(fmt.Sprintf("/code/%d", code))
		if resp.StatusCode != code || resp.Header.Get("Retry-After") != "7" || resp.Header.Get("Warning") != `299 - "old API"` {
			t.Errorf("%d came as %d %v", code, resp.StatusCode, resp.Header)
		}
	}
}

func TestTrailersFollowTheBody(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Checksum")
			io.WriteString(w, "body")
			http.NewResponseController(w).Flush()
			w.Header().Set("Checksum", "4")
		}))
		resp, _ := w.do(w.request(http.MethodGet, "/api/v1/pods", nil), version)
		if got := resp.Trailer.Get("Checksum"); got != "4" {
			t.Errorf("trailers are %v", resp.Trailer)
		}
	})
}

// A connection may end the moment that it was found: what does no harm is tried again.
func TestRequestIsTriedOnAnotherConnection(t *testing.T) {
	lost := status.Error(codes.Unavailable, "connection closed")
	broken := func(w *world, opens bool) func() (kubeapi.Backend, error) {
		client := connect(w.t, func(channelStream) error { return lost })
		return func() (kubeapi.Backend, error) {
			if opens {
				return &backend{w: w, client: client}, nil
			}
			return &shut{backend{w: w}}, nil
		}
	}
	tests := map[string]struct {
		method   string
		opens    bool
		failures int
		want     int
	}{
		"a GET":                             {http.MethodGet, true, 1, 200},
		"a GET that fails twice":            {http.MethodGet, true, 2, 200},
		"a GET that fails too often":        {http.MethodGet, true, 3, 503},
		"a POST that may have arrived":      {http.MethodPost, true, 1, 503},
		"a DELETE that may have arrived":    {http.MethodDelete, true, 1, 503},
		"a POST that surely did not arrive": {http.MethodPost, false, 1, 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, http.HandlerFunc(echo))
			for range test.failures {
				w.reach = append(w.reach, broken(w, test.opens))
			}
			resp, body := w.do(w.request(test.method, "/api/v1/pods", nil), 2)
			if resp.StatusCode != test.want {
				t.Errorf("answer is %d %s", resp.StatusCode, body)
			}
			// clients repeat by themselves whatever says when
			if repeats := resp.Header.Get("Retry-After") != ""; test.want == 503 && repeats != (test.method == http.MethodGet) {
				t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
			}
			w.ended()
		})
	}
}

func TestRequestWithABodyThatWasReadIsNotTriedAgain(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	client := connect(t, func(stream channelStream) error {
		for range 4 {
			if _, err := stream.Recv(); err != nil {
				break
			}
		}
		return status.Error(codes.Unavailable, "connection closed")
	})
	w.reach = append(w.reach, func() (kubeapi.Backend, error) { return &backend{w: w, client: client}, nil })
	r := w.request(http.MethodPut, "/api/v1/namespaces/a/configmaps/b", io.LimitReader(zeros{}, 1<<20))
	resp, err := w.client(2).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "" {
		t.Errorf("answer is %d %v", resp.StatusCode, resp.Header)
	}
	w.ended()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestAbsentClusterAnswersAtOnce(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	w.reach = append(w.reach, func() (kubeapi.Backend, error) { return nil, errors.New("its agent is not connected") })
	resp, body := w.get("/api/v1/pods")
	wantStatus(t, resp, body, http.StatusServiceUnavailable, "ServiceUnavailable", `cluster "edge" cannot be reached now: its agent is not connected`)
	if resp.Header.Get("Retry-After") != "1" {
		t.Errorf("headers are %v", resp.Header)
	}
	if last := w.last(); last.Decision != "allowed" || last.Status != 503 {
		t.Errorf("record is %+v", last)
	}
}

// A7
func TestClusterThatDoesNotBeginItsAnswerIsGivenUp(t *testing.T) {
	gone := make(chan struct{}, 1)
	w := newWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		gone <- struct{}{}
	}), func(o *kubeapi.Options) { o.Limits.Head = 50 * time.Millisecond })
	resp, body := w.get("/api/v1/pods")
	wantStatus(t, resp, body, http.StatusGatewayTimeout, "Timeout", `cluster "edge" did not answer: the cluster took too long to begin its answer`)
	<-gone
}

// U15
func TestClientThatReadsNothingIsGivenUp(t *testing.T) {
	t.Parallel() // TLS waits for such a client for a while
	versions(t, func(t *testing.T, version int) {
		w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(w, io.LimitReader(zeros{}, 1<<30))
		}), func(o *kubeapi.Options) { o.Limits.Stalled = 100 * time.Millisecond })
		resp, err := w.client(version).Do(w.request(http.MethodGet, "/api/v1/pods?watch=1", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if last := w.last(); last.Cause != "the client did not read its answer" {
			t.Errorf("record is %+v", last)
		}
	})
}

func TestCancellingEndsTheRequestAtEveryPhase(t *testing.T) {
	phases := map[string]func(t *testing.T, w *world, arrived chan struct{}, cancel func()) *http.Request{
		"while it is looked for": func(t *testing.T, w *world, _ chan struct{}, cancel func()) *http.Request {
			w.reach = append(w.reach, func() (kubeapi.Backend, error) { cancel(); return &backend{w: w, client: w.agent}, nil })
			return w.request(http.MethodGet, "/wait/head", nil)
		},
		"before the answer": func(t *testing.T, w *world, arrived chan struct{}, cancel func()) *http.Request {
			go func() { <-arrived; cancel() }()
			return w.request(http.MethodGet, "/wait/head", nil)
		},
		"in the middle of the answer": func(t *testing.T, w *world, arrived chan struct{}, cancel func()) *http.Request {
			go func() { <-arrived; cancel() }()
			return w.request(http.MethodGet, "/wait/body", nil)
		},
		"in the middle of a watch": func(t *testing.T, w *world, arrived chan struct{}, cancel func()) *http.Request {
			go func() { <-arrived; cancel() }()
			return w.request(http.MethodGet, "/api/v1/pods?watch=1", nil)
		},
		"in the middle of the request's body": func(t *testing.T, w *world, arrived chan struct{}, cancel func()) *http.Request {
			body, write := io.Pipe()
			go func() {
				write.Write(make([]byte, 16<<10)) // more than a client keeps back
				<-arrived
				cancel()
				write.CloseWithError(context.Canceled)
			}()
			return w.request(http.MethodPost, "/wait/request", body)
		},
	}
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			versions(t, func(t *testing.T, version int) {
				arrived, left := make(chan struct{}, 1), make(chan struct{}, 1)
				w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer func() { left <- struct{}{} }()
					if !strings.HasSuffix(r.URL.Path, "/head") && r.Method == http.MethodGet {
						io.WriteString(w, "beginning\n")
						http.NewResponseController(w).Flush()
					}
					arrived <- struct{}{}
					if r.Method == http.MethodPost {
						io.Copy(io.Discard, r.Body)
						return
					}
					<-r.Context().Done()
				}))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := phase(t, w, arrived, cancel).WithContext(ctx)
				resp, err := w.client(version).Do(r)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if err == nil && resp.StatusCode < http.StatusBadRequest { // a refusal may still reach a client that is about to leave
					t.Errorf("the answer is whole: %s", resp.Status)
				}
				last := w.last()
				if last.Cause != "the client went away" && !strings.HasPrefix(last.Cause, "the client went away\n") {
					t.Errorf("record is %+v", last)
				}
				if name != "while it is looked for" {
					<-left
				}
			})
		})
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	client := w.client(1)
	conns := map[string]bool{}
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.set(func() { conns[r.RemoteAddr] = true })
		w.ServeHTTP(rw, r)
	})
	for range 5 {
		for _, r := range []*http.Request{
			w.request(http.MethodGet, "/api/v1/pods", nil),
			w.request(http.MethodPut, "/api/v1/namespaces/a/configmaps/b", strings.NewReader("body")),
		} {
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	if len(conns) != 1 {
		t.Errorf("ten requests took %d connections", len(conns))
	}
}

// The rest of a body that nobody read must not be taken for the next request of a connection that a proxy shares.
func TestConnectionWithAnUnreadBodyIsNotUsedAgain(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}))
	conn := w.dial()
	fmt.Fprintf(conn, "POST /k8s/edge/api/v1/pods HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer token-ana\r\nContent-Length: 1000000\r\n\r\n")
	go func() {
		for range 1000 {
			if _, err := io.WriteString(conn, "GET /k8s/edge/smuggled HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer token-bob\r\n\r\n"); err != nil {
				return
			}
		}
	}()
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
		t.Errorf("answer is %d, close %v", resp.StatusCode, resp.Close)
	}
	if rest, _ := io.ReadAll(answers); len(rest) > 0 {
		t.Errorf("more came: %.200q", rest)
	}
	for _, r := range w.ended() {
		if strings.Contains(r.Path, "smuggled") {
			t.Errorf("record is %+v", r)
		}
	}
}

func TestRequestOutlivesTheServersDeadlines(t *testing.T) {
	const deadline = 2 * time.Second // within which a busy machine shakes hands
	versions(t, func(t *testing.T, version int) {
		w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 5 {
				select {
				case <-time.After(deadline / 4):
				case <-r.Context().Done():
					return
				}
				io.WriteString(w, "tick\n")
				http.NewResponseController(w).Flush()
			}
		}))
		strict := httptest.NewUnstartedServer(w.Proxy)
		strict.EnableHTTP2 = true
		strict.Config.ReadTimeout, strict.Config.WriteTimeout = deadline, deadline
		strict.StartTLS()
		t.Cleanup(strict.Close)
		w.server = strict
		if _, body := w.do(w.request(http.MethodGet, "/api/v1/pods?watch=1", nil), version); strings.Count(body, "tick") != 5 {
			t.Errorf("body is %q", body)
		}
	})
}

func TestPanicStaysWithItsRequest(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	w.reach = append(w.reach, func() (kubeapi.Backend, error) { panic("bug") })
	if resp, err := w.client(2).Do(w.request(http.MethodGet, "/api/v1/pods", nil)); err == nil {
		resp.Body.Close()
		t.Errorf("answer is %d", resp.StatusCode)
	}
	if _, body := w.get("/api/v1/pods"); body == "" {
		t.Error("the next request has no answer")
	}
	w.ended()
	if w.Streams() != 0 {
		t.Error("a request is under way")
	}
}
