package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/installer/run"
	"github.com/pluralsh/plural/installer/terraform"
	"github.com/pluralsh/plural/workspace/compose"
)

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
	ctx context.Context, id plan.ID, tool *terraform.Tool, step *compose.Step, files fs.FS, state, dir string, log io.Writer,
	told func(string),
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
func (r *runner) terraform(
	ctx context.Context, id plan.ID, step *compose.Step, result *outcome, log io.Writer, t *run.Progress,
) (*compose.Values, error) {
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
	if err := r.atHome(id, work); err != nil {
		return nil, err
	}
	if !work.HasBackend() { // before anything is made whose state could not be kept
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
	if work.HasBackend() {
		result.Step.Parts = map[string]string{backendPart: work.Backend()}
	}
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

// backendPart is where a step's record says which backend has its module's state.
const backendPart = "backend"

// BackendLostError says that the state of a module lies in a backend of which the module knows nothing any more.
type BackendLostError struct {
	Step    plan.ID
	Backend string
}

// Error says what would come of it.
func (e *BackendLostError) Error() string {
	return fmt.Sprintf("the state of %s lies in a backend (%s), and its module has none any more: "+
		"terraform would make once more all that is there", e.Step, e.Backend)
}

// Fix says what to do.
func (e *BackendLostError) Fix() string {
	return fmt.Sprintf("give the module its backend again, see git log packages/%[1]s; to begin anew on purpose: "+
		"plural package remove %[1]s && plural deploy --allow-destroy, then add it", e.Step.Installation())
}

// atHome refuses a module that has lost the backend in which its state lies. One that has got a backend takes its state there.
func (d *Deploy) atHome(id plan.ID, work *terraform.Work) error {
	was := d.done(id)
	if was == nil || was.State != "" || was.Parts[backendPart] == "" || work.HasBackend() {
		return nil
	}
	return &BackendLostError{Step: id, Backend: was.Parts[backendPart]}
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

// ForgottenError says that a module cannot be taken down, since nobody knows any more what it was given.
type ForgottenError struct {
	Step   plan.ID
	Commit string
}

// Error names the commit.
func (e *ForgottenError) Error() string {
	return fmt.Sprintf("what terraform was given in %s at commit %.12s is not known any more", e.Step, e.Commit)
}

// Fix says what to do.
func (e *ForgottenError) Fix() string {
	return fmt.Sprintf("see what that commit lacks: git show %.12s:packages/%s/outputs.yaml; else destroy by hand what it made",
		e.Commit, e.Step.Installation())
}

// destroy takes down what a module made, with the module as it was carried out.
func (r *runner) destroy(ctx context.Context, id plan.ID, was *ledger.Step, log io.Writer, t *run.Progress) error {
	then, err := r.openDeployed(ctx, was)
	if err != nil {
		return err
	}
	_, step, err := then.compose(id)
	if err != nil {
		return err
	}
	if step.Terraform == nil {
		return &ForgottenError{Step: id, Commit: was.Commit}
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
