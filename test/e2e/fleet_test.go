// Package e2e owns the proof that the whole does what its parts promise: the shipped binaries, real API servers, a
// real git repository, real processes that are really killed.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	v1 "github.com/pluralsh/plural/api/v1"
)

// local is a fleet that `plural up --local` brought up, as a user has it.
type local struct {
	t    testing.TB
	home string // XDG folders and the repo
	repo string
	bin  string
	hub  string
	env  []string
}

// port is where these fleets have their hub: not where `plural up` has it by itself, for another package's fleet would take
// that port while a test here has its own hub stopped.
const port = "18080"

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// up brings a fleet up with the binaries in bin/, and takes it down when the test ends.
func up(t testing.TB) *local {
	t.Helper()
	l := alone(t)
	t.Cleanup(func() { l.dump(); l.run("down", "--yes", l.repo) })
	t.Log(l.run("up", "--local", "--port", port, l.repo))
	l.hub = l.manifestField("url")
	return l
}

// alone is a user with nothing yet. Whatever the programs keep, they keep below home, temporary files too.
func alone(t testing.TB) *local {
	t.Helper()
	bin := binaries(t)
	home := t.TempDir()
	for _, dir := range []string{"tmp", "run"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	gitConfig := filepath.Join(home, "gitconfig")
	if err := os.WriteFile(gitConfig, []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &local{t: t, home: home, repo: filepath.Join(home, "fleet"), bin: bin, env: append(os.Environ(),
		"HOME="+home, "XDG_CONFIG_HOME="+home+"/config", "XDG_STATE_HOME="+home+"/state", "XDG_CACHE_HOME="+home+"/cache",
		"XDG_RUNTIME_DIR="+home+"/run", "TMPDIR="+home+"/tmp", "GIT_CONFIG_GLOBAL="+gitConfig, "GIT_CONFIG_NOSYSTEM=1",
		"PLURAL_TOKEN=", "PLURAL_HUB=", "NO_COLOR=1")}
}

// binaries is the folder of the built programs. They are what is tested, so they have to be there.
func binaries(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(root, "bin")
	for _, program := range []string{"plural", "plural-agent", "localkube"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is not built: run make build first", program)
			}
			t.Skipf("SKIPPED: %s is not built: run make build first", program)
		}
	}
	return bin
}

// command prepares a program with the fleet's environment.
func (l *local) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Env = l.env
	cmd.Dir = l.home
	if _, err := os.Stat(l.repo); err == nil {
		cmd.Dir = l.repo
	}
	return cmd
}

