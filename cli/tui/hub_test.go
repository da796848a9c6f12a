package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
)

// hub answers /v1 with what it was given by path: a value as JSON, a text as it is. It is reached by pipes within this process, so
// that a test's clock stands still while it answers.
type hub struct {
	calls  chan net.Conn
	closed chan struct{}

	mu      sync.Mutex // guards what follows
	answers map[string]any
	away    bool
	conns   []net.Conn
	streams []chan string
	asked   []string
	// token is the one that is taken; empty: any is.
	token string
}

func newHub(t *testing.T, answers map[string]any) *hub {
	t.Helper()
	h := &hub{calls: make(chan net.Conn), closed: make(chan struct{}), answers: answers}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(h) // it ends when it is closed
	}()
	t.Cleanup(func() {
		_ = server.Close()
		h.leave()
		<-done
	})
	return h
}

// Accept, Close and Addr make it a net.Listener.
func (h *hub) Accept() (net.Conn, error) {
	select {
	case c := <-h.calls:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *hub) Close() error {
	close(h.closed)
	return nil
}

func (h *hub) Addr() net.Addr { return &net.TCPAddr{} }

func (h *hub) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	h.mu.Lock()
	away := h.away
	h.mu.Unlock()
	if away {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	ours, theirs := net.Pipe()
	select {
	case h.calls <- theirs:
		h.mu.Lock()
		h.conns = append(h.conns, theirs)
		h.mu.Unlock()
		return ours, nil
	case <-h.closed:
		return nil, errors.New("it is closed")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (h *hub) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New("http://hub.example.com", "t0ken", "test")
	if err != nil {
		t.Fatal(err)
	}
	c.Dial(h.dial)
	return c
}

// leave has the hub be away: all connections break, and there are no others.
func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = true
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.conns = nil
}

func (h *hub) comeBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = false
}

// take has one token be good from now on. Streams of others end.
func (h *hub) take(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.token = token
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.conns = nil
}

func (h *hub) set(path string, answer any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = answer
}

// tell sends an event to everybody who follows.
func (h *hub) tell(kind v1.ChangeKind, changes any) {
	text, err := json.Marshal(changes)
	if err != nil {
		panic(err)
	}
	h.send(fmt.Sprintf("id: 2\nevent: %s\ndata: %s\n\n", kind, text))
}

// send sends a text to everybody who follows.
func (h *hub) send(text string) {
	h.mu.Lock()
	streams := h.streams
	h.mu.Unlock()
	for _, s := range streams {
		s <- text
	}
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked = append(h.asked, r.Method+" "+r.URL.RequestURI())
	answer, ok := h.answers[r.URL.Path]
	token := h.token
	h.mu.Unlock()
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		refusal(http.StatusUnauthorized, "the token is not known", "plural auth login")(w, r)
		return
	}
	if r.URL.Path == "/v1/stream" && !ok {
		h.stream(w, r)
		return
	}
	switch answer := answer.(type) {
	case func(http.ResponseWriter, *http.Request):
		answer(w, r)
	case string:
		_, _ = fmt.Fprint(w, answer)
	default:
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = v1.Error{Message: "there is no " + r.URL.Path}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (h *hub) stream(w http.ResponseWriter, r *http.Request) {
	texts := make(chan string, 10_000)
	h.mu.Lock()
	h.streams = append(h.streams, texts)
	h.mu.Unlock()
	flowing("", texts)(w, r)
}

// flowing answers with a text, and then with what comes, until whoever asked goes.
func flowing(first string, rest <-chan string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for text := first; ; {
			_, _ = fmt.Fprint(w, text)
			_ = http.NewResponseController(w).Flush()
			select {
			case text = <-rest:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// list is a whole list.
func list[T any](items ...T) *v1.List[T] {
	return &v1.List[T]{Items: items, Total: len(items), Since: "1"}
}

// picked is a list of events, of which a filter picks those that have its names.
func picked(all []v1.Event) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		filter := r.URL.Query().Get("filter")
		fits := func(key, value string) bool {
			return !strings.Contains(filter, key+":") || strings.Contains(filter, fmt.Sprintf("%s:%q", key, value))
		}
		found := []v1.Event{}
		for _, e := range all {
			if fits("cluster", e.Cluster) && fits("service", e.Service) {
				found = append(found, e)
			}
		}
		_ = json.NewEncoder(w).Encode(list(found...))
	}
}

func (h *hub) forget(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.answers, path)
}
