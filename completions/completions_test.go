package completions

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/test/support/needs"
)

// clone is a folder with these files.
func clone(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const edges = `kind: Cluster
metadata: {name: edge-1}
spec: {tags: {env: prod, region: eu}}
---
kind: Cluster
metadata:
  name: edge-2
`

func TestACloneKnowsItsNames(t *testing.T) {
	look := Clone(clone(t, map[string]string{
		"clusters/all.yaml":             edges,
		"clusters/broken.yaml":          "kind: [",
		"clusters/.hidden.yaml":         edges,
		"clusters/notes.md":             "no",
		"services/web.yml":              "kind: Service\nmetadata: {name: web}\nspec: {source: {name: charts, path: x}, helm: {chart: podinfo}}\n",
		"sources/charts.yaml":           "kind: Source\nmetadata: {name: charts}\nspec: {helm: {url: https://example.com/charts}}\n",
		"access/people.yaml":            "kind: Role\nmetadata: {name: viewer}\n---\nkind: User\nmetadata: {name: ada}\n",
		"packages/db/package.yaml":      "kind: Installation\nspec: {package: postgres, version: 1.10}\n",
		"packages/README.md":            "no",
		".plural/groups/ops/members/x":  "",
		".plural/members/ada.txt":       "age1",
		".plural/members/ada.txt.swp":   "",
		"services/deep/nested/not.yaml": "kind: Service\nmetadata: {name: nested}\n",
	}))
	for kind, want := range map[Kind][]Word{
		Clusters: {{"broken", ""}, {"edge-1", "env=prod region=eu"}, {"edge-2", ""}},
		Services: {{"web", "charts x podinfo"}},
		Sources:  {{"charts", "https://example.com/charts"}},
		Users:    {{"ada", ""}},
		Packages: {{"db", "postgres 1.10"}},
		Groups:   {{"ops", ""}},
		Members:  {{"ada", ""}},
		Tags:     {{"env=prod", ""}, {"region=eu", ""}},
	} {
		got, err := look(t.Context(), kind, "")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", kind, err, diff)
		}
	}
	if words, err := look(t.Context(), Fleets, ""); err == nil {
		t.Errorf("a clone knows the fleets of a machine: %v", words)
	}
}

func TestACloneKnowsItsNewestCommits(t *testing.T) {
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "--allow-empty", "-m", "Set web to 1.2"},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	words, err := Clone(dir)(t.Context(), Commits, "")
	if err != nil || len(words) != 1 || words[0].About != "Set web to 1.2" || len(words[0].Text) < 7 {
		t.Error(words, err)
	}
}

func TestAMachineKnowsItsFleetsAndContexts(t *testing.T) {
	dir := clone(t, map[string]string{
		"local/fleet-1/fleet.json": `{"repo": "/home/me/fleet", "clusters": ["mgmt", "edge-1"]}`,
		"config":                   "contexts:\n- name: kind-a\n  context: {cluster: a}\n",
	})
	look := Machine(filepath.Join(dir, "local"), []string{filepath.Join(dir, "none"), filepath.Join(dir, "config")})
	for kind, want := range map[Kind][]Word{
		Fleets:   {{"edge-1", "/home/me/fleet"}, {"mgmt", "/home/me/fleet"}},
		Contexts: {{"kind-a", "a"}},
	} {
		got, err := look(t.Context(), kind, "")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", kind, err, diff)
		}
	}
}

// asking is a hub that counts how often it is asked.
func asking(count *int) Lookup {
	return func(context.Context, Kind, string) ([]Word, error) {
		*count++
		return []Word{{"web", "healthy"}, {"worker", ""}, {"api", ""}}, nil
	}
}

func TestTheHubIsAskedOnlyForWhatIsNotKnownHere(t *testing.T) {
	var asked int
	here := Clone(clone(t, map[string]string{"services/web.yaml": "kind: Service\nmetadata: {name: web}\n"}))
	f := &Finder{Near: []Lookup{here}, Far: asking(&asked)}
	if words := f.Find(t.Context(), Services, "x"); words != nil || asked != 0 {
		t.Errorf("%v, asked %d times", words, asked)
	}
	f.Near = nil
	if words := f.Find(t.Context(), Services, "w"); len(words) != 2 || asked != 1 {
		t.Errorf("%v, asked %d times", words, asked)
	}
}

