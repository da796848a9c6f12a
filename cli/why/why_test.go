package why_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/render"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/why"
	"github.com/pluralsh/plural/test/support/kubetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func at() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// repo is an installation repo in which web waits for api, which waits for db; each renders the ConfigMap of its name.
func repo(t *testing.T, namespace string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	files := map[string]string{
		"plural.yaml":        "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n",
		"clusters/edge.yaml": "",
	}
	for _, cluster := range []string{"edge-1", "edge-2", "edge-3"} {
		files["clusters/edge.yaml"] += fmt.Sprintf("---\napiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: %s}\n", cluster)
	}
	for service, on := range map[string]string{"web": "[{service: api}]", "api": "[{service: db}]", "db": "[]"} {
		files["services/"+service+".yaml"] = fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: %s}\n"+
			"spec: {source: {path: apps/%s}, namespace: %s, clusters: {names: [edge-1, edge-2, edge-3]}, dependsOn: %s}\n", service, service, namespace, on)
		files["apps/"+service+"/cm.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: ours, b: ours}\n", service)
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "Run it"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=alice", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=alice", "GIT_COMMITTER_EMAIL=a@a",
			"GIT_AUTHOR_DATE="+at().Format(time.RFC3339), "GIT_COMMITTER_DATE="+at().Format(time.RFC3339))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return dir
}

// run is plural why, an hour after the commit.
func run(t *testing.T, dir, hub, output string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	f := &cmdutil.Factory{
		Globals: cmdutil.Globals{Dir: dir, Hub: hub, Output: output},
		IO:      &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &bytes.Buffer{}, Width: 80},
		Now:     func() time.Time { return at().Add(time.Hour) },
		Getenv:  func(name string) string { return map[string]string{"PLURAL_CONFIG_DIR": dir}[name] },
	}
	cmd := why.NewCmdWhy(f)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// hub answers as one does on which nothing but the given services runs.
