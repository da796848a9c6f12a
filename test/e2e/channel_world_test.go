package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/pluralsh/plural/test/support/needs"
)

// rarely is how often agents ask, and how often the hub looks at repositories: what is faster came by the reverse channel.
const rarely = 30 * time.Second

// promise is how soon what is taken away from people and clusters ends: five seconds, and as many for a machine that is busy.
const promise = 10 * time.Second

// reached is a fleet whose clusters people reach: a hub of the test's own, with an ingress before it that ends TLS.
type reached struct {
	*local
	hubProcess *process
	// dir is what the local fleet keeps on this machine, data the hub's part of it.
	dir, data string
	// identity is the file of the hub's key.
	identity string
	ingress  *httptest.Server
	ca       []byte
	caFile   string
	// operator holds the hub's own token.
	operator *user
}

// process is a program that the test starts and ends itself.
type process struct {
	cmd  *exec.Cmd
	said string // the file with its output
}

// reach brings a fleet up, and puts a hub in the place of its own that hardly ever asks or is asked.
func reach(t testing.TB) *reached {
	t.Helper()
	needs.Program(t, "kubectl", "kubectl")
	r := &reached{local: up(t), hubProcess: new(process)}
	r.dir = filepath.Dir(strings.TrimPrefix(r.git("remote", "get-url", "origin"), "file://"))
	r.data = filepath.Join(r.dir, "hub")
	r.hubProcess.said = filepath.Join(r.dir, "logs", "hub-of-the-test.log")
	t.Cleanup(r.dumpHub)
	r.openIngress()
	r.makeIdentity()
	r.run("local", "stop", "hub")
	r.startHub()
	t.Cleanup(r.killHub)
	token, err := os.ReadFile(filepath.Join(r.data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	r.operator = &user{reached: r, name: "operator", home: r.home, token: strings.TrimSpace(string(token))}
	r.reachable()
	return r
}

// as is the fleet as another test sees it.
func (r *reached) as(t testing.TB) *reached {
	own, fleet, operator := *r, *r.local, *r.operator
	fleet.t = t
	own.local, own.operator = &fleet, &operator
	operator.reached = &own
	return &own
}

func (r *reached) openIngress() {
	r.t.Helper()
	target, err := url.Parse(r.hub)
	if err != nil {
		r.t.Fatal(err)
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.ingress = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target); p.SetXForwarded() }, FlushInterval: -1, ErrorLog: quiet,
	})
	r.ingress.Config.ErrorLog, r.ingress.EnableHTTP2 = quiet, true
	r.ingress.StartTLS()
	r.t.Cleanup(r.ingress.Close)
	r.t.Cleanup(r.ingress.CloseClientConnections)
	r.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.ingress.Certificate().Raw})
	r.caFile = filepath.Join(r.home, "ca.crt")
	r.outside(r.caFile, string(r.ca))
}

// outside writes a file that is none of the repo.
func (r *reached) outside(path, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// makeIdentity makes the hub a member of the group that opens the keys of sinks.
func (r *reached) makeIdentity() {
	r.t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		r.t.Fatal(err)
	}
	r.identity = filepath.Join(r.home, "hub.key")
	r.outside(r.identity, key.String()+"\n")
	r.run("crypto", "groups", "create", "hub", "--member", "ada", "--path", "secrets/hub/**", "--yes")
	r.run("crypto", "share", key.Recipient().String(), "--name", "hub", "--group", "hub", "--yes")
}

