package skew

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/test/support/kubetest"
)

const (
	edge = "edge" // the fleet's one cluster
	// kept is the service that is there all along: what programs keep is about it.
	kept = "kept"
	// pace is between two looks of the hub at git, and of the agent at the hub.
	pace = "200ms"
	// commandTimeout and exitTimeout bound a command of a person, and the end of a hub or agent that is asked to end.
	commandTimeout = 2 * time.Minute
	exitTimeout    = 30 * time.Second
)

// What a service has.
var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// world is a fleet of one cluster, whose hub and agent are of one release or another, on the same state.
type world struct {
	*testing.T
	cluster    *kubetest.Cluster
	origin     *fleetrepo.Origin
	dir        string
	hubURL     string
	hub, agent *process
	// attached is the version of the agent.
	attached string
}

// newWorld makes an installation repo with the commands of a release, and registers a new cluster in it. Neither hub nor agent runs.
func newWorld(t *testing.T, by release) *world {
	t.Helper()
	w := &world{T: t, cluster: kubetest.StartApart(t), origin: fleetrepo.New(t), dir: t.TempDir(), hubURL: "http://" + freeAddress(t)}
	t.Cleanup(func() {
		w.T = t
		w.stopHub()
		w.stopAgent()
		if t.Failed() {
			w.tellLogs()
		}
	})
	w.letOperatorsIn()
	w.cli(by, "init", "--name", "skew", "--hub-url", w.hubURL, "--repo-url", w.origin.URL(), "--no-seal", w.origin.Work)
	w.origin.Push(map[string]string{
		"apps/small/config.yaml.tmpl": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .parameters.name }}\"}\n" +
			"data: {value: \"{{ .parameters.value }}\"}\n",
		"apps/small/deployment.yaml.tmpl": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: \"{{ .parameters.name }}\"}\n" +
			"spec:\n  selector: {matchLabels: {app: \"{{ .parameters.name }}\"}}\n  template:\n" +
			"    metadata: {labels: {app: \"{{ .parameters.name }}\"}}\n    spec: {containers: [{name: main, image: \"small:1\"}]}\n",
	})
	w.cli(by, "cluster", "register", edge, "--kubeconfig", w.cluster.Kubeconfig, "--context", "kubetest", "--no-agent")
	return w
}

