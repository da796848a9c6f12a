package kube_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"plural": func() { os.Exit(cli.Main(os.Args[1:], ui.System())) },
		"tool":   tool,
	})
}

// tool is a Kubernetes tool: it prints what the cluster of its KUBECONFIG answers to a path.
func tool() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		panic(err)
	}
	resp, err := http.Get(config.Host + os.Args[1])
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(os.Stdout, resp.Body)
}

// world is a hub, and a machine with a person on it who is logged in there.
type world struct {
	t   *testing.T
	hub *httptest.Server
	// home is the person's, env the environment.
	home string
	env  []string

	mu sync.Mutex // guards what follows
	// clusters are those of the fleet; api answers for each of them, to who shows the token of that cluster.
	clusters []string
	api      http.Handler
	asked    atomic.Int64
}

// newWorld has a hub over TLS, or over plain HTTP.
func newWorld(t *testing.T, secure bool) *world {
	t.Helper()
	w := &world{t: t, home: t.TempDir(), clusters: []string{"edge-1", "edge-2"}, api: http.HandlerFunc(echo)}
	w.hub = httptest.NewUnstartedServer(w)
	if secure {
		w.hub.EnableHTTP2 = true
		w.hub.StartTLS()
	} else {
		w.hub.Start()
	}
	t.Cleanup(w.hub.Close)
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "XDG_STATE_HOME=" + w.home + "/state", "XDG_CACHE_HOME=" + w.home + "/cache",
		"PLURAL_HUB=" + w.hub.URL, "PLURAL_TOKEN=person", "TMPDIR=" + w.home + "/tmp", "GORACE=atexit_sleep_ms=10",
	}
	if secure {
		ca := filepath.Join(w.home, "ca.pem")
		w.write(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.hub.Certificate().Raw}))
		w.env = append(w.env, "PLURAL_CA_FILE="+ca)
	}
	if err := os.Mkdir(w.home+"/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// echo tells the path that was asked for.
func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if path[0] == "k8s" && len(path) > 1 {
		if r.Header.Get("Authorization") != "Bearer only-"+path[1] {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.mu.Lock()
		api := w.api
		w.mu.Unlock()
		http.StripPrefix("/k8s/"+path[1], api).ServeHTTP(rw, r)
		return
	}
	if r.Header.Get("Authorization") != "Bearer person" {
		answer(rw, http.StatusUnauthorized, v1.Error{Message: "not logged in to this hub", Fix: "plural auth login"})
		return
	}
	var question struct{ Cluster string }
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v1/kube/token":
		_ = json.NewDecoder(r.Body).Decode(&question)
		if !w.has(question.Cluster) {
			answer(rw, http.StatusNotFound, v1.Error{Message: "no cluster " + question.Cluster})
			return
		}
		w.asked.Add(1)
		answer(rw, http.StatusOK, map[string]any{"token": "only-" + question.Cluster, "expires": time.Now().Add(10 * time.Minute)})
	case r.URL.Path == "/v1/clusters":
		w.mu.Lock()
		defer w.mu.Unlock()
		list := v1.List[v1.Cluster]{Total: len(w.clusters)}
		for _, name := range w.clusters {
			list.Items = append(list.Items, v1.Cluster{Name: name})
		}
		answer(rw, http.StatusOK, list)
	case r.URL.Path == "/v1/me":
		answer(rw, http.StatusOK, v1.Me{Name: "ada", Groups: []string{"platform"}})
	case len(path) == 3 && path[1] == "clusters" && w.has(path[2]):
		answer(rw, http.StatusOK, v1.ClusterDetail{Cluster: v1.Cluster{Name: path[2]}})
	default:
		answer(rw, http.StatusNotFound, v1.Error{Message: "no such thing"})
	}
}

func (w *world) has(cluster string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.clusters, cluster)
}

func answer(w http.ResponseWriter, code int, value any) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

// real puts a real API server behind the hub, whose administrator everybody is.
func (w *world) real() *kubetest.Cluster {
	w.t.Helper()
	cluster := kubetest.Start(w.t)
	target, err := url.Parse(cluster.RESTConfig.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	transport, err := rest.TransportFor(cluster.RESTConfig)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.api = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization")
		},
		Transport: transport, FlushInterval: -1,
	}
	return cluster
}

