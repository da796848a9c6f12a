package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/installer/probe"
	"github.com/pluralsh/plural/installer/release"
	"github.com/pluralsh/plural/installer/run"
	"github.com/pluralsh/plural/installer/terraform"
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
	state, err := offline.Open(r.Repo, commit)
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

// moduleDir is where a step's module works on this machine.
func (r *runner) moduleDir(id plan.ID) string {
	return filepath.Join(r.Dir, "terraform", id.Installation(), id.Step())
}

// statePath is where a module's state would lie in the installation repo: sealing binds a file to its place. It lies in the
// record instead.
func statePath(id plan.ID) string {
	return "packages/" + id.Installation() + "/" + id.Step() + ".tfstate.secret.yaml"
}

// stateFile is where a module's state lies in the record.
func stateFile(id plan.ID) string { return "sealed/" + statePath(id) }

// prepare readies a module, with the newest state there is.
func (d *Deploy) prepare(
	ctx context.Context, id plan.ID, tool *terraform.Tool, step *compose.Step, files fs.FS, state, dir string, log io.Writer, told func(string),
) (*terraform.Work, error) {
	m := step.Terraform
	module := terraform.Module{
		Files: files, Dir: dir, Inputs: m.Inputs, Secret: map[string]bool{}, Backend: m.Backend,
		AllowDestroy: m.AllowDestroy || d.AllowDestroy, Told: told,
	}
	for _, name := range step.SecretInputs {
		module.Secret[name] = true
	}
	if state != "" {
		sealed, err := d.ledger.File(ctx, state)
		if err != nil {
			return nil, err
		}
		if module.State, err = d.world.open(statePath(id), sealed); err != nil {
			return nil, err
		}
	}
	return tool.Prepare(ctx, module, log)
}

// unlock takes the lock away that terraform ran into, if it is the one that the person named.
func (d *Deploy) unlock(ctx context.Context, work *terraform.Work, ran error) (unlocked bool, err error) {
	var locked *terraform.LockedError
	if d.TerraformUnlock == "" || !errors.As(ran, &locked) || locked.ID != d.TerraformUnlock {
		return false, nil
	}
	return true, work.Unlock(ctx, locked.ID)
}

// LoggedError is a failure of which a file tells more.
type LoggedError struct {
	Err error
	Log string
}

// Error names the file.
func (e *LoggedError) Error() string { return e.Err.Error() + " (all that it said: " + e.Log + ")" }

// Unwrap is the failure.
func (e *LoggedError) Unwrap() error { return e.Err }

// logged keeps what terraform says in a step, without what is secret, in a file that stays when it fails.
func (r *runner) logged(id plan.ID, do func(log io.Writer) error) error {
	name := r.moduleDir(id) + ".log"
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("keep the log of %s: %w", id, err)
	}
	log, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the log of %s: %w", id, err)
	}
	err = do(log)
	closed := log.Close()
	switch {
	case errors.As(err, new(*terraform.FailedError)):
		return &LoggedError{Err: err, Log: name}
	case err != nil:
		return err
	}
	return errors.Join(closed, os.Remove(name))
}

// terraform runs a module. Its state goes into the record also when it failed half-way.
func (r *runner) terraform(ctx context.Context, id plan.ID, step *compose.Step, result *outcome, log io.Writer, t *run.Progress) (*compose.Values, error) {
	tool := r.tools[id] // it is there: the plan would have been refused
	state := ""
	if was := r.done(id); was != nil {
		state = was.State
	}
	files, err := r.world.payload(id.Installation(), step.Terraform.Path)
	if err != nil {
		return nil, err
	}
	work, err := r.prepare(ctx, id, tool, step, files, state, r.moduleDir(id), log, t.Detail)
	if err != nil {
		return nil, err
	}
	defer func() { _ = work.Close() }() // it holds a lock, which ends with the process at the latest
	if !work.HasBackend() {             // before anything is made whose state could not be kept
		if err := r.world.sealable(statePath(id)); err != nil {
			return nil, err
		}
	}
	summary, err := work.Plan(ctx)
	if unlocked, failed := r.unlock(ctx, work, err); failed != nil {
		return nil, failed
	} else if unlocked {
		summary, err = work.Plan(ctx)
	}
	if err != nil {
		return nil, err
	}
	t.Detail(fmt.Sprintf("%d to add, %d to change, %d to replace, %d to destroy", summary.Add, summary.Change, summary.Replace,
		summary.Destroy))
	made, failed := work.Apply(ctx)
	if made != nil && made.State != nil {
		sealed, err := r.world.seal(statePath(id), made.State)
		if err != nil {
			return nil, errors.Join(failed, err)
		}
		result.File, result.Content = stateFile(id), sealed
		if failed != nil {
			err := r.keepState(ctx, id, sealed)
			if err == nil { // it lies in the folder in clear
				err = work.Forget()
			}
			return nil, errors.Join(failed, err)
		}
	}
	if failed != nil {
		return nil, failed
	}
	t.Result(changed(summary))
	if result.File != "" {
		result.Step.State = result.File
	}
	result.Step.Product, result.Step.Version = string(tool.Product), tool.Version
	given := &compose.Values{Plain: map[string]any{}, Secret: map[string]any{}}
	for name, output := range made.Outputs {
		if output.Secret {
			given.Secret[name] = output.Value
		} else {
			given.Plain[name] = output.Value
		}
	}
	return given, nil
}

