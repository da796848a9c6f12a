package logstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
)

// heard is what a reader said.
type heard struct {
	mu    sync.Mutex
	lines []string
	// stop ends the reading when so many lines are there.
	stop int
	end  context.CancelFunc
}

func (h *heard) add(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
	if h.stop > 0 && len(h.lines) >= h.stop {
		h.end()
	}
}

func reader(t *testing.T, o Options, h *heard, handler http.HandlerFunc) (*Reader, context.Context) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	hub, err := client.New(server.URL, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h.end = cancel
	t.Cleanup(cancel)
	return &Reader{
		Hub: hub, Options: o, Now: time.Now,
		Line:    func(l Line) error { h.add("%s|%s", l.From, l.Text); return nil },
		Problem: func(whose string, err error) { h.add("problem %s: %v", whose, err) },
	}, ctx
}

func TestAPodOfSeveralContainersIsReadOneByOne(t *testing.T) {
	for _, follow := range []bool{false, true} {
		h := &heard{}
		if follow {
			h.stop = 2
		}
		r, ctx := reader(t, Options{Tail: 5, Follow: follow}, h, func(w http.ResponseWriter, r *http.Request) {
			container := r.URL.Query().Get("container")
			if container == "" {
				w.WriteHeader(http.StatusBadRequest)
				_ = json.NewEncoder(w).Encode(v1.Error{
					Message: "a container name must be specified for pod web-0, choose one of: [app proxy] or one of the init containers: [wait]",
				})
				return
			}
			fmt.Fprintf(w, "hello from %s\n", container)
			if follow {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		})
		err := r.Run(ctx, Of{Pod: Pod{"edge-1", "shop", "web-0"}})
		if follow != errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		want := map[string]bool{"edge-1/web-0/app|hello from app": true, "edge-1/web-0/proxy|hello from proxy": true}
		got := map[string]bool{}
		for _, line := range h.lines {
			got[line] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAnAgentsLogThatEndsIsTakenUpWhereItWas(t *testing.T) {
	texts := []string{
		"2026-01-02T03:04:05.000Z info one\n2026-01-02T03:04:06.000Z info two\n2026-01-02T03:04:06.000Z info two too\n",
		"2026-01-02T03:04:05.000Z info one\n2026-01-02T03:04:06.000Z info two\n2026-01-02T03:04:06.000Z info two too\n" +
			"2026-01-02T03:04:06.000Z info three\n2026-01-02T03:04:07.000Z info four\n",
	}
	h := &heard{stop: 6}
	r, ctx := reader(t, Options{Tail: 10, Follow: true}, h, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, texts[0])
		texts = texts[1:]
	})
	r.Ended = func(string, error) { h.add("ended") }
	r.lookAgain = time.Millisecond
	_ = r.Run(ctx, Of{Agent: "edge-1"})
	want := []string{
		"|2026-01-02T03:04:05.000Z info one", "|2026-01-02T03:04:06.000Z info two", "|2026-01-02T03:04:06.000Z info two too", "ended",
		"|2026-01-02T03:04:06.000Z info three", "|2026-01-02T03:04:07.000Z info four",
	}
	if diff := cmp.Diff(want, h.lines[:min(len(h.lines), 6)]); diff != "" {
		t.Error(diff)
	}
}

func TestAProblemIsToldOnce(t *testing.T) {
	h := &heard{}
	r, ctx := reader(t, Options{}, h, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	p := newPods(r, Of{Pod: Pod{"edge-1", "shop", "web-0"}})
	for range 2 {
		if err := p.run(ctx); !errors.Is(err, ErrNone) {
			t.Errorf("got %v", err)
		}
	}
	if len(h.lines) != 1 {
		t.Errorf("got %q", h.lines)
	}
}

func TestTheLinesOfThoseThatAnswerDoNotWaitForTheOthers(t *testing.T) {
	for _, follow := range []bool{false, true} {
		read := make(chan struct{}) // closed when there is a line
		h := &heard{}
		if follow {
			h.stop = 4
		}
		var first sync.Once
		r, ctx := reader(t, Options{Tail: 5, Follow: follow}, h, func(w http.ResponseWriter, r *http.Request) {
			wait := func(until <-chan struct{}) {
				select {
				case <-until:
				case <-r.Context().Done():
				case <-time.After(10 * hurried):
				}
			}
			pod := v1.List[v1.Object]{Items: []v1.Object{{Kind: "Pod", Namespace: "shop", Name: "web-0"}}}
			var answer any = pod
			switch r.URL.Path {
			case "/v1/services/web":
				answer = v1.Service{Deployments: []v1.Deployment{
					{Cluster: "edge-1"},
					{Cluster: "edge-2"},
					{Cluster: "edge-3"},
					{Cluster: "edge-4", Unreached: true, Message: "its API server is silent"},
				}}
			case "/v1/clusters/edge-2/services/web/objects":
				wait(read)
			case "/v1/clusters/edge-3/services/web/objects":
				wait(read)
				w.WriteHeader(http.StatusServiceUnavailable)
				answer = v1.Error{Message: "no answer in time"}
			case "/v1/clusters/edge-4/services/web/objects":
				wait(nil)
			case "/v1/clusters/edge-1/pods/shop/web-0/logs", "/v1/clusters/edge-2/pods/shop/web-0/logs":
				fmt.Fprintln(w, "hello")
				if follow {
					_ = http.NewResponseController(w).Flush()
					wait(nil)
				}
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
		line := r.Line
		r.Line = func(l Line) error {
			err := line(l)
			first.Do(func() { close(read) })
			return err
		}
		begun := time.Now()
		err := r.Run(ctx, Of{Service: "web"})
		if follow != errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took > 3*hurried {
			t.Errorf("it took %s", took)
		}
		want := []string{
			"edge-1/web-0|hello", "edge-2/web-0|hello",
			"problem edge-3: hub answered 503: no answer in time", "problem edge-4: its API server is silent",
		}
		if h.lines[0] != want[0] {
			t.Errorf("at first: %q", h.lines)
		}
		slices.Sort(h.lines)
		if diff := cmp.Diff(want, h.lines); diff != "" {
			t.Error(diff)
		}
	}
}

// FuzzLines has no byte through that a terminal would act on.
func FuzzLines(f *testing.F) {
	f.Add([]byte("plain\n\x1b[31mred\x00\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l := &log{reader: &Reader{Line: func(line Line) error {
			for _, r := range line.Text {
				if r != '\t' && ui.Clean(string(r)) != string(r) {
					t.Fatalf("%q came through in %q", r, line.Text)
				}
			}
			return nil
		}}}
		if err := l.copy(bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	})
}
