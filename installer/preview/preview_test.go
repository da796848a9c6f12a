package preview_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// one is the only repository there is.
type one struct{ files *snapshot.Snapshot }

func (o one) Snapshot(string, string) (*snapshot.Snapshot, error) { return o.files, nil }

func TestParametersThatNobodyReadsMakeNoOtherInput(t *testing.T) {
	tests := map[string]struct {
		file, spec string
		same       bool
	}{
		"plain manifests":      {"app/cm.yaml", "parameters: {name: '{{ .cluster.name }}'}", true},
		"a template":           {"app/cm.yaml.tmpl", "parameters: {name: '{{ .cluster.name }}'}", false},
		"values that use them": {"app/Chart.yaml", "helm: {values: {name: '{{ .cluster.name }}'}}", false},
		"values that do not":   {"app/Chart.yaml", "parameters: {name: '{{ .cluster.name }}'}, helm: {values: {name: x}}", true},
		"nothing of a cluster": {"app/cm.yaml.tmpl", "parameters: {name: x}", true},
		"how they are deleted": {"app/cm.yaml", "sync: {prune: false}", true},
		"tests with parameters": {
			"app/cm.yaml", "tests: [{name: t, http: {service: web, port: 80, path: '/{{ .cluster.name }}'}}]",
			true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"plural.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n",
				"clusters/all.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: a}\n---\n" +
					"apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: b}\n",
				"services/web.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: web}\n" +
					"spec: {source: {path: app}, clusters: {names: [a, b]}, " + tt.spec + "}\n",
				tt.file: "apiVersion: v2\nname: app\nversion: 0.1.0\n",
			} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			snap, err := snapshot.Worktree(dir)
			if err != nil {
				t.Fatal(err)
			}
			f, err := fleet.Load(snap.FS())
			if err != nil {
				t.Fatal(err)
			}
			var inputs preview.Inputs
			var got []string
			for _, cluster := range []string{"a", "b"} {
				list, err := resolve.For(f, cluster, one{snap})
				if err != nil || len(list) != 1 || list[0].Hold != nil {
					t.Fatal(list, err)
				}
				got = append(got, inputs.Of(&list[0]))
			}
			if same := got[0] == got[1]; same != tt.same {
				t.Errorf("the same: %v, want %v\n%s\n%s", same, tt.same, got[0], got[1])
			}
		})
	}
}
