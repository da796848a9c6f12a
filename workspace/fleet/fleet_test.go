package fleet

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/pluralsh/plural/internal/selector"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const workspaceYAML = `apiVersion: plural.sh/v1alpha1
kind: Workspace
metadata: {name: demo}
spec: {}
`

// repo makes a repository with a valid plural.yaml, and files as given over it.
func repo(files map[string]string) fs.FS {
	m := fstest.MapFS{"plural.yaml": {Data: []byte(workspaceYAML)}}
	for name, data := range files {
		m[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return m
}

func service(name, spec string) string {
	return "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

// TestLoadErrors loads the repository of each archive and compares all that is reported with its file "want".
func TestLoadErrors(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives in testdata: %v", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files, want := fstest.MapFS{}, -1
			for i, f := range archive.Files {
				if f.Name == "want" {
					want = i
					continue
				}
				files[f.Name] = &fstest.MapFile{Data: f.Data}
			}
			got := "ok\n"
			if _, err := Load(files); err != nil {
				got = err.Error() + "\n"
			}
			if *update {
				archive.Files[want].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(archive.Files[want].Data), got); diff != "" {
				t.Errorf("errors differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadGivesEverythingSortedWithPlaces(t *testing.T) {
	f, err := Load(repo(map[string]string{
		"README.md":             "# not ours",
		"clusters/.hidden.yaml": "{",
		"clusters/README.md":    "{",
		"clusters/all.yml": `
apiVersion: plural.sh/v1alpha1
kind: Cluster
metadata: {name: west}
spec: {tags: {env: prod}}
---
# nothing here
---
apiVersion: plural.sh/v1alpha1
kind: Cluster
metadata: {name: east}
`,
		"services/web.yaml": service("web", `
  source: {path: apps/web}
  clusters: {matchLabels: {env: prod}}
  parameters: &p {replicas: "3"}
  helm:
    values: {big: 9007199254740993, list: [1.5, ~, "yes", true], nested: {at: 2020-01-01}}
  sync: {prune: false, deletionBudget: 10}
