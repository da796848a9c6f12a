package resolve

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

func serviceAt(dir string) *fleet.Service {
	return &fleet.Service{Metadata: fleet.Metadata{Name: "x"}, Spec: fleet.ServiceSpec{Source: fleet.SourceRef{Path: dir}}}
}

// TestOnlyChangesInsideTheInputsChangeTheKey makes repositories of folders whose kustomizations refer to each other at
// random, changes one file, and expects a new bundle key exactly for the folders from which that file is reached.
func TestOnlyChangesInsideTheInputsChangeTheKey(t *testing.T) {
	const folders = 6
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		edges := make([][]int, folders)
		for i := range edges {
			edges[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, folders-1), 0, 3, rapid.ID).Draw(rt, "refers to")
			var refs strings.Builder
			for _, to := range edges[i] {
				fmt.Fprintf(&refs, "- ../f%d\n", to)
			}
			write(t, dir, map[string]string{
				fmt.Sprintf("f%d/kustomization.yaml", i): "resources:\n- x.yaml\n" + refs.String(),
				fmt.Sprintf("f%d/x.yaml", i):             "a: 1\n",
			})
		}
		before := keys(rt, open(t, dir), folders)
		changed := rapid.IntRange(0, folders-1).Draw(rt, "changed")
		write(t, dir, map[string]string{filepath.Join(fmt.Sprintf("f%d", changed), "x.yaml"): "a: 2\n"})
		after := keys(rt, open(t, dir), folders)
		for i := range folders {
			if got, want := before[i] != after[i], slices.Contains(reach(edges, i), changed); got != want {
				rt.Fatalf("f%d changed after a change of f%d: %v, want %v", i, changed, got, want)
			}
		}
	})
}

func keys(rt *rapid.T, snap *snapshot.Snapshot, n int) []string {
	r, list := New(), make([]string, n)
	for i := range list {
		found, fault := r.filesOf(serviceAt(fmt.Sprintf("f%d", i)), &view{repo: snap})
		if fault != nil {
			rt.Fatal(fault.message)
		}
		list[i] = found.bundle
	}
	return list
}

func reach(edges [][]int, from int) []int {
	seen := []int{from}
	for i := 0; i < len(seen); i++ {
		for _, to := range edges[seen[i]] {
			if !slices.Contains(seen, to) {
				seen = append(seen, to)
			}
		}
	}
	return seen
}

// TestKeyEncodingIsInjective moves text between fields that stand side by side.
func TestKeyEncodingIsInjective(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.StringMatching(`[ab:0-9]{0,3}`)
		draw := func(label string) *Deployment {
			d := &Deployment{
				Bundle: word.Draw(rt, label), Service: word.Draw(rt, label), Path: word.Draw(rt, label),
				Parameters: rapid.MapOfN(word, word, 0, 2).Draw(rt, label),
				Helm:       &Helm{Release: word.Draw(rt, label), ValuesFiles: rapid.SliceOfN(word, 0, 2).Draw(rt, label)},
				Secrets:    rapid.SliceOfN(rapid.Custom(secret), 0, 2).Draw(rt, label), SecretsBundle: word.Draw(rt, label),
				OwnRepository: rapid.Bool().Draw(rt, label),
				Mounts:        rapid.SliceOfN(rapid.Custom(mount), 0, 2).Draw(rt, label),
			}
			d.Helm.Lookup, d.Helm.Record, d.Helm.SkipCRDs = rapid.Bool().Draw(rt, label), rapid.Bool().Draw(rt, label), rapid.Bool().Draw(rt, label)
			if d.Helm.Lookup { // else it is how the objects are applied
				d.ServiceAccount = word.Draw(rt, label)
			}
			return d
		}
		a, b := draw("a"), draw("b")
		same := cmp.Equal(a, b, cmpopts.EquateEmpty())
		if (deploymentKey(a) == deploymentKey(b)) != same {
			rt.Fatalf("%+v\n%+v", a, b)
		}
	})
}

func secret(rt *rapid.T) Secret {
	word := rapid.StringMatching(`[ab:0-9]{0,2}`)
	return Secret{word.Draw(rt, "name"), word.Draw(rt, "path"), rapid.Bool().Draw(rt, "template only"), word.Draw(rt, "type")}
}

func mount(rt *rapid.T) Mount {
	word := rapid.StringMatching(`[ab:0-9]{0,2}`)
	return Mount{At: word.Draw(rt, "at"), Bundle: word.Draw(rt, "bundle"), OwnRepository: rapid.Bool().Draw(rt, "own")}
}