func TestAHubsAnswerIsKeptForSomeSeconds(t *testing.T) {
	var asked int
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cache := Cache{Dir: filepath.Join(t.TempDir(), "new"), Hub: "https://a", Now: func() time.Time { return now }}
	f := &Finder{Far: asking(&asked), Cache: cache}
	first := f.Find(t.Context(), Services, "w")
	now = now.Add(4 * time.Second)
	if diff := cmp.Diff(first, f.Find(t.Context(), Services, "w")); diff != "" || asked != 1 {
		t.Errorf("asked %d times: %s", asked, diff)
	}
	f.Cache.Hub = "https://b"
	if f.Find(t.Context(), Services, "w"); asked != 2 {
		t.Errorf("another hub's answer was taken; asked %d times", asked)
	}
	now = now.Add(2 * time.Second)
	f.Cache.Hub = "https://a"
	if f.Find(t.Context(), Services, "w"); asked != 3 {
		t.Errorf("an old answer was taken; asked %d times", asked)
	}
	for i := range 3 * maxKept {
		f.Find(t.Context(), Services, fmt.Sprint(i))
	}
	if kept, err := os.ReadDir(cache.Dir); err != nil || len(kept) > maxKept {
		t.Errorf("%d answers are kept, %v", len(kept), err)
	}
}

func TestAHubThatIsSlowIsNotWaitedFor(t *testing.T) {
	f := &Finder{Far: func(ctx context.Context, _ Kind, _ string) ([]Word, error) {
		<-ctx.Done()
		<-t.Context().Done() // and it does not listen
		return nil, ctx.Err()
	}}
	started := time.Now()
	if words := f.Find(t.Context(), Services, ""); words != nil {
		t.Error(words)
	}
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestFiltersAreCompletedTermByTerm(t *testing.T) {
	list := Lists()["deployments"]
	for text, want := range map[string]struct {
		before string
		some   string
		names  Kind
	}{
		"":                        {"", "health:", Nothing},
		"env:prod !he":            {"env:prod !", "health:", Nothing},
		"health:":                 {"health:", "degraded", Nothing},
		"-health:failed,de":       {"-health:failed,", "degraded", Nothing},
		"suspended:t":             {"suspended:", "true", Nothing},
		"web cluster:edge-1,edge": {"web cluster:edge-1,", "", Clusters},
		"env:p":                   {"env:", "", Nothing},
	} {
		before, words, names := list.Filter(text)
		if before != want.before || names != want.names || want.some != "" && !slices.Contains(words, Word{Text: want.some}) {
			t.Errorf("%q: %q %v %q", text, before, words, names)
		}
	}
	if before, words := list.Sort("-health,cl"); before != "-health," || !slices.Contains(words, Word{Text: "-cluster"}) {
		t.Errorf("%q %v", before, words)
	}
}

// TestListsAreWhatTheHubSays compares with the published description of its routes.
func TestListsAreWhatTheHubSays(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "api", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, Description string }
		}
	}
	if err := json.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	words := func(path, parameter, after string) []string {
		for _, p := range api.Paths[path]["get"].Parameters {
			if p.Name == parameter {
				_, said, _ := strings.Cut(p.Description, after)
				said, _, _ = strings.Cut(strings.TrimSuffix(said, "."), ";")
				return strings.Split(said, ", ")
			}
		}
		return nil
	}
	for name, list := range Lists() {
		got := List{Keys: words("/v1/"+name, "filter", "Keys: "), Columns: words("/v1/"+name, "sort", "round: ")}
		if diff := cmp.Diff(List{Keys: list.Keys, Columns: list.Columns}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func FuzzAnyFileIsRead(f *testing.F) {
	f.Add(edges)
	f.Add("a: &a [*a]")
	f.Add("kind: Cluster\nmetadata: {name: \"\\u202e\"}\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = Clone(clone(t, map[string]string{"clusters/a.yaml": text}))(t.Context(), Clusters, "")
	})
}

// BenchmarkLargeClone is a clone of ten thousand clusters.
func BenchmarkLargeClone(b *testing.B) {
	files := map[string]string{}
	for i := range 10_000 {
		files[fmt.Sprintf("clusters/edge-%d.yaml", i)] = fmt.Sprintf("kind: Cluster\nmetadata: {name: edge-%d}\nspec: {tags: {env: prod}}\n", i)
	}
	look := Clone(clone(b, files))
	b.ResetTimer()
	for b.Loop() {
		if words, err := look(b.Context(), Clusters, ""); err != nil || len(words) != 10_000 {
			b.Fatal(len(words), err)
		}
	}
}
