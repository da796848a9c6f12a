package diff_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/diff"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/kubetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func configMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

// world is an installation repo, and a cluster edge-1 of it.
type world struct {
	*kubetest.Cluster
	t   *testing.T
	dir string
}

// newWorld commits a repo whose service web holds manifests.
func newWorld(t *testing.T, manifests string) *world {
	t.Helper()
	w := &world{Cluster: kubetest.Start(t), t: t, dir: t.TempDir()}
	t.Setenv("HOME", w.dir)
	w.write("plural.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n")
	w.write("clusters/edge.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\n"+
		"---\napiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-2}\n")
	w.write("services/web.yaml", fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: %s}\n"+
		"spec: {source: {path: app}, namespace: %s, clusters: {names: [edge-1, edge-2]}}\n", w.service(), w.Namespace))
	w.write("app/app.yaml", manifests)
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = w.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return w
}

// service is this test's own: inventories of one API server go by the service's name.
func (w *world) service() string { return "s-" + w.Namespace[max(0, len(w.Namespace)-40):] }

func (w *world) write(name, text string) {
	w.t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// diff runs plural diff --live, and returns what is said of each object.
func (w *world) diff() []string {
	w.t.Helper()
	var out, errOut bytes.Buffer
	f := &cmdutil.Factory{
		Globals: cmdutil.Globals{Dir: w.dir, Output: "json"},
		IO:      &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut, Width: 80},
		Now:     time.Now, Getenv: func(string) string { return "" },
	}
	cmd := diff.NewCmdDiff(f)
	cmd.SetArgs([]string{"--live", "--kubeconfig", w.Kubeconfig, "--context", "edge-1=kubetest"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	if err := cmd.ExecuteContext(ctx); err != nil {
		w.t.Fatal(err, errOut.String())
	}
	var said struct {
		Live struct {
			Clusters, Unreached []string
			Items               []struct {
				Action  string
				Objects []struct{ Object string }
				Fields  []struct {
					Path          string
					Before, After any
				}
				Notes []string
			}
			Leaving  []struct{ Service string }
			Problems []struct{ Message string }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &said); err != nil {
		w.t.Fatal(err, out.String())
	}
	if diff := cmp.Diff([][]string{{"edge-1"}, {"edge-2"}}, [][]string{said.Live.Clusters, said.Live.Unreached}); diff != "" {
		w.t.Error(diff)
	}
	for _, p := range said.Live.Problems {
		w.t.Error(p.Message)
	}
	lines := []string{}
	for _, item := range said.Live.Items {
		line := item.Action
		for _, o := range item.Objects {
			line += " " + strings.ReplaceAll(o.Object, w.Namespace+"/", "")
		}
		for _, field := range item.Fields {
			line += fmt.Sprintf("; %s %v %v", field.Path, field.Before, field.After)
		}
		lines = append(lines, strings.Join(append([]string{line}, item.Notes...), "; "))
	}
	for _, gone := range said.Live.Leaving {
		if gone.Service == w.service() {
			lines = append(lines, "the service leaves")
		}
	}
	return lines
}

func TestLiveTellsWhatAnApplyWouldChangeAndWhoseFieldsItTakes(t *testing.T) {
	w := newWorld(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there}\ndata: {a: ours}\n"+
		"---\napiVersion: v1\nkind: Secret\nmetadata: {name: fresh}\nstringData: {a: canary}\n"+
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: 99999999}]}\n")
	theirs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "there"},
		"data": map[string]any{"a": "theirs", "b": "left alone"},
	}}
	before, err := w.Dynamic.Resource(configMaps()).Namespace(w.Namespace).Apply(t.Context(), "there", theirs, metav1.ApplyOptions{FieldManager: "their-tool"})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(w.diff(), "\n")
	for _, want := range []string{
		"added Secret fresh",
		"changed ConfigMap there; data.a theirs ours;",
		`belongs to "their-tool"`,
		"refused Service bad; ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "canary") {
		t.Errorf("a secret is shown: %s", got)
	}
	after, err := w.Dynamic.Resource(configMaps()).Namespace(w.Namespace).Get(t.Context(), "there", metav1.GetOptions{})
	if err != nil || after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("asking changed the object: %v, %v", after, err)
	}
}

func TestLiveTellsWhatAnApplyWouldDeleteAndNothingOfWhatIsAsItShouldBe(t *testing.T) {
	const kept = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\ndata: {a: one}\n"
	w := newWorld(t, kept+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: old}\n")
	w.apply("kept", "old")
	if got := w.diff(); len(got) != 0 {
		t.Errorf("after an apply: %v", got)
	}
	w.write("app/app.yaml", kept)
	if diff := cmp.Diff([]string{"deleted ConfigMap old"}, w.diff()); diff != "" {
		t.Error(diff)
	}
	if err := os.Remove(filepath.Join(w.dir, "services/web.yaml")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"the service leaves"}, w.diff()); diff != "" {
		t.Error(diff)
	}
}

func TestLiveTellsWhatMovesToAnotherServiceAndDeletesNothingOfIt(t *testing.T) {
	const kept, old = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\ndata: {a: one}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old}\n"
	w := newWorld(t, kept+"---\n"+old)
	w.apply("kept", "old")
	w.write("services/other.yaml", fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: o%s}\n"+
		"spec: {source: {path: other}, namespace: %s, clusters: {names: [edge-1, edge-2]}}\n", w.service(), w.Namespace))
	w.write("app/app.yaml", kept)
	w.write("other/old.yaml", old)
	want := fmt.Sprintf("moved ConfigMap old; metadata.labels[\"plural.sh/service\"] %s o%[1]s", w.service())
	if diff := cmp.Diff([]string{want}, w.diff()); diff != "" {
		t.Error(diff)
	}
	w.write("other/old.yaml", old+"data: {a: [1]}\n")
	if got := w.diff(); len(got) != 1 || !strings.HasPrefix(got[0], "refused ConfigMap old; ") {
		t.Errorf("where the other service's object is refused: %q", got)
	}
}

// apply makes ConfigMaps as the agent would.
func (w *world) apply(names ...string) {
	w.t.Helper()
	engine, err := apply.New(w.RESTConfig, apply.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	result, err := engine.Apply(ctx, apply.Request{
		Service: w.service(), Namespace: w.Namespace, Key: "one", Prune: true, Heal: true,
		Objects: func(context.Context) ([]*unstructured.Unstructured, error) {
			var list []*unstructured.Unstructured
			for _, name := range names {
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
				if name == "kept" {
					o.Object["data"] = map[string]any{"a": "one"}
				}
				list = append(list, o)
			}
			return list, nil
		},
	})
	if err != nil || len(result.Objects) == 0 {
		w.t.Fatal(result, err)
	}
}
