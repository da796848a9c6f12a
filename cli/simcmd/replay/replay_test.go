package replay

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/resolve"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// repo is a real git repository.
type repo struct {
	t   testing.TB
	dir string
}

func newRepo(t testing.TB) repo {
	t.Helper()
	needs.Program(t, "git", "git")
	r := repo{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, "" removing one and "link:" beginning a symbolic link, and returns the commit.
func (r repo) commit(files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		path := filepath.Join(r.dir, name)
		if text == "" {
			if err := os.Remove(path); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(text, "link:"); ok {
			if err := os.Symlink(target, path); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-qm", "change")
	return r.git("rev-parse", "HEAD")
}

func (r repo) options(from string) Options {
	program, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	return Options{Repo: r.dir, From: from, To: "main", Render: []string{program, "render-child"}, Workers: 2}
}

// walk is a run that has not begun.
func (r repo) walk(from string) *walk {
	r.t.Helper()
	store, err := openObjects(r.t.Context(), r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(store.close)
	return newWalk(r.options(from), store)
}

func configMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {v: " + value + "}\n"
}

// history is a repository with a base, an overlay on it, a chart and a plain folder.
func history(t *testing.T) (r repo, first string) {
	r = newRepo(t)
	return r, r.commit(map[string]string{
		"base/kustomization.yaml": "resources: [config.yaml]\n", "base/config.yaml": configMap("base", "one"),
		"overlay/kustomization.yaml": "resources: [../base]\nnamePrefix: my-\n",
		"chart/Chart.yaml":           "apiVersion: v2\nname: chart\nversion: 1.0.0\n", "chart/values.yaml": "v: one\n",
		"chart/templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart}\ndata: {v: {{ .Values.v }}}\n",
		"plain/deep/config.yaml":      configMap("plain", "one"),
		"docs/notes.yaml":             "no: manifest\n", "main.go": "package main\n",
	})
}

func TestKeysAndOutputsChangeTogether(t *testing.T) {
	r, first := history(t)
	r.commit(map[string]string{"docs/notes.yaml": "still: none\n", "main.go": "package other\n"}) // nobody
	r.commit(map[string]string{"base/config.yaml": configMap("base", "two")})                     // base and overlay
	commented := r.commit(map[string]string{"plain/deep/config.yaml": "# said\n" + configMap("plain", "one")})
	r.commit(map[string]string{"chart/values.yaml": "v: two\n"}) // chart
	result, err := Run(t.Context(), r.options(first))
	if err != nil {
		t.Fatal(err)
	}
	if result.Commits != 4 || result.Services != 4 || result.Steps != 16 || result.OutputsChanged != 3 || result.KeysChanged != 4 {
		t.Errorf("result = %+v", result)
	}
	if len(result.FalseNegatives)+len(result.Incomplete)+len(result.Unrepeatable) > 0 {
		t.Errorf("result = %+v", result)
	}
	if want := []Offender{{"plain/deep", commented}}; !slices.Equal(result.FalsePositives, want) {
		t.Errorf("false positives = %v, want %v", result.FalsePositives, want)
	}
}

func TestAnOutputThatChangesWithoutItsKeyIsFound(t *testing.T) {
	r, first := history(t)
	second := r.commit(map[string]string{"docs/notes.yaml": "still: none\n"})
	w := r.walk(first)
	if err := w.step(t.Context(), first, true); err != nil {
		t.Fatal(err)
	}
	w.before["overlay"].output = "what another state of the repository rendered to"
	if err := w.step(t.Context(), second, false); err != nil {
		t.Fatal(err)
	}
	if want := []Offender{{"overlay", second}}; !slices.Equal(w.result.FalseNegatives, want) {
		t.Errorf("false negatives = %v, want %v", w.result.FalseNegatives, want)
	}
}

func TestABundleThatLacksAFileIsFound(t *testing.T) {
	r, first := history(t)
	r.commit(map[string]string{"docs/notes.yaml": "still: none\n"})
	w := r.walk(first)
	if err := w.step(t.Context(), first, true); err != nil {
		t.Fatal(err)
	}
	lacking := *w.before["overlay"]
	lacking.deployment = new(resolve.Deployment)
	*lacking.deployment = *w.before["overlay"].deployment
	lacking.deployment.Inputs, lacking.key = []string{"overlay"}, "another"
	if err := w.checkBundle(t.Context(), "overlay", first, &lacking); err != nil {
		t.Fatal(err)
	}
	if want := []Offender{{"overlay", first}}; !slices.Equal(w.result.Incomplete, want) {
		t.Errorf("incomplete = %v, want %v", w.result.Incomplete, want)
	}
}

func TestAnInstallationRepoIsReplayedByItsOwnServices(t *testing.T) {
	r := newRepo(t)
	document := func(kind, name, spec string) string {
		return "apiVersion: plural.sh/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	service := func(parameter string) string {
		return document("Service", "web", "{source: {path: apps/web}, clusters: {matchLabels: {env: prod}}, parameters: {v: \""+parameter+"\"}}")
	}
	first := r.commit(map[string]string{
		"plural.yaml":                   document("Workspace", "demo", "{}"),
		"clusters/a.yaml":               document("Cluster", "a", "{tags: {env: prod}}"),
		"clusters/b.yaml":               document("Cluster", "b", "{tags: {env: prod}}"),
		"services/web.yaml":             service("{{ .cluster.name }}"),
		"apps/web/config.yaml.tmpl":     strings.ReplaceAll(configMap("web", "X"), "X", "{{ .parameters.v }}"),
		"apps/other/kustomization.yaml": "resources: []\n",
	})
	r.commit(map[string]string{"services/web.yaml": service("b")}) // the same for b as before
	r.commit(map[string]string{"clusters/a.yaml": document("Cluster", "a", "{tags: {env: prod, more: less}}")})
	result, err := Run(t.Context(), r.options(first))
	if err != nil {
		t.Fatal(err)
	}
	if result.Services != 2 || result.Steps != 4 || result.KeysChanged != 1 || result.OutputsChanged != 1 || result.Ratio() != 1 {
		t.Errorf("result = %+v", result)
	}
}

func TestARangeWithoutCommitsIsAnError(t *testing.T) {
	r, first := history(t)
	for _, from := range []string{"main", "nothing"} {
		if _, err := Run(t.Context(), r.options(from)); err == nil || !strings.Contains(err.Error(), "list commits "+from) {
			t.Errorf("%s: %v", from, err)
		}
	}
	_ = first
}

func TestARepositoryThatBorrowsItsObjectsIsReplayed(t *testing.T) {
	r, first := history(t)
	r.commit(map[string]string{"base/config.yaml": configMap("base", "two")})
	borrower := repo{t, filepath.Join(t.TempDir(), "borrower")}
	r.git("clone", "-q", "--shared", "--bare", r.dir, borrower.dir)
	if err := os.Remove(filepath.Join(borrower.dir, "config")); err != nil { // as some mirrors are
		t.Fatal(err)
	}
	result, err := Run(t.Context(), borrower.options(first))
	if err != nil || result.Commits != 1 || result.KeysChanged != 2 || result.OutputsChanged != 2 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestARunThatIsEndedTellsWhatItFound(t *testing.T) {
	r, first := history(t)
	r.commit(map[string]string{"base/config.yaml": configMap("base", "two")})
	r.commit(map[string]string{"base/config.yaml": configMap("base", "three")})
	o := r.options(first)
	ctx, end := context.WithCancel(t.Context())
	o.Progress = func(done, _ int, _ string) {
		if done == 2 {
			end()
		}
	}
	result, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || result == nil || result.Commits != 1 || result.OutputsChanged != 2 || result.Services != 4 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestWhatLinksLeadToIsReplayed(t *testing.T) {
	r, first := history(t)
	r.commit(map[string]string{"plain/deep/linked.yaml": "link:../../base/config.yaml"})
	r.commit(map[string]string{"base/config.yaml": configMap("base", "two")}) // base, overlay and plain
	result, err := Run(t.Context(), r.options(first))
	if err != nil || result.OutputsChanged != 4 || len(result.FalseNegatives)+len(result.FalsePositives)+len(result.Incomplete) > 0 {
		t.Errorf("%+v, %v", result, err)
	}
}
