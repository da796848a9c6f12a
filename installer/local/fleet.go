// Package local owns a fleet on this machine: control planes, a hub, agents, with a folder of their own.
//
// It brings the fleet up step by step, each of which finds out what is there already, so a second Up goes on where the
// first was interrupted. What runs is left to a supervisor that outlives the command; what the fleet runs is left to
// the installation repo, whose origin is a bare repository beside it. It prints nothing: a Reporter hears of steps.
package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/supervise"
)

// Fleet is a local fleet's place on disk.
type Fleet struct {
	// Repo is the installation repo's folder, absolute.
	Repo string
	// Dir holds all else: the fleet's origin, data, logs.
	Dir string
}

// At returns the local fleet of the installation repo in repoDir, which need not exist; stateDir is where local fleets
// are kept.
func At(repoDir, stateDir string) (Fleet, error) {
	abs, err := filepath.Abs(repoDir)
	if err != nil {
		return Fleet{}, fmt.Errorf("find local fleet: %w", err)
	}
	repo := resolve(abs)
	sum := sha256.Sum256([]byte(repo))
	return Fleet{Repo: repo, Dir: filepath.Join(stateDir, filepath.Base(repo)+"-"+hex.EncodeToString(sum[:4]))}, nil
}

// resolve follows links as far as the path exists, so that a folder has one name before it is made and after.
func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil || path == filepath.Dir(path) {
		return cmp.Or(real, path)
	}
	return filepath.Join(resolve(filepath.Dir(path)), filepath.Base(path))
}

// All lists the local fleets below stateDir, also those that are down.
func All(stateDir string) ([]Fleet, error) {
	entries, err := os.ReadDir(stateDir)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("list local fleets: %w", err)
	}
	var fleets []Fleet
	for _, entry := range entries {
		f := Fleet{Dir: filepath.Join(stateDir, entry.Name())}
		if known, err := f.recall(); err == nil && known.Repo != "" {
			f.Repo = known.Repo
			fleets = append(fleets, f)
		}
	}
	return fleets, nil
}

// Others are the fleets below stateDir that run beside this one.
func (f Fleet) Others(stateDir string) ([]Fleet, error) {
	all, err := All(stateDir)
	return slices.DeleteFunc(all, func(other Fleet) bool {
		runs, err := other.Running()
		return other.Dir == f.Dir || err != nil || !runs
	}), err
}

// Identity is the workspace's name with the repository's identity, as the installation repo has them now; empty where it is gone, or
// says neither.
func (f Fleet) Identity() (name, repository string) {
	w, err := f.manifest()
	if err != nil || w == nil {
		return "", ""
	}
	return w.Metadata.Name, w.Repository()
}

// record is what a local fleet remembers of itself.
type record struct {
	Repo string `json:"repo"`
	// Hub is the address that the hub was started with last.
	Hub string `json:"hub"`
	// Clusters are the names that the last up was for, the management cluster first.
	Clusters []string `json:"clusters"`
}

const recordFile = "fleet.json"

// recall is empty for a fleet that was never up.
func (f Fleet) recall() (record, error) {
	var r record
	raw, err := os.ReadFile(filepath.Join(f.Dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read record of local fleet: %w", err)
	}
	return r, nil
}

func (f Fleet) keep(r record) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = replaceFile(filepath.Join(f.Dir, recordFile), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write record of local fleet: %w", err)
	}
	return nil
}

// HubURL is the address that the hub was started with last; empty before the first Up.
func (f Fleet) HubURL() (string, error) {
	known, err := f.recall()
	return known.Hub, err
}

// Members are the clusters that the last Up was for, the management cluster first; none before the first.
func (f Fleet) Members() ([]string, error) {
	known, err := f.recall()
	return known.Clusters, err
}

func replaceFile(name string, text []byte, mode os.FileMode) error {
	if err := os.WriteFile(temporary(name), text, mode); err != nil {
		return err
	}
	return os.Rename(temporary(name), name)
}

// temporary is what a file is called while it is written.
func temporary(name string) string { return name + ".new" }

// Names of the parts of a local fleet.
const (
	// HubPart is the hub's process.
	HubPart = "hub"
	// ClusterPart is before a cluster's name in the name of its control plane's process.
	ClusterPart = "cluster-"
	// AgentPart is before a cluster's name in the name of its agent's process.
	AgentPart = "agent-"
)