// letOperatorsIn lets those who hold the hub's token do anything in the cluster.
func (w *world) letOperatorsIn() {
	w.Helper()
	const rbac = "rbac.authorization.k8s.io"
	group := tunnelapi.Prefix + "operators"
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "operators"},
		"roleRef":  map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{map[string]any{"apiGroup": rbac, "kind": "Group", "name": group}},
	}}
	bindings := w.cluster.Dynamic.Resource(schema.GroupVersionResource{Group: rbac, Version: "v1", Resource: "clusterrolebindings"})
	if _, err := bindings.Create(w.Context(), binding, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// serve lets the hub be of a release from now on, on the data that there is.
func (w *world) serve(r release) {
	w.Helper()
	w.stopHub()
	w.hub = w.start(r.plural, "hub", "serve", "--data", filepath.Join(w.dir, "hub"), "--with-parent",
		"--listen", strings.TrimPrefix(w.hubURL, "http://"), "--url", w.hubURL, "--repo", w.origin.URL(), "--allow-file-sources", "--allow-loopback",
		"--interval", pace, "--poll-interval", pace, "--report-interval", "1s")
	fleetrepo.Until(w, "the hub of "+r.name+" serves", func() bool {
		var status v1.Status
		found, err := w.ask("/v1/status", &status)
		return err == nil && found && status.Commit.ID != "" && status.Version == r.pluralVersion
	})
}

// attach lets the agent be of a release from now on, on the data that there is.
func (w *world) attach(r release) {
	w.Helper()
	w.stopAgent()
	w.attached = r.agentVersion
	w.agent = w.start(r.agent, "run", "--kubeconfig", w.cluster.Kubeconfig, "--data", filepath.Join(w.dir, "agent"), "--listen", "", "--with-parent")
}

func (w *world) stopHub()   { w.Helper(); w.hub = w.stop(w.hub) }
func (w *world) stopAgent() { w.Helper(); w.agent = w.stop(w.agent) }

// file is a service's, as people write it.
func (w *world) file(name, value string) string {
	return fleetrepo.Header + "kind: Service\nmetadata: {name: " + name + "}\nspec:\n  source: {path: apps/small}\n  namespace: " +
		w.cluster.Namespace + "\n  clusters: {names: [" + edge + "]}\n  parameters: {name: " + name + ", value: \"" + value + "\"}\n"
}

// deploys deploys a service by a commit, changes it by the next, and takes it away.
func (w *world) deploys(name string) {
	w.Helper()
	file := "services/" + name + ".yaml"
	w.origin.Push(map[string]string{file: w.file(name, "1")})
	w.runs(name, "1")
	w.origin.Push(map[string]string{file: w.file(name, "2")})
	w.runs(name, "2")
	w.origin.Push(map[string]string{file: ""})
	w.gone(name)
}

// deploysBy does the same with the commands of a release, and has them tell of it in all ways by which a hub is asked: its API, its
// stream, the way into the cluster, and live objects.
func (w *world) deploysBy(cli release, name string) {
	w.Helper()
	w.cli(cli, "service", "create", name, "--path", "apps/small", "--namespace", w.cluster.Namespace, "--cluster", edge, "name="+name, "value=1")
	w.runs(name, "1")
	w.says(w.cli(cli, "status", name, "--wait"), name, "healthy")
	w.says(w.cli(cli, "service", "get", name, "-o", "json"), `"phase": "healthy"`)
	w.says(w.cli(cli, "service", "tree", name), "Deployment", "Pod")
	w.says(w.cli(cli, "cluster", "list", "-o", "json"), `"name": "`+edge+`"`)
	w.says(w.cli(cli, "hub", "status"), "served")
	w.says(w.cli(cli, "kubectl", edge, "get", "configmap", name, "-n", w.cluster.Namespace, "-o", "jsonpath=value={.data.value}"), "value=1")
	w.says(w.cli(cli, "logs", "agent/"+edge), "agent started")
	w.cli(cli, "service", "set", name, "value=2")
	w.runs(name, "2")
	w.cli(cli, "service", "delete", name, "--confirm", name)
	w.gone(name)
}

// runs waits until a service is live with a value, and the hub says that it is healthy at the newest commit, by the agent that runs now.
func (w *world) runs(name, value string) {
	w.Helper()
	head := w.origin.Git(w.origin.Work, "rev-parse", "HEAD")
	fleetrepo.Until(w, name+" runs with "+value, func() bool {
		var s v1.Service
		found, err := w.ask("/v1/services/"+name, &s)
		if err != nil || !found || s.Commit != head || !w.converged(&s) {
			return false
		}
		var c v1.ClusterDetail
		found, err = w.ask("/v1/clusters/"+edge, &c)
		connected := c.Connected != nil && *c.Connected
		return err == nil && found && connected && c.AgentVersion == w.attached && w.value(name) == value && w.live(deployments, name) != nil
	})
}

// converged says whether all of a service is healthy at the key that it should have.
func (w *world) converged(s *v1.Service) bool {
	return s.Phase == v1.Healthy && len(s.Deployments) == 1 && s.Deployments[0].AppliedKey == s.Deployments[0].Key
}

// gone waits until nothing of a service is left.
func (w *world) gone(name string) {
	w.Helper()
	fleetrepo.Until(w, name+" is pruned", func() bool {
		found, err := w.ask("/v1/services/"+name, nil)
		return err == nil && !found && w.live(configMaps, name) == nil && w.live(deployments, name) == nil
	})
}

// kubernetes is the version of the cluster's API server.
func (w *world) kubernetes() string {
	w.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(w.cluster.RESTConfig)
	if err != nil {
		w.Fatal(err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		w.Fatal(err)
	}
	return version.GitVersion
}

// live is an object of the cluster, or nil.
func (w *world) live(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.Helper()
	object, err := w.cluster.Dynamic.Resource(resource).Namespace(w.cluster.Namespace).Get(w.Context(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		w.Fatal(err)
	}
	return object
}

// value is what the ConfigMap of a service holds; empty where there is none.
func (w *world) value(name string) string {
	object := w.live(configMaps, name)
	if object == nil {
		return ""
	}
	value, _, _ := unstructured.NestedString(object.Object, "data", "value")
	return value
}

// ask asks the hub as its operator. Found is false where there is no such thing.
func (w *world) ask(path string, into any) (found bool, err error) {
	w.Helper()
	token, err := os.ReadFile(w.tokenFile())
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.hubURL+path, nil)
	if err != nil {
		return false, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotFound:
		return false, nil
	case http.StatusOK:
	default:
		return false, errors.New(response.Status)
	}
	if into == nil {
		return true, nil
	}
	return true, json.NewDecoder(io.LimitReader(response.Body, 16<<20)).Decode(into)
}

func (w *world) tokenFile() string { return filepath.Join(w.dir, "hub", "token") }

// cli runs plural of a release in the installation repo, as a person who has nothing but it. It has to succeed.
func (w *world) cli(r release, args ...string) string {
	w.Helper()
	home := filepath.Join(w.dir, "home")
	git := filepath.Join(home, "gitconfig")
	if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(git, []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n"), 0o600)); err != nil {
		w.Fatal(err)
	}
	out, err := command(w.T, commandTimeout, w.origin.Work, []string{
		"HOME=" + home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_CACHE_HOME=", "XDG_RUNTIME_DIR=", "GIT_CONFIG_GLOBAL=" + git,
		"GIT_CONFIG_NOSYSTEM=1", "PLURAL_HUB=" + w.hubURL, "PLURAL_TOKEN=", "PLURAL_TOKEN_FILE=" + w.tokenFile(), "NO_COLOR=1",
	}, r.plural, args...)
	if err != nil {
		w.Fatalf("%s: plural %s: %v\n%s", r.name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// says checks what a program printed.
func (w *world) says(out string, want ...string) {
	w.Helper()
	for _, part := range want {
		if !strings.Contains(out, part) {
			w.Errorf("%q is missing in\n%s", part, out)
		}
	}
}

// process is a program that runs until it is stopped; it ends with the test's process, too.
type process struct {
	*exec.Cmd
	lifeline io.Closer
	ended    chan struct{}
}

// start runs a program, whose output goes to a log.
func (w *world) start(name string, args ...string) *process {
	w.Helper()
	log, err := os.OpenFile(w.logFile(filepath.Base(name)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.Fatal(err)
	}
	defer log.Close()
	p := &process{Cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.Stdout, p.Stderr = log, log
	if p.lifeline, err = p.StdinPipe(); err != nil {
		w.Fatal(err)
	}
	if err := p.Start(); err != nil {
		w.Fatal(err)
	}
	go func() {
		_ = p.Wait() // its log says how it ended
		close(p.ended)
	}()
	return p
}

// stop asks a process to end, and gives nil in its place.
func (w *world) stop(p *process) *process {
	w.Helper()
	if p == nil {
		return nil
	}
	defer p.lifeline.Close()
	_ = p.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(exitTimeout):
		_ = p.Process.Kill()
		<-p.ended
		w.Errorf("%s did not end within %v", p.Path, exitTimeout)
	}
	return nil
}

func (w *world) logFile(program string) string { return filepath.Join(w.dir, program+".log") }

// tellLogs shows what hub and agent said last.
func (w *world) tellLogs() {
	for _, program := range []string{"plural", "plural-agent"} {
		said, _ := os.ReadFile(w.logFile(program)) // what cannot be read is not shown
		w.Logf("--- %s\n%s", program, said[max(0, len(said)-8000):])
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return fmt.Sprint(listener.Addr())
}
