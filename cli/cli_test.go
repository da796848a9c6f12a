package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/agent/render"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/kustomizetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == "crypto" { // git's filters and hooks of a clone that a test has unlocked
		os.Exit(Main(os.Args[1:], ui.System()))
	}
	testscript.Main(m, map[string]func(){
		"plural": func() { os.Exit(Main(os.Args[1:], ui.System())) },
	})
}

func TestStories(t *testing.T) {
	if testing.Short() && os.Getenv("CI") == "" {
		t.Skip("NOT RUN: stories start the program some 850 times")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			env.Setenv("PLURAL_ALLOW_FILE_SOURCES", "1")
			env.Setenv("GIT_AUTHOR_NAME", "tester")
			env.Setenv("GIT_AUTHOR_EMAIL", "tester@localhost")
			env.Setenv("GIT_COMMITTER_NAME", "tester")
			env.Setenv("GIT_COMMITTER_EMAIL", "tester@localhost")
			return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"kustomize": compareWithKustomize, "hub": serveAnswers, "completes": completes,
		},
		Condition: have,
	})
}

// have is the condition "have:PROGRAM": a story that cannot do without it skips where it is missing, and fails in CI.
func have(condition string) (bool, error) {
	program, ok := strings.CutPrefix(condition, "have:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", condition)
	}
	_, err := exec.LookPath(program)
	if err != nil && os.Getenv("CI") != "" {
		return false, err
	}
	return err == nil, nil
}

// compareWithKustomize is the command "kustomize DIR FILE": FILE has to be what kubectl kustomize prints for DIR.
func compareWithKustomize(ts *testscript.TestScript, _ bool, args []string) {
	want, err := kustomizetest.Build(context.Background(), ts.MkAbs(args[0]))
	if errors.Is(err, kustomizetest.ErrMissing) && os.Getenv("CI") == "" {
		ts.Logf("NOT CHECKED: %v", err)
		return
	}
	ts.Check(err)
	if diff := cmp.Diff(string(want), ts.ReadFile(args[1])); diff != "" {
		ts.Fatalf("kustomize (-theirs +ours):\n%s", diff)
	}
}

// serveAnswers is the command "hub DIR": from then on PLURAL_HUB answers the path /v1/X with the file DIR/X.json, where
// ORIGIN-HEAD is what was pushed last to ../origin.git. When it is asked to do something, the answer is DIR/post/X.json, and it
// goes on with those of DIR/after.
func serveAnswers(ts *testscript.TestScript, _ bool, args []string) {
	answers, origin := ts.MkAbs(args[0]), ts.MkAbs("../origin.git")
	var dir atomic.Value
	dir.Store(answers)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			dir.Store(filepath.Join(answers, "after"))
			w.WriteHeader(http.StatusAccepted)
			body, _ := os.ReadFile(filepath.Join(answers, "post", filepath.FromSlash(strings.TrimPrefix(r.URL.Path, "/v1/"))+".json"))
			_, _ = w.Write(body)
			return
		}
		body, err := os.ReadFile(filepath.Join(dir.Load().(string), filepath.FromSlash(strings.TrimPrefix(r.URL.Path, "/v1/"))+".json"))
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			body = []byte(`{"message": "no such thing"}`)
		}
		if head, err := os.ReadFile(filepath.Join(origin, "refs", "heads", "main")); err == nil {
			body = bytes.ReplaceAll(body, []byte("ORIGIN-HEAD"), bytes.TrimSpace(head))
		}
		_, _ = w.Write(body)
	}))
	ts.Defer(server.Close)
	ts.Setenv("PLURAL_HUB", server.URL)
}

// completes is the command "completes PATTERN WORD...": a line of what plural __complete WORD... prints has to match. It is asked
// again where nothing does: a completion gives up after a part of a second, which is little on a busy machine.
func completes(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	for end := time.Now().Add(3 * time.Minute); ; {
		ts.Check(ts.Exec("plural", append([]string{"__complete"}, args[1:]...)...))
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%q completes to %s", args[1:], ts.ReadFile("stdout"))
		}
	}
}