func hub(t *testing.T, services ...v1.Service) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/status" {
			_ = json.NewEncoder(w).Encode(v1.Status{Commit: v1.Commit{ID: "0123456789", Subject: "Run it"}})
			return
		}
		for _, s := range services {
			if r.URL.Path == "/v1/services/"+s.Name {
				_ = json.NewEncoder(w).Encode(s)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(v1.Error{Message: "no such service"})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func on(service, cluster string, phase v1.Phase, message string) v1.Deployment {
	return v1.Deployment{Service: service, Cluster: cluster, Phase: phase, Message: message}
}

func TestAServiceIsFollowedDownToWhereItsTroubleBegins(t *testing.T) {
	failing := on("db", "edge-1", v1.Failed, "")
	failing.Problems = []v1.Problem{{Object: "StatefulSet db/db", Group: "apps", Message: "admission refused it"}}
	address := hub(t,
		v1.Service{Name: "web", Deployments: []v1.Deployment{
			on("web", "edge-1", v1.Pending, "waits for service api"), on("web", "edge-2", v1.Healthy, ""), on("web", "edge-3", v1.Healthy, ""),
		}},
		v1.Service{Name: "api", Deployments: []v1.Deployment{on("api", "edge-1", v1.Pending, "waits for service db"), on("api", "edge-2", v1.Healthy, "")}},
		v1.Service{Name: "db", Deployments: []v1.Deployment{failing}})
	got, err := run(t, repo(t, "demo"), address, "", "web")
	if err != nil {
		t.Fatal(err)
	}
	const want = `service web  services/web.yaml:1:1
  made of      apps/web, services/web.yaml
  last change  COMMIT "Run it" by alice, 60m ago
  served       0123456 "Run it"

on 1 cluster: edge-1: pending
  waits for service api
  waits for api, pending: waits for service db
    which waits for db, failed: StatefulSet db/db: admission refused it

on 2 clusters: edge-2, edge-3: healthy

next  plural why db --cluster edge-1
`
	_, rest, _ := strings.Cut(got, "last change  ")
	got = strings.Replace(got, rest[:7], "COMMIT", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatWouldHelpFollowsFromTheReason(t *testing.T) {
	held := on("db", "edge-1", v1.Held, "")
	held.Held = &v1.Waiting{Token: "0123456789ab", Count: 12, Message: "the budget of 50% allows 10"}
	tested := on("db", "edge-1", v1.Failed, "it failed a test")
	tested.QuarantinedKey = "d2-1"
	tested.Tests = []v1.Test{{Name: "smoke", Outcome: v1.TestFailed, Message: "got 502"}, {Name: "fine", Outcome: v1.TestPassed}}
	refused := on("db", "edge-1", v1.Failed, "")
	refused.Problems = []v1.Problem{{Object: "StatefulSet db/db", Group: "apps", Message: "immutable"}}
	suspended := on("db", "edge-1", v1.Held, "suspended: what runs stays as it is")
	suspended.Suspended = true
	tests := map[string]struct {
		d             v1.Deployment
		reasons, next string
	}{
		"deletions wait":  {held, "12 deletions wait: the budget of 50% allows 10", "plural service ack db"},
		"a test failed":   {tested, "it failed a test; what it should be failed a test, and is not applied again: key d2-1; test smoke failed: got 502", "mend what the test found, and commit"},
		"an object":       {refused, "StatefulSet db/db: immutable", `plural why "StatefulSet.apps db/db" --cluster edge-1 --live`},
		"it is suspended": {suspended, "suspended: what runs stays as it is", "plural service resume db"},
		"nobody there":    {on("db", "edge-1", v1.Stale, "no report for 7m"), "no report for 7m", "plural cluster get edge-1"},
		"all is well":     {on("db", "edge-1", v1.Healthy, ""), "", ""},
	}
	dir := repo(t, "demo")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, dir, hub(t, v1.Service{Name: "db", Deployments: []v1.Deployment{tt.d}}), "json", "db", "--cluster", "edge-1")
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Clusters []struct {
					Reasons []string
					Next    string
				}
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Clusters) != 1 {
				t.Fatal(err, out)
			}
			if diff := cmp.Diff([]string{tt.reasons, tt.next}, []string{strings.Join(got.Clusters[0].Reasons, "; "), got.Clusters[0].Next}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASuspendedServiceIsResumedAndNoChangeIsTakenBack(t *testing.T) {
	d := on("db", "edge-1", v1.Held, "suspended: what runs stays as it is")
	d.Suspended = true
	got, err := run(t, repo(t, "demo"), hub(t, v1.Service{Name: "db", Suspended: true, Deployments: []v1.Deployment{d}}), "", "db",
		"--cluster", "edge-1")
	if err != nil || !strings.HasSuffix(got, "\nnext  plural service resume db\n") || strings.Contains(got, "undo") {
		t.Errorf("%v: %s", err, got)
	}
}

func TestOneCauseIsSaidOnceForAllClustersWithItsPlaceAndOneThingToDo(t *testing.T) {
	var all []v1.Deployment
	for _, cluster := range []string{"edge-1", "edge-2", "edge-3"} {
		d := on("db", cluster, v1.Failed, "ConfigMap db: .dataa: unknown field")
		d.Problems = []v1.Problem{{Object: "ConfigMap demo/db", Reason: "Invalid", Message: ".dataa: unknown field"}}
		all = append(all, d)
	}
	got, err := run(t, repo(t, "demo"), hub(t, v1.Service{Name: "db", Deployments: all}), "", "db")
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(got, "last change  ")
	want := `
on 3 clusters: edge-1, edge-2, edge-3: failed
  ConfigMap demo/db: .dataa: unknown field
    written in apps/db/cm.yaml:1

next  mend apps/db/cm.yaml:1, commit and push; or take its last change back: plural undo ` + id[:7] + "\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("it says\n%s\nand not\n%s", got, want)
	}
}

func TestWhatBrokeAtAPlaceIsTakenBackByTheNewestChangeOrTheLastOfItsFile(t *testing.T) {
	dir := repo(t, "demo")
	commit := func(subject, file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"add", "."}, {"-c", "user.name=bob", "-c", "user.email=b@b", "commit", "-qm", subject}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v: %s", args, err, out)
			}
		}
	}
	advice := func() (newest, advice string) {
		t.Helper()
		d := on("db", "edge-1", v1.Failed, "apps/db/cm.yaml:1: it cannot be read")
		got, err := run(t, dir, hub(t, v1.Service{Name: "db", Deployments: []v1.Deployment{d}}), "", "db")
		if err != nil {
			t.Fatal(err)
		}
		_, newest, _ = strings.Cut(got, "last change  ")
		_, advice, _ = strings.Cut(got, "take its last change back: ")
		advice, _, _ = strings.Cut(advice, "\n")
		return newest[:7], advice
	}
	commit("Change more of db", "apps/db/more.yaml", "# nothing\n")
	newest, got := advice()
	if got != "plural undo "+newest { // the file is as it was made, with all that stands on it
		t.Errorf("it says %q", got)
	}
	commit("Break db", "apps/db/cm.yaml", "a: b: c\n")
	broken, _ := advice()
	commit("Change more of db again", "apps/db/more.yaml", "# still nothing\n")
	newest, got = advice()
	if got != "plural undo "+newest+"; or, where it was broken before that: plural undo "+broken+", which changed apps/db/cm.yaml last" {
		t.Errorf("it says %q", got)
	}
}

