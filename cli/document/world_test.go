package document_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cluster"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/service"
	"github.com/pluralsh/plural/cli/source"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/needs"
)

const header = "apiVersion: plural.sh/v1alpha1\n"

const webFile = header + `kind: Service
metadata: {name: web} # the front
spec:
  source:
    path: apps/web # here
  clusters:
    matchLabels: {env: prod}
  parameters:
    # how many
    replicas: "2"
`

// kubeconfig names a cluster that nobody reaches.
const kubeconfig = `{current-context: far, contexts: [{name: far, context: {cluster: far}}],
  clusters: [{name: far, cluster: {server: "http://127.0.0.1:1"}}]}`

// world is an installation repo with an origin and a hub, which says that everything is well at the newest commit of it.
type world struct {
	t           *testing.T
	dir, origin string
	env         map[string]string
	out, errOut *bytes.Buffer
	// asked are the hub's answers by path, which it counts under the lock.
	lock  sync.Mutex
	asked map[string]int
	// meanwhile is called when the hub is asked something; nil does nothing.
	meanwhile func()
	// answers are what a person types, line by line; empty: nobody can be asked.
	answers string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	needs.Program(t, "git", "git")
	base := t.TempDir()
	w := &world{
		t: t, dir: filepath.Join(base, "repo"), origin: filepath.Join(base, "origin"), out: new(bytes.Buffer), errOut: new(bytes.Buffer),
		env: map[string]string{"PLURAL_CONFIG_DIR": t.TempDir(), "XDG_RUNTIME_DIR": t.TempDir(), "CI": "1", "KUBECONFIG": filepath.Join(base, "kubeconfig")}, asked: map[string]int{},
	}
	if err := os.WriteFile(w.env["KUBECONFIG"], []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	hub := httptest.NewServer(http.HandlerFunc(w.hub))
	t.Cleanup(hub.Close)
	w.git(".", "init", "-q", "-b", "main", w.dir)
	w.git(".", "init", "-q", "--bare", "-b", "main", w.origin)
	w.git(w.dir, "remote", "add", "origin", w.origin)
	w.write(map[string]string{
		"plural.yaml":          header + "kind: Workspace\nmetadata: {name: demo}\nspec: {hub: {url: \"" + hub.URL + "\"}}\n",
		"clusters/edge-1.yaml": header + "kind: Cluster\nmetadata: {name: edge-1}\nspec:\n  tags: {env: prod} # where\n",
		"clusters/spare.yaml":  header + "kind: Cluster\nmetadata: {name: spare}\n",
		"services/web.yaml":    webFile,
		"services/two.yaml": header + "kind: Service\nmetadata: {name: api}\nspec:\n  source: {name: upstream, path: api}\n  clusters: {names: [edge-1]}\n" +
			"---\n" + header + "kind: Service\nmetadata: {name: db}\nspec:\n  source: {path: apps/web}\n  clusters: {}\n",
		"sources/upstream.yaml":       header + "kind: Source\nmetadata: {name: upstream}\nspec:\n  git: {url: \"https://example.com/up\", ref: main} # theirs\n",
		"sources/spare.yaml":          header + "kind: Source\nmetadata: {name: spare}\nspec: {helm: {url: \"https://charts.example.com\"}}\n",
		"charts/shop/Chart.yaml":      "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"charts/shop/templates/a.yml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\ndata: {a: \"{{ .Values.a }}\"}\n",
		"apps/web/cm.yaml":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n",
	})
	w.git(w.dir, "add", "-A")
	w.git(w.dir, "commit", "-q", "-m", "begin")
	w.git(w.dir, "push", "-q", "-u", "origin", "main")
	return w
}

func (w *world) hub(rw http.ResponseWriter, r *http.Request) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.asked[r.URL.Path]++
	if w.meanwhile != nil {
		w.meanwhile()
	}
	head := v1.Commit{ID: w.git(w.origin, "rev-parse", "main")}
	row := v1.Deployment{Service: "web", Cluster: "edge-1", Phase: v1.Healthy, Key: "k", AppliedKey: "k", Objects: 7}
	var answer any
	switch name := filepath.Base(r.URL.Path); {
	case strings.HasSuffix(r.URL.Path, "/status"):
		answer = v1.Status{Commit: head, Head: head}
	case strings.Contains(r.URL.Path, "/services/") && w.holds("name: "+name):
		answer = v1.Service{Name: name, Clusters: 1, Ready: 1, Deployments: []v1.Deployment{row}}
	case strings.Contains(r.URL.Path, "/clusters/") && w.holds("name: "+name):
		answer = v1.ClusterDetail{Cluster: v1.Cluster{Name: name, Phase: v1.Unregistered}}
	case r.Method == http.MethodPost:
		answer = struct{}{}
	default:
		rw.WriteHeader(http.StatusNotFound)
		answer = map[string]any{"error": map[string]string{"message": "there is no " + name}}
	}
	_ = json.NewEncoder(rw).Encode(answer)
}

// holds says whether some file of the origin's newest commit has the text.
func (w *world) holds(text string) bool {
	cmd := exec.CommandContext(w.t.Context(), "git", "grep", "-q", text, "main", "--", "services", "clusters")
	cmd.Dir = w.origin
	return cmd.Run() == nil
}

// wasAsked says whether the hub was asked for a path.
func (w *world) wasAsked(path string) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.asked[path] > 0
}