// fakeHub is a server that answers with what is set, as a hub does.
type fakeHub struct {
	status   v1.Status
	clusters []v1.Cluster
	services []v1.Service
	sources  []v1.Source
	// refuse, when set, is the status code of every answer.
	refuse int
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.refuse != 0 {
		w.WriteHeader(h.refuse)
		_ = json.NewEncoder(w).Encode(v1.Error{Message: "token expired"})
		return
	}
	answers := map[string]any{
		"/v1/status":   h.status,
		"/v1/clusters": v1.List[v1.Cluster]{Items: h.clusters, Total: len(h.clusters)},
		"/v1/services": v1.List[v1.Service]{Items: h.services, Total: len(h.services)},
		"/v1/sources":  v1.List[v1.Source]{Items: h.sources, Total: len(h.sources)},
	}
	for _, s := range h.services {
		answers["/v1/services/"+s.Name] = s
	}
	for _, s := range h.sources {
		answers["/v1/sources/"+s.Name] = s
	}
	for _, c := range h.clusters {
		answers["/v1/clusters/"+c.Name] = v1.ClusterDetail{Cluster: c, Deployments: h.status.Unhealthy}
	}
	answer, ok := answers[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = v1.Error{Message: "no such thing", Fix: "plural service list"}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func before(d time.Duration) *time.Time { t := now().Add(-d); return &t }

// troubled is a hub with one sound cluster, and one on which a service fails.
func troubled() *fakeHub {
	return &fakeHub{
		status: v1.Status{
			Workspace: "demo",
			Commit:    v1.Commit{ID: "3f2c91a000", Subject: "Set podinfo to 6.7.1", Time: before(41 * time.Second)},
			Head:      v1.Commit{ID: "77aa001000"},
			Refused:   []v1.Problem{{File: "services/web.yaml", Line: 7, Message: `unknown field "nmae"`, Fix: `did you mean "name"?`}},
			Unhealthy: []v1.Deployment{{Service: "web", Cluster: "edge-2", Phase: v1.Failed, Objects: 3, Ready: 1, Message: "image \x1b[31mnot found"}},
			Sources:   []v1.Source{{Name: "podinfo", LastFetch: before(10 * time.Minute), Error: "connection refused"}},
		},
		clusters: []v1.Cluster{
			{Name: "edge-1", Phase: v1.Healthy, Services: 2, Ready: 2, KubernetesVersion: "v1.35.4", LastReport: before(2 * time.Second), Connected: new(true)},
			{Name: "edge-2", Phase: v1.Degraded, Services: 2, Ready: 1, Tags: map[string]string{"env": "prod", "a": "b"}},
		},
		services: []v1.Service{{Name: "web", Phase: v1.Failed, Source: ".", Path: "apps/web", Renderer: "raw", Namespace: "web", Clusters: 2, Ready: 1}},
		sources:  []v1.Source{{Name: "podinfo", Kind: "git", URL: "https://example.com/podinfo", Ref: "main", Commit: "0123456789"}},
	}
}

// result is what a run of the program left.
type result struct {
	code        ui.Code
	out, errOut string
}

func plural(t *testing.T, ctx context.Context, h http.Handler, tty bool, args ...string) result {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	var out, errOut bytes.Buffer
	dir := t.TempDir()
	env := map[string]string{"PLURAL_HUB": server.URL, "PLURAL_CONFIG_DIR": dir, "XDG_STATE_HOME": dir}
	f := &cmdutil.Factory{
		IO:      &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut, OutTTY: tty, Color: tty, Width: 100},
		Version: "test", Now: now, Getenv: func(name string) string { return env[name] },
	}
	code := run(ctx, f, "plural", args)
	return result{ui.Code(code), out.String(), strings.ReplaceAll(errOut.String(), server.URL, "HUB")}
}

func TestStatusScreen(t *testing.T) {
	got := plural(t, t.Context(), troubled(), false, "status")
	want := `demo  3f2c91a "Set podinfo to 6.7.1"  41s ago

commit 77aa001 is refused; 3f2c91a keeps running
  services/web.yaml:7: unknown field "nmae"
    fix: did you mean "name"?

CLUSTER  PHASE     SERVICES  KUBERNETES  REPORT
edge-1   healthy   2/2       v1.35.4     2s ago
edge-2   degraded  1/2       -           never

SERVICE  CLUSTER  PHASE   OBJECTS  REASON
web      edge-2   failed  1/3      image \x1b[31mnot found

sources that cannot be fetched: what was fetched of them before is served
  podinfo: failing; last fetched 10m ago, nothing is served
    cause  connection refused
`
	const next = "next  mend services/web.yaml:7, commit and push; or plural undo\n"
	if diff := cmp.Diff(result{ui.ExitOK, want, next}, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Error(diff)
	}
}

func TestGetScreens(t *testing.T) {
	tests := []struct {
		args, want string
	}{
		{"cluster get edge-2", `CLUSTER     edge-2
phase       degraded
services    1/2 ready
kubernetes  -
agent       -
report      never
tags        a=b env=prod
reason      -

SERVICE  CLUSTER  PHASE   OBJECTS  REASON
web      edge-2   failed  1/3      image \x1b[31mnot found
`},
		{"svc get web", `SERVICE    web
phase      failed
clusters   1/2 ready
source     this repo
path       apps/web
renderer   raw
namespace  web
commit     -
reason     -
`},
		{"src get podinfo", `SOURCE   podinfo
kind     git
url      https://example.com/podinfo
ref      main
commit   0123456789
fetched  never
fetches  0, 0 failed
traffic  0 requests, 0 bytes received
error    -
`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			got := plural(t, t.Context(), troubled(), false, strings.Fields(tt.args)...)
			if diff := cmp.Diff(tt.want, got.out); diff != "" || got.code != ui.ExitOK {
				t.Error(got.code, got.errOut, diff)
			}
		})
	}
}

