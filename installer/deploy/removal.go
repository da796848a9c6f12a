package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/installer/release"
	"github.com/pluralsh/plural/installer/run"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// elsewhere is what a step put somewhere before and puts there no longer, as a step of its own. What stays on a cluster that has
// left the fleet is nobody's business any more.
func (r *runner) elsewhere(id plan.ID, now *ledger.Step) *ledger.Step {
	gone := &ledger.Step{Services: map[string][]string{}}
	was := r.done(id)
	if was == nil {
		return gone
	}
	gone.Namespaces = was.Namespaces
	fleet := r.world.clusters()
	for service, clusters := range was.Services {
		for _, cluster := range clusters {
			if slices.Contains(fleet, cluster) && !slices.Contains(now.Services[service], cluster) {
				gone.Services[service] = append(gone.Services[service], cluster)
			}
		}
	}
	return gone
}

// remove takes down what one step did.
func (r *runner) remove(ctx context.Context, s plan.Step, t *run.Progress) error {
	if err := r.journal.Begin(r.held.Lock.ID, string(s.ID)); err != nil {
		return err
	}
	was := r.done(s.ID)
	var err error
	switch {
	case len(was.Services) > 0:
		err = r.removeServices(ctx, was, r.record.Installations[s.ID.Installation()].Package == agentPackage, t)
	case was.Kind == compose.Terraform:
		err = r.logged(s.ID, func(log io.Writer) error { return r.destroy(ctx, s.ID, was, log, t) })
	}
	if err != nil {
		return err
	}
	return r.finish(ctx, s.ID, outcome{})
}

// LeftoversError says what a removal had to leave.
type LeftoversError struct{ Left []string }

// Error lists it.
func (e *LeftoversError) Error() string {
	return "left in place, for this machine knows no way there: " + strings.Join(e.Left, "; ")
}

// Fix says what to do.
func (e *LeftoversError) Fix() string {
	return "name the way, --context CLUSTER=CONTEXT, and run it again"
}

// agentPackage puts agents on clusters. They leave themselves alone when their service goes, since an agent that deletes itself
// never comes to the end of it: so it is for us to take them away.
const agentPackage = "agent"

func (r *runner) removeServices(ctx context.Context, was *ledger.Step, agents bool, t *run.Progress) error {
	var unreached, left []string
	kept, fleet := 0, r.world.clusters()
	for service, clusters := range was.Services {
		wanted := r.world.wanted(service)
		for _, name := range clusters {
			told := func(text string) { t.Detail(name + ": " + text) }
			if wanted != nil && wanted(name) && !r.Down {
				continue // another step has it now
			}
			cluster, err := r.cluster(name)
			if err != nil {
				return err
			}
			heard, err := r.heard(ctx, name)
			switch {
			case err != nil && cluster == nil:
				return err
			case heard && !r.Down && !agents:
				if err := r.gone(ctx, service, name, told); err != nil {
					return err
				}
			case cluster == nil && !slices.Contains(fleet, name):
				left = append(left, fmt.Sprintf("%s is left on cluster %s, which is not in the fleet any more", service, name))
			case cluster == nil:
				unreached = append(unreached, fmt.Sprintf("%s on cluster %s", service, name))
			default:
				over, err := r.takeAway(ctx, cluster, name, service, was, agents, told)
				if err != nil {
					return err
				}
				kept += len(over.Kept)
			}
		}
	}
	if len(unreached) > 0 {
		return &LeftoversError{Left: unreached}
	}
	if kept > 0 {
		left = append(left, fmt.Sprintf("%d objects are kept", kept))
	}
	if len(left) > 0 {
		t.Result(strings.Join(left, "; "))
	}
	return nil
}

// gone waits until the hub says that a cluster no longer has a service.
func (r *runner) gone(ctx context.Context, service, cluster string, told func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	return r.Hub.Gone(ctx, service, cluster, told)
}

// takeAway removes a service from a cluster. Where the commit that it was put there by is in this branch and still says how it
// renders, its hooks of deletion run.
func (r *runner) takeAway(
	ctx context.Context, from *release.Cluster, cluster, service string, was *ledger.Step, agent bool, told func(string),
) (*release.Leftovers, error) {
	if agent {
		return from.Uproot(ctx, service, was.Namespaces[service], told)
	}
	if err := r.contains(was); errors.As(err, new(*BehindError)) {
		told("without its hooks of deletion: " + err.Error())
		return from.Remove(ctx, service, was.Namespaces[service], told)
	} else if err != nil {
		return nil, err
	}
	state, err := offline.At(r.Repo, was.Commit)
	if err != nil {
		return from.Remove(ctx, service, was.Namespaces[service], told)
	}
	deployments, err := resolve.New().For(state.Fleet, cluster, state)
	at := slices.IndexFunc(deployments, func(d resolve.Deployment) bool { return d.Service == service })
	if err != nil || at < 0 {
		return from.Remove(ctx, service, was.Namespaces[service], told)
	}
	renderer, err := preview.New(state.Taken(), r.Identities)
	if err != nil {
		return nil, err
	}
	return from.Retire(ctx, &deployments[at], renderer, told)
}
