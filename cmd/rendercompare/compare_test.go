package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/needs"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// tool is a program that make builds.
func tool(t *testing.T, name string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", "..", ".tools", name))
	if err != nil {
		t.Fatal(err)
	}
	return needs.Program(t, file, "it: make .tools/"+name)
}

// asked are options for the repository in testdata, committed.
func asked(t *testing.T) options {
	t.Helper()
	needs.Program(t, "git", "git")
	archive, err := txtar.ParseFile("testdata/repository.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range archive.Files {
		name := filepath.Join(dir, file.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, file.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "all"}, {"config", "filter.shout.smudge", "tr a-z A-Z"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a",
			"GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	// What a clone is set up to do with files on their way out, as with sealed ones, is not done here.
	if err := os.WriteFile(filepath.Join(dir, ".git", "info", "attributes"), []byte("* filter=shout\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return options{
		repo: dir, rev: "HEAD", kustomize: tool(t, "kustomize"), helm: tool(t, "helm"), kubeVersion: "v1.36.2", jobs: 2, limit: time.Minute,
	}
}

func compared(t *testing.T, o options) *report {
	t.Helper()
	made, err := compareRepository(t.Context(), o, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func verdictsOf(r *report) map[string]verdict {
	found := map[string]verdict{}
	for _, each := range r.Results {
		found[each.Renderer+" "+each.String()] = each.Verdict
	}
	return found
}

func TestEveryKustomizationAndChartGetsAVerdict(t *testing.T) {
	o := asked(t)
	o.timed = true
	made := compared(t, o)
	want := map[string]verdict{
		"kustomize apps/both-fail": bothFail, "kustomize apps/equal": equal, "kustomize apps/ours-fails": oursFails,
		"kustomize apps/theirs-fails": theirsFails, "helm charts/parent": equal, "helm charts/random": unpredictable,
		"helm charts/web": equal, "helm charts/web with many-values.yaml": equal,
	}
	if diff := cmp.Diff(want, verdictsOf(made)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	var out bytes.Buffer
	if err := made.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"kustomize       1           1            1              1         0                   0",
		"kustomize, ours fails: 1", "Git LFS pointer", "ours: apps/ours-fails/picture.png",
		"theirs: accumulating resources",
		"helm prints something else each time: other value: .stringData.*",
		"hooks of a rollback are left out", "kustomize, median of one", "helm, all with what fails",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the report lacks %q:\n%s", line, &out)
		}
	}
}

// The same program told something else stands for one that renders otherwise.
func TestAProgramThatRendersOtherwiseIsToldOf(t *testing.T) {
	o := asked(t)
	script := filepath.Join(t.TempDir(), "helm")
	text := "#!/bin/sh\nif [ \"$1\" = template ]; then set -- \"$@\" --set replicas=2,user=root; fi\nexec '" + o.helm + "' \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	o.helm, o.paths = script, []string{"charts/web", "charts/random/"}
	made := compared(t, o)
	want := map[string]verdict{"helm charts/random": differs, "helm charts/web": differs, "helm charts/web with many-values.yaml": differs}
	if diff := cmp.Diff(want, verdictsOf(made)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	wants := []difference{
		{Object: "v1 Secret random", Field: ".stringData.user", Ours: "a secret", Theirs: "another one", Class: "other value"},
		{Object: "apps/v1 Deployment release", Field: ".spec.replicas", Ours: "1", Theirs: "2", Class: "other value"},
		{Object: "apps/v1 Deployment release", Field: ".spec.replicas", Ours: "3", Theirs: "2", Class: "other value"},
	}
	for i, each := range made.Results {
		if diff := cmp.Diff([]difference{wants[i]}, each.Differences); diff != "" {
			t.Errorf("%s (-want +got):\n%s", each.item, diff)
		}
	}
}

func TestAProgramThatDoesNotEndIsNotWaitedFor(t *testing.T) {
	o := asked(t)
	script := filepath.Join(t.TempDir(), "kustomize")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = version ] && exec echo v5\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	o.kustomize, o.limit, o.paths = script, 5*time.Second, []string{"apps/equal"}
	made := compared(t, o)
	if len(made.Results) != 1 || made.Results[0].Verdict != theirsFails || made.Results[0].TheirsError != "takes longer than 5s" {
		t.Errorf("results are %+v", made.Results)
	}
}

func TestArgumentsThatMeanNothingAreRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"no repository":    {},
		"unknown format":   {"-repo", ".", "-format", "xml"},
		"no jobs":          {"-repo", ".", "-jobs", "0"},
		"no such program":  {"-repo", ".", "-kustomize", "./missing"},
		"no such commit":   {"-repo", ".", "-rev", "no-such-branch"},
		"no such argument": {"-wrong"},
	} {
		if err := run(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