func TestListHasThreeFaces(t *testing.T) {
	tests := []struct {
		tty        bool
		args, want string
	}{
		{true, "service list --color never", "SERVICE  PHASE   CLUSTERS  SOURCE     COMMIT  REASON\nweb      failed  1/2       this repo  -       -\n"},
		{false, "service list", "SERVICE\tPHASE\tCLUSTERS\tSOURCE\tCOMMIT\tREASON\nweb\tfailed\t1/2\tthis repo\t-\t-\n"},
		{false, "service list --no-headers", "web\tfailed\t1/2\tthis repo\t-\t-\n"},
		{true, "service list --color never --no-headers", "web  failed  1/2  this repo  -  -\n"},
		{false, "service list -o name", "service/web\n"},
		{false, "service list --jq .items[].phase", "failed\n"},
		{false, "cluster list -o jsonpath={.items[*].name}", "edge-1 edge-2\n"},
		{false, "cluster list -o template={{range.items}}{{.name}};{{end}}", "edge-1;edge-2;"},
		{false, "cl list -o wide --no-headers", "edge-1\thealthy\t2/2\tv1.35.4\t2s ago\tyes\t-\t-\nedge-2\tdegraded\t1/2\t-\tnever\t-\t-\t-\n"},
		{false, "cl list --jq .items[]|[.name,.connected]|tojson", "[\"edge-1\",true]\n[\"edge-2\",null]\n"},
	}
	for _, tt := range tests {
		got := plural(t, t.Context(), troubled(), tt.tty, strings.Fields(tt.args)...)
		if diff := cmp.Diff(tt.want, got.out); diff != "" || got.code != ui.ExitOK {
			t.Error(tt.args, got.code, got.errOut, diff)
		}
	}
}

