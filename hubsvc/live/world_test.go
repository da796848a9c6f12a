package live_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/livequery"
	"github.com/pluralsh/plural/agent/tail"
	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/live"
	"github.com/pluralsh/plural/internal/logring"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// world is a hub's live part, with an agent's over a connection in memory, and the API server that both speak of. Who asks is
// named by the bearer token.
type world struct {
	*testing.T
	*kubetest.Cluster
	engine  *apply.Engine
	views   *livequery.Views
	hub     *httptest.Server
	service string
	agent   *logring.Ring
	own     *logring.Ring
	events  atomic.Int64 // Objects streams that the agent serves
	asked   sync.Map     // method and path -> *atomic.Int64: what was asked of the API server
	diff    *tunnelapi.DiffReply

	mu      sync.Mutex // guards what follows
	nobody  map[string]bool
	absent  bool
	backend http.Handler // answers for pods instead of a kubelet
	links   []context.CancelFunc
	since   time.Time // when the last of them began
}

// cluster is the agent's end of the channel.
type cluster struct {
	tunnelapi.UnimplementedClusterServer
	*world
}

func (c cluster) Objects(req *tunnelapi.ObjectsRequest, out grpc.ServerStreamingServer[tunnelapi.ObjectsEvent]) error {
	c.world.events.Add(1)
	defer c.world.events.Add(-1)
	ctx, cancel := context.WithCancel(out.Context())
	defer cancel()
	c.mu.Lock()
	c.links, c.since = append(c.links, cancel), time.Now()
	c.mu.Unlock()
	if err := c.views.Objects(ctx, req, out.Send); out.Context().Err() == nil && errors.Is(err, context.Canceled) {
		return status.Error(codes.Unavailable, "the connection is replaced")
	} else {
		return err
	}
}

func (c cluster) Diff(context.Context, *tunnelapi.DiffRequest) (*tunnelapi.DiffReply, error) {
	return c.diff, nil
}

func (c cluster) Logs(req *tunnelapi.LogsRequest, out grpc.ServerStreamingServer[tunnelapi.LogLine]) error {
	return tail.Logs(out.Context(), c.agent, req, out.Send)
}

// route is a way to the agent.
type route struct{ tunnelapi.ClusterClient }

func (route) Release() {}

func newWorld(t *testing.T) *world {
	t.Helper()
	kube := kubetest.Start(t)
	w := &world{
		T: t, Cluster: kube, service: kube.Namespace, agent: logring.New(100), own: logring.New(100),
		nobody: map[string]bool{}, diff: &tunnelapi.DiffReply{},
	}
	var err error
	if w.engine, err = apply.New(kube.RESTConfig, apply.Options{}); err != nil {
		t.Fatal(err)
	}
	meta, err := metadata.NewForConfig(kube.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	w.views = livequery.New(livequery.Options{Objects: kube.Dynamic, Metadata: meta, Kinds: w.engine.Kinds(), Services: w.engine})
	w.keep(w.engine.Run)
	w.keep(w.views.Run)
	client := w.connect()
	api := live.New(live.Options{
		Person: w.person, Allow: w.allow, HubLog: w.own, Idle: 100 * time.Millisecond,
		Sees: func(p principal.Person, cluster string) bool { return cluster == "edge-1" && p.Name != "stranger" },
		Runs: func(_, service string) bool { return service == w.service },
		Reach: func(context.Context, string) (live.Agent, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.absent {
				return nil, errors.New("the cluster's agent is not connected to the hub")
			}
			return route{client}, nil
		},
		Do: w.do,
	})
	w.keep(api.Run)
	mux := http.NewServeMux()
	api.Routes(mux)
	w.hub = httptest.NewServer(mux)
	t.Cleanup(w.hub.Close)
	return w
}

// connect is a gRPC connection in memory, whose server is the agent.
func (w *world) connect() tunnelapi.ClusterClient {
	w.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	tunnelapi.RegisterClusterServer(server, cluster{world: w})
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
	})
	return tunnelapi.NewClusterClient(conn)
}

func (w *world) keep(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run(ctx)
	}()
	w.Cleanup(func() {
		cancel()
		<-ended
	})
}

func (w *world) person(r *http.Request) (principal.Person, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || w.nobody[name] {
		return principal.Person{}, errors.New("nobody")
	}
	return principal.Person{Name: name, Credential: "token of " + name}, nil
}

