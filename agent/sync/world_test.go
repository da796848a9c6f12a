package sync_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/store"
	agentsync "github.com/pluralsh/plural/agent/sync"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/internal/kubetest"
)

// The test binary is its own render child, as the product's binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// hub is the edge: what a hub would say, in memory.
type hub struct {
	mu      sync.Mutex // guards all below
	away    bool
	poll    *api.Poll
	polls   int
	edition string
	bundles map[string][]byte
	stalled map[string]bool // bundles that are asked for and never come
	reports []*api.Report
	// envelopes go out with every further poll.
	envelopes []*api.Envelope
}

var errAway = errors.New("no route to hub")

func (h *hub) Poll(_ context.Context, etag string) (*api.Poll, string, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := strconv.Itoa(h.polls)
	switch {
	case h.away:
		return nil, "", "", errAway
	case h.poll == nil || etag == now:
		return nil, etag, h.edition, nil
	}
	return h.poll, now, h.edition, nil
}

func (h *hub) Bundle(ctx context.Context, key string) ([]byte, error) {
	h.mu.Lock()
	archive, away, stalled := h.bundles[key], h.away, h.stalled[key]
	h.mu.Unlock()
	if stalled {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if away || archive == nil {
		return nil, errAway
	}
	return archive, nil
}

func (h *hub) Report(_ context.Context, r *api.Report) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away {
		return errAway
	}
	h.reports = append(h.reports, r)
	return nil
}

func (h *hub) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// asks makes the deployments all that the cluster should run.
func (h *hub) asks(budget string, deployments ...*api.Deployment) {
	h.set(func() {
		h.polls++
		h.poll = &api.Poll{
			Cluster: "edge-1", Deployments: deployments, DeletionBudget: budget, IntervalMs: 100, ReportIntervalMs: 2000,
			Envelopes: h.envelopes,
		}
	})
}

func (h *hub) said() []*api.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*api.Report(nil), h.reports...)
}

// status is what the agent reported of a service last; nil when it did not.
func (h *hub) status(service string) *api.ServiceReport {
	all := h.said()
	if len(all) == 0 {
		return nil
	}
	for _, s := range all[len(all)-1].GetServices() {
		if s.GetService() == service {
			return s
		}
	}
	return nil
}

// engine is the real one, whose look at the cluster can be made to fail.
type engine struct {
	*apply.Engine
	mu    sync.Mutex
	blind bool
}

func (e *engine) Services(ctx context.Context) ([]string, error) {
	e.mu.Lock()
	blind := e.blind
	e.mu.Unlock()
	if blind {
		return nil, errors.New("the API server does not answer")
	}
	return e.Engine.Services(ctx)
}

func (e *engine) setBlind(blind bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.blind = blind
}

// world is an agent's loop between a hub in memory, a disk, and a real API server.
type world struct {
	*testing.T
	hub     *hub
	engine  *engine
	objects dynamic.ResourceInterface // ConfigMaps of the test's namespace
	config  *rest.Config
	ns      string
	dir     string
	heal    time.Duration
	verify  time.Duration
	cluster unseal.Cluster
	log     *slog.Logger
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Start(t)
	real, err := apply.New(cluster.RESTConfig, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		T: t, engine: &engine{Engine: real}, config: cluster.RESTConfig, ns: cluster.Namespace, dir: t.TempDir(),
		objects: cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(cluster.Namespace),
		hub:     &hub{bundles: map[string][]byte{}, stalled: map[string]bool{}},
		heal:    500 * time.Millisecond,
		log:     slog.New(slog.DiscardHandler),
	}
	t.Cleanup(w.empty)
	return w
}

// empty leaves no service behind: the next test's agent would take it for its own.
func (w *world) empty() {
	ctx := context.WithoutCancel(w.Context())
	w.eventually("the cluster is empty", func() bool {
		services, err := w.engine.Engine.Services(ctx)
		for _, name := range services {
			_, _ = w.engine.Remove(ctx, name)
		}
		return err == nil && len(services) == 0
	})
}

