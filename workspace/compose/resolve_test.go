package compose

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// snapshots are what services are made of: the installation repo, and a chart for all other sources.
type snapshots struct{ own, chart *snapshot.Snapshot }

func (s snapshots) Snapshot(source, _ string) (*snapshot.Snapshot, error) {
	if source == "" {
		return s.own, nil
	}
	return s.chart, nil
}

// TestWhatIsComposedCanBeDeployed resolves the services of the archives on every cluster: files, mounts and secrets are there.
func TestWhatIsComposedCanBeDeployed(t *testing.T) {
	for _, name := range []string{"secrets", "diamond-known", "clusters"} {
		t.Run(name, func(t *testing.T) {
			repo, _, _ := read(t, "testdata/"+name+".txtar")
			known := Outputs{"net": {"network": {Plain: map[string]any{"id": "x"}}}, "right": {"ready": {Plain: map[string]any{"host": "x"}}}}
			all, err := All(world(t, repo), known)
			if err != nil {
				t.Fatal(err)
			}
			changes := map[string][]byte{}
			for _, c := range all {
				for name, text := range c.Files {
					changes[name] = text
				}
			}
			own, chart := t.TempDir(), t.TempDir()
			if err := os.CopyFS(own, overlay.New(repo, changes)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte("apiVersion: v2\nname: web\nversion: 1.2.3\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var from snapshots
			if from.own, err = snapshot.Worktree(own); err != nil {
				t.Fatal(err)
			}
			if from.chart, err = snapshot.Worktree(chart); err != nil {
				t.Fatal(err)
			}
			f, err := fleet.Load(from.own.FS())
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for i := range f.Clusters {
				list, err := resolve.For(f, f.Clusters[i].Metadata.Name, from)
				if err != nil {
					t.Fatal(err)
				}
				n += len(list)
				for _, d := range list {
					if d.Hold != nil {
						t.Errorf("%s on %s: %v", d.Service, d.Cluster, d.Hold)
					}
				}
			}
			if n < len(f.Services) {
				t.Errorf("%d deployments of %d services", n, len(f.Services))
			}
		})
	}
}