func TestAServiceWithoutNewSettingsKeepsTheKeyItHadBefore(t *testing.T) {
	d := &Deployment{
		Bundle: "b1-x", Renderer: rendererKustomize, Service: "web", Path: "apps/web", Namespace: "shop",
		Parameters: map[string]string{"a": "1"}, Helm: &Helm{Release: "web", ValuesFiles: []string{"v.yaml"}}, OwnRepository: true,
		Secrets: []Secret{{"db", "secrets/db.yaml", true, "Opaque"}}, SecretsBundle: "b1-y",
	}
	if key := deploymentKey(d); key != "d2-13bee8057c3046e1720f039212b7613af6d412516ae392921dbb5ee87e615809" {
		t.Errorf("%s: every cluster would render again", key)
	}
}

// world is three repositories of small folders, by source.
type world map[string]map[string]string

// TestTheKeyOfAServiceWithMountsChangesWithWhatTheRenderSees mounts folders and files of several repositories at random,
// changes something, and expects a new key exactly when what is seen under the mounts or in the service is another.
func TestTheKeyOfAServiceWithMountsChangesWithWhatTheRenderSees(t *testing.T) {
	written := disk{t, map[string]*snapshot.Snapshot{}}
	rapid.Check(t, func(rt *rapid.T) {
		content := world{"": {"app/cm.yaml": "a: 1"}, "a": {}, "b": {}}
		for source := range content {
			for _, name := range []string{"f/x", "f/deep/y", "g/x"} {
				content[source][name] = rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "content")
			}
		}
		s := serviceAt("app")
		at := rapid.Permutation([]string{"m", "app/m", "n/m"}).Draw(rt, "at")
		for i := range rapid.IntRange(0, 3).Draw(rt, "mounts") {
			s.Spec.Mounts = append(s.Spec.Mounts, fleet.Mount{At: at[i], Source: fleet.SourceRef{
				Name: rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "source"),
				Path: rapid.SampledFrom([]string{"f", "f/x", "f/deep", "g"}).Draw(rt, "path"),
			}})
		}
		r := New()
		before, saw := written.keyIn(r, s, content), sees(s, content)
		switch rapid.SampledFrom([]string{"content", "new file", "order", "at"}).Draw(rt, "change") {
		case "content":
			source := rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "in")
			content[source][rapid.SampledFrom([]string{"f/x", "f/deep/y", "g/x"}).Draw(rt, "file")] = "2"
		case "new file":
			source := rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "in")
			content[source][rapid.SampledFrom([]string{"f/z", "f/deep/z", "z", "app/z"}).Draw(rt, "file")] = "3"
		case "order":
			slices.Reverse(s.Spec.Mounts)
		case "at":
			if len(s.Spec.Mounts) > 0 {
				s.Spec.Mounts[0].At = "elsewhere"
			}
		}
		after, sawLater := written.keyIn(r, s, content), sees(s, content)
		if (before == after) != cmp.Equal(saw, sawLater) {
			rt.Fatalf("keys %s and %s for\n%v\n%v", before, after, saw, sawLater)
		}
	})
}

// disk holds repositories by their content, so that each is written once.
type disk struct {
	*testing.T
	snapshots map[string]*snapshot.Snapshot
}

// keyIn resolves a service with a Resolver that knows what it resolved before.
func (d disk) keyIn(r *Resolver, s *fleet.Service, content world) string {
	d.Helper()
	src := repos{}
	for source, files := range content {
		name := fmt.Sprint(files)
		if d.snapshots[name] == nil {
			d.snapshots[name] = worktree(d, files)
		}
		src[source] = d.snapshots[name]
	}
	found := r.deployment(&fleet.Fleet{}, s, &fleet.Cluster{Metadata: fleet.Metadata{Name: "c"}}, src)
	if found.Hold != nil {
		d.Fatal(found.Hold)
	}
	return found.Key
}

// sees is the render's input by this test's own reckoning: what lies at each path, and whose it is. Of its own folder the
// renderer raw reads manifests alone.
func sees(s *fleet.Service, content world) map[string]string {
	seen := map[string]string{}
	lay := func(source, dir, at string) {
		for name, text := range content[source] {
			if inside, ok := strings.CutPrefix(name, dir+"/"); ok {
				seen[at+"/"+inside] = source + ":" + text
			} else if name == dir {
				seen[at+"/"+filepath.Base(name)] = source + ":" + text
			}
		}
	}
	lay("", "app", "app")
	maps.DeleteFunc(seen, func(name, _ string) bool { return !isManifest(name) })
	for _, m := range s.Spec.Mounts {
		lay(m.Source.Name, m.Source.Path, m.At)
	}
	return seen
}

func TestReduceKeepsOnlyOutermostPaths(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"a/b a a/b/c", "a"},
		{"a-b a a/b", "a a-b"},
		{"a/b a/c a/b", "a/b a/c"},
		{"x . y/z", "."},
	} {
		if got := strings.Join(reduce(strings.Fields(test.in)), " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.in, got, test.want)
		}
	}
}
