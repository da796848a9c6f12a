// Package deploy owns the proof of what the deploy engine promises: real programs, a real API server, real faults.
//
// It refuses to know how the engine does it. What needs a whole fleet runs the shipped binaries: one cluster, an
// installation repo, a hub, an agent that is measured and killed (fleet_test.go). What needs faults by the dozen runs
// the engine in this process, behind a proxy that injects them (faults_test.go).
package deploy

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/identity"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/test/support/needs"
)

// fleet is one cluster with its agent, the hub, and the installation repo, each in a process of its own.
type fleet struct {
	testing.TB
	dir     string
	repo    string
	config  *rest.Config // the cluster's administrator
	objects dynamic.Interface
	meta    metadata.Interface
	apis    *rest.RESTClient

	kubeconfig string // the agent's
	hub, agent *process
	hubURL     string
	client     *client.Client
	files      map[string]string // to be written by the next commit
}

const (
	clusterName = "edge"
	// agentUser is who the agent is for the API server. It is one of the few whose requests the API server counts by name,
	// and nobody else here uses it.
	agentUser = "system:serviceaccount:kube-system:default"
	workplace = "bench"
)

var (
	configMaps     = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets        = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaces     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	accounts       = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	deployments    = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	jobs           = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	bindings       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
	serviceLabel   = "plural.sh/service"
	inventoryLabel = "plural.sh/inventory"
)

// localPoll is how often the agent of a local fleet asks its hub.
const localPoll = 250 * time.Millisecond

// newFleet starts a cluster and a hub with an empty installation repo. The agent is started by whoever wants it.
func newFleet(t testing.TB, poll time.Duration) *fleet {
	t.Helper()
	needs.Program(t, "git", "your system's packages")
	plural, localkube := program(t, "plural"), program(t, "localkube")
	f := &fleet{TB: t, dir: t.TempDir(), files: map[string]string{}}
	f.repo = filepath.Join(f.dir, "fleet")
	kube := filepath.Join(f.dir, "cluster")
	cluster := start(t, f.dir, "localkube", localkube, "run", "--dir", kube, "--name", clusterName, "--with-parent")
	f.installation()
	f.hub = start(t, f.dir, "hub", plural, "hub", "serve", "--data", filepath.Join(f.dir, "hub"), "--with-parent",
		"--listen", strings.TrimPrefix(f.hubURL, "http://"), "--url", f.hubURL, "--repo", "file://"+f.repo,
		"--allow-file-sources", "--allow-loopback",
		"--interval", "1h", "--poll-interval", poll.String(), "--report-interval", "5s")
	f.eventually("the cluster serves", 2*time.Minute, func() bool {
		_, err := os.Stat(filepath.Join(kube, "ready.json"))
		return err == nil || exited(t, cluster)
	})
	f.connect(filepath.Join(kube, "kubeconfig"))
	f.eventually("the hub serves", time.Minute, func() bool {
		token, err := os.ReadFile(filepath.Join(f.dir, "hub", "token"))
		if err != nil {
			return exited(t, f.hub)
		}
		if f.client, err = client.New(f.hubURL, strings.TrimSpace(string(token)), "test"); err != nil {
			t.Fatal(err)
		}
		status, err := f.client.Status(t.Context())
		return err == nil && status.Commit.ID != "" || exited(t, f.hub)
	})
	return f
}

// exited fails the test when the process has ended by itself.
func exited(t testing.TB, p *process) bool {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatalf("%s ended: %v\n%s", p.cmd.Path, p.cmd.ProcessState, p.said())
		return true
	default:
		return false
	}
}

// installation makes the repo, with the agent's keys in it.
func (f *fleet) installation() {
	f.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	f.hubURL = "http://" + listener.Addr().String()
	f.must(listener.Close())
	f.must(os.Mkdir(f.repo, 0o700))
	f.git("init", "-q", "-b", "main")
	f.git("config", "user.name", "Ada")
	f.git("config", "user.email", "ada@example.com")
	f.document("plural.yaml", "Workspace", "deploy", "{hub: {url: "+strconv.Quote(f.hubURL)+"}, deletionBudget: 100%}")
	f.write("clusters/README.md", "where it runs\n")
	f.commit("Begin")
}