func (w *world) write(file string, text []byte) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(file string) string {
	w.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// command is a program as the person runs it.
func (w *world) command(name string, args ...string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Env, cmd.Dir = w.env, w.home
	if path, err := exec.LookPath(name); err == nil {
		cmd.Path = path
	}
	return cmd
}

// result is what a program left.
type result struct {
	code        int
	out, errOut string
}

func (w *world) plural(args ...string) result { return w.finish(w.command("plural", args...)) }

func (w *world) finish(cmd *exec.Cmd) result {
	w.t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func (r result) need(t *testing.T, code int, out, errOut string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.out, out) || !strings.Contains(r.errOut, errOut) {
		t.Errorf("got %d %q %q, want %d %q %q", r.code, r.out, r.errOut, code, out, errOut)
	}
}

func (w *world) config(file string) *clientcmdapi.Config {
	w.t.Helper()
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	return config
}

func TestKubectlUsesWrittenContexts(t *testing.T) {
	needs.Program(t, "kubectl", "kubernetes-client")
	w := newWorld(t, true)
	cluster := w.real()
	got := w.plural("kube", "config", "edge-1")
	file := w.home + "/state/plural/kubeconfig"
	got.need(t, 0, "export KUBECONFIG="+file+"\n", "kubectl --context plural/edge-1")
	w.env = append(w.env, "KUBECONFIG="+file)
	for range 2 {
		w.finish(w.command("kubectl", "get", "namespace", cluster.Namespace, "-o", "name")).need(t, 0, "namespace/"+cluster.Namespace, "")
	}
	if n := w.asked.Load(); n != 1 {
		t.Errorf("the hub was asked for %d tokens", n)
	}
	text := w.read(file)
	if strings.Contains(text, "only-") || strings.Contains(text, "person") {
		t.Errorf("there is a secret in\n%s", text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}

func TestKubectlRunsThroughTheHub(t *testing.T) {
	needs.Program(t, "kubectl", "kubernetes-client")
	for _, secure := range []bool{true, false} {
		t.Run(fmt.Sprintf("tls %v", secure), func(t *testing.T) {
			w := newWorld(t, secure)
			cluster := w.real()
			w.plural("kubectl", "edge-1", "create", "configmap", "told", "--from-literal", "a=b", "-n", cluster.Namespace).
				need(t, 0, "configmap/told created", "")
			w.plural("k", "--hub", w.hub.URL, "edge-1", "get", "configmap/told", "-o", "jsonpath={.data.a}", "-n", cluster.Namespace).
				need(t, 0, "b", "")
			w.plural("kubectl", "edge-1", "get", "configmap/none", "-n", cluster.Namespace).
				need(t, 1, "", `configmaps "none" not found`)
			w.plural("kubectl", "get", "pods").need(t, 1, "", "the cluster comes first: plural kubectl CLUSTER get pods")
			w.leavesNothing()
		})
	}
}

// leavesNothing checks that no kubeconfig is left behind.
func (w *world) leavesNothing() {
	w.t.Helper()
	left, err := filepath.Glob(w.home + "/tmp/plural-kube-*")
	if err != nil || len(left) > 0 {
		w.t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAProgramGetsOneCluster(t *testing.T) {
	for _, secure := range []bool{true, false} {
		w := newWorld(t, secure)
		w.env = append(w.env, "KUBECONFIG=/nowhere", "HELM_KUBECONTEXT=other")
		got := w.plural("kube", "run", "edge-2", "--", "sh", "-c", `ls -l "$KUBECONFIG"; cat "$KUBECONFIG"; echo "helm=$HELM_KUBECONTEXT"`)
		got.need(t, 0, "-rw-------", "")
		got.need(t, 0, "current-context: plural/edge-2\n", "")
		got.need(t, 0, "helm=\n", "")
		if strings.Contains(got.out, "only-edge-2") {
			t.Errorf("there is a token in\n%s", got.out)
		}
		w.leavesNothing()
	}
}

func TestAShellSaysWhichClusterItIsIn(t *testing.T) {
	for shell, want := range map[string]string{"bash": "prompt=(edge-2) mine> \n", "sh": "prompt=(edge-2) $ \n"} {
		t.Run(shell, func(t *testing.T) {
			w := newWorld(t, true)
			w.write(filepath.Join(w.home, ".bashrc"), []byte("PS1='mine> '\n"))
			w.env = append(w.env, "SHELL="+needs.Program(t, shell, shell))
			cmd := w.command("plural", "kube", "shell", "edge-2")
			cmd.Stdin = strings.NewReader("echo \"prompt=$PS1\"; grep current \"$KUBECONFIG\"; exit 3\n")
			got := w.finish(cmd)
			got.need(t, 3, want, "kubectl talks to cluster edge-2 in this shell")
			got.need(t, 3, "current-context: plural/edge-2\n", "")
			w.leavesNothing()
		})
	}
}

func TestAProgramsExitCodeIsPluralsOwn(t *testing.T) {
	w := newWorld(t, false)
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137} {
		got := w.plural("kube", "run", "edge-1", "--", "sh", "-c", script)
		if got != (result{want, "", ""}) {
			t.Errorf("%s: got %+v", script, got)
		}
	}
	w.leavesNothing()
}

func TestWhatRBACRefusesNamesWhatToGrant(t *testing.T) {
	w := newWorld(t, false)
	kubectl := filepath.Join(w.home, "kubectl")
	const said = `Error from server (Forbidden): pods is forbidden: User "plural:ada" cannot list resource "pods" in API group ""`
	for script, explained := range map[string]bool{said: true, "Error from server (NotFound): pods not found": false} {
		w.write(kubectl, []byte("#!/bin/sh\necho '"+script+"' >&2\nexit 1\n"))
		if err := os.Chmod(kubectl, 0o755); err != nil {
			t.Fatal(err)
		}
		got := w.plural("kube", "run", "edge-1", "--", kubectl, "get", "pods")
		want := script + "\n"
		if explained {
			want += "  cause: RBAC of cluster edge-1 does not grant plural:ada what was asked for; the hub does\n" +
				"  fix: as an administrator of the cluster, without the hub: kubectl create clusterrolebinding plural-platform-view " +
				"--clusterrole=view --group=plural:platform; or, where its package agent is installed, its answer people: platform=view\n"
		}
		if got != (result{1, "", want}) {
			t.Errorf("%s: got %+v", script, got)
		}
	}
}

func TestSignalsAreTheProgramsToActOn(t *testing.T) {
	w := newWorld(t, false)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		// The API has to be there still while the program puts things in order.
		script := `trap 'tool /last && exit 9' TERM INT HUP; echo ready; while :; do sleep 0.05; done`
		cmd := w.command("plural", "kube", "run", "edge-1", "--", "sh", "-c", script)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		last, _ := io.ReadAll(lines)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 9 || string(last) != "/last" {
			t.Errorf("%v: got %d, %q", s, code, last)
		}
	}
	w.leavesNothing()
}

func TestATimeoutEndsAProgram(t *testing.T) {
	w := newWorld(t, false)
	w.plural("kube", "run", "edge-1", "--timeout", "300ms", "--", "sleep", "60").need(t, 8, "", "still at work after 300ms")
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"kube run edge-1 -- no-such-program", 1, `cannot run "no-such-program"`},
		{"kube run edge-1 k9s -A", 1, "unknown shorthand flag"},
		{"kube run edge-1 k9s", 1, "plural kube run edge-1 -- k9s"},
		{"kube run edge-1", 1, "which program?"},
		{"kube run edge-1 edge-2 -- k9s", 1, `unexpected argument "edge-2"`},
		{"kube run -- k9s", 1, "CLUSTER is missing"},
		{"kubectl", 1, "CLUSTER is missing"},
		{"kube run gone -- true", 1, `the hub has no cluster "gone" for you`},
		{"kube token gone", 1, "plural cluster list"},
		{"kube proxy gone", 1, `the hub has no cluster "gone" for you`},
		{"kube config", 1, "plural kube config --all"},
		{"kube config --all edge-1", 1, "--all goes without names"},
		{"kube config gone", 1, `the hub has no cluster "gone" for you`},
		{"kube config edge-1 --merge", 1, "give --yes"},
		{"kube config edge-1 --merge --kubeconfig x", 1, "do not go together"},
	} {
		w := newWorld(t, true)
		w.plural(strings.Fields(test.args)...).need(t, test.code, "", test.says)
	}
}

func TestWithoutKubectlItSaysWhereToGetIt(t *testing.T) {
	w := newWorld(t, true)
	cmd := w.command("plural", "kubectl", "edge-1", "get", "pods")
	for i, entry := range cmd.Env {
		if strings.HasPrefix(entry, "PATH=") {
			cmd.Env[i] = "PATH=" + w.home
		}
	}
	w.finish(cmd).need(t, 1, "", "https://kubernetes.io/docs/tasks/tools/")
}

func TestAProgramIsNotStartedForAClusterThatDoesNotAnswer(t *testing.T) {
	for code, says := range map[int]string{
		http.StatusServiceUnavailable: "plural cluster get edge-1", http.StatusForbidden: "the hub does not let you do this",
	} {
		w := newWorld(t, false)
		w.mu.Lock()
		w.api = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { answer(rw, code, map[string]any{"message": "not now"}) })
		w.mu.Unlock()
		got := w.plural("kube", "run", "edge-1", "--", "tool", "/x")
		got.need(t, 1, "", "not now")
		got.need(t, 1, "", says)
		w.leavesNothing()
	}
}