func TestJSONIsTheHubsOwn(t *testing.T) {
	got := plural(t, t.Context(), troubled(), false, "status", "-o", "json")
	var status v1.Status
	if err := json.Unmarshal([]byte(got.out), &status); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(troubled().status, status); diff != "" {
		t.Error(diff)
	}
}

func TestExitCodes(t *testing.T) {
	converged := &fakeHub{status: v1.Status{Workspace: "demo", Commit: v1.Commit{ID: "a"}, Head: v1.Commit{ID: "a"}}}
	tests := []struct {
		name string
		hub  *fakeHub
		args string
		want ui.Code
		says string
	}{
		{"it worked", converged, "status --exit-code", ui.ExitOK, ""},
		{"unhealthy but not asked", troubled(), "status", ui.ExitOK, ""},
		{"unhealthy", troubled(), "status --exit-code", ui.ExitDiffers, ""},
		{"not logged in", &fakeHub{refuse: 401}, "status", ui.ExitLogin, "PLURAL_TOKEN"},
		{"not allowed", &fakeHub{refuse: 403}, "status", ui.ExitFailed, "does not let you"},
		{"no such thing", troubled(), "service get nothing", ui.ExitFailed, "plural service list"},
		{"unknown command", troubled(), "stauts", ui.ExitFailed, "did you mean: plural status"},
		{"unknown verb", troubled(), "cluster lsit", ui.ExitFailed, `unknown command "lsit"`},
		{"unknown flag", troubled(), "status --exit-coed", ui.ExitFailed, "did you mean: --exit-code"},
		{"missing argument", troubled(), "service get", ui.ExitFailed, "NAME is missing"},
		{"too many arguments", troubled(), "service get a b", ui.ExitFailed, `unexpected argument "b"`},
		{"bad format", troubled(), "status -o xml", ui.ExitFailed, "jsonpath="},
		{"bad jq", troubled(), "status --jq .[", ui.ExitFailed, "--jq"},
		{"bad color", troubled(), "status --color red", ui.ExitFailed, "--color auto"},
		{"no hub", troubled(), "status --hub http://127.0.0.1:1", ui.ExitFailed, "cannot reach the hub"},
		{"time is up", troubled(), "status --watch --timeout 50ms", ui.ExitPending, "still at work after 50ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := plural(t, t.Context(), tt.hub, false, strings.Fields(tt.args)...)
			if got.code != tt.want || !strings.Contains(got.errOut, tt.says) {
				t.Errorf("got %d with %q, want %d with %q", got.code, got.errOut, tt.want, tt.says)
			}
			if got.code == ui.ExitFailed && got.out != "" {
				t.Errorf("stdout of a failure: %q", got.out)
			}
		})
	}
}

func TestErrorsAreObjectsUnderJSON(t *testing.T) {
	got := plural(t, t.Context(), &fakeHub{refuse: 401}, false, "status", "-o", "json")
	var told struct{ Error ui.Err }
	if err := json.Unmarshal([]byte(got.errOut), &told); err != nil {
		t.Fatalf("%v in %q", err, got.errOut)
	}
	if told.Error.Code != ui.ExitLogin || told.Error.Cause != "token expired" || got.out != "" {
		t.Errorf("got %+v, stdout %q", told.Error, got.out)
	}
}

func TestInterruptEndsAWatchWith130(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := &signalling{hub: troubled(), seen: cancel}
	if got := plural(t, ctx, seen, false, "status", "--watch"); got.code != ui.ExitInterrupted {
		t.Errorf("got %d: %s", got.code, got.errOut)
	}
}

// signalling is a hub that calls seen with the first answer.
type signalling struct {
	hub  *fakeHub
	seen func()
}

func (s *signalling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.hub.ServeHTTP(w, r)
	s.seen()
}

func TestSignalEndsTheProgramWith130(t *testing.T) {
	asked := make(chan struct{}, 16)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	program, err := exec.LookPath("plural")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "status", "--hub", server.URL)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("got %v", err)
	}
}