func TestAnUndoIsNotAdvisedToBeUndone(t *testing.T) {
	dir := repo(t, "demo")
	if err := os.WriteFile(filepath.Join(dir, "apps/db/cm.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: db}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	message := "Undo it\n\nThis reverts commit " + strings.Repeat("a", 40) + ".\n"
	cmd := exec.Command("git", "-c", "user.name=bob", "-c", "user.email=b@b", "commit", "-qam", message)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := on("db", "edge-1", v1.Failed, "apps/db/cm.yaml:1: it cannot be read")
	got, err := run(t, dir, hub(t, v1.Service{Name: "db", Deployments: []v1.Deployment{d}}), "", "db")
	if err != nil || strings.Contains(got, "plural undo") || !strings.Contains(got, "mend apps/db/cm.yaml:1") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestAServiceThatWasDeletedIsToldWithTheCommitThatDidIt(t *testing.T) {
	dir := repo(t, "demo")
	commit := func(subject string, args ...string) {
		for _, args := range [][]string{args, {"commit", "-qm", subject}} {
			cmd := exec.Command("git", append([]string{"-c", "user.name=bob", "-c", "user.email=b@b"}, args...)...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v: %s", args, err, out)
			}
		}
	}
	commit("Drop web", "rm", "-q", "services/web.yaml")

	_, err := run(t, dir, "http://127.0.0.1:1", "", "web")
	var told *ui.Err
	if !errors.As(err, &told) || !strings.Contains(told.Msg, `service "web" was deleted`) ||
		!strings.Contains(told.Msg, `"Drop web" of bob`) ||
		!strings.HasPrefix(told.Fix, "plural undo ") {
		t.Errorf("%v", err)
	}
	if _, err := run(t, dir, "http://127.0.0.1:1", "", "nosuch"); err == nil || strings.Contains(err.Error(), "deleted") {
		t.Errorf("of one that never was it says %v", err)
	}
}

func TestAHubThatDoesNotAnswerIsNamedAndTheRepositoryTellsTheRest(t *testing.T) {
	out, err := run(t, repo(t, "demo"), "http://127.0.0.1:1", "", "web")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"this is from the repository alone, without the hub's word", "cannot reach the hub at http://127.0.0.1:1", "it waits for service api"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

func TestAChartThatNeedsWhatAClusterHasSaysSo(t *testing.T) {
	dir := repo(t, "demo")
	for name, text := range map[string]string{
		"services/chart.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: chart}\n" +
			"spec: {source: {path: apps/chart}, helm: {lookup: true}, serviceAccount: chart, clusters: {names: [edge-1]}}\n",
		"apps/chart/Chart.yaml": "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
		"apps/chart/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart}\n" +
			"data: {a: {{ (lookup \"v1\" \"Secret\" \"demo\" \"s\").data.a }}}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t, dir, "http://127.0.0.1:1", "", "cm/web")
	const want = "  chart: apps/chart/templates/cm.yaml:4: the chart looks objects up, for which no cluster is asked here: "
	if err != nil || !strings.Contains(out, want) || strings.Contains(out, `\n`) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestALiveObjectTellsWhoOwnsItsFieldsAndWhetherItIsAsItWasApplied(t *testing.T) {
	cluster := kubetest.Start(t)
	dir := repo(t, cluster.Namespace)
	look := func() (recorded string, owners map[string][]string) {
		out, err := run(t, dir, "http://127.0.0.1:1", "json", "cm/web", "--live", "--kubeconfig", cluster.Kubeconfig, "--context", "edge-1=kubetest")
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Matches   []struct{ Service, File string }
			Unreached []string
			Live      []struct {
				Error, Recorded string
				Owners          []struct {
					Manager string
					Fields  []string
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Live) != 1 || len(got.Matches) != 1 || len(got.Unreached) != 2 {
			t.Fatal(err, out)
		}
		owners = map[string][]string{}
		for _, o := range got.Live[0].Owners {
			owners[o.Manager] = o.Fields
		}
		return got.Live[0].Recorded + got.Live[0].Error, owners
	}
	if got, _ := look(); got != "it is not there" {
		t.Errorf("before it exists: %s", got)
	}
	applyOnce(t, cluster)
	got, owners := look()
	if diff := cmp.Diff([]string{"data.a", "data.b", "metadata.labels.plural.sh/service"}, owners["plural"]); diff != "" || got != "as it was applied" {
		t.Error(got, diff)
	}
	patch := []byte(`{"data": {"b": "theirs"}}`)
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	if _, err := cluster.Dynamic.Resource(maps).Namespace(cluster.Namespace).Patch(t.Context(), "web", types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "their-tool"}); err != nil {
		t.Fatal(err)
	}
	got, owners = look()
	if diff := cmp.Diff([]string{"data.b"}, owners["their-tool"]); diff != "" || !strings.HasPrefix(got, "changed since it was applied") {
		t.Error(got, diff)
	}
}

// applyOnce makes the ConfigMap web as the agent would.
func applyOnce(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	engine, err := apply.New(cluster.RESTConfig, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web"}, "data": map[string]any{"a": "ours", "b": "ours"},
	}}
	result, err := engine.Apply(ctx, apply.Request{
		Service: cluster.Namespace, Namespace: cluster.Namespace, Key: "one",
		Objects: func(context.Context) ([]*unstructured.Unstructured, error) {
			return []*unstructured.Unstructured{object}, nil
		},
	})
	if err != nil || len(result.Objects) == 0 {
		t.Fatal(result, err)
	}
}
