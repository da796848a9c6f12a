package replicas

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/pluralsh/plural/agent/identity"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// cluster is a real one of the fleet, with an agent that reaches the hub through a proxy.
type cluster struct {
	*world
	*kubetest.Cluster
	name  string
	token string
	ca    []byte
}

// join has the first cluster of the fleet be a real one.
func (w *world) join() *cluster {
	w.t.Helper()
	c := &cluster{world: w, Cluster: kubetest.Start(w.t), name: "c-00"}
	until(w.t, 30*time.Second, "there is a token", func() bool {
		token, err := os.ReadFile(filepath.Join(w.dir, "token"))
		c.token = strings.TrimSpace(string(token))
		return err == nil && c.token != ""
	})
	var err error
	if c.ca, err = os.ReadFile(w.pki.ca); err != nil {
		w.t.Fatal(err)
	}
	c.letOperatorsIn()
	c.register()
	c.startAgent()
	return c
}

// letOperatorsIn makes whoever holds the hub's token the cluster's administrator.
func (c *cluster) letOperatorsIn() {
	c.t.Helper()
	c.put(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, "", map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "plural-operators"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "plural:operators"}},
	})
}

// put applies an object straight at the cluster.
func (c *cluster) put(resource schema.GroupVersionResource, namespace string, fields map[string]any) {
	c.t.Helper()
	object := &unstructured.Unstructured{Object: fields}
	_, err := c.Dynamic.Resource(resource).Namespace(namespace).Apply(c.t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "test"})
	if err != nil {
		c.t.Fatal(err)
	}
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// empty is a ConfigMap that holds nothing.
func empty(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}
}

// register tells the cluster who it is.
func (c *cluster) register() {
	c.t.Helper()
	sealed, err := age.GenerateX25519Identity()
	if err != nil {
		c.t.Fatal(err)
	}
	own, err := crypto.ParseAgentIdentity(base64.StdEncoding.EncodeToString(c.keys[c.name].Seed()), sealed.String())
	if err != nil {
		c.t.Fatal(err)
	}
	registration := identity.Registration{Cluster: c.name, HubURL: hubURL, HubCA: c.ca, Identity: own}
	if err := identity.Write(c.t.Context(), c.Dynamic, registration); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) startAgent() {
	c.t.Helper()
	cmd := exec.Command(c.bin, "agent", "run", "--kubeconfig", c.Kubeconfig, "--data", filepath.Join(c.dir, "agent"), "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "HTTPS_PROXY="+c.proxy())
	said := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if c.t.Failed() {
			c.t.Logf("the agent said:\n%s", said.Bytes()[max(0, said.Len()-8000):])
		}
	})
}

// proxy is the only way from the agent to the hub: it knows the hub by its name, and nothing else.
func (w *world) proxy() string {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "hub.test:443" {
			http.Error(rw, "this proxy leads to the hub only", http.StatusForbidden)
			return
		}
		hub := w.balancer.dial()
		if hub == nil {
			http.Error(rw, "no replica accepts", http.StatusBadGateway)
			return
		}
		defer hub.Close()
		agent, buffered, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer agent.Close()
		if _, err := io.WriteString(agent, "HTTP/1.1 200 Connected\r\n\r\n"); err != nil {
			return
		}
		go func() { _, _ = io.Copy(hub, buffered); _ = hub.Close() }()
		_, _ = io.Copy(agent, hub)
	}))
	w.t.Cleanup(server.Close)
	return server.URL
}

// connections counts those of the cluster's agent at each replica.
func (c *cluster) connections() (at map[string]int) {
	at = map[string]int{}
	for _, r := range c.replicas {
		var list v1.List[v1.Connection]
		if r.get("/v1/clusters/"+c.name+"/connections", &list) != nil {
			continue
		}
		for _, connection := range list.Items {
			at[connection.Replica]++
		}
	}
	return at
}

// connected waits until the agent is connected to two replicas, and every replica reaches it.
func (c *cluster) connected() {
	c.t.Helper()
	until(c.t, time.Minute, "the agent has connections to two replicas", func() bool {
		at := c.connections()
		c.why = fmt.Sprintf("the agent's connections are %v", at)
		return len(at) == 2
	})
	for _, r := range c.replicas {
		until(c.t, 10*time.Second, r.name+" reaches the cluster", func() bool {
			return c.reached(r) == nil
		})
		until(c.t, time.Minute, r.name+" says that the cluster is connected", func() bool { return c.saidConnected(r) })
	}
}

// saidConnected is what a replica says of the cluster, whichever replica holds its connections.
func (c *cluster) saidConnected(r *replica) bool {
	var found v1.ClusterDetail
	return r.get("/v1/clusters/"+c.name, &found) == nil && found.Connected != nil && *found.Connected
}

// reached lists what is in the cluster by way of one replica.
func (c *cluster) reached(r *replica) error {
	list, err := c.person("https://"+r.address(r.main)).Resource(configMaps).Namespace(c.Namespace).List(context.Background(), metav1.ListOptions{})
	if err == nil && len(list.Items) == 0 {
		err = errors.New("there is nothing")
	}
	return err
}