// start runs an agent's loop; stop ends it and waits. The test's end does the same.
func (w *world) start() (stop func()) {
	w.Helper()
	keep, err := store.Open(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	syncer := agentsync.New(agentsync.Options{
		Hub: w.hub, Store: keep, Engine: w.engine, Log: w.log, Cluster: w.cluster,
		Renderer: &render.Renderer{Command: []string{program, "render-child"}},
		Heal:     w.heal, Verify: w.verify, Passes: 3, PollInterval: 100 * time.Millisecond, AgentVersion: "v1", KubeVersion: "v1.35.0",
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- syncer.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		_ = keep.Close()
	})
	w.Cleanup(stop)
	return stop
}

// service makes a deployment of files, with its bundle at the hub.
func (w *world) service(name string, files map[string]string, change ...func(*api.Deployment)) *api.Deployment {
	w.Helper()
	tree := fstest.MapFS{}
	for path, text := range files {
		tree[name+"/"+path] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	key, archive := w.pack(tree, name)
	w.hub.set(func() { w.hub.bundles[key] = archive })
	d := &api.Deployment{
		Service: name, Key: "d1-" + name + key, Bundle: key, Inputs: []string{name}, Path: name, Renderer: render.Raw,
		Namespace: w.ns, Sync: &api.Sync{Prune: true, SelfHeal: true},
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func (w *world) pack(tree fs.FS, input string) (key string, archive []byte) {
	w.Helper()
	var out bytes.Buffer
	if err := bundle.Pack(&out, tree, []string{input}, bundle.DefaultLimits()); err != nil {
		w.Fatal(err)
	}
	files, err := bundle.Unpack(bytes.NewReader(out.Bytes()), bundle.DefaultLimits())
	if err != nil {
		w.Fatal(err)
	}
	if key, err = files.Key([]string{input}); err != nil {
		w.Fatal(err)
	}
	return key, out.Bytes()
}

// config is a service of one ConfigMap of the same name.
func (w *world) configMap(name, value string, change ...func(*api.Deployment)) *api.Deployment {
	w.Helper()
	return w.service(name, map[string]string{"cm.yaml": manifest(name, value)}, change...)
}

func manifest(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {value: " + value + "}\n"
}

// live is a ConfigMap's value; empty when it is not there.
func (w *world) live(name string) string {
	w.Helper()
	object, err := w.objects.Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		w.Fatal(err)
	}
	value, _, _ := unstructured.NestedString(object.Object, "data", "value")
	return value
}

func (w *world) delete(name string) {
	w.Helper()
	if err := w.objects.Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// healed deletes an object, and waits until the agent has made it again.
func (w *world) healed(name, value string) {
	w.Helper()
	w.delete(name)
	w.eventually(name+" comes back", func() bool { return w.live(name) == value })
}

// becomes waits for what the agent reports of a service's key.
func (w *world) becomes(d *api.Deployment, phase api.Phase) *api.ServiceReport {
	w.Helper()
	var s *api.ServiceReport
	w.eventually(d.GetService()+" is "+phase.String(), func() bool {
		s = w.hub.status(d.GetService())
		return s.GetPhase() == phase && s.GetKey() == d.GetKey()
	})
	return s
}

func (w *world) eventually(what string, yes func() bool) {
	w.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	if said := w.hub.said(); len(said) > 0 {
		w.Logf("last report: %v", said[len(said)-1])
	}
	w.Fatalf("never: %s", what)
}

// counted is a transport that counts requests.
type counted struct {
	next http.RoundTripper
	mu   *sync.Mutex
	seen *[]string
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	*c.seen = append(*c.seen, r.Method+" "+r.URL.Path)
	c.mu.Unlock()
	return c.next.RoundTrip(r)
}
