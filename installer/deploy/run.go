package deploy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/installer/journal"
	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/installer/release"
	"github.com/pluralsh/plural/installer/run"
	"github.com/pluralsh/plural/workspace/compose"
)

// runner is one run under way.
type runner struct {
	*Deploy
	held    *ledger.Held
	journal *journal.Journal
	reach   map[string]*rest.Config

	committing sync.Mutex // guards the branch
	mu         sync.Mutex // guards what follows
	clusters   map[string]*release.Cluster
	digests    map[plan.ID]string
	owing      map[plan.ID]outcome // steps whose deletions wait for all others, as they will be done
}

// releasing is how long the lock may take to be given back when the run itself is over.
const releasing = 30 * time.Second

// MovedError says that the plan is not the one that was shown.
type MovedError struct{}

// Error says so.
func (e *MovedError) Error() string {
	return "somebody else deployed or pushed meanwhile: the plan is not the one that was shown"
}

// Fix says what to do.
func (e *MovedError) Fix() string { return "look at the new plan: run the command again" }

// UnsettledError says that all steps were taken, and that what they leave behind on clusters is still there.
type UnsettledError struct{ Errs []error }

// Error says what it is.
func (e *UnsettledError) Error() string {
	return "take away what nothing asks for any more: " + strings.ReplaceAll(errors.Join(e.Errs...).Error(), "\n", "; ")
}

// Unwrap is each of them.
func (e *UnsettledError) Unwrap() []error { return e.Errs }

// UnreleasedError says that the lock on the fleet could not be given back.
type UnreleasedError struct{ Err error }

// Error says why.
func (e *UnreleasedError) Error() string { return "give the lock on the fleet back: " + e.Err.Error() }

// Unwrap is why.
func (e *UnreleasedError) Unwrap() error { return e.Err }

// Fix says what to do.
func (e *UnreleasedError) Fix() string {
	return "run the command again in this clone, which takes the lock over"
}

// Run carries the plan out. Another plan is made once nobody else can write the record; where that is not the one that was
// shown, the error is a *MovedError and nothing was done. Without anything to do the error is ErrNothing. What was not done is
// in a *run.IncompleteError.
func (d *Deploy) Run(ctx context.Context, purpose string) (*run.Report, error) {
	shown := d.plan
	if !shown.Changes() {
		return &run.Report{}, cmp.Or(d.giveBack(ctx), ErrNothing)
	}
	if err := d.Refused(ctx); err != nil {
		return nil, err
	}
	head, err := d.Repo.Head()
	if err != nil {
		return nil, err
	}
	held, err := d.ledger.Acquire(ctx, ledger.Lock{Purpose: purpose, Commit: head})
	if err != nil {
		return nil, err
	}
	r := &runner{
		Deploy: d, held: held, clusters: map[string]*release.Cluster{}, digests: map[plan.ID]string{}, owing: map[plan.ID]outcome{},
	}
	report, err := r.all(ctx, shown)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasing)
	defer cancel()
	if left := held.Release(ctx); left != nil && !errors.As(err, new(*ledger.LostError)) { // one that was lost is not there
		err = errors.Join(err, &UnreleasedError{left})
	}
	return report, err
}

// giveBack releases the lock that an earlier run in this clone did not live to release: without anything to do, nobody would.
func (d *Deploy) giveBack(ctx context.Context) error {
	if d.record.Lock == nil {
		return nil
	}
	held, err := d.ledger.Acquire(ctx, ledger.Lock{Purpose: "give a lock back"})
	if errors.As(err, new(*ledger.LockedError)) {
		return nil // somebody else is at work
	}
	if err != nil {
		return err
	}
	return held.Release(ctx)
}