func (r *reached) startHub() {
	r.t.Helper()
	said, err := os.OpenFile(r.hubProcess.said, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer said.Close()
	cmd := r.command(filepath.Join(r.bin, "plural"), "hub", "serve", "--data", r.data, "--listen", strings.TrimPrefix(r.hub, "http://"), "--url", r.hub,
		"--repo", "file://"+filepath.Join(r.dir, "origin.git"), "--branch", "main", "--allow-file-sources", "--allow-loopback",
		"--edits", "--identity", r.identity,
		"--interval", rarely.String(), "--poll-interval", rarely.String(), "--report-interval", "5s")
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.hubProcess.cmd = cmd
	r.eventually("the hub is ready", timeout, func() bool {
		response, err := http.Get(r.hub + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

func (r *reached) killHub() {
	_ = r.hubProcess.cmd.Process.Signal(syscall.SIGKILL)
	_ = r.hubProcess.cmd.Wait()
}

func (r *reached) dumpHub() {
	if !r.t.Failed() {
		return
	}
	said, err := os.ReadFile(r.hubProcess.said)
	r.t.Logf("--- the hub: %v\n%s", err, said[max(0, len(said)-8000):])
}

// reachable waits until all clusters can be reached through the hub.
func (r *reached) reachable() {
	r.t.Helper()
	for _, cluster := range clusters {
		r.eventually(cluster+" can be reached", timeout, func() bool {
			return r.operator.asks(cluster, "/version") == http.StatusOK
		})
	}
}

// commit writes and pushes files, and waits until the hub serves them. They may be so already.
func (r *reached) commit(message string, files map[string]string) {
	r.t.Helper()
	r.write(files)
	if r.git("status", "--porcelain") != "" {
		r.served(r.push(message))
	}
}

func (r *reached) served(commit string) {
	r.t.Helper()
	r.eventually("the hub serves "+commit[:7], timeout, func() bool {
		s := r.status()
		return s != nil && s.Commit.ID == commit
	})
}

// user is somebody on a machine of their own, who reaches the hub through the ingress.
type user struct {
	*reached
	name, home, token string
}

// newUser makes a user of the fleet with a token, who logs in with it.
func (r *reached) newUser(name string, groups string) *user {
	r.t.Helper()
	u := &user{reached: r, name: name, home: filepath.Join(r.home, "people", name)}
	for _, dir := range []string{"tmp", "run"} {
		if err := os.MkdirAll(filepath.Join(u.home, dir), 0o700); err != nil {
			r.t.Fatal(err)
		}
	}
	cmd := r.local.command(filepath.Join(r.bin, "plural"), "auth", "token", "create", name, "--name", "laptop", "--groups", groups)
	said := new(bytes.Buffer)
	cmd.Stderr = said
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("auth token create: %v\n%s", err, said)
	}
	u.token = strings.TrimSpace(string(out))
	r.served(r.git("rev-parse", "HEAD"))
	login := u.command("plural", "auth", "login", "--with-token")
	login.Stdin = strings.NewReader(u.token + "\n")
	if out, err := login.CombinedOutput(); err != nil || !strings.Contains(string(out), "as "+name) {
		r.t.Fatalf("%s logs in: %v\n%s", name, err, out)
	}
	return u
}

// as is the user as another test sees them.
func (u *user) as(r *reached) *user {
	own := *u
	own.reached = r
	return &own
}

// command prepares a program on the user's machine; plural is the one that is tested.
func (u *user) command(name string, args ...string) *exec.Cmd {
	if name == "plural" {
		name = filepath.Join(u.bin, name)
	}
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = u.home
	cmd.Env = append(u.env[:len(u.env):len(u.env)], "HOME="+u.home, "XDG_CONFIG_HOME="+u.home+"/config", "XDG_STATE_HOME="+u.home+"/state",
		"XDG_CACHE_HOME="+u.home+"/cache", "XDG_RUNTIME_DIR="+u.home+"/run", "TMPDIR="+u.home+"/tmp", "KUBECONFIG="+u.kubeconfig(),
		"PLURAL_HUB="+u.ingress.URL, "PLURAL_CA_FILE="+u.caFile)
	return cmd
}

func (u *user) kubeconfig() string { return filepath.Join(u.home, "kubeconfig") }

// can runs a program, which has to succeed and to print what is wanted; cannot runs one that has to fail and say so.
func (u *user) can(want string, name string, args ...string) string {
	u.t.Helper()
	out, err := u.command(name, args...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		u.t.Errorf("%s: %s %s: %v, want %q in\n%s", u.name, name, strings.Join(args, " "), err, want, out)
	}
	return string(out)
}

func (u *user) cannot(want string, name string, args ...string) string {
	u.t.Helper()
	out, err := u.command(name, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), want) {
		u.t.Errorf("%s: %s %s: %v, want a failure with %q in\n%s", u.name, name, strings.Join(args, " "), err, want, out)
	}
	return string(out)
}

// config is how client-go reaches a cluster as this user.
func (u *user) config(cluster string) *rest.Config {
	return &rest.Config{
		Host: u.ingress.URL + "/k8s/" + cluster, BearerToken: u.token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: u.ca},
	}
}

func (u *user) kube(cluster string) dynamic.Interface {
	u.t.Helper()
	client, err := dynamic.NewForConfig(u.config(cluster))
	if err != nil {
		u.t.Fatal(err)
	}
	return client
}

// asks makes one request of a cluster's API, and says how it is answered.
func (u *user) asks(cluster, path string) (status int) {
	u.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, u.ingress.URL+"/k8s/"+cluster+path, nil)
	if err != nil {
		u.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+u.token)
	response, err := u.ingress.Client().Do(request)
	if err != nil {
		u.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// open is something that goes on until somebody ends it.
type open struct {
	what  string
	ended chan error // has one value when it is over
}

// endsWithin checks that it ends in time after since.
func (o *open) endsWithin(t testing.TB, limit time.Duration, since time.Time) {
	t.Helper()
	select {
	case err := <-o.ended:
		took := time.Since(since)
		t.Logf("%s ended after %v: %v", o.what, took.Round(time.Millisecond), err)
		if took > limit {
			t.Errorf("%s went on for %v", o.what, took)
		}
	case <-time.After(2 * limit):
		t.Errorf("%s goes on after %v", o.what, 2*limit)
	}
}

// goesOn checks that it has not ended.
func (o *open) goesOn(t testing.TB) {
	t.Helper()
	select {
	case err := <-o.ended:
		t.Errorf("%s ended: %v", o.what, err)
	default:
	}
}

// watches follows ConfigMaps of a namespace, without ever beginning anew.
func (u *user) watches(cluster string) *open {
	u.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	u.t.Cleanup(cancel)
	w, err := u.kube(cluster).Resource(configMaps).Namespace(namespace).Watch(ctx, metav1.ListOptions{AllowWatchBookmarks: true})
	if err != nil {
		u.t.Fatalf("%s watches %s: %v", u.name, cluster, err)
	}
	o := &open{fmt.Sprintf("the watch of %s on %s", u.name, cluster), make(chan error, 1)}
	go func() {
		var last error
		for e := range w.ResultChan() {
			if e.Type == watch.Error {
				last = fmt.Errorf("%v", e.Object)
			}
		}
		o.ended <- last
	}()
	return o
}

// shell is a session in a pod that repeats every line.
type shell struct {
	*open
	in  *io.PipeWriter
	out *bufio.Reader
}

// execs opens a session in a pod of the service shop.
func (u *user) execs(cluster string) *shell {
	u.t.Helper()
	pod := u.pod(cluster)
	config := u.config(cluster)
	target := config.Host + "/api/v1/namespaces/" + namespace + "/pods/" + pod + "/exec?command=cat&stdin=true&stdout=true&stderr=true"
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, target)
	if err != nil {
		u.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	u.t.Cleanup(cancel)
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	s := &shell{&open{fmt.Sprintf("the session of %s in %s of %s", u.name, pod, cluster), make(chan error, 1)}, in, bufio.NewReader(out)}
	go func() {
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: io.Discard})
		_ = stdin.CloseWithError(errors.New("the session is over"))
		_ = stdout.CloseWithError(fmt.Errorf("the session is over: %w", err))
		s.ended <- err
	}()
	s.echoes(u.t, "first words")
	return s
}

// pod is the one of the service shop.
func (u *user) pod(cluster string) string {
	u.t.Helper()
	var name string
	u.eventually("shop runs on "+cluster, timeout, func() bool {
		list, err := u.operator.kube(cluster).Resource(pods).Namespace(namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app=shop"})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		if phase, _, _ := unstructured.NestedString(list.Items[0].Object, "status", "phase"); phase != "Running" {
			return false
		}
		name = list.Items[0].GetName()
		return true
	})
	return name
}

func (s *shell) echoes(t testing.TB, line string) {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatalf("%s: write: %v", s.what, err)
	}
	if got, err := s.out.ReadString('\n'); err != nil || got != line+"\n" {
		t.Fatalf("%s answers %q, %v", s.what, got, err)
	}
}
