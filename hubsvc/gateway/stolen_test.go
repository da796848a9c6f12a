package gateway_test

import (
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/pluralsh/plural/agent/link"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
)

// encrypted serves by TLS, and logs what it should not: credentials, as some proxies do.
type encrypted struct {
	*httptest.Server
	mu     sync.Mutex
	logged []string
}

func encrypt(t testing.TB, handler http.Handler) *encrypted {
	t.Helper()
	e := new(encrypted)
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.logged = append(e.logged, r.Header.Get("Authorization"))
		e.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	e.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	e.StartTLS()
	t.Cleanup(e.Close)
	return e
}

// log are the credentials that were shown since the last call.
func (e *encrypted) log() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	logged := e.logged
	e.logged = nil
	return logged
}

// agent is the client of a cluster's agent, as agents have it.
func (w *world) agent(cluster string, hub *encrypted) *link.Hub {
	w.t.Helper()
	l, err := link.New(link.Options{
		URL: hub.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hub.Certificate().Raw}),
		Token: w.signers[cluster].Token,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// works checks that an agent polls, downloads and reports.
func (w *world) works(agent *link.Hub) {
	w.t.Helper()
	poll, _, _, err := agent.Poll(w.t.Context(), "")
	if err != nil || poll.GetCluster() != "a" {
		w.t.Fatalf("poll: %v, %v", poll, err)
	}
	if body, err := agent.Bundle(w.t.Context(), "b1-a"); err != nil || string(body) != "bytes of a" {
		w.t.Fatalf("bundle: %q, %v", body, err)
	}
	if err := agent.Report(w.t.Context(), &api.Report{Boot: "x", Sequence: 1}); err != nil {
		w.t.Fatalf("report: %v", err)
	}
}

func TestATokenReadFromALogOpensNothing(t *testing.T) {
	w := newWorld(t)
	hub := encrypt(t, w.handler)
	w.works(w.agent("a", hub))
	logged := hub.log()
	if len(logged) != 3 {
		t.Fatalf("%d requests", len(logged))
	}
	plain := httptest.NewServer(w.handler)
	defer plain.Close()
	for _, base := range []string{hub.URL, plain.URL} { // over a TLS connection of the thief's, and in clear
		for _, what := range []struct{ method, path string }{
			{http.MethodGet, api.PollPath}, {http.MethodGet, api.BundlePath + "b1-a"}, {http.MethodPost, api.ReportPath},
		} {
			request, err := http.NewRequestWithContext(t.Context(), what.method, base+what.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", logged[0])
			response, err := hub.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusUnauthorized || response.Header.Get(token.Elsewhere) == "" {
				t.Errorf("%s %s%s: %s", what.method, base, what.path, response.Status)
			}
		}
	}
}

func TestAnAgentBehindAProxyThatEndsTLSIsServed(t *testing.T) {
	w := newWorld(t)
	hub := encrypt(t, w.handler)
	to, err := url.Parse(hub.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := encrypt(t, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: hub.Client().Transport,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	})
	w.works(w.agent("a", proxy))
	// The first is refused and said again in another way; what the agent has learned it does not ask anew.
	if logged := hub.log(); len(logged) != 4 || slices.Contains(logged[1:], logged[0]) {
		t.Errorf("%d requests: %q", len(logged), logged)
	}
	first := w.agent("a", proxy)
	if err := first.Report(t.Context(), &api.Report{Boot: "y", Sequence: 2}); err != nil || w.stored["a"].GetBoot() != "y" {
		t.Errorf("a body that has to be sent twice: %v", err)
	}
}

// An agent of the version before binds its tokens to nothing, and has to hear of the one that does.
func TestAnAgentOfTheVersionBeforeGoesOnPolling(t *testing.T) {
	w := newWorld(t)
	hub := encrypt(t, w.handler)
	before, err := link.New(link.Options{
		URL: hub.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hub.Certificate().Raw}),
		Token: func([]byte) (string, error) { return w.signers["a"].Token(nil) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.works(before)
}
