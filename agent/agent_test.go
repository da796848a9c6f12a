package agent

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/test/support/kubetest"
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

// unregistered is the shared cluster without a registration, before the test and after it.
func unregistered(t *testing.T) *kubetest.Cluster {
	t.Helper()
	cluster := kubetest.Start(t)
	cluster.RemoveLater(t, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, identity.Namespace, identity.SecretName)
	return cluster
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
	kube := unregistered(t)
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

func TestAnAgentIsReadyOnceItsHubHasAnswered(t *testing.T) {
	kube := unregistered(t)
	poll, err := proto.Marshal(&api.Poll{Cluster: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	var answers atomic.Bool
	var polls atomic.Int64
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != api.PollPath:
			w.WriteHeader(http.StatusServiceUnavailable)
		case answers.Load():
			_, _ = w.Write(poll)
			polls.Add(1)
		default:
			w.WriteHeader(http.StatusUnauthorized)
			polls.Add(1)
		}
	}))
	t.Cleanup(hub.Close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	register(t, kube, hub.URL)
	listen := free.Addr().String()
	_ = free.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Kube: kube.RESTConfig, Dir: t.TempDir(), RenderCommand: []string{self, "render-child"}, Listen: listen, Log: slog.New(slog.DiscardHandler),
		})
	}()
	ask := func(path string) (status int, says string) {
		response, err := http.Get("http://" + listen + path)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	says := func(status int, text string) func() bool {
		return func() bool {
			got, body := ask("/readyz")
			return got == status && strings.Contains(body, text)
		}
	}
	eventually(t, "it waits for its hub, and says what it does not do meanwhile", says(503, "nothing is healed until then"))
	eventually(t, "the hub refuses it", func() bool { return polls.Load() > 1 })
	if !says(503, "hub")() {
		t.Error("an agent that its hub refuses is ready")
	}
	answers.Store(true)
	eventually(t, "it is ready", says(200, ""))
	refusing, refused := countingHub(t)
	register(t, kube, refusing)
	eventually(t, "another hub refuses it", func() bool { return refused.Load() > 0 })
	if !says(200, "")() {
		t.Error("what it was ready for it is no more")
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/": 404} {
		if got, _ := ask(path); got != want {
			t.Errorf("%s answers %d", path, got)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}