// TestAProgramIsNotStartedWhereTheHubIsAway has a token of before, by which no hub is asked for one.
func TestAProgramIsNotStartedWhereTheHubIsAway(t *testing.T) {
	w := newWorld(t, false)
	w.plural("kube", "run", "edge-1", "--", "tool", "/x").need(t, 0, "/x", "")
	w.hub.Close()
	for _, args := range []string{"kube run edge-1 -- tool /x", "kube shell edge-1"} {
		w.plural(strings.Fields(args)...).need(t, 1, "", "error: cannot reach the hub at "+w.hub.URL)
	}
	w.leavesNothing()
}

func TestWhoIsNotLoggedInLearnsHow(t *testing.T) {
	w := newWorld(t, true)
	w.env = append(w.env, "PLURAL_TOKEN=another")
	for _, args := range []string{"kube token edge-1", "kube run edge-1 -- true", "kube proxy edge-1", "kube config --all"} {
		w.plural(strings.Fields(args)...).need(t, 4, "", "plural auth login")
	}
}

func TestATokenIsAnExecCredential(t *testing.T) {
	w := newWorld(t, true)
	for i := range 3 {
		cmd := w.command("plural", "kube", "token", "edge-1", "--hub", w.hub.URL)
		if i == 1 {
			cmd = w.command("sh", "-c", `plural "$@"; true`, "sh", "kube", "token", "edge-1", "--hub", w.hub.URL)
		}
		got := w.finish(cmd)
		var credential map[string]any
		if err := json.Unmarshal([]byte(got.out), &credential); err != nil || got.code != 0 {
			t.Fatalf("got %+v, %v", got, err)
		}
		status, _ := credential["status"].(map[string]any)
		expires, err := time.Parse(time.RFC3339, fmt.Sprint(status["expirationTimestamp"]))
		if err != nil || time.Until(expires) < 5*time.Minute {
			t.Errorf("got %v, %v", status, err)
		}
		delete(status, "expirationTimestamp")
		want := map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
			"spec": map[string]any{"interactive": false}, "status": map[string]any{"token": "only-edge-1"},
		}
		if diff := cmp.Diff(want, credential); diff != "" {
			t.Error(diff)
		}
	}
	// Another process gets the same one. A process that asks again has been refused with it, by a hub that was given another
	// token of its own, say.
	w.plural("kube", "token", "edge-1").need(t, 0, "only-edge-1", "")
	if w.asked.Load() != 2 {
		t.Errorf("the hub was asked %d times", w.asked.Load())
	}
}