// run runs plural, which has to succeed.
func (l *local) run(args ...string) string {
	l.t.Helper()
	out, err := l.command(filepath.Join(l.bin, "plural"), args...).CombinedOutput()
	if err != nil {
		l.t.Errorf("plural %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (l *local) git(args ...string) string {
	l.t.Helper()
	out, err := l.command("git", args...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// write changes files of the repo; nil content deletes.
func (l *local) write(files map[string]string) {
	l.t.Helper()
	for name, content := range files {
		path := filepath.Join(l.repo, name)
		if content == "" {
			if err := os.RemoveAll(path); err != nil {
				l.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			l.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			l.t.Fatal(err)
		}
	}
}

// push commits everything and pushes it; it returns the commit.
func (l *local) push(message string) string {
	l.t.Helper()
	l.git("add", "-A")
	l.git("commit", "-qm", message)
	l.git("push", "-q", "origin", "HEAD")
	return l.git("rev-parse", "HEAD")
}

// replace edits a file of the repo.
func (l *local) replace(name, pattern, with string) {
	l.t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.repo, name))
	if err != nil {
		l.t.Fatal(err)
	}
	edited := regexp.MustCompile(pattern).ReplaceAllString(string(raw), with)
	if edited == string(raw) {
		l.t.Fatalf("%s: nothing matches %s", name, pattern)
	}
	l.write(map[string]string{name: edited})
}

func (l *local) manifestField(field string) string {
	l.t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.repo, "plural.yaml"))
	if err != nil {
		l.t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^\s*` + field + `:\s*"?(http[^"\s]+)`).FindStringSubmatch(string(raw))
	if match == nil {
		l.t.Fatalf("plural.yaml has no %s:\n%s", field, raw)
	}
	return match[1]
}

// clusters are the names of the fleet's clusters.
var clusters = []string{"mgmt", "edge-1", "edge-2"}

func (l *local) kube(cluster string) dynamic.Interface {
	l.t.Helper()
	out, err := l.command(filepath.Join(l.bin, "plural"), "local", "kubeconfig", cluster).Output()
	if err != nil {
		l.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(out)
	if err != nil {
		l.t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		l.t.Fatal(err)
	}
	return client
}

func image(object *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return ""
	}
	container, _ := containers[0].(map[string]any)
	name, _ := container["image"].(string)
	return name
}

// status is what the hub says of the fleet; nil when it does not answer. Who waits asks many times: a program that is started each time
// takes the processor from what is waited for.
func (l *local) status() *v1.Status {
	l.t.Helper()
	s := new(v1.Status)
	if !l.ask("/v1/status", s) {
		return nil
	}
	return s
}

// ask reads an answer of the hub's API, with the operator's token. It says false while the hub does not answer.
func (l *local) ask(path string, into any) bool {
	l.t.Helper()
	body, err := l.get(path)
	if err != nil {
		return false
	}
	if err := json.Unmarshal(body, into); err != nil {
		l.t.Fatalf("%s is no JSON: %v\n%s", path, err, body)
	}
	return true
}

func (l *local) get(path string) ([]byte, error) {
	l.t.Helper()
	files, err := filepath.Glob(filepath.Join(l.home, "state", "plural", "local", "*", "hub", "token"))
	if err != nil || len(files) != 1 {
		l.t.Fatalf("files of the hub's token: %q, %v", files, err)
	}
	token, err := os.ReadFile(files[0])
	if err != nil {
		l.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, l.hub+path, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}

// converged waits until the fleet runs the commit.
func (l *local) converged(commit string, within time.Duration) {
	l.t.Helper()
	l.eventually("the fleet converges on "+commit[:7], within, func() bool {
		s := l.status()
		return s != nil && s.Commit.ID == commit && s.Converged()
	})
}

func (l *local) eventually(what string, within time.Duration, yes func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		if yes() {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	l.t.Fatalf("not within %v: %s\n%s", within, what, l.run("status"))
}

// metric reads one of the hub's figures.
func (l *local) metric(name string) float64 {
	l.t.Helper()
	body, err := l.get("/metrics")
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				l.t.Fatal(err)
			}
			return f
		}
	}
	l.t.Fatalf("the hub has no metric %s", name)
	return 0
}

// part is one process of the fleet.
type part struct {
	Name     string `json:"name"`
	PID      int    `json:"pid"`
	Restarts int    `json:"restarts"`
	Log      string `json:"log"`
}

func (l *local) parts() map[string]part {
	l.t.Helper()
	var list struct{ Items []part }
	out, err := l.command(filepath.Join(l.bin, "plural"), "local", "list", "-o", "json").Output()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := json.Unmarshal(out, &list); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
	parts := map[string]part{}
	for _, p := range list.Items {
		parts[p.Name] = p
	}
	return parts
}

// kill ends processes without a warning, and waits until each has a successor.
func (l *local) kill(names ...string) {
	l.t.Helper()
	before := l.parts()
	for _, name := range names {
		if err := syscall.Kill(before[name].PID, syscall.SIGKILL); err != nil {
			l.t.Fatalf("kill %s (%d): %v", name, before[name].PID, err)
		}
	}
	for _, name := range names {
		l.eventually(name+" comes back", timeout, func() bool {
			p := l.parts()[name]
			return p.PID != 0 && p.PID != before[name].PID
		})
	}
}

// dump shows what the processes said, when the test failed.
func (l *local) dump() {
	if !l.t.Failed() || l.hub == "" {
		return
	}
	for name, p := range l.parts() {
		raw, _ := os.ReadFile(p.Log)
		if len(raw) > 4000 {
			raw = raw[len(raw)-4000:]
		}
		l.t.Logf("--- %s (restarts: %d)\n%s", name, p.Restarts, bytes.TrimSpace(raw))
	}
}