// connect registers the cluster, and makes the agent a user of its own whose requests the API server counts apart.
func (f *fleet) connect(kubeconfig string) {
	f.Helper()
	var err error
	f.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	f.must(err)
	f.config.QPS = -1
	f.objects, err = dynamic.NewForConfig(f.config)
	f.must(err)
	f.meta, err = metadata.NewForConfig(f.config)
	f.must(err)
	raw := rest.CopyConfig(f.config)
	raw.GroupVersion, raw.NegotiatedSerializer = &schema.GroupVersion{Version: "v1"}, metadata.ConfigFor(f.config).NegotiatedSerializer
	f.apis, err = rest.RESTClientFor(raw)
	f.must(err)

	keys, err := crypto.NewAgentIdentity()
	f.must(err)
	f.must(identity.Write(f.Context(), f.objects, identity.Registration{Cluster: clusterName, HubURL: f.hubURL, Identity: keys}))
	f.document("clusters/edge.yaml", "Cluster", clusterName, "{agent: {auth: "+strconv.Quote(keys.Public().Auth)+"}}")
	f.commit("Register the cluster")
	f.create(bindings, "", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: plural-agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: kube-system}]`)
	request := yamlObject(f, "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, metadata: {name: default}, spec: {expirationSeconds: 86400}}")
	var token string
	f.eventually("the agent has an account", time.Minute, func() bool {
		answer, err := f.objects.Resource(accounts).Namespace("kube-system").Create(f.Context(), request, metav1.CreateOptions{}, "token")
		if err == nil {
			token, _, _ = unstructured.NestedString(answer.Object, "status", "token")
		}
		return token != ""
	})
	f.kubeconfig = filepath.Join(f.dir, "agent.kubeconfig")
	f.must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: f.config.Host, CertificateAuthority: f.config.CAFile, CertificateAuthorityData: f.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "a"}},
		CurrentContext: "x",
	}, f.kubeconfig))
	f.create(namespaces, "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+workplace+"}}")
}

// startAgent starts an agent, in place of one that was ended.
func (f *fleet) startAgent() {
	f.Helper()
	f.agent = start(f, f.dir, "agent", program(f, "plural-agent"), "run", "--kubeconfig", f.kubeconfig,
		"--data", filepath.Join(f.dir, "agent"), "--listen", "", "--with-parent")
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) create(resource schema.GroupVersionResource, namespace, text string) {
	f.Helper()
	_, err := f.objects.Resource(resource).Namespace(namespace).Create(f.Context(), yamlObject(f, text), metav1.CreateOptions{})
	f.must(err)
}

func yamlObject(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := new(unstructured.Unstructured)
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return object
}

// write puts a file into the next commit; an empty text removes it.
func (f *fleet) write(path, text string) {
	f.Helper()
	path = filepath.Join(f.repo, path)
	if text == "" {
		f.must(os.RemoveAll(path))
		return
	}
	f.must(os.MkdirAll(filepath.Dir(path), 0o700))
	f.must(os.WriteFile(path, []byte(text), 0o600))
}

func (f *fleet) document(path, kind, name, spec string) {
	f.Helper()
	f.write(path, fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec))
}

// service deploys the folder apps/NAME.
func (f *fleet) service(name string) {
	f.Helper()
	f.document("services/"+name+".yaml", "Service", name, "{source: {path: apps/"+name+"}, namespace: "+workplace+", clusters: {names: ["+clusterName+"]}}")
}

func (f *fleet) git(args ...string) string {
	f.Helper()
	cmd := exec.CommandContext(f.Context(), "git", args...)
	cmd.Dir = f.repo
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit makes a commit of what was written. The hub's upstream is the repo itself, so that is a push as well.
func (f *fleet) commit(message string) string {
	f.Helper()
	f.git("add", "-A")
	f.git("commit", "-qm", message)
	return f.git("rev-parse", "HEAD")
}

// hint tells the hub that there is something new.
func (f *fleet) hint() {
	f.Helper()
	f.must(f.client.Sync(f.Context(), "."))
}

// deploy commits, hints, and waits until the hub says that all of it is ready.
func (f *fleet) deploy(message string, within time.Duration) {
	f.Helper()
	commit := f.commit(message)
	f.hint()
	f.converged(commit, within)
}

func (f *fleet) converged(commit string, within time.Duration) {
	f.Helper()
	var last *v1.Status
	ready := func() bool {
		status, err := f.client.Status(f.Context())
		if err == nil {
			last = status
		}
		return err == nil && status.Commit.ID == commit && status.Converged() || exited(f, f.hub) || f.agent != nil && exited(f, f.agent)
	}
	if f.within(within, 200*time.Millisecond, ready) {
		return
	}
	for i, d := range last.Unhealthy[:min(5, len(last.Unhealthy))] {
		f.Logf("unhealthy %d: %+v", i, d)
	}
	f.Logf("deployments %v, refused %v, held %v, at %s", last.Deployments, last.Refused, last.Held, last.Commit.ID)
	f.Fatalf("not ready within %v\nagent: %s", within, f.agent.said())
}

// within asks again and again until the answer is yes, or time is up.
func (f *fleet) within(limit, pause time.Duration, yes func() bool) bool {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if yes() {
			return true
		}
		select {
		case <-tick.C:
		case <-f.Context().Done():
			return false
		}
	}
	return yes()
}

func (f *fleet) eventually(what string, limit time.Duration, yes func() bool) {
	f.Helper()
	if !f.within(limit, 20*time.Millisecond, yes) {
		f.Fatalf("not within %v: %s", limit, what)
	}
}

// requests is how many requests of the agent the API server has let in, by its own count. A watch is one request, at its
// beginning.
func (f *fleet) requests() float64 {
	f.Helper()
	text, err := f.apis.Get().AbsPath("/metrics").DoRaw(f.Context())
	f.must(err)
	total := 0.0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, `authenticated_user_requests{username="`+agentUser+`"}`) {
			value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			f.must(err)
			total += value
		}
	}
	return total
}

// idle waits for a stretch of time in which nobody asks for anything.
func (f *fleet) idle(length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.Context().Done():
	}
}

func isGone(err error) bool { return apierrors.IsNotFound(err) }