// changed says what a plan that was carried out has done.
func changed(s *terraform.Summary) string {
	var parts []string
	for _, each := range []struct {
		count int
		what  string
	}{{s.Add, "added"}, {s.Change, "changed"}, {s.Replace, "replaced"}, {s.Destroy, "destroyed"}} {
		if each.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", each.count, each.what))
		}
	}
	return strings.Join(parts, ", ")
}

// keepState puts the state of a module that failed into the record, as a step that is not done: it has no digest.
func (r *runner) keepState(ctx context.Context, id plan.ID, sealed []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasing)
	defer cancel()
	c, step, err := r.world.compose(id)
	if err != nil {
		return err
	}
	half := &ledger.Step{Kind: step.Kind, Needs: step.Needs, By: r.held.Lock.Holder, State: stateFile(id)}
	if was := r.done(id); was != nil {
		kept := *was
		half = &kept
		half.Digest, half.State = "", stateFile(id)
	}
	half.Commit = r.world.now().commit // the module that knows all that is in the state
	return r.write(ctx, id, outcome{Installation: r.about(c), Step: half, File: stateFile(id), Content: sealed})
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
	case was.Kind == "terraform":
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

// takeAway removes a service from a cluster. Where the commit that it was put there by still says how it renders, its hooks of
// deletion run.
func (r *runner) takeAway(
	ctx context.Context, from *release.Cluster, cluster, service string, was *ledger.Step, agent bool, told func(string),
) (*release.Leftovers, error) {
	if agent {
		return from.Uproot(ctx, service, was.Namespaces[service], told)
	}
	state, err := offline.Open(r.Repo, was.Commit)
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

// destroy takes down what a module made, with the module as it was carried out.
func (r *runner) destroy(ctx context.Context, id plan.ID, was *ledger.Step, log io.Writer, t *run.Progress) error {
	then, err := openWorld(ctx, r.Repo, was.Commit)
	if err != nil {
		return err
	}
	_, step, err := then.compose(id)
	if err != nil {
		return err
	}
	if step.Terraform == nil {
		return fmt.Errorf("what terraform was given at commit %.12s is not known any more", was.Commit)
	}
	tool, err := r.Tool(ctx, terraform.Want{Product: terraform.Product(was.Product)})
	if err != nil {
		return err
	}
	files, err := then.payload(id.Installation(), step.Terraform.Path)
	if err != nil {
		return err
	}
	work, err := r.prepare(ctx, id, tool, step, files, was.State, r.moduleDir(id), log, t.Detail)
	if err != nil {
		return err
	}
	defer func() { _ = work.Close() }() // it holds a lock, which ends with the process at the latest
	made, failed := work.Destroy(ctx)
	if unlocked, err := r.unlock(ctx, work, failed); err != nil {
		return errors.Join(failed, err)
	} else if unlocked {
		made, failed = work.Destroy(ctx)
	}
	if failed != nil {
		if made != nil && made.State != nil {
			sealed, err := r.world.seal(statePath(id), made.State)
			if err == nil {
				half := *was
				err = r.write(context.WithoutCancel(ctx), id, outcome{
					Installation: *r.record.Installations[id.Installation()], Step: &half, File: stateFile(id), Content: sealed,
				})
			}
			if err == nil { // it lies in the folder in clear
				err = work.Forget()
			}
			return errors.Join(failed, err)
		}
		return failed
	}
	return os.RemoveAll(r.moduleDir(id))
}