func (r *runner) all(ctx context.Context, shown *plan.Plan) (*run.Report, error) {
	r.record = r.held.Record()
	if !r.Down {
		if err := r.world.publish(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.replan(ctx); err != nil {
		return nil, err
	}
	if !same(shown, r.plan) {
		return nil, &MovedError{}
	}
	var err error
	if r.journal, err = journal.Open(r.Dir); err != nil {
		return nil, err
	}
	defer func() { _ = r.journal.Close() }() // what it holds is on disk
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	if err := r.Refused(ctx); err != nil { // what was caught up with may have to go, which nobody was shown
		return nil, err
	}
	if err := r.protect(ctx); err != nil {
		return nil, err
	}
	if r.reach, err = r.Reach(r.clustersOf()); err != nil {
		return nil, err
	}
	defer r.disconnect()
	report, err := run.Run(ctx, r.tasks(), run.Options{Parallel: r.Parallel, Reporter: r.Reporter, Stop: r.Stop})
	if err != nil {
		return report, err
	}
	if err := r.settleAll(ctx); err != nil {
		return report, err
	}
	return report, r.journal.Clear(r.held.Lock.ID)
}

// clustersOf are the fleet's clusters, with those that left it while they had something.
func (r *runner) clustersOf() []string {
	names := r.world.clusters()
	for _, installation := range r.record.Installations {
		for _, step := range installation.Steps {
			for _, clusters := range step.Services {
				names = append(names, clusters...)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// protect tells the record what is protected, before anything else is done.
func (r *runner) protect(ctx context.Context) error {
	if len(r.plan.Protect) == 0 {
		return nil
	}
	err := r.held.Update(ctx, func(record *ledger.Record) {
		for name, protected := range r.plan.Protect {
			if was := record.Installations[name]; was != nil {
				was.Protected = protected
			}
		}
	}, nil)
	r.record = r.held.Record()
	return err
}

// settleAll deletes from clusters what no service has taken over, now that all of them are applied: it is nobody's.
func (r *runner) settleAll(ctx context.Context) error {
	unsettled := &UnsettledError{}
	for _, name := range slices.Sorted(maps.Keys(r.clusters)) {
		switch err := r.clusters[name].Settle(ctx, func(string) {}).(type) { //nolint:errorlint // what it has joined is told apart
		case nil:
		case interface{ Unwrap() []error }:
			unsettled.Errs = append(unsettled.Errs, err.Unwrap()...)
		default:
			unsettled.Errs = append(unsettled.Errs, err)
		}
	}
	if len(unsettled.Errs) > 0 {
		return unsettled
	}
	for id, result := range r.owing {
		if err := r.finish(ctx, id, result); err != nil {
			return err
		}
	}
	return nil
}

// same says whether two plans do the same with the same: what was pushed meanwhile may be what a step reads.
func same(a, b *plan.Plan) bool {
	return maps.Equal(a.Protect, b.Protect) && slices.EqualFunc(a.Steps, b.Steps,
		func(x, y plan.Step) bool { return x.ID == y.ID && x.Action == y.Action && x.Digest == y.Digest })
}

// outcome is what the journal keeps of a step that is done, for the record.
type outcome struct {
	Installation ledger.Installation `json:"installation"` // without steps
	Step         *ledger.Step        `json:"step,omitempty"`
	// File is what belongs to it in the record.
	File    string `json:"file,omitempty"`
	Content []byte `json:"content,omitempty"`
}

// catchUp brings into the record what an earlier run on this machine did and could not write there any more.
func (r *runner) catchUp(ctx context.Context) error {
	caught := false
	for _, id := range r.journal.Runs() {
		if id == r.held.Lock.ID {
			continue
		}
		for task, raw := range r.journal.Finished(id) {
			var done outcome
			if err := json.Unmarshal(raw, &done); err != nil {
				return fmt.Errorf("read journal of %s: %w", task, err)
			}
			was := r.done(plan.ID(task))
			if done.Step == nil || was != nil && !was.Finished.Before(done.Step.Finished) {
				continue
			}
			if err := r.write(ctx, plan.ID(task), done); err != nil {
				return err
			}
			caught = true
		}
		if err := r.journal.Clear(id); err != nil {
			return err
		}
	}
	if caught {
		r.record = r.held.Record()
		return r.replan(ctx)
	}
	return nil
}

// tasks are the plan's steps that are taken.
func (r *runner) tasks() []run.Task {
	taken := map[plan.ID]bool{}
	for i := range r.plan.Steps {
		if s := &r.plan.Steps[i]; s.Action == plan.Run || s.Action == plan.Remove {
			taken[s.ID] = true
		}
	}
	var tasks []run.Task
	for i := range r.plan.Steps {
		s := r.plan.Steps[i]
		r.digests[s.ID] = s.Digest
		if !taken[s.ID] {
			continue
		}
		task := run.Task{ID: string(s.ID), Do: func(ctx context.Context, t *run.Progress) error {
			if s.Action == plan.Remove {
				return r.remove(ctx, s, t)
			}
			return r.take(ctx, s, t)
		}}
		for _, need := range s.Needs {
			if taken[need] {
				task.Needs = append(task.Needs, string(need))
			}
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// take takes one step, once all that it needs is done.
func (r *runner) take(ctx context.Context, s plan.Step, t *run.Progress) error {
	if err := r.journal.Begin(r.held.Lock.ID, string(s.ID)); err != nil {
		return err
	}
	c, step, commit, err := r.generate(ctx, s.ID)
	if err != nil {
		return err
	}
	done := &ledger.Step{Kind: step.Kind, Needs: step.Needs, Commit: commit, By: r.held.Lock.Holder}
	result := outcome{Step: done}
	var given *compose.Values // of a step that gives outputs
	owes := false
	switch {
	case step.Terraform != nil:
		err = r.logged(s.ID, func(log io.Writer) (err error) {
			given, err = r.terraform(ctx, s.ID, step, &result, log, t)
			return err
		})
	case step.Wait != nil:
		given, err = r.wait(ctx, step, c, commit, t)
	default:
		owes, err = r.services(ctx, s.ID, step, commit, done, t)
	}
	if err != nil {
		return err
	}
	if done.Commit, err = r.keepOutputs(ctx, s.ID, given, commit); err != nil {
		return err
	}
	said := done.Parts // by the step itself
	done.Digest, done.Parts = r.settle(&s, step.Digest, r.world.targets([]*compose.Composed{c})[s.ID])
	maps.Copy(done.Parts, said)
	done.Finished = time.Now().UTC()
	result.Installation = r.about(c)
	if owes { // as long as that is so, another run has to take the step again
		r.mu.Lock()
		r.owing[s.ID] = result
		r.mu.Unlock()
		half := *done
		half.Digest = ""
		result.Step = &half
	}
	if err := r.finish(ctx, s.ID, result); err != nil {
		return err
	}
	if step.Terraform == nil {
		return nil
	}
	return os.RemoveAll(r.moduleDir(s.ID)) // the state lies there in clear, and is in the record now
}

// generate makes what a step's package generates a commit, and returns the step as that has it.
func (r *runner) generate(ctx context.Context, id plan.ID) (*compose.Composed, *compose.Step, string, error) {
	r.committing.Lock() // there is one branch, and other steps of the package generate the same files
	defer r.committing.Unlock()
	c, step, err := r.world.compose(id)
	if err != nil {
		return nil, nil, "", err
	}
	if len(step.Waiting) > 0 {
		return nil, nil, "", fmt.Errorf("%s gave no outputs", step.Waiting[0])
	}
	commit, err := r.world.commit(ctx, "Deploy "+string(id), c.Files)
	if err == nil && len(c.Files) > 0 { // a sealed file stands in digests by what git keeps of it, which it does only now
		c, step, err = r.world.compose(id)
	}
	return c, step, commit, err
}

// finish writes down that a step is done: on this machine first, which takes no network, then in the record.
func (r *runner) finish(ctx context.Context, id plan.ID, result outcome) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := r.journal.End(r.held.Lock.ID, string(id), raw); err != nil {
		return err
	}
	return r.write(ctx, id, result)
}

// write puts what became of a step into the record.
func (r *runner) write(ctx context.Context, id plan.ID, result outcome) error {
	files := map[string][]byte{}
	if result.File != "" {
		files[result.File] = result.Content
	}
	return r.held.Update(ctx, func(record *ledger.Record) {
		name, step := id.Installation(), id.Step()
		was := record.Installations[name]
		if result.Step == nil { // taken down
			if was != nil {
				delete(was.Steps, step)
				if len(was.Steps) == 0 {
					delete(record.Installations, name)
				}
			}
			return
		}
		now := result.Installation
		now.Steps = map[string]*ledger.Step{}
		if was != nil {
			now.Steps = was.Steps
		}
		now.Steps[step] = result.Step
		record.Installations[name] = &now
	}, files)
}

// about is what the record says of an installation as it is now.
func (r *runner) about(c *compose.Composed) ledger.Installation {
	return ledger.Installation{
		Package: c.Package.Metadata.Name, Version: c.Version, PayloadDigest: c.PayloadDigest, DependsOn: c.DependsOn,
		Protected: c.Protected,
	}
}

// keepOutputs makes what a step gave readable for those after it, by way of git.
func (r *runner) keepOutputs(ctx context.Context, id plan.ID, given *compose.Values, commit string) (string, error) {
	if given == nil {
		return commit, nil
	}
	r.committing.Lock() // another step's outputs stand in the same file
	defer r.committing.Unlock()
	files, err := compose.Learn(r.world.now().files, id.Installation(), id.Step(), *given)
	if err != nil {
		return "", err
	}
	return r.world.commit(ctx, "Keep the outputs of "+string(id), files)
}

// settle is the step's digest, now that all is known which it has read.
func (r *runner) settle(s *plan.Step, inputs string, clusters []string) (string, map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Settle(inputs, clusters, func(need plan.ID) string { return r.digests[need] })
	r.digests[s.ID] = s.Digest
	return s.Digest, s.Parts
}

// cluster is the way to a cluster from this machine, if there is one.
func (r *runner) cluster(name string) (*release.Cluster, error) {
	config, ok := r.reach[name]
	if !ok {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clusters[name]; c != nil {
		return c, nil
	}
	c, err := release.Connect(name, config, release.Options{Auth: r.world.agent(name), DeferPrune: true})
	if err != nil {
		return nil, err
	}
	r.clusters[name] = c
	return c, nil
}

func (r *runner) disconnect() {
	for _, c := range r.clusters {
		c.Close()
	}
}
