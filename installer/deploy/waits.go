package deploy

import (
	"context"

	"github.com/pluralsh/plural/installer/probe"
	"github.com/pluralsh/plural/installer/run"
	"github.com/pluralsh/plural/workspace/compose"
)

// wait waits for what a step waits for.
func (r *runner) wait(ctx context.Context, step *compose.Step, c *compose.Composed, commit string, t *run.Progress) (*compose.Values, error) {
	target := probe.Target{
		Config: r.reach[r.world.management()],
		Services: func(ctx context.Context, names []string) error {
			return r.wellAll(ctx, c, names, commit, t)
		},
	}
	outputs, err := probe.Wait(ctx, step.Wait, target, t.Detail)
	if err != nil || step.Wait.Object == nil {
		return nil, err
	}
	given := &compose.Values{Plain: map[string]any{}, Secret: map[string]any{}}
	for name, value := range outputs {
		if step.Wait.Object.Secret(name) {
			given.Secret[name] = value
			continue
		}
		given.Plain[name] = value
	}
	return given, nil
}

// wellAll waits until the services of a package's steps are well on all their clusters, as far as a hub can tell: what was put
// somewhere from here was well when its step ended.
func (r *runner) wellAll(ctx context.Context, c *compose.Composed, steps []string, commit string, t *run.Progress) error {
	for _, name := range steps {
		was := r.held.Record().Installations[c.Name]
		if was == nil || was.Steps[name] == nil {
			continue
		}
		for service, clusters := range was.Steps[name].Services {
			for _, cluster := range clusters {
				heard, err := r.heard(ctx, cluster)
				if err != nil {
					return err
				}
				if !heard {
					continue
				}
				if err := r.Hub.Healthy(ctx, Wanted{Commit: commit, Time: r.world.now().time, Service: service, Cluster: cluster}, t.Detail); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