func (w *world) allow(p principal.Person, verb string) error {
	if p.Name == "blind" || verb == "admin" && p.Name != "admin" {
		return fmt.Errorf("%s may not %s the fleet", p.Name, verb)
	}
	return nil
}

// revoke makes somebody nobody.
func (w *world) revoke(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nobody[name] = true
}

// leave makes the agent absent, and ends what it serves.
func (w *world) leave(absent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.absent = absent
	for _, cancel := range w.links {
		cancel()
	}
	w.links = nil
}

// started is when the newest of the agent's streams began.
func (w *world) started() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// do is the way to the API server as the person, whose rights the cluster alone decides on.
func (w *world) do(ctx context.Context, p principal.Person, cluster string, r *http.Request) (*http.Response, error) {
	count, _ := w.asked.LoadOrStore(r.Method+" "+r.URL.Path, new(atomic.Int64))
	count.(*atomic.Int64).Add(1)
	w.mu.Lock()
	backend := w.backend
	w.mu.Unlock()
	if backend != nil && (strings.HasSuffix(r.URL.Path, "/log") || strings.HasSuffix(r.URL.Path, "/exec")) {
		return w.kubelet(ctx, backend, r)
	}
	config := rest.CopyConfig(w.RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: tunnelapi.Prefix + p.Name}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	r = r.Clone(ctx)
	r.URL.Scheme, r.URL.Host = base.Scheme, base.Host
	return transport.RoundTrip(r)
}

func (w *world) kubelet(ctx context.Context, backend http.Handler, r *http.Request) (*http.Response, error) {
	server := httptest.NewServer(backend)
	w.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		return nil, err
	}
	r = r.Clone(ctx)
	r.URL.Scheme, r.URL.Host = base.Scheme, base.Host
	return http.DefaultTransport.RoundTrip(r)
}

// times is how often the API server was asked for something.
func (w *world) times(method, path string) int64 {
	count, ok := w.asked.Load(method + " " + path)
	if !ok {
		return 0
	}
	return count.(*atomic.Int64).Load()
}

func parse(text string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		panic(err)
	}
	return obj
}

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
`

const free = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: free}
spec:
  selector: {matchLabels: {app: free}}
  template:
    metadata: {labels: {app: free}}
    spec: {containers: [{name: web, image: web}]}
`

// apply makes the service hold exactly these objects.
func (w *world) apply(key string, objects ...string) {
	w.Helper()
	var parsed []*unstructured.Unstructured
	for _, text := range objects {
		parsed = append(parsed, parse(text))
	}
	w.eventually("the service is applied", func() bool {
		result, err := w.engine.Apply(w.Context(), apply.Request{
			Service: w.service, Namespace: w.Namespace, Key: key, Heal: true, Prune: true, Budget: "100%",
			Objects: func(context.Context) ([]*unstructured.Unstructured, error) { return parsed, nil },
		})
		if err != nil {
			w.Fatal(err)
		}
		return result.Done
	})
}

// allows lets a person do something in the test's namespace.
func (w *world) allows(name, group, resource string, verbs ...string) {
	w.Helper()
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	id := strings.ToLower(strings.ReplaceAll(name+"-"+resource, "/", "-"))
	quoted, _ := json.Marshal(verbs)
	for resource, text := range map[string]string{
		"roles": fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %s}, rules: [{apiGroups: [%q], resources: [%q], verbs: %s}]}`,
			id, group, resource, quoted),
		"rolebindings": fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %[1]s},
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s},
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]q}]}`, id, tunnelapi.Prefix+name),
	} {
		if _, err := w.Dynamic.Resource(rbac.WithResource(resource)).Namespace(w.Namespace).Create(w.Context(), parse(text), metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
	}
	w.eventually(name+" may", func() bool {
		return !slices.ContainsFunc(verbs, func(verb string) bool { return !w.mayAlready(name, verb, group, resource) })
	})
}

// mayAlready says whether the API server has seen what a person was allowed.
func (w *world) mayAlready(name, verb, group, resource string) bool {
	w.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	review := parse(fmt.Sprintf(`{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: %q,
resourceAttributes: {namespace: %s, verb: %s, group: %q, resource: %s, subresource: %q}}}`, tunnelapi.Prefix+name, w.Namespace, verb, group, resource, subresource))
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}
	answer, err := w.Dynamic.Resource(reviews).Create(w.Context(), review, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed
}

func (w *world) client(resource string) dynamic.ResourceInterface {
	gv := schema.GroupVersion{Version: "v1"}
	if resource == "deployments" {
		gv.Group = "apps"
	}
	return w.Dynamic.Resource(gv.WithResource(resource)).Namespace(w.Namespace)
}

