// Package local owns a fleet on this machine: control planes, a hub, agents, with a folder of their own.
//
// It brings the fleet up step by step, each of which finds out what is there already, so a second Up goes on where the
// first was interrupted. What runs is left to a supervisor that outlives the command; what the fleet runs is left to
// the installation repo, whose origin is a bare repository beside it. It prints nothing: a Reporter hears of steps.
package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

// At returns the local fleet of the installation repo in repoDir; stateDir is where local fleets are kept.
func At(repoDir, stateDir string) (Fleet, error) {
	abs, err := filepath.Abs(repoDir)
	if err != nil {
		return Fleet{}, fmt.Errorf("find local fleet: %w", err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	sum := sha256.Sum256([]byte(abs))
	return Fleet{Repo: abs, Dir: filepath.Join(stateDir, filepath.Base(abs)+"-"+hex.EncodeToString(sum[:4]))}, nil
}

// All lists the local fleets below stateDir.
func All(stateDir string) ([]Fleet, error) {
	entries, err := os.ReadDir(stateDir)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("list local fleets: %w", err)
	}
	var fleets []Fleet
	for _, entry := range entries {
		dir := filepath.Join(stateDir, entry.Name())
		repo, err := os.ReadFile(filepath.Join(dir, repoFile))
		if err == nil {
			fleets = append(fleets, Fleet{Repo: strings.TrimSpace(string(repo)), Dir: dir})
		}
	}
	return fleets, nil
}

// repoFile says whose fleet a folder is.
const repoFile = "repo"

// Names of the parts of a local fleet.
const (
	hubProcess  = "hub"
	clusterPart = "cluster-"
	agentPart   = "agent-"
)

func (f Fleet) origin() string                   { return filepath.Join(f.Dir, "origin.git") }
func (f Fleet) hubDir() string                   { return filepath.Join(f.Dir, "hub") }
func (f Fleet) clusterDir(cluster string) string { return filepath.Join(f.Dir, "clusters", cluster) }
func (f Fleet) agentDir(cluster string) string   { return filepath.Join(f.Dir, "agents", cluster) }
func (f Fleet) processes() supervise.Dir         { return supervise.Dir(f.Dir) }

// Kubeconfig is the file through which a cluster is reached.
func (f Fleet) Kubeconfig(cluster string) string {
	return filepath.Join(f.clusterDir(cluster), "kubeconfig")
}

// TokenFile holds the token that opens the hub.
func (f Fleet) TokenFile() string { return filepath.Join(f.hubDir(), "token") }

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
		if cluster, ok := strings.CutPrefix(p.Name, clusterPart); ok {
			clusters = append(clusters, cluster)
		}
	}
	return clusters, err
}

// Stop takes a process down, or up again, and waits for it.
func (f Fleet) Stop(ctx context.Context, process string, stopped bool) error {
	if err := f.processes().Stop(process, stopped); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		states, err := f.processes().Status()
		return err == nil && (states[process].PID == 0) == stopped, err
	})
}

// Down ends every process. With keep false it deletes all of the fleet but the installation repo and its origin.
func (f Fleet) Down(ctx context.Context, keep bool) error {
	if err := f.processes().Shutdown(ctx); err != nil {
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
				return fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