func (f Fleet) origin() string                   { return filepath.Join(f.Dir, "origin.git") }
func (f Fleet) hubDir() string                   { return filepath.Join(f.Dir, "hub") }
func (f Fleet) clusterDir(cluster string) string { return filepath.Join(f.Dir, "clusters", cluster) }
func (f Fleet) agentDir(cluster string) string   { return filepath.Join(f.Dir, "agents", cluster) }
func (f Fleet) keysFile(cluster string) string   { return filepath.Join(f.Dir, "keys", cluster+".json") }
func (f Fleet) processes() supervise.Dir         { return supervise.Dir(f.Dir) }

// Kubeconfig is the file through which a cluster is reached.
func (f Fleet) Kubeconfig(cluster string) string {
	return filepath.Join(f.clusterDir(cluster), "kubeconfig")
}

// TokenFile holds the token that opens the hub.
func (f Fleet) TokenFile() string { return filepath.Join(f.hubDir(), "token") }

// identityFile holds the identity that the hub was handed, while the fleet is up.
func (f Fleet) identityFile() string { return filepath.Join(f.hubDir(), "identity") }

// Log is where a process's output goes.
func (f Fleet) Log(process string) string { return f.processes().Log(process) }

// Part is one process of a local fleet.
type Part struct {
	Name string
	supervise.State
	// Stopped parts are down because somebody asked.
	Stopped bool
}

// Running says whether the fleet has a supervisor.
func (f Fleet) Running() (bool, error) {
	pid, err := f.processes().Running()
	return pid != 0, err
}

// Parts lists the fleet's processes by name.
func (f Fleet) Parts() ([]Part, error) {
	wanted, err := f.processes().Wanted()
	if err != nil {
		return nil, err
	}
	states, err := f.processes().Status()
	if err != nil {
		return nil, err
	}
	if up, err := f.Running(); err != nil || !up {
		states = nil // what a supervisor that was killed left behind
	}
	parts := make([]Part, 0, len(wanted))
	for name, p := range wanted {
		parts = append(parts, Part{Name: name, State: states[name], Stopped: p.Stopped})
	}
	slices.SortFunc(parts, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
	return parts, nil
}

// Clusters lists the fleet's clusters by name.
func (f Fleet) Clusters() ([]string, error) {
	parts, err := f.Parts()
	var clusters []string
	for _, p := range parts {
		if cluster, ok := strings.CutPrefix(p.Name, ClusterPart); ok {
			clusters = append(clusters, cluster)
		}
	}
	return clusters, err
}

// ErrDown says that a fleet has no supervisor: nothing of it runs.
var ErrDown = errors.New("the fleet is down")

// Stop takes a process down, or up again, and waits for it.
func (f Fleet) Stop(ctx context.Context, process string, stopped bool) error {
	if up, err := f.Running(); err != nil || !up {
		return cmp.Or(err, ErrDown)
	}
	if err := f.processes().Stop(process, stopped); err != nil {
		return err
	}
	err := until(ctx, func() (bool, error) {
		states, err := f.processes().Status()
		return err == nil && (states[process].PID == 0) == stopped, err
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w; its output is in %s", process, err, f.Log(process))
	}
	return nil
}

// Down ends every process, and keeps no identity of a person. With keep false it deletes all of the fleet but the installation
// repo, its origin, and the keys that the repo knows its clusters by.
func (f Fleet) Down(ctx context.Context, keep bool) error {
	if err := f.processes().Shutdown(ctx); err != nil {
		return err
	}
	if err := f.forgetIdentity(); err != nil {
		return err
	}
	if keep {
		return nil
	}
	for _, part := range []string{"clusters", "agents", "hub", "processes", "status.json", "logs"} {
		if err := os.RemoveAll(filepath.Join(f.Dir, part)); err != nil {
			return fmt.Errorf("delete local fleet: %w", err)
		}
	}
	return nil
}

// forgetIdentity deletes what the hub was handed, also where an Up ended while it wrote that.
func (f Fleet) forgetIdentity() error {
	for _, name := range []string{f.identityFile(), temporary(f.identityFile())} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete identity of the hub: %w", err)
		}
	}
	return nil
}

// until asks until the answer is yes.
func until(ctx context.Context, ask func() (bool, error)) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		yes, err := ask()
		if yes {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