func TestContextsAreAsTheyAreDocumented(t *testing.T) {
	w := newWorld(t, true)
	w.plural("kube", "config", "edge-1", "--kubeconfig", "x/config").need(t, 0, "export KUBECONFIG="+w.home+"/x/config\n", "")
	config := w.config(w.home + "/x/config")
	want := &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "plural", Args: []string{"kube", "token", "edge-1", "--hub", w.hub.URL},
		Env:             []clientcmdapi.ExecEnvVar{{Name: "PLURAL_CA_FILE", Value: w.home + "/ca.pem"}},
		InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
		InstallHint:     "Install plural: https://github.com/pluralsh/plural  then run: plural auth login",
	}
	got := config.AuthInfos["plural/edge-1"].Exec
	if got == nil || cmp.Diff(want.Args, got.Args) != "" || got.Command != want.Command || got.APIVersion != want.APIVersion ||
		cmp.Diff(want.Env, got.Env) != "" || got.InteractiveMode != want.InteractiveMode || got.InstallHint != want.InstallHint {
		t.Errorf("got %+v", got)
	}
	cluster := config.Clusters["plural/edge-1"]
	if cluster.Server != w.hub.URL+"/k8s/edge-1" || string(cluster.CertificateAuthorityData) != w.read(w.home+"/ca.pem") {
		t.Errorf("got %+v", cluster)
	}
	if config.CurrentContext != "plural/edge-1" {
		t.Errorf("current is %q", config.CurrentContext)
	}
}

const own = `apiVersion: v1
kind: Config
current-context: mine
clusters:
- {name: mine, cluster: {server: "https://mine.example.com", certificate-authority: rel/ca.crt}}
- {name: plural/gone, cluster: {server: "HUB/k8s/gone"}}
- {name: plural/far, cluster: {server: "https://far.example.com/k8s/far"}}
- {name: plural/edge-1, cluster: {server: "HUB/k8s/edge-1"}}
contexts:
- {name: mine, context: {cluster: mine, user: mine}}
- {name: plural/gone, context: {cluster: plural/gone, user: plural/gone}}
- {name: plural/far, context: {cluster: plural/far, user: plural/far}}
- {name: plural/edge-1, context: {cluster: plural/edge-1, user: plural/edge-1, namespace: web}}
users:
- {name: mine, user: {token: hush}}
- {name: plural/gone, user: {}}
`

