package validate

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/agent/render"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/snapshot"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func TestObjectsAreCheckedForTheVersionsThatClustersWereSeenToHave(t *testing.T) {
	dir, config := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	const head = "apiVersion: plural.sh/v1alpha1\nkind: "
	write("plural.yaml", head+"Workspace\nmetadata: {name: acme}\nspec: {hub: {url: \"https://hub.example.com\"}}\n")
	write("clusters/all.yaml", head+"Cluster\nmetadata: {name: old}\n---\n"+head+"Cluster\nmetadata: {name: new}\n")
	write("services/web.yaml", head+"Service\nmetadata: {name: web}\nspec: {source: {path: web}, clusters: {names: [old, new]}}\n")
	write("web/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i, restartPolicyRules: []}]}\n")
	validate := func() (string, error) {
		var out bytes.Buffer
		cmd := NewCmdValidate(&cmdutil.Factory{
			IO: &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, Now: time.Now,
			Getenv: func(name string) string {
				return map[string]string{"PLURAL_REPO": dir, "PLURAL_CONFIG_DIR": config}[name]
			},
		})
		cmd.SetArgs(nil)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := validate(); err != nil || !strings.Contains(out, "1 object, for Kubernetes 1.37, the newest known: no cluster's version was seen yet (plural status sees them)\n") {
		t.Errorf("before anything was seen: %v: %s", err, out)
	}
	var seen []fleetcache.Cluster
	for name, version := range map[string]string{"old": "v1.33.2", "new": "v1.34.1+k3s1"} {
		seen = append(seen, fleetcache.Cluster{Cluster: v1.Cluster{Name: name, KubernetesVersion: version}, Rows: []fleetcache.Row{{Service: "api"}}})
	}
	slices.SortFunc(seen, func(a, b fleetcache.Cluster) int { return strings.Compare(a.Name, b.Name) })
	if err := fleetcache.New(config, "https://hub.example.com", "acme", "").Save(fleetcache.Head{At: time.Now().Add(-50 * time.Hour)}, slices.Values(seen)); err != nil {
		t.Fatal(err)
	}
	_, err := validate()
	told := (*ui.Err)(nil)
	if !errors.As(err, &told) || len(told.Problems) != 1 || !strings.Contains(told.Problems[0].Message, "restartPolicyRules: unknown field") {
		t.Fatalf("%+v", err)
	}
	write("web/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n")
	out, err := validate()
	for _, want := range []string{"2 objects, for Kubernetes 1.33 of old (seen 2d2h ago); 1.34 of new (seen 2d2h ago)", "notice: service api leaves new, old: "} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %s: want %s", err, out, want)
		}
	}
	write("clusters/all.yaml", head+"Cluster\nmetadata: {name: old}\n---\n"+head+"Cluster\nmetadata: {name: unheard}\n")
	write("services/web.yaml", head+"Service\nmetadata: {name: web}\nspec: {source: {path: web}, clusters: {names: [old, unheard]}}\n")
	if out, err := validate(); err != nil ||
		!strings.Contains(out, "for Kubernetes 1.33 of old (seen 2d2h ago); 1.37, the newest known, for unheard, whose version was not seen\n") {
		t.Errorf("where one was not seen: %v: %s", err, out)
	}
}

func TestWhatAPersonCommittedIsHeldAgainstWhatTheHubWasSeenToServe(t *testing.T) {
	dir, config := t.TempDir(), t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("apiVersion: plural.sh/v1alpha1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("plural.yaml", "kind: Workspace\nmetadata: {name: acme}\nspec: {hub: {url: \"https://hub.example.com\"}}\n")
	write("clusters/a.yaml", "kind: Cluster\nmetadata: {name: a}\n")
	write("services/web.yaml", "kind: Service\nmetadata: {name: web}\nspec: {source: {path: apps}, clusters: {names: [a]}}\n")
	git("init", "-qb", "main")
	git("add", ".")
	git("commit", "-qm", "All of it")
	served := git("rev-parse", "HEAD")
	git("rm", "-qr", "services")
	git("commit", "-qm", "None of it")
	cmd := NewCmdValidate(&cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}, Now: time.Now,
		Getenv: func(name string) string {
			return map[string]string{"PLURAL_REPO": dir, "PLURAL_CONFIG_DIR": config}[name]
		},
	})
	cmd.SetArgs(nil)
	if err := cmd.ExecuteContext(t.Context()); err != nil { // of HEAD nothing is changed
		t.Error(err)
	}
	head := fleetcache.Head{At: time.Now(), Summary: &v1.Summary{Commit: v1.Commit{ID: served}}}
	if err := fleetcache.New(config, "https://hub.example.com", "acme", "").Save(head, slices.Values([]fleetcache.Cluster{})); err != nil {
		t.Fatal(err)
	}
	var told *ui.Err
	if err := cmd.ExecuteContext(t.Context()); !errors.As(err, &told) || len(told.Problems) == 0 ||
		!strings.HasPrefix(told.Problems[0].Fix, "put them back (git checkout "+served[:7]+" -- services/web.yaml)") {
		t.Errorf("%+v", err)
	}
}