func (w *world) factory() *cmdutil.Factory {
	return &cmdutil.Factory{
		Globals: cmdutil.Globals{Dir: w.dir, NoInput: w.answers == "", Timeout: 20 * time.Second}, Now: time.Now,
		IO: &ui.Streams{
			In: w.typed(), Out: w.out, ErrOut: w.errOut,
			InTTY: w.answers != "", ErrTTY: w.answers != "", Plain: true,
		},
		Getenv: func(name string) string { return w.env[name] },
	}
}

// typed is what a person types. It is a file, as a terminal is: an editor that does not read it leaves it to who asks after it.
func (w *world) typed() io.Reader {
	name := filepath.Join(w.t.TempDir(), "typed")
	if err := os.WriteFile(name, []byte(w.answers), 0o600); err != nil {
		w.t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = f.Close() })
	return f
}

// plural runs `plural ARGS`.
func (w *world) plural(args ...string) error {
	w.t.Helper()
	return w.pluralIn(w.t.Context(), args...)
}

func (w *world) pluralIn(ctx context.Context, args ...string) error {
	w.t.Helper()
	w.out.Reset()
	w.errOut.Reset()
	f := w.factory()
	root := &cobra.Command{Use: "plural", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(&cobra.Group{ID: cmdutil.GroupFleet})
	root.AddCommand(service.NewCmdService(f), source.NewCmdSource(f), cluster.NewCmdCluster(f))
	root.SetArgs(args)
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	return root.ExecuteContext(ctx)
}

// runs runs `plural ARGS`, which has to work.
func (w *world) runs(args ...string) {
	w.t.Helper()
	if err := w.plural(args...); err != nil {
		var told strings.Builder
		ui.Render(&told, cmdutil.Explain(err))
		w.t.Fatalf("plural %s: %s\n%s", strings.Join(args, " "), told.String(), w.errOut)
	}
}

// refused runs `plural ARGS`, which has to fail and to say all of it.
func (w *world) refused(args []string, says ...string) {
	w.t.Helper()
	err := w.plural(args...)
	if err == nil {
		w.t.Fatalf("plural %s is taken", strings.Join(args, " "))
	}
	var told strings.Builder
	ui.Render(&told, cmdutil.Explain(err))
	for _, text := range says {
		if !strings.Contains(told.String(), text) {
			w.t.Errorf("plural %s does not say %q:\n%s", strings.Join(args, " "), text, told.String())
		}
	}
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(w.t.Context()), "git", args...) // the hub may be asked when a test has ended
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=ann@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Errorf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) write(files map[string]string) {
	w.t.Helper()
	for name, text := range files {
		path := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}

// pushed is a file as the origin has it, empty when it has none.
func (w *world) pushed(name string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", "show", "main:"+name)
	cmd.Dir = w.origin
	out, _ := cmd.Output()
	return string(out)
}

// state is where HEAD is and what is not committed.
func (w *world) state() string {
	return w.git(w.dir, "rev-parse", "HEAD") + "\n" + w.git(w.dir, "status", "--porcelain") + "\n" + w.git(w.dir, "for-each-ref")
}

// editor has EDITOR run a shell script on the file $1.
func (w *world) editor(script string) {
	w.t.Helper()
	name := filepath.Join(w.t.TempDir(), "editor")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.env["EDITOR"] = name
}
