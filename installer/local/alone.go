package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pluralsh/plural/internal/supervise"
	"github.com/pluralsh/plural/workspace"
)

// aloneDir is the folder, among those of fleets, of the clusters that belong to none. A fleet's folder has a dash in its name.
const aloneDir = "alone"

// Alone is the place of a cluster of this machine that belongs to no fleet: a Fleet of that one cluster, without a repo, hub and
// agent.
func Alone(name, stateDir string) (Fleet, error) {
	if err := workspace.CheckName(name); err != nil { // it becomes a folder's name
		return Fleet{}, fmt.Errorf("cluster %w", err)
	}
	return Fleet{Dir: filepath.Join(stateDir, aloneDir, name)}, nil
}

// AllAlone lists the clusters below stateDir that belong to no fleet, also those that are down.
func AllAlone(stateDir string) ([]Fleet, error) {
	entries, err := os.ReadDir(filepath.Join(stateDir, aloneDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list local clusters: %w", err)
	}
	var all []Fleet
	for _, entry := range entries {
		f := Fleet{Dir: filepath.Join(stateDir, aloneDir, entry.Name())}
		if known, err := f.recall(); err == nil && len(known.Clusters) == 1 {
			all = append(all, f)
		}
	}
	return all, nil
}

// AloneOptions say what a cluster without a fleet is made of.
type AloneOptions struct {
	Name string
	// Nodes is how many nodes it simulates.
	Nodes int
	// Plural and Localkube are the absolute paths of the programs.
	Plural, Localkube string
	Reporter          Reporter
}

// Create runs one control plane at a place that Alone gave, or finds it running, and returns once it serves.
func (f Fleet) Create(ctx context.Context, o AloneOptions) error {
	if o.Nodes < 1 {
		return fmt.Errorf("%d nodes: want one at least", o.Nodes)
	}
	b := &bringUp{Fleet: f, Options: Options{
		Clusters: []string{o.Name}, Plural: o.Plural, Localkube: o.Localkube, Reporter: o.Reporter,
	}}
	dir := f.clusterDir(o.Name)
	return b.step(ctx, "control plane", func(step string) (string, error) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("make folder of cluster %s: %w", o.Name, err)
		}
		if err := f.keep(record{Clusters: []string{o.Name}}); err != nil {
			return "", err
		}
		if err := f.processes().Start(ctx, o.Plural, "local", "supervise", f.Dir); err != nil {
			return "", err
		}
		if err := f.processes().Set(supervise.Process{
			Name:    ClusterPart + o.Name,
			Command: []string{o.Localkube, "run", "--dir", dir, "--name", o.Name, "--nodes", strconv.Itoa(o.Nodes), "--with-parent"},
		}); err != nil {
			return "", err
		}
		if err := b.await(ctx, step, ClusterPart+o.Name, func() bool { return b.serves(ctx, o.Name) }); err != nil {
			return "", err
		}
		return count(o.Nodes, "node") + ", simulated: no containers run", nil
	})
}

// Delete ends a cluster that belongs to no fleet, and removes all of it.
func (f Fleet) Delete(ctx context.Context) error {
	if err := f.processes().Shutdown(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(f.Dir); err != nil {
		return fmt.Errorf("delete local cluster: %w", err)
	}
	return nil
}
