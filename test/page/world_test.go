// Package page owns what is checked of the hub's page as a whole: Chromium in front of a real hub with three local clusters.
package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/test/support/needs"
)

// patience bounds whatever is waited for.
const patience = 40 * time.Second

// The people. The operator holds the hub's token; ada has a role for all but the audit log; eve has none.
const (
	operator = "operator"
	ada      = "ada"
	eve      = "eve"
	bob      = "bob" // as ada, until the fleet ends his logins
)

// world is a fleet that `plural up --local` brought up, and who works with it.
type world struct {
	testing.TB
	home, repo, hub string
	env             []string
	tokens          map[string]string // of people; the operator's is where the program finds it
	browser         *browser
}

func newWorld(t *testing.T) *world {
	t.Helper()
	needs.Page(t)
	needs.Program(t, program(t, "localkube"), "make build")
	home := t.TempDir()
	for _, dir := range []string{"tmp", "run"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{TB: t, home: home, repo: filepath.Join(home, "fleet"), tokens: map[string]string{}}
	w.file(filepath.Join(home, "gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n")
	for _, one := range os.Environ() {
		if !strings.HasPrefix(one, "PLURAL_") && !strings.HasPrefix(one, "SSH_") && !strings.HasPrefix(one, "BROWSER=") {
			w.env = append(w.env, one)
		}
	}
	w.env = append(w.env, "HOME="+home, "XDG_CONFIG_HOME="+home+"/config", "XDG_STATE_HOME="+home+"/state", "XDG_CACHE_HOME="+home+"/cache",
		"XDG_RUNTIME_DIR="+home+"/run", "TMPDIR="+home+"/tmp", "GIT_CONFIG_GLOBAL="+home+"/gitconfig", "GIT_CONFIG_NOSYSTEM=1", "NO_COLOR=1")
	w.browser = newBrowser(t) // it starts while the clusters do
	port := freePort(t)
	t.Cleanup(func() { w.plural("down", "--yes", w.repo) })
	w.hub = fmt.Sprintf("http://127.0.0.1:%d", port)
	w.plural("up", "--local", "--port", fmt.Sprint(port), w.repo)
	w.people()
	return w
}

func program(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return needs.Program(t, path, "make build")
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// part is the world as a part of the test has it.
func (w *world) part(t *testing.T, name string, test func(*world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		own := *w
		own.TB = t
		test(&own)
	})
}

// people lets ada and eve in.
func (w *world) people() {
	w.Helper()
	for _, name := range []string{ada, eve, bob} {
		w.tokens[name] = strings.TrimSpace(w.plural("auth", "token", "create", name, "--name", "page", "-C", w.repo))
	}
	w.commit("Let ada in", map[string]string{
		"access/page.yaml": `apiVersion: plural.sh/v1alpha1
kind: Role
metadata: {name: page}
spec:
  fleet: [view, edit, sync]
  kubernetes:
    - {clusters: {matchLabels: {env: local}}, verbs: ["*"], resources: ["*", "*/*"]}
---
apiVersion: plural.sh/v1alpha1
kind: RoleBinding
metadata: {name: page}
spec: {role: page, users: [ada, bob]}
`,
		"views.yaml": `apiVersion: plural.sh/v1alpha1
kind: Views
spec:
  views:
    - {key: 1, name: what is wrong, list: fleet, filter: "-health:healthy"}
    - {key: 2, name: at the edge, list: fleet, filter: "cluster:edge*"}
`,
		"services/still.yaml": `apiVersion: plural.sh/v1alpha1
kind: Service
metadata: {name: still}
spec:
  source: {path: apps/still}
  namespace: still
  clusters: {names: [edge-1]}
`,
		"apps/still/app.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: still}
spec:
  replicas: 2
  selector: {matchLabels: {app: still}}
  template:
    metadata: {labels: {app: still}}
    spec:
      containers: [{name: main, image: "example.com/still:1"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {text: as git has it}
`,
		"services/broken.yaml": `apiVersion: plural.sh/v1alpha1
kind: Service
metadata: {name: broken}
spec:
  source: {path: apps/broken}
  namespace: broken
  clusters: {names: [edge-2]}
`,
		"apps/broken/app.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: broken, annotations: {link: "javascript:alert(1)", note: "<img src=x onerror=alert(1)>"}}
spec:
  selector: {matchLabels: {app: broken}}
  template:
    metadata: {labels: {app: broken}}
    spec:
      containers: [{name: main, image: "example.com/broken:1-sim.pull-error"}]
`,
	})
	w.until("the hub knows ada", func() bool { return w.status(ada, "/v1/status") == http.StatusOK })
}

func (w *world) file(path, text string) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// commit writes files of the repo and pushes them. The hub hears of it by the origin's hook.
func (w *world) commit(subject string, files map[string]string) (id string) {
	w.Helper()
	for name, text := range files {
		path := filepath.Join(w.repo, name)
		if text != "" {
			w.file(path, text)
		} else if err := os.RemoveAll(path); err != nil {
			w.Fatal(err)
		}
	}
	w.git("pull", "-q", "--rebase", "--autostash", "origin", "main")
	w.git("add", "-A")
	w.git("commit", "-qm", subject)
	w.git("push", "-q", "origin", "HEAD")
	return w.git("rev-parse", "HEAD")
}

// served waits until the hub serves a commit.
func (w *world) served(commit string) {
	w.Helper()
	w.until("the hub serves "+commit, func() bool {
		var told struct{ Commit struct{ ID string } }
		w.get(operator, "/v1/status", &told)
		return told.Commit.ID == commit
	})
}

func (w *world) run(name string, args ...string) string {
	w.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = w.env, w.home
	if _, err := os.Stat(w.repo); err == nil {
		cmd.Dir = w.repo
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		w.Errorf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}

func (w *world) plural(args ...string) string {
	w.Helper()
	return w.run(program(w, "plural"), args...)
}

func (w *world) git(args ...string) string {
	w.Helper()
	return strings.TrimSpace(w.run("git", args...))
}

// kube is a cluster's API.
func (w *world) kube(cluster string) dynamic.Interface {
	w.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(w.plural("local", "kubeconfig", cluster)))
	if err != nil {
		w.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		w.Fatal(err)
	}
	return client
}

func (w *world) until(what string, yes func() bool) {
	w.Helper()
	if !within(patience, yes) {
		w.Fatalf("waited in vain until %s", what)
	}
}

// within waits for a condition.
func within(limit time.Duration, yes func() bool) bool {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(limit)
	for !yes() {
		select {
		case <-deadline:
			return false
		case <-ticker.C:
		}
	}
	return true
}

// token is what a person's programs have.
func (w *world) token(person string) string {
	w.Helper()
	if token := w.tokens[person]; token != "" {
		return token
	}
	found, err := filepath.Glob(filepath.Join(w.home, "state", "plural", "local", "*", "hub", "token"))
	if err != nil || len(found) != 1 {
		w.Fatal(found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		w.Fatal(err)
	}
	w.tokens[person] = strings.TrimSpace(string(text))
	return w.tokens[person]
}

// request sends one request with a person's token; without a person it has none.
func (w *world) request(method, path, person string, header http.Header) (*http.Response, string) {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), method, w.hub+path, http.NoBody)
	if err != nil {
		w.Fatal(err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	if person != "" {
		request.Header.Set("Authorization", "Bearer "+w.token(person))
	}
	client := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return &http.Response{Header: http.Header{}}, err.Error() // the hub is away
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<20)) // what came of it
	return answer, string(text)
}

func (w *world) status(person, path string) int {
	w.Helper()
	answer, _ := w.request(http.MethodGet, path, person, nil)
	return answer.StatusCode
}

func (w *world) get(person, path string, into any) {
	w.Helper()
	if answer, text := w.request(http.MethodGet, path, person, nil); answer.StatusCode == http.StatusOK {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			w.Fatal(err)
		}
	}
}

// ticketed is the address that `plural hub open` has a browser open for a person.
func (w *world) ticketed(person string) string {
	w.Helper()
	opened, script := filepath.Join(w.home, "opened"), filepath.Join(w.home, "browser")
	if err := os.RemoveAll(opened); err != nil {
		w.Fatal(err)
	}
	w.file(script, "#!/bin/sh\nprintf %s \"$1\" > "+opened+".new && mv "+opened+".new "+opened+"\n")
	if err := os.Chmod(script, 0o700); err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(program(w, "plural"), "hub", "open", "--hub", w.hub)
	cmd.Env, cmd.Dir = append(w.env, "BROWSER="+script, "TERM=dumb", "PLURAL_TOKEN="+w.token(person)), w.repo
	terminal, err := pty.Start(cmd)
	if err != nil {
		w.Fatal(err)
	}
	defer terminal.Close()
	said, _ := io.ReadAll(terminal) // a terminal that is closed is an error on Linux
	if err := cmd.Wait(); err != nil {
		w.Fatalf("%v\n%s", err, said)
	}
	var address []byte
	w.until("a browser is opened", func() bool {
		address, err = os.ReadFile(opened)
		return !errors.Is(err, fs.ErrNotExist)
	})
	return string(address)
}
