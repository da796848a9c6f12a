package agent

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/internal/kubetest"
)

// The test binary is its own render child, as the product's binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// countingHub refuses everybody, and counts who asks.
func countingHub(t *testing.T) (url string, polls *atomic.Int64) {
	t.Helper()
	polls = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == api.PollPath && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
			polls.Add(1)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	return server.URL, polls
}

func register(t *testing.T, kube *kubetest.Cluster, hub string) {
	t.Helper()
	keys, err := crypto.NewAgentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	if err := identity.Write(t.Context(), kube.Dynamic, identity.Registration{Cluster: "edge-1", HubURL: hub, Identity: keys}); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func TestTheAgentWaitsForItsRegistrationThenFollowsIt(t *testing.T) {
	kube := kubetest.Start(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, said := io.Pipe()
	waiting := make(chan struct{})
	go func() { // ends with the pipe
		buffer := make([]byte, 64<<10)
		for open := true; ; {
			n, err := log.Read(buffer)
			if err != nil {
				return
			}
			if open && strings.Contains(string(buffer[:n]), "run plural cluster register first") {
				open = false
				close(waiting)
			}
		}
	}()
	defer said.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Kube: kube.RESTConfig, Dir: t.TempDir(), RenderCommand: []string{self, "render-child"},
			Log: slog.New(slog.NewTextHandler(said, nil)),
		})
	}()
	<-waiting
	first, firstPolls := countingHub(t)
	register(t, kube, first)
	eventually(t, "the hub is polled", func() bool { return firstPolls.Load() > 0 })
	second, secondPolls := countingHub(t)
	register(t, kube, second)
	eventually(t, "the hub of the newer registration is polled", func() bool { return secondPolls.Load() > 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestHealthTellsWhetherTheClusterAnswered(t *testing.T) {
	var ready atomic.Bool
	server := httptest.NewServer(healthHandler(&ready))
	defer server.Close()
	for path, want := range map[string][2]int{"/healthz": {200, 200}, "/readyz": {503, 200}, "/metrics": {200, 200}, "/": {404, 404}} {
		for i, now := range []bool{false, true} {
			ready.Store(now)
			response, err := http.Get(server.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != want[i] {
				t.Errorf("%s answers %d when ready is %t", path, response.StatusCode, now)
			}
		}
	}
}