// config is how client-go reaches the cluster, by connections that no other client uses.
func (c *cluster) config(hub string) *rest.Config {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &rest.Config{
		Host: hub + "/k8s/" + c.name, BearerToken: c.token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
	}
}

func (c *cluster) person(hub string) dynamic.Interface {
	c.t.Helper()
	client, err := dynamic.NewForConfig(c.config(hub))
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// crowd are people with kubectl: each reads and changes an object of their own all the time. What client-go does not get
// done with its own retries is a failure.
type crowd struct {
	stop func()

	mu       sync.Mutex
	requests int
	slowest  time.Duration
	failures []string
}

// pace is how often each of the crowd asks.
const pace = 500 * time.Millisecond

func (c *cluster) newCrowd(size int) *crowd {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	all := new(crowd)
	var people sync.WaitGroup
	all.stop = func() { cancel(); people.Wait() }
	c.t.Cleanup(all.stop)
	for i := range size {
		name := fmt.Sprintf("of-%02d", i)
		c.put(configMaps, c.Namespace, empty(name))
		maps := c.person(c.balancer.url()).Resource(configMaps).Namespace(c.Namespace)
		people.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for n := 0; ; n++ {
				all.request(ctx, name+" reads", func() error {
					_, err := maps.Get(ctx, name, metav1.GetOptions{})
					return err
				})
				all.request(ctx, name+" changes", func() error {
					_, err := maps.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n), metav1.PatchOptions{})
					return err
				})
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	return all
}

func (c *crowd) request(ctx context.Context, what string, do func() error) {
	began := time.Now()
	err := do()
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.slowest = max(c.slowest, time.Since(began))
	if err != nil {
		c.failures = append(c.failures, fmt.Sprintf("%s %s: %v", time.Now().Format(time.TimeOnly), what, err))
	}
}

// check wants no failure.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("%d requests, the slowest took %v, %d failures", c.requests, c.slowest.Round(time.Millisecond), len(c.failures))
	for _, failure := range c.failures[:min(len(c.failures), 10)] {
		t.Error(failure)
	}
}

// informer is client-go's own, of the ConfigMaps in the test's namespace.
type informer struct {
	mu   sync.Mutex
	told map[string]int // by name: how often it was told of an addition
}

// informs starts an informer that goes on until the test ends.
func (c *cluster) informs() *informer {
	c.t.Helper()
	maps := c.person(c.balancer.url()).Resource(configMaps).Namespace(c.Namespace)
	i := &informer{told: map[string]int{}}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return maps.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return maps.Watch(ctx, o)
			},
		},
		ObjectType: &unstructured.Unstructured{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.told[object.(*unstructured.Unstructured).GetName()]++
		}},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); controller.RunWithContext(ctx) }()
	c.t.Cleanup(func() { cancel(); <-done })
	until(c.t, 30*time.Second, "the informer has listed", controller.HasSynced)
	return i
}

// missed are those of the names that it was not told of exactly once.
func (i *informer) missed(names []string) (wrong []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, name := range names {
		if i.told[name] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s: %d times", name, i.told[name]))
		}
	}
	return wrong
}

// writes makes ConfigMaps straight at the cluster until it is stopped, which gives their names.
func (c *cluster) writes() (stop func() []string) {
	ctx, cancel := context.WithCancel(context.Background())
	var names []string
	var writer sync.WaitGroup
	writer.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			made := &unstructured.Unstructured{Object: empty(fmt.Sprintf("made-%04d", n))}
			if _, err := c.Dynamic.Resource(configMaps).Namespace(c.Namespace).Create(ctx, made, metav1.CreateOptions{}); err == nil {
				names = append(names, made.GetName())
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	stop = func() []string { cancel(); writer.Wait(); return names }
	c.t.Cleanup(func() { stop() })
	return stop
}

// shell is a session in a pod that repeats every line.
type shell struct {
	in    *io.PipeWriter
	out   *bufio.Reader
	ended chan error
}

// pod runs one that people can look into.
func (c *cluster) pod() string {
	c.t.Helper()
	c.put(pods, c.Namespace, map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web"}}},
	})
	until(c.t, time.Minute, "the pod runs", func() bool {
		pod, err := c.Dynamic.Resource(pods).Namespace(c.Namespace).Get(c.t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return false
		}
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		return phase == "Running"
	})
	return "web"
}

// execs opens a session by way of one replica.
func (c *cluster) execs(r *replica, pod string) *shell {
	c.t.Helper()
	config := c.config("https://" + r.address(r.main))
	target := config.Host + "/api/v1/namespaces/" + c.Namespace + "/pods/" + pod + "/exec?command=cat&stdin=true&stdout=true&stderr=true"
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, target)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	c.t.Cleanup(cancel)
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	s := &shell{in, bufio.NewReader(out), make(chan error, 1)}
	go func() {
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: io.Discard})
		_ = stdin.CloseWithError(errors.New("the session is over"))
		_ = stdout.CloseWithError(fmt.Errorf("the session is over: %w", err))
		s.ended <- err
	}()
	return s
}

func (s *shell) echoes(line string) error {
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		return err
	}
	got, err := s.out.ReadString('\n')
	if err == nil && got != line+"\n" {
		err = fmt.Errorf("%q comes back as %q", line, got)
	}
	return err
}
