package resolve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const workspaceYAML = `apiVersion: plural.sh/v1alpha1
kind: Workspace
metadata: {name: demo}
spec: {}
`

// repos are snapshots by source name.
type repos map[string]*snapshot.Snapshot

func (r repos) Snapshot(source, _ string) (*snapshot.Snapshot, error) {
	snap, ok := r[source]
	if !ok {
		return nil, fmt.Errorf("open %q: %w", source, snapshot.ErrNotFetched)
	}
	return snap, nil
}

// write fills a folder with files; content that begins with "link:" is a symbolic link.
func write(t testing.TB, dir string, contents map[string]string) {
	t.Helper()
	for name, data := range contents {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		err := os.WriteFile(file, []byte(data), 0o644)
		if target, ok := strings.CutPrefix(data, "link:"); ok {
			err = errors.Join(os.Remove(file), os.Symlink(strings.TrimSpace(target), file))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func worktree(t testing.TB, contents map[string]string) *snapshot.Snapshot {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, contents)
	return open(t, dir)
}

func open(t testing.TB, dir string) *snapshot.Snapshot {
	t.Helper()
	snap, err := snapshot.Worktree(dir)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func load(t testing.TB, snap *snapshot.Snapshot) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Load(snap.FS())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func cluster(name, spec string) string {
	return "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

func service(name, spec string) string {
	return "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

// TestResolve resolves the installation repo of each archive, with what lies under "upstream/NAME/" as source NAME, and
// compares deployments and problems with its file "want".
func TestResolve(t *testing.T) {
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
			src, want := unpack(t, archive)
			got := describe(t, load(t, src[""]), src)
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
		})
	}
}

func unpack(t *testing.T, archive *txtar.Archive) (repos, *txtar.File) {
	t.Helper()
	contents := map[string]map[string]string{"": {"plural.yaml": workspaceYAML}}
	var want *txtar.File
	for i, f := range archive.Files {
		repo, name := "", f.Name
		if rest, ok := strings.CutPrefix(name, "upstream/"); ok {
			repo, name, _ = strings.Cut(rest, "/")
		}
		if name == "want" {
			want = &archive.Files[i]
			continue
		}
		if contents[repo] == nil {
			contents[repo] = map[string]string{}
		}
		contents[repo][name] = string(f.Data)
	}
	src := repos{}
	for repo, files := range contents {
		src[repo] = worktree(t, files)
	}
	return src, want
}

// describe prints what For gives for each cluster, and what Validate finds.
func describe(t *testing.T, f *fleet.Fleet, src Sources) string {
	t.Helper()
	var b strings.Builder
	for _, c := range f.Clusters {
		list, err := For(f, c.Metadata.Name, src)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			fmt.Fprintf(&b, "%s %s:", d.Cluster, d.Service)
			if d.Hold != nil {
				fmt.Fprintf(&b, " held: %v\n", d.Hold)
				checkHeld(t, d)
				continue
			}
			fmt.Fprintf(&b, " %s %s in %s inputs %v\n", d.Renderer, d.Path, d.Namespace, d.Inputs)
			for _, warning := range d.Warnings {
				fmt.Fprintf(&b, "  warning: %s\n", warning)
			}
			for _, name := range slices.Sorted(maps.Keys(d.Parameters)) {
				fmt.Fprintf(&b, "  %s = %q\n", name, d.Parameters[name])
			}
			for _, m := range d.Mounts {
				fmt.Fprintf(&b, "  mount %s of %q at %q: %v, own %v\n", m.At, m.Source, m.Ref, m.Inputs, m.OwnRepository)
			}
			if d.Helm != nil {
				fmt.Fprintf(&b, "  helm %s %v %s\n", d.Helm.Release, d.Helm.ValuesFiles, d.Helm.ValuesJSON)
			}
		}
	}
	b.WriteString("validate:\n")
	for _, p := range mustValidate(t, f, src) {
		fmt.Fprintln(&b, p.Error())
	}
	return b.String()
}

// mustValidate lists what is wrong.
func mustValidate(t testing.TB, f *fleet.Fleet, src Sources) []Problem {
	t.Helper()
	found, err := Validate(t.Context(), f, src)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestValidationEndsWithItsContext(t *testing.T) {
	snap := committed(t, secretive(t, "[{name: db, from: secrets/db.yaml}]"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := Validate(ctx, load(t, snap), repos{"": snap}); !errors.Is(err, context.Canceled) || found != nil {
		t.Errorf("found %v, %v", found, err)
	}
}

func checkHeld(t *testing.T, d Deployment) {
	t.Helper()
	if d.Key != "" || d.Bundle != "" || len(d.Mounts) > 0 {
		t.Errorf("%s is held and has a key", d.Service)
	}
}

func TestForRefusesAnUnknownCluster(t *testing.T) {
	snap := worktree(t, map[string]string{"plural.yaml": workspaceYAML})
	if _, err := For(load(t, snap), "gone", repos{"": snap}); err == nil {
		t.Error("no error")
	}
}

func TestSettingsFallBackToTheWorkspaceThenToSafety(t *testing.T) {
	snap := worktree(t, map[string]string{
		"plural.yaml": strings.Replace(workspaceYAML, "spec: {}", "spec: {defaults: {sync: {prune: false, deletionBudget: 7}}}", 1),
		"clusters/c":  "", "clusters/c.yaml": cluster("c", "{}"),
		"services/a.yaml": service("a", "{source: {path: a}, clusters: {names: [c]}}"),
		"services/b.yaml": service("b", "{source: {path: a}, clusters: {names: [c]}, namespace: ns, sync: {prune: true, selfHeal: false, deletionBudget: 20%}}"),
		"a/x.yaml":        "",
	})
	list, err := For(load(t, snap), "c", repos{"": snap})
	if err != nil {
		t.Fatal(err)
	}
	type sync struct {
		Prune, SelfHeal   bool
		Budget, Namespace string
	}
	var got []sync
	for _, d := range list {
		got = append(got, sync{d.Prune, d.SelfHeal, d.DeletionBudget, d.Namespace})
	}
	want := []sync{{false, true, "7", "default"}, {true, false, "20%", "ns"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// keyOf resolves the only service of cluster c.
func keyOf(t testing.TB, snap *snapshot.Snapshot) string {
	t.Helper()
	list, err := For(load(t, snap), "c", repos{"": snap})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d deployments, %v", len(list), err)
	}
	if list[0].Hold != nil {
		t.Fatal(list[0].Hold)
	}
	return list[0].Key
}

func TestKeyChangesWithEverythingTheRenderSees(t *testing.T) {
	base := map[string]string{
		"plural.yaml":      workspaceYAML,
		"clusters/c.yaml":  cluster("c", "{tags: {env: prod}}"),
		"services/a.yaml":  service("a", `{source: {path: chart}, clusters: {names: [c]}, parameters: {a: "{{ .cluster.tags.env }}"}, helm: {values: {x: 1}, valuesFiles: [v1.yaml, v2.yaml]}}`),
		"chart/Chart.yaml": "name: chart", "chart/values.yaml": "", "v1.yaml": "", "v2.yaml": "", "other/x.yaml": "",
	}
	seen := map[string]string{keyOf(t, worktree(t, base)): "base"}
	change := func(file, old, with string) map[string]string {
		files := maps.Clone(base)
		files[file] = strings.Replace(files[file], old, with, 1)
		if files[file] == base[file] {
			t.Fatalf("nothing changed in %s", file)
		}
		return files
	}
	for name, files := range map[string]map[string]string{
		"file":         change("chart/values.yaml", "", "a: 1"),
		"values file":  change("v1.yaml", "", "a: 1"),
		"files order":  change("services/a.yaml", "v1.yaml, v2.yaml", "v2.yaml, v1.yaml"),
		"helm value":   change("services/a.yaml", "x: 1", `x: "1"`),
		"cluster fact": change("clusters/c.yaml", "prod", "dev"),
		"parameter":    change("services/a.yaml", "{a:", "{b:"),
		"namespace":    change("services/a.yaml", "{source", "{namespace: n, source"),
		"name":         change("services/a.yaml", "name: a", "name: b"),
		"release":      change("services/a.yaml", "helm: {", "helm: {release: r, "),
		"renderer":     change("services/a.yaml", "chart}", "chart}, include: [other]"),
	} {
		key := keyOf(t, worktree(t, files))
		if same, taken := seen[key]; taken {
			t.Errorf("changing the %s gives the key of %s", name, same)
		}
		seen[key] = name
	}
	if key := keyOf(t, worktree(t, change("other/x.yaml", "", "new"))); seen[key] != "base" {
		t.Error("a file elsewhere changed the key")
	}
}

// TestBundleKeyIsWhatTheReceiverRecomputes holds this side of the contract with api/bundle.
func TestBundleKeyIsWhatTheReceiverRecomputes(t *testing.T) {
	snap := worktree(t, map[string]string{
		"plural.yaml":                    workspaceYAML,
		"clusters/c.yaml":                cluster("c", "{}"),
		"services/a.yaml":                service("a", "{source: {path: apps/prod}, clusters: {names: [c]}}"),
		"apps/prod/kustomization.yaml":   "resources: [../base]\npatches: [{path: ../patch.yaml}]\n",
		"apps/base/kustomization.yaml":   "resources: [x.yaml, deep/er]\n",
		"apps/base/x.yaml":               "a: 1\n",
		"apps/base/deep/er/readme":       "x",
		"apps/patch.yaml":                "b: 1\n",
		"apps/not-an-input/secret.yaml":  "c: 1\n",
		"apps/base/deep/er/x/script.yml": "d: 1\n",
	})
	list, err := For(load(t, snap), "c", repos{"": snap})
	if err != nil || list[0].Hold != nil {
		t.Fatal(err, list[0].Hold)
	}
	d := list[0]
	var packed strings.Builder
	if err := bundle.Pack(&packed, d.Snapshot.FS(), d.Inputs, bundle.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	unpacked, err := bundle.Unpack(strings.NewReader(packed.String()), bundle.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	key, err := unpacked.Key(d.Inputs)
	if err != nil || key != d.Bundle {
		t.Errorf("the receiver finds %q, %v; want %q", key, err, d.Bundle)
	}
}

func TestAFileThatIsTooLargeHoldsTheServicesThatReadItAndNoOther(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"plural.yaml":           workspaceYAML,
		"clusters/one.yaml":     cluster("one", "{}"),
		"services/reads.yaml":   service("reads", "{source: {path: apps}, renderer: raw, clusters: {names: [one]}}"),
		"services/mounts.yaml":  service("mounts", "{source: {path: web}, renderer: raw, clusters: {names: [one]}, mounts: [{source: {path: apps/images}, at: x}]}"),
		"services/leaves.yaml":  service("leaves", "{source: {path: apps}, renderer: raw, clusters: {names: [one]}, exclude: [\"*.img\"]}"),
		"services/aside.yaml":   service("aside", "{source: {path: web}, renderer: raw, clusters: {names: [one]}}"),
		"apps/a.yaml":           "a: 1\n",
		"web/a.yaml":            "a: 1\n",
		"apps/images/disk.yaml": "",
		"apps/images/disk.img":  "",
	})
	for _, name := range []string{"disk.yaml", "disk.img"} {
		if err := os.Truncate(filepath.Join(dir, "apps", "images", name), snapshot.MaxBlob+1); err != nil {
			t.Fatal(err)
		}
	}
	held := func() string {
		snap := open(t, dir)
		list, err := For(load(t, snap), "one", repos{"": snap})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for i := range list {
			if p := list[i].Hold; p != nil {
				told = append(told, fmt.Sprintf("%s: %s: %s", p.Service, p.Position, p.Message))
			}
		}
		return strings.Join(told, "\n")
	}
	const size = ` has 33554433 bytes, and a file that a service reads may have 33554432`
	want := `leaves: apps/images/disk.yaml: "apps/images/disk.yaml"` + size + `
mounts: apps/images/disk.img: "apps/images/disk.img"` + size + `
reads: apps/images/disk.yaml: "apps/images/disk.yaml"` + size
	if got := held(); got != want {
		t.Errorf("held:\n%s\nwant:\n%s", got, want)
	}
	if err := os.Truncate(filepath.Join(dir, "apps", "images", "disk.yaml"), 0); err != nil {
		t.Fatal(err)
	}
	if got := held(); strings.Contains(got, "reads:") || strings.Contains(got, "leaves:") || !strings.Contains(got, "mounts:") {
		t.Errorf("raw services read no image; held:\n%s", got)
	}
}
