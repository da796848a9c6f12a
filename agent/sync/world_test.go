package sync_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
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
	"github.com/pluralsh/plural/agent/events"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/servicetest"
	"github.com/pluralsh/plural/agent/store"
	agentsync "github.com/pluralsh/plural/agent/sync"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
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
	asked   int // polls that were answered
	edition string
	bundles map[string][]byte
	stalled map[string]bool // bundles that are asked for and never come
	reports []*api.Report
	// envelopes go out with every further poll.
	envelopes []*api.Envelope
	agreed    []string
}

var errAway = errors.New("no route to hub")

func (h *hub) Poll(_ context.Context, etag string) (*api.Poll, string, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := strconv.Itoa(h.polls)
	h.asked++
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
			Envelopes: h.envelopes, Acknowledged: h.agreed,
		}
	})
}

func (h *hub) said() []*api.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*api.Report(nil), h.reports...)
}

// acknowledges makes the further polls bring tokens of removals.
func (h *hub) acknowledges(tokens ...string) {
	h.set(func() { h.agreed = tokens })
}

// last is the newest report; nil when there is none.
func (h *hub) last() *api.Report {
	if all := h.said(); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
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

// engine is the real one, whose look at the cluster can be made to fail, and whose passes held up.
type engine struct {
	*apply.Engine
	blind *atomic.Bool
	held  func(apply.Request) // before each pass; nil for nothing
}

func (e engine) Apply(ctx context.Context, r apply.Request) (*apply.Result, error) {
	if e.held != nil {
		e.held(r)
	}
	return e.Engine.Apply(ctx, r)
}

func (e engine) Services(ctx context.Context) ([]string, error) {
	if e.blind.Load() {
		return nil, errors.New("the API server does not answer")
	}
	return e.Engine.Services(ctx)
}

// renderer is the real one, and counts.
type renderer struct {
	*render.Renderer
	renders *atomic.Int64
}

func (r renderer) Render(ctx context.Context, in render.Input) (*render.Output, error) {
	r.renders.Add(1)
	return r.Renderer.Render(ctx, in)
}

// tester is the edge to what tests ask: it passes all of them but those that are said to fail, and notes what it was asked.
type tester struct {
	mu      sync.Mutex // guards all below
	fails   map[string]string
	stalls  map[string]bool
	ran     []string // KEY NAME
	hooks   []string // names of the hooks that came with the last
	running int
	most    int
	lingers chan struct{}        // what stalls ends when this is closed, too; nil: at once
	prints  string               // besides their names
	swept   []servicetest.Target // when their services went
	unswept error                // why that fails
	notes   []string             // of each sweep
}

func (c *tester) Run(ctx context.Context, target servicetest.Target, test servicetest.Test) servicetest.Result {
	c.mu.Lock()
	c.ran = append(c.ran, target.Key+" "+test.Name)
	c.running++
	c.most = max(c.most, c.running)
	c.hooks = nil
	for _, h := range target.Hooks {
		c.hooks = append(c.hooks, h.GetName())
	}
	message, fails := c.fails[test.Name]
	stalls := c.stalls[test.Name]
	c.mu.Unlock()
	if stalls {
		<-ctx.Done()
		if c.lingers != nil {
			<-c.lingers
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	return servicetest.Result{Name: test.Name, Passed: !fails, Message: message, Log: target.Mask("printed by " + test.Name + c.prints), Tries: 1}
}

func (c *tester) Sweep(_ context.Context, target servicetest.Target, keep string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if keep != "" {
		return c.notes, nil
	}
	c.swept = append(c.swept, target)
	return c.notes, c.unswept
}

func (c *tester) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// times is how often a test of a key ran.
func (c *tester) times(key, name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, one := range c.ran {
		if one == key+" "+name {
			n++
		}
	}
	return n
}

// world is an agent's loop between a hub in memory, a disk, and a real API server.
type world struct {
	*testing.T
	hub     *hub
	tester  *tester
	checks  agentsync.Checks
	blind   atomic.Bool
	renders atomic.Int64
	objects dynamic.ResourceInterface // ConfigMaps of the test's namespace
	config  *rest.Config
	ns      string
	dir     string
	verify  time.Duration
	cluster unseal.Cluster
	plugins string
	can     chan agentsync.Capabilities
	log     *slog.Logger
	event   func(agentsync.Event)
	held    func(apply.Request) // before each pass
	latest  *agentsync.Syncer   // of what start started
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Start(t)
	w := &world{
		T: t, config: cluster.RESTConfig, ns: cluster.Namespace, dir: t.TempDir(),
		objects: cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(cluster.Namespace),
		hub:     &hub{bundles: map[string][]byte{}, stalled: map[string]bool{}},
		tester:  &tester{fails: map[string]string{}, stalls: map[string]bool{}},
		can:     make(chan agentsync.Capabilities),
		cluster: unseal.Cluster{Name: "edge-1"},
		log:     slog.New(slog.DiscardHandler),
	}
	w.checks = w.tester
	t.Cleanup(w.empty)
	return w
}

// newEngine is what a process of the agent makes.
func (w *world) newEngine() *apply.Engine {
	w.Helper()
	e, err := apply.New(w.config, apply.Options{DigestKey: []byte("the same in every process")})
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// running keeps an engine's watches until the function that it returns is called.
func (w *world) running(e *apply.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// empty leaves no service behind: the next test's agent would take it for its own.
func (w *world) empty() {
	e := w.newEngine()
	defer w.running(e)()
	ctx := context.WithoutCancel(w.Context())
	w.eventually("the cluster is empty", func() bool {
		services, err := e.Services(ctx)
		for _, name := range services {
			_, _ = e.Remove(ctx, apply.Removal{Service: name})
		}
		return err == nil && len(services) == 0
	})
}

// start runs an agent's loop; stop ends it and waits. The test's end does the same.
func (w *world) start() (stop func()) {
	w.Helper()
	keep := w.disk()
	e := w.newEngine()
	rest := w.running(e)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	syncer := w.syncer(e, keep)
	w.latest = syncer
	go func() { ended <- syncer.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		rest()
		_ = keep.Close()
	})
	w.Cleanup(stop)
	return stop
}

// abandoned runs an agent's loop that stands still at some point, as if it were killed: nothing ends it, and its watches go.
func (w *world) abandoned(killed *lastWord) {
	w.Helper()
	killed.Store = w.disk()
	e := w.newEngine()
	w.Cleanup(w.running(e))
	syncer := w.syncer(e, killed)
	ctx := context.WithoutCancel(w.Context())
	go func() { _ = syncer.Run(ctx) }()
}

func (w *world) disk() *store.Store {
	w.Helper()
	keep, err := store.Open(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	return keep
}

func (w *world) syncer(e *apply.Engine, keep agentsync.Store) *agentsync.Syncer {
	w.Helper()
	real := &render.Renderer{Command: needs.Child(w, "render-child"), Plugins: w.plugins}
	objects, err := dynamic.NewForConfig(w.config)
	if err != nil {
		w.Fatal(err)
	}
	return agentsync.New(agentsync.Options{
		Hub: w.hub, Store: keep, Engine: engine{e, &w.blind, w.held}, Log: w.log, Cluster: w.cluster, Checks: w.checks,
		Warnings: events.New(objects, e.Kinds(), w.log),
		Renderer: renderer{real, &w.renders}, Plugin: real.PluginDigest, Verify: w.verify, Passes: 3, PollInterval: 100 * time.Millisecond,
		AgentVersion: "v1", Capabilities: agentsync.Capabilities{KubeVersion: "v1.35.0"}, NewCapabilities: w.can, Event: w.event,
	})
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
