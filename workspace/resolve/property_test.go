package resolve

import (
	"fmt"
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
		found, fault := r.filesOf(serviceAt(fmt.Sprintf("f%d", i)), snap)
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
			return &Deployment{
				Bundle: word.Draw(rt, label), Service: word.Draw(rt, label), Path: word.Draw(rt, label),
				Parameters: rapid.MapOfN(word, word, 0, 2).Draw(rt, label),
				Helm:       &Helm{Release: word.Draw(rt, label), ValuesFiles: rapid.SliceOfN(word, 0, 2).Draw(rt, label)},
				Secrets:    rapid.SliceOfN(rapid.Custom(secret), 0, 2).Draw(rt, label), SecretsBundle: word.Draw(rt, label),
				OwnRepository: rapid.Bool().Draw(rt, label),
			}
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