func TestPipesGetNoEscapes(t *testing.T) {
	for _, args := range []string{"status", "cluster list", "cluster get edge-2", "service list", "service get web", "source list", "--help", "status --help", "nonsense", "service get nothing"} {
		got := plural(t, t.Context(), troubled(), false, strings.Fields(args)...)
		if strings.Contains(got.out+got.errOut, "\x1b") {
			t.Errorf("%s: %q", args, got.out+got.errOut)
		}
	}
}

func TestTerminalsGetColorsThatNeverComeFromTheFleet(t *testing.T) {
	got := plural(t, t.Context(), troubled(), true, "status")
	if !strings.Contains(got.out, "\x1b[32mhealthy") {
		t.Errorf("no color in %q", got.out)
	}
	if strings.Contains(got.out, "\x1b[31mnot found") {
		t.Errorf("an escape came through in %q", got.out)
	}
}

func TestFirstScreenFits24By80(t *testing.T) {
	got := plural(t, t.Context(), troubled(), false, "--help")
	lines := strings.Split(strings.TrimRight(got.out, "\n"), "\n")
	if len(lines) > 24 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if n := len([]rune(line)); n > 80 || line != strings.TrimRight(line, " ") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

func TestTopicsAreThere(t *testing.T) {
	for topic, want := range map[string]string{"exit-codes": "130", "environment": "PLURAL_TOKEN", "flags": "--no-input"} {
		if got := plural(t, t.Context(), troubled(), false, "help", topic); !strings.Contains(got.out, want) || got.code != 0 {
			t.Errorf("%s: %d %q %q", topic, got.code, got.out, got.errOut)
		}
	}
}

// TestEveryCommandIsDocumented walks the tree.
func TestEveryCommandIsDocumented(t *testing.T) {
	root := newRoot(&cmdutil.Factory{IO: &ui.Streams{Out: io.Discard, ErrOut: io.Discard}, Now: now, Getenv: os.Getenv})
	visit(root, func(cmd *cobra.Command) {
		if cmd.IsAdditionalHelpTopicCommand() || cmd.Hidden {
			return
		}
		if cmd.Short == "" || len(cmd.Short) > 60 || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: Short %q", cmd.CommandPath(), cmd.Short)
		}
		examples := strings.Split(strings.TrimSpace(cmd.Example), "\n")
		if cmd.Example == "" {
			t.Errorf("%s: no example", cmd.CommandPath())
		}
		for _, example := range examples {
			if err := parses(example); err != nil {
				t.Errorf("%s: example %q: %v", cmd.CommandPath(), example, err)
			}
		}
		for line := range strings.Lines(fill(cmd.Long)) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > columns {
				t.Errorf("%s: a line of the help has %d columns", cmd.CommandPath(), n)
			}
		}
	})
}

func visit(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, c := range cmd.Commands() {
		visit(c, do)
	}
}

// variables are what an example sets for its command alone.
var variables = regexp.MustCompile(`^([A-Z_]+=('[^']*'|\S*) +)+`)

// parses says whether an example would get as far as being run.
func parses(example string) error {
	words, err := split(variables.ReplaceAllString(strings.TrimSpace(example), ""))
	if err != nil {
		return fmt.Errorf("split example: %w", err)
	}
	if len(words) == 0 || words[0] != "plural" {
		return errors.New("no command line of plural")
	}
	root := newRoot(&cmdutil.Factory{IO: &ui.Streams{Out: io.Discard, ErrOut: io.Discard}, Now: now, Getenv: os.Getenv})
	cmd, rest, err := root.Find(words[1:])
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// split cuts a line into words as a shell would, up to a redirection; it knows single quotes.
func split(line string) ([]string, error) {
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " < ")
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	if strings.Count(line, "'")%2 != 0 {
		return nil, errors.New("a quote does not end")
	}
	return words, nil
}