`),
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(f.Clusters, clusterName); !cmp.Equal(got, []string{"east", "west"}) {
		t.Errorf("clusters = %v", got)
	}
	s, ok := f.Service("web")
	if !ok {
		t.Fatal("service web is missing")
	}
	want := map[string]any{
		"big": 9007199254740993, "list": []any{1.5, nil, "yes", true}, "nested": map[string]any{"at": "2020-01-01"},
	}
	if diff := cmp.Diff(want, s.Spec.Helm.Values); diff != "" {
		t.Error(diff)
	}
	if got, want := s.Fields["spec.source.path"], (Position{File: "services/web.yaml", Line: 5, Column: 18}); got != want {
		t.Errorf("spec.source.path at %v, want %v", got, want)
	}
	if *s.Spec.Sync.Prune || s.Spec.Sync.SelfHeal != nil || s.Spec.Sync.DeletionBudget != "10" {
		t.Errorf("sync = %+v", s.Spec.Sync)
	}
	if _, ok := f.Cluster("north"); ok {
		t.Error("found a cluster that is not there")
	}
}

// Whatever takes a bomb apart does not end before the test's time does.
func TestLoadRefusesHostileDocuments(t *testing.T) {
	bomb := "apiVersion: plural.sh/v1alpha1\nkind: Service\nx0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("x%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	longKey := strings.Repeat("k", 1<<18)
	for name, test := range map[string]struct{ text, want string }{
		"alias bomb":        {bomb, "more than 1000 uses of aliases"},
		"alias cycle":       {service("x", "&s {source: {path: a}, clusters: *s}"), "stands inside the value"},
		"deep":              {strings.Repeat("[", 5000), "not YAML"},
		"deep and complete": {strings.Repeat("[", 500) + strings.Repeat("]", 500), "nested more than 100"},
		"wide":              {"a: [" + strings.Repeat("1,", yamlstrict.MaxNodes) + "1]", "more than 100000 values"},
		"large":             {strings.Repeat("#", MaxFile+1), "larger than 1 MiB"},
		"empty documents":   {strings.Repeat("---\n", MaxFile/4), "more than 100000 documents"},
		"documents":         {strings.Repeat("--- {}\n", MaxDocuments+1), "more errors are not shown"},
		"long keys": {service("x", "{source: {path: a}, clusters: {}, helm: {values: {? "+longKey+" : {? "+longKey+" : ["+
			strings.Repeat("yes,", 9_000)+"]}}}}"), "more errors are not shown"},
		"not UTF-8": {"a: \xff\xfe", "not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(repo(map[string]string{"services/x.yaml": test.text}))
			var all Errors
			if !errors.As(err, &all) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error = %.300v, want one with %q", err, test.want)
			}
			if len(err.Error()) > 1<<20 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestLoadRefusesWhatIsNotARegularFile(t *testing.T) {
	fsys := fstest.MapFS{
		"plural.yaml":        {Data: []byte(workspaceYAML)},
		"services/link.yaml": {Data: []byte("../etc"), Mode: fs.ModeSymlink},
		"services/sub.yaml":  {Mode: fs.ModeIrregular},
	}
	_, err := Load(fsys)
	want := "services/link.yaml: not a regular file: put the file itself here\n" +
		"services/sub.yaml: not a regular file: put the file itself here"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestErrorsCarryNoControlCharacters(t *testing.T) {
	_, err := Load(repo(map[string]string{
		"services/\x1b[31mred.yaml": service("x", `{source: {path: a, "\e[2J\u202e": 1}, clusters: {}, parameters: {"\e]0;": 1}}`),
	}))
	if err == nil {
		t.Fatal("no error")
	}
	if strings.ContainsAny(err.Error(), "\x1b\u202e") {
		t.Errorf("error holds control characters: %q", err)
	}
}

func TestErrorsNeverRepeatACredential(t *testing.T) {
	for _, url := range []string{
		"https://user:hunter2@example.com/x", "https://hunter2@example.com/x", "ssh://git:hunter2@example.com/x", "hunter2://%zz", "https://u:hunter2@[::1",
	} {
		_, err := Load(repo(map[string]string{
			"sources/x.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: x}\nspec: {git: {url: '" + url + "'}}",
		}))
		if err == nil || (strings.Contains(err.Error(), "hunter2@") || strings.Contains(err.Error(), ":hunter2")) {
			t.Errorf("%s: error = %v", url, err)
		}
	}
}

func TestSelector(t *testing.T) {
	c := &Cluster{Metadata: Metadata{Name: "eu"}, Spec: ClusterSpec{Tags: map[string]string{"env": "prod", "empty": ""}}}
	require := func(key, op string, values ...string) Selector {
		return Selector{MatchExpressions: []Requirement{{Key: key, Operator: op, Values: values}}}
	}
	for _, test := range []struct {
		name string
		s    Selector
		want bool
	}{
		{"empty picks nothing", Selector{}, false},
		{"name", Selector{Names: []string{"us", "eu"}}, true},
		{"other name", Selector{Names: []string{"us"}}, false},
		{"label", Selector{MatchLabels: map[string]string{"env": "prod"}}, true},
		{"other value", Selector{MatchLabels: map[string]string{"env": "dev"}}, false},
		{"missing label is not empty", Selector{MatchLabels: map[string]string{"gone": ""}}, false},
		{"name and label must both hold", Selector{Names: []string{"eu"}, MatchLabels: map[string]string{"env": "dev"}}, false},
		{"in", require("env", selector.In, "dev", "prod"), true},
		{"in without the tag", require("gone", selector.In, "dev"), false},
		{"not in", require("env", selector.NotIn, "prod"), false},
		{"not in without the tag", require("gone", selector.NotIn, "prod"), true},
		{"exists", require("empty", selector.Exists), true},
		{"does not exist", require("empty", selector.DoesNotExist), false},
	} {
		if got := test.s.Matches(c); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(service("web", "{source: {path: a}, clusters: {names: [x]}, helm: {values: {a: [1, yes, 1e400, .nan, !!binary aa]}}}")))
	f.Add([]byte(service("web", whole)))
	f.Add([]byte("a: &a [*a]\n<<: *a\n? [k]\n: v\n"))
	f.Add([]byte("<<<<<<< HEAD\n"))
	const head = "apiVersion: plural.sh/v1alpha1\nkind: "
	f.Add([]byte(head + "User\nmetadata: {name: ada}\nspec: {groups: [a], tokens: [{name: b, hash: plural_0123456789abcdefghij, expires: x}]}\n---\n" +
		head + "Role\nmetadata: {name: r}\nspec: {fleet: [view], kubernetes: [{verbs: [get], resources: [pods/*], clusters: {names: [x]}}]}\n---\n" +
		head + "RoleBinding\nmetadata: {name: b}\nspec: {role: r, users: [ada]}\n"))
	f.Add([]byte(head + "Sink\nmetadata: {name: s}\nspec: {webhook: {url: \"https://a\", secret: b}}\n---\n" +
		head + "Route\nmetadata: {name: r}\nspec: {sink: s, every: 5m, services: {names: [x]}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fleet, err := Load(repo(map[string]string{"services/x.yaml": string(data), "clusters/y.yaml": string(data), "access/z.yaml": string(data), "notify/z.yaml": string(data)}))
		var all Errors
		if err != nil && !errors.As(err, &all) {
			t.Fatalf("error is not one of input: %v", err)
		}
		for _, e := range all {
			if strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("control character in %q", e.Error())
			}
			if rawToken().MatchString(e.Message + " " + e.Fix) {
				t.Errorf("token in %q", e.Error())
			}
		}
		if (fleet == nil) == (err == nil) {
			t.Fatal("want either a fleet or an error")
		}
	})
}

func TestLoadPassesOnErrorsOfReading(t *testing.T) {
	_, err := Load(unreadable{repo(map[string]string{"services/x.yaml": ""})})
	var mistakes Errors
	if !errors.Is(err, errDisk) || errors.As(err, &mistakes) {
		t.Errorf("error = %v, want the reader's own", err)
	}
}

var errDisk = errors.New("disk is gone")

// unreadable lists files that cannot be opened.
type unreadable struct{ fs.FS }

func (u unreadable) Open(name string) (fs.File, error) {
	if strings.HasPrefix(name, "services/") {
		return nil, errDisk
	}
	return u.FS.Open(name)
}

func TestLoadWorkspaceLooksAtNoOtherFile(t *testing.T) {
	files := repo(map[string]string{"services/x.yaml": "nonsense: ["})
	if _, err := Load(files); err == nil {
		t.Fatal("the mistake is none")
	}
	w, err := LoadWorkspace(files)
	if err != nil || w.Metadata.Name == "" {
		t.Errorf("LoadWorkspace = %v, %v", w, err)
	}
	var mistakes Errors
	if _, err := LoadWorkspace(fstest.MapFS{}); !errors.As(err, &mistakes) {
		t.Errorf("LoadWorkspace of nothing: %v", err)
	}
}