func TestViewsOfTheConsoleAreCheckedWithTheRest(t *testing.T) {
	const head = "apiVersion: plural.sh/v1alpha1\nkind: "
	git := needs.Program(t, "git", "git")
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), git, "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("plural.yaml", "Workspace\nmetadata: {name: acme}\nspec: {repo: {url: \"https://git.example.com/fleet.git\"}}\n")
	validate := func() (string, error) {
		var out bytes.Buffer
		cmd := NewCmdValidate(&cmdutil.Factory{
			IO: &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, Now: time.Now,
			Getenv: func(name string) string { return map[string]string{"PLURAL_REPO": dir}[name] },
		})
		cmd.SetArgs(nil)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	write("views.yaml", "Views\nspec: {views: [{key: 1, name: all, list: fleet}]}\n")
	if out, err := validate(); err != nil || !strings.Contains(out, "acme has no services yet") {
		t.Errorf("%v: %s", err, out)
	}
	write("views.yaml", "Views\nspec: {views: [{key: 1, name: all, list: flet}]}\n")
	_, err := validate()
	told := (*ui.Err)(nil)
	if !errors.As(err, &told) || len(told.Problems) != 1 || told.Problems[0].Where != "views.yaml:3:42" || told.Problems[0].Fix != `did you mean "fleet"?` {
		t.Errorf("%+v", err)
	}
}

func TestALargeFileIsAMistakeOfTheServiceThatReadsIt(t *testing.T) {
	const head = "apiVersion: plural.sh/v1alpha1\nkind: "
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plural.yaml":        head + "Workspace\nmetadata: {name: acme}\nspec: {repo: {url: \"https://git.example.com/fleet.git\"}}\n",
		"clusters/one.yaml":  head + "Cluster\nmetadata: {name: one}\nspec: {}\n",
		"services/web.yaml":  head + "Service\nmetadata: {name: web}\nspec: {source: {path: web}, renderer: raw, clusters: {names: [one]}}\n",
		"web/cm.yaml":        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n",
		"web/film.mp4":       "",
		"web/generated.yaml": "",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	validate := func(args ...string) error {
		var out bytes.Buffer
		cmd := NewCmdValidate(&cmdutil.Factory{
			IO: &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, Now: time.Now,
			Getenv: func(name string) string { return map[string]string{"PLURAL_REPO": dir}[name] },
		})
		cmd.SetArgs(args)
		return cmd.ExecuteContext(t.Context())
	}
	grow := func(name string) {
		if err := os.Truncate(filepath.Join(dir, "web", name), snapshot.MaxBlob+1); err != nil {
			t.Fatal(err)
		}
	}
	if grow("film.mp4"); validate() != nil {
		t.Errorf("a film that no service reads: %v", validate())
	}
	grow("generated.yaml")
	told := (*ui.Err)(nil)
	err := validate()
	if !errors.As(err, &told) || len(told.Problems) != 1 || told.Problems[0].Where != "web/generated.yaml" ||
		!strings.Contains(told.Problems[0].Message, "web") || !strings.Contains(told.Problems[0].Message, "33554432") {
		t.Errorf("a manifest that web reads: %+v", err)
	}
	err = validate("--max-file-bytes", "33554433") // zeros, which are no manifest either
	if !errors.As(err, &told) || strings.Contains(told.Problems[0].Message, "3355443") {
		t.Errorf("under the limit of another hub: %+v", err)
	}
}