func (w *world) create(resource, text string) {
	w.Helper()
	if _, err := w.client(resource).Create(w.Context(), parse(text), metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) eventually(what string, yes func() bool) {
	w.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	w.Fatalf("never: %s", what)
}

// send asks the hub as somebody; {at} in a target stands for the cluster, {service} for the service, {ns} for the namespace.
func (w *world) send(ctx context.Context, who, method, target, body string) *http.Response {
	w.Helper()
	target = strings.NewReplacer("{at}", "/v1/clusters/edge-1", "{service}", w.service, "{ns}", w.Namespace).Replace(target)
	r, err := http.NewRequestWithContext(ctx, method, w.hub.URL+target, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	resp, err := w.hub.Client().Do(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { resp.Body.Close() })
	return resp
}

// get is an answer with its status.
func (w *world) get(who, target string) (int, string) {
	w.Helper()
	return w.ask(who, http.MethodGet, target, "")
}

func (w *world) ask(who, method, target, body string) (int, string) {
	w.Helper()
	resp := w.send(w.Context(), who, method, target, body)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// list is a page of objects.
func (w *world) list(who, target string) v1.List[v1.Object] {
	w.Helper()
	code, text := w.get(who, target)
	var list v1.List[v1.Object]
	if err := json.Unmarshal([]byte(text), &list); err != nil || code != http.StatusOK {
		w.Fatalf("%s: %d %s", target, code, text)
	}
	if len(text) > 100_000 {
		w.Errorf("%s: a page of %d bytes", target, len(text))
	}
	return list
}

// names are the kinds and names in a list, with dots for depth.
func names(list v1.List[v1.Object]) []string {
	depth := map[string]int{}
	var out []string
	for _, o := range list.Items {
		if above, ok := depth[o.Owner]; ok {
			depth[o.UID] = above + 1
		} else {
			depth[o.UID] = 0
		}
		name := o.Name
		if !o.Applied && o.Kind != "ConfigMap" {
			name = "" // a controller's
		}
		out = append(out, strings.TrimSpace(strings.Repeat(".", depth[o.UID])+o.Kind+" "+name))
	}
	return out
}

// sse is an open stream of events.
type sse struct {
	*world
	lines *bufio.Scanner
	stop  context.CancelFunc
	shown map[string]v1.Object
}

func (w *world) watch(who, target string) *sse {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	resp := w.send(ctx, who, http.MethodGet, target, "")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(resp.Body)
		w.Fatalf("%s: %d %s", target, resp.StatusCode, text)
	}
	s := &sse{world: w, lines: bufio.NewScanner(resp.Body), stop: cancel, shown: map[string]v1.Object{}}
	s.lines.Buffer(nil, 1<<20)
	w.Cleanup(cancel)
	return s
}

// next is the next event, which is taken in; its name is empty at the stream's end.
func (s *sse) next() (name, data string) {
	s.Helper()
	for s.lines.Scan() {
		line := s.lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = strings.TrimPrefix(line, "event: ")
		case strings.HasPrefix(line, "data: "):
			data = strings.TrimPrefix(line, "data: ")
		case line == "" && name != "":
			s.take(name, data)
			return name, data
		}
	}
	return "", ""
}

func (s *sse) take(name, data string) {
	s.Helper()
	if name != "objects" {
		return
	}
	var changes v1.ObjectChanges
	if err := json.Unmarshal([]byte(data), &changes); err != nil {
		s.Fatal(err)
	}
	if len(data) > 100_000 {
		s.Errorf("an event of %d bytes", len(data))
	}
	for _, o := range changes.Changed {
		s.shown[o.UID] = o
	}
	for _, uid := range changes.Deleted {
		delete(s.shown, uid)
	}
}

// until reads events until what is shown is as it should be.
func (s *sse) until(what string, yes func() bool) {
	s.Helper()
	for !yes() {
		if name, data := s.next(); name == "" || name == "reset" {
			s.Fatalf("never: %s: the stream ended with %s", what, data)
		}
	}
}

func (s *sse) has(kind, name string) func() bool {
	return func() bool {
		for _, o := range s.shown {
			if o.Kind == kind && o.Name == name {
				return true
			}
		}
		return false
	}
}

func (w *world) logger(ring *logring.Ring) *slog.Logger {
	return slog.New(ring.Handler(slog.NewTextHandler(new(bytes.Buffer), nil)))
}