func TestMergingLeavesWhatIsNotOurs(t *testing.T) {
	w := newWorld(t, true)
	file := w.home + "/.kube/config"
	w.write(w.home+"/dotfiles/config", []byte(strings.ReplaceAll(own, "HUB", w.hub.URL)))
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.Symlink("../dotfiles/config", file)); err != nil {
		t.Fatal(err)
	}
	w.plural("kube", "config", "--all", "--merge", "--yes", "-o", "json").need(t, 0, `"plural/edge-2"`, "")
	config := w.config(file)
	if config.CurrentContext != "mine" || config.AuthInfos["mine"].Token != "hush" || !strings.HasSuffix(config.Clusters["mine"].CertificateAuthority, "rel/ca.crt") {
		t.Errorf("got %+v", config)
	}
	for name, want := range map[string]bool{"plural/gone": false, "plural/far": true, "plural/edge-1": true, "plural/edge-2": true} {
		if _, ok := config.Contexts[name]; ok != want {
			t.Errorf("%s: got %v", name, ok)
		}
	}
	if config.Contexts["plural/edge-1"].Namespace != "web" {
		t.Error("the namespace that was chosen is gone")
	}
	if target, err := os.Readlink(file); err != nil || target != "../dotfiles/config" {
		t.Errorf("the link is gone: %q, %v", target, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(file + ".lock"); err == nil {
		t.Error("the lock is still there")
	}
}

func TestTheFileThatKubectlWritesIsMergedInto(t *testing.T) {
	w := newWorld(t, true)
	w.write(w.home+"/b", []byte("apiVersion: v1\nkind: Config\n"))
	w.env = append(w.env, "KUBECONFIG="+w.home+"/a:"+w.home+"/b:"+w.home+"/c")
	w.plural("kube", "config", "edge-1", "--merge", "--yes").need(t, 0, "", "into "+w.home+"/b")
	if w.config(w.home + "/b").Contexts["plural/edge-1"] == nil {
		t.Error("the context is not there")
	}
}

func TestAnotherHubsContextIsNotOverwrittenUnasked(t *testing.T) {
	w := newWorld(t, true)
	w.mu.Lock()
	w.clusters = append(w.clusters, "far")
	w.mu.Unlock()
	file := w.home + "/x"
	w.write(file, []byte(strings.ReplaceAll(own, "HUB", w.hub.URL)))
	before := w.read(file)
	w.plural("kube", "config", "far", "--kubeconfig", file).need(t, 1, "", "context plural/far leads to far.example.com")
	if w.read(file) != before {
		t.Error("it was changed")
	}
	w.plural("kube", "config", "far", "--kubeconfig", file, "--yes").need(t, 0, "", "")
	if got := w.config(file).Clusters["plural/far"].Server; got != w.hub.URL+"/k8s/far" {
		t.Errorf("got %s", got)
	}
}

func TestAKubeconfigThatCannotBeReadStaysAsItIs(t *testing.T) {
	w := newWorld(t, true)
	file := w.home + "/x"
	w.write(file, []byte("users: [{user: {token: hush]\n"))
	got := w.plural("kube", "config", "edge-1", "--kubeconfig", file, "-v")
	got.need(t, 1, "", "cannot be read as a kubeconfig")
	if strings.Contains(got.errOut, "hush") || w.read(file) != "users: [{user: {token: hush]\n" {
		t.Errorf("got %q, and the file is\n%s", got.errOut, w.read(file))
	}
	w.write(file+".lock", nil)
	w.plural("kube", "config", "edge-1", "--kubeconfig", file).need(t, 1, "", "another program is changing")
}

func TestOverPlainHTTPNoContextsAreWritten(t *testing.T) {
	w := newWorld(t, false)
	w.plural("kube", "config", "--all").need(t, 1, "", "plural kube run CLUSTER -- CMD")
}

func TestProxyServesUntilItIsInterrupted(t *testing.T) {
	w := newWorld(t, true)
	cmd := w.command("plural", "kube", "proxy", "edge-2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(line)
	if body := get(t, address+"/api/v1/pods"); body != "/api/v1/pods" {
		t.Errorf("got %q", body)
	}
	w.plural("kube", "proxy", "edge-1", "--port", address[strings.LastIndex(address, ":")+1:]).need(t, 1, "", "cannot listen on port")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("got %d", code)
	}
}

func get(t *testing.T, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
