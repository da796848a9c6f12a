package deploy

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/installer/run"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// NoWayError says that nobody puts services on a cluster: no agent of it reports, and this machine has no way to it.
type NoWayError struct{ Cluster, Service string }

// Error names both.
func (e *NoWayError) Error() string {
	return fmt.Sprintf("nobody can put %s on cluster %s: no agent of it reports to the hub, and this machine knows no way to it",
		e.Service, e.Cluster)
}

// Fix says what to do.
func (e *NoWayError) Fix() string {
	return fmt.Sprintf("plural deploy --context %s=CONTEXT, or plural cluster register %s", e.Cluster, e.Cluster)
}

// aside bounds how many clusters are worked on at once by one step.
const aside = 4

// services has a step's services put on their clusters, and says whether something is to be deleted there once all other steps
// are done.
func (r *runner) services(
	ctx context.Context, id plan.ID, step *compose.Step, commit string, done *ledger.Step, t *run.Progress,
) (owes bool, err error) {
	state, err := offline.At(r.Repo, commit)
	if err != nil {
		return false, err
	}
	renderer, err := preview.New(state.Taken(), r.Identities)
	if err != nil {
		return false, err
	}
	done.Services, done.Namespaces = map[string][]string{}, map[string]string{}
	resolver := resolve.New()
	byCluster := map[string][]*resolve.Deployment{}
	for i := range step.Services {
		service := &step.Services[i]
		name := service.Metadata.Name
		for j := range state.Fleet.Clusters {
			cluster := &state.Fleet.Clusters[j]
			if !service.Spec.Clusters.Matches(cluster) {
				continue
			}
			deployments, err := resolver.For(state.Fleet, cluster.Metadata.Name, state)
			if err != nil {
				return false, err
			}
			at := slices.IndexFunc(deployments, func(d resolve.Deployment) bool { return d.Service == name })
			if at < 0 {
				return false, fmt.Errorf("service %s is not in commit %.12s", name, commit)
			}
			byCluster[cluster.Metadata.Name] = append(byCluster[cluster.Metadata.Name], &deployments[at])
			done.Services[name] = append(done.Services[name], cluster.Metadata.Name)
			done.Namespaces[name] = deployments[at].Namespace
		}
		if len(done.Services[name]) == 0 {
			t.Detail(name + " is for no cluster")
		}
	}
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(aside)
	var some atomic.Bool
	for cluster, deployments := range byCluster {
		group.Go(func() error {
			ctx := working
			for _, d := range deployments {
				owes, err := r.place(ctx, commit, d, renderer, func(text string) { t.Detail(cluster + ": " + text) })
				if err != nil {
					return err
				}
				if owes {
					some.Store(true)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	return some.Load(), r.removeServices(ctx, r.elsewhere(id, done), false, t)
}

// place sees to it that a deployment is well on its cluster, but for what is to be deleted there later.
func (r *runner) place(ctx context.Context, commit string, d *resolve.Deployment, renderer *preview.Renderer, told func(string)) (owes bool, err error) {
	heard, err := r.heard(ctx, d.Cluster)
	if err != nil {
		return false, err
	}
	if heard {
		ctx, cancel := context.WithTimeout(ctx, r.Patience)
		defer cancel()
		return false, r.Hub.Healthy(ctx, Wanted{
			Commit: commit, Time: r.world.now().time, Service: d.Service, Cluster: d.Cluster,
			Key: d.Key,
		}, told)
	}
	cluster, err := r.cluster(d.Cluster)
	switch {
	case err != nil:
		return false, err
	case cluster == nil:
		return false, &NoWayError{Cluster: d.Cluster, Service: d.Service}
	case d.Hold != nil:
		return false, &HeldError{Service: d.Service, Problem: d.Hold}
	}
	done, err := cluster.Apply(ctx, d, renderer, told)
	return err == nil && done.Deferred, err
}

// HeldError says why a service cannot be put anywhere.
type HeldError struct {
	Service string
	Problem *resolve.Problem
}

// Error says what is wrong, and where.
func (e *HeldError) Error() string {
	return fmt.Sprintf("service %s: %s: %s", e.Service, e.Problem.Position, e.Problem.Message)
}

// Fix says what to do, where that is known.
func (e *HeldError) Fix() string { return e.Problem.Fix }

// heard says whether the hub hears from a cluster's agent.
func (r *runner) heard(ctx context.Context, cluster string) (bool, error) {
	if r.Hub == nil {
		return false, nil
	}
	return r.Hub.Hears(ctx, cluster)
}
