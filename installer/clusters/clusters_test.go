package clusters_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/installer/clusters"
	"github.com/pluralsh/plural/installer/local"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: admin@b
clusters:
- {name: a, cluster: {server: "https://a.example"}}
- {name: b, cluster: {server: "https://b.example"}}
contexts:
- {name: edge-1, context: {cluster: a, user: u}}
- {name: admin@b, context: {cluster: b, user: u}}
- {name: broken, context: {cluster: nowhere, user: u}}
users:
- {name: u, user: {token: secret-of-the-test}}
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func reached(t *testing.T, w clusters.Locator, names string) ([]string, error) {
	t.Helper()
	found, err := w.Reach(strings.Fields(names))
	var got []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		got = append(got, name+" "+found[name].Host)
	}
	return got, err
}

func TestAClusterIsReachedByWhatIsNearestToThePerson(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "config"), kubeconfig)
	remembering := func(context string) clusters.Locator {
		w := clusters.Locator{Root: dir, Config: t.TempDir(), Kubeconfig: file}
		if err := w.Remember("edge-1", clusters.Access{Kubeconfig: file, Context: context}); err != nil {
			t.Fatal(err)
		}
		return w
	}
	locally := clusters.Locator{Root: dir, Local: t.TempDir(), Kubeconfig: file}
	fleet, err := local.At(dir, locally.Local)
	if err != nil {
		t.Fatal(err)
	}
	write(t, fleet.Kubeconfig("edge-1"), strings.Replace(kubeconfig, "b.example", "local.example", 1))
	for name, tt := range map[string]struct {
		ways     clusters.Locator
		contexts []string
		want     string
		refused  string
		fix      string
	}{
		"called like it":   {ways: clusters.Locator{Kubeconfig: file}, want: "edge-1 https://a.example"},
		"in a local fleet": {ways: locally, want: "edge-1 https://local.example"},
		"remembered":       {ways: remembering("admin@b"), want: "edge-1 https://b.example"},
		"named": {
			ways: remembering("edge-1"), contexts: []string{"edge-1=admin@b"},
			want: "edge-1 https://b.example",
		},
		"remembered, and gone": {ways: without(remembering("gone")), refused: `no longer there`, fix: "--context edge-1=CONTEXT"},
		"of another file now":  {ways: remembering("gone"), want: "edge-1 https://a.example"},
		"no such context": {
			ways: clusters.Locator{Kubeconfig: file}, contexts: []string{"edge-1=c"}, refused: `no context "c"`,
			fix: "one of admin@b, broken, edge-1",
		},
		"a cluster not wanted": {
			ways: clusters.Locator{Kubeconfig: file}, contexts: []string{"edge-3=admin@b"},
			refused: `names cluster "edge-3"`, fix: "ls clusters/",
		},
		"no cluster at all": {
			ways: clusters.Locator{Kubeconfig: file}, contexts: []string{"admin@b"},
			refused: "cannot read --context", fix: "CLUSTER=CONTEXT",
		},
		"a context that is none": {
			ways: clusters.Locator{Kubeconfig: file}, contexts: []string{"edge-1=broken"},
			refused: `context "broken"`, fix: "kubectl config view",
		},
		"a file that is not here": {
			ways: clusters.Locator{Kubeconfig: filepath.Join(dir, "none")}, refused: "read kubeconfig",
			fix: "kubectl config view",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.ways.Contexts = tt.contexts
			got, err := reached(t, tt.ways, "edge-1 edge-2")
			if tt.refused != "" {
				var known interface {
					error
					Fix() string
				}
				if err == nil || !strings.Contains(err.Error(), tt.refused) || !errors.As(err, &known) || !strings.Contains(known.Fix(), tt.fix) {
					t.Errorf("got %v, want %s", err, tt.refused)
				}
				return
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func without(w clusters.Locator) clusters.Locator {
	w.Kubeconfig = ""
	return w
}

func TestAClusterThatNothingIsKnownOfIsLeftOut(t *testing.T) {
	got, err := reached(t, clusters.Locator{Kubeconfig: write(t, filepath.Join(t.TempDir(), "config"), kubeconfig)}, "edge-2 edge-1")
	if err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAWayIsRememberedForOneCloneWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "config"), kubeconfig)
	t.Setenv("KUBECONFIG", file)
	config, way, err := clusters.Named("", "")
	if err != nil || config.Host != "https://b.example" || way != (clusters.Access{Kubeconfig: file, Context: "admin@b"}) {
		t.Fatalf("%v, %+v, %v", config, way, err)
	}
	w := clusters.Locator{Root: filepath.Join(dir, "one"), Config: filepath.Join(dir, "person")}
	if err := w.Remember("edge-2", way); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "elsewhere"))
	if got, err := reached(t, w, "edge-2"); err != nil || !slices.Equal(got, []string{"edge-2 https://b.example"}) {
		t.Errorf("%v, %v", got, err)
	}
	other := w
	other.Root = filepath.Join(dir, "two")
	if got, err := reached(t, other, "edge-2"); err != nil || len(got) > 0 {
		t.Errorf("another clone: %v, %v", got, err)
	}
	err = filepath.WalkDir(w.Config, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if info, _ := entry.Info(); info.Mode().Perm() != 0o600 || strings.Contains(string(text), "secret-of-the-test") {
			t.Errorf("%s, %s: %s", name, info.Mode(), text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Remember("../edge", way); err == nil {
		t.Error("a name that is a path is taken")
	}
}

func TestAContextOfSeveralFilesIsLookedForInAllOfThem(t *testing.T) {
	dir := t.TempDir()
	parts := strings.SplitAfter(kubeconfig, "contexts:\n")
	one := write(t, filepath.Join(dir, "one"), strings.TrimSuffix(parts[0], "contexts:\n"))
	two := write(t, filepath.Join(dir, "two"), "apiVersion: v1\nkind: Config\ncontexts:\n"+parts[1])
	t.Setenv("KUBECONFIG", one+string(filepath.ListSeparator)+two)
	_, way, err := clusters.Named("", "edge-1")
	if err != nil || way.Kubeconfig != "" {
		t.Errorf("%+v, %v", way, err)
	}
}
