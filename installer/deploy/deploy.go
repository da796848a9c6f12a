// Package deploy owns `plural deploy` without its command line: the plan and the run of an installation repo's packages.
//
// It refuses to know terminals: what it does is told to a Reporter, and what it needs to know of people and hubs it is given.
//
// Open reads the repo, composes each installation, and compares that with the record on the git host: the plan. Run takes the
// record's lock, plans once more, and carries the steps out, those that do not need each other side by side. What a step gives
// becomes a commit before the next one reads it; what a step did goes into the record. So a run that ends anywhere, by a
// failure or by a kill, leaves what the next one goes on from, and a run without changes writes nothing, neither here nor there.
//
// Whatever runs on clusters is a Service of the fleet. Where an agent reports to a hub, the step is over when the hub says that
// the service is well there; elsewhere it is put there from here, as the agent would have.
package deploy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/installer/run"
	"github.com/pluralsh/plural/installer/terraform"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/compose"
)

// Options are what a deploy works with.
type Options struct {
	Repo *workspace.Repo
	// Dir is the folder for what must survive a kill: one of this repo alone, readable by nobody else.
	Dir string
	// Identities are the person's, with which sealed files are opened.
	Identities func() ([]age.Identity, error)
	// Reach finds the clusters that this machine has a way to. Those that it has none to are left out.
	Reach func(clusters []string) (map[string]*rest.Config, error)
	// Hub is the fleet's; nil where there is none yet.
	Hub Hub
	// Environment is what git has besides this process's: its filter is this program, which needs a key.
	Environment []string
	// NoInput keeps git from asking anybody.
	NoInput bool
	// Only are the installations that are meant, with all that they need; empty means all.
	Only []string
	// Gone are installations whose steps are taken though the record has them: their cluster lost what they put there.
	Gone []string
	// Down plans to take everything down that the record has, but what is protected; installations in First go before all
	// others.
	Down  bool
	First []string
	// AllowDestroy lets terraform destroy what it made, where the package does not say that it may.
	AllowDestroy bool
	// TerraformUnlock is the id of a lock on terraform's state that is taken away from its holder, who is gone.
	TerraformUnlock string
	Parallel        int
	// Patience is how long the hub may take to bring a service about, or away; zero means ten minutes.
	Patience time.Duration
	Reporter run.Reporter
	// Stop, once it is closed, starts no more steps; those that run are waited for.
	Stop <-chan struct{}
	// Tool finds what runs terraform modules; nil means terraform.Find.
	Tool func(ctx context.Context, want terraform.Want) (*terraform.Tool, error)
}

// Hub is what a deploy asks of the fleet's hub.
type Hub interface {
	// Hears says whether the agent of a cluster reports to the hub, which then puts services there.
	Hears(ctx context.Context, cluster string) (bool, error)
	// Healthy waits until the hub says that a service is well on a cluster as it is wanted. The error is a *NotHealthyError
	// when ctx ends before.
	Healthy(ctx context.Context, w Wanted, told func(text string)) error
	// Gone waits until the hub says that a cluster no longer has a service.
	Gone(ctx context.Context, service, cluster string, told func(text string)) error
}

// Wanted is a service on a cluster, as a commit asks for it.
type Wanted struct {
	Commit           string
	Time             time.Time
	Service, Cluster string
	// Key is the deployment's; empty where only the hub can tell.
	Key string
}

// NotHealthyError says what a hub said last of something that took too long.
type NotHealthyError struct{ Service, Cluster, Last string }

// Error says it.
func (e *NotHealthyError) Error() string {
	return fmt.Sprintf("service %s on cluster %s: %s", e.Service, e.Cluster, e.Last)
}

// Fix says where to look.
func (e *NotHealthyError) Fix() string { return "plural why " + e.Service }

// Dir is the folder below all, the folder of all repos on this machine, for the repo at root.
func Dir(all, root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(all, filepath.Base(root)+"-"+hex.EncodeToString(sum[:4]))
}

// Deploy is one deploy of one installation repo.
type Deploy struct {
	Options
	world  *world
	ledger *ledger.Ledger
	record *ledger.Record
	plan   *plan.Plan
	tools  map[plan.ID]*terraform.Tool
	// missing says why a step has no tool.
	missing map[plan.ID]error
}

// DirtyError says that what is to be deployed is not committed.
type DirtyError struct{ Paths []string }

// Error names the paths.
func (e *DirtyError) Error() string {
	return strings.Join(e.Paths, ", ") + " has changes that are not committed"
}

// Fix says what to do.
func (e *DirtyError) Fix() string {
	return "git add " + strings.Join(e.Paths, " ") + " && git commit"
}

// BehindError says that this clone lacks a commit that was deployed.
type BehindError struct{ Commit, By string }

// Error names the commit.
func (e *BehindError) Error() string {
	return fmt.Sprintf("commit %.12s, which %s deployed, is not in this branch, and nothing is deployed or taken down without it",
		e.Commit, e.By)
}

// Fix says what to do.
func (e *BehindError) Fix() string { return "git pull" }

// Open reads the repo and the record, and plans. Nothing is written.
func Open(ctx context.Context, o Options) (*Deploy, error) {
	if o.Tool == nil {
		o.Tool = terraform.Find
	}
	o.Patience = cmp.Or(o.Patience, 10*time.Minute)
	d := &Deploy{Options: o}
	var err error
	if d.world, err = openWorld(ctx, &o, ""); err != nil {
		return nil, err
	}
	if d.ledger, err = ledger.Open(o.Repo); err != nil {
		return nil, err
	}
	d.ledger.NoInput = o.NoInput
	if d.record, err = d.ledger.Read(ctx); err != nil {
		return nil, err
	}
	if err := d.known(o.Only); err != nil {
		return nil, err
	}
	return d, d.replan(ctx)
}

// known refuses installations that are neither in the repo nor in the record.
func (d *Deploy) known(names []string) error {
	for _, name := range names {
		if _, ok := d.world.now().state.Fleet.Installation(name); !ok && d.record.Installations[name] == nil {
			return &UnknownError{Name: name, Known: d.world.names()}
		}
	}
	return nil
}

// UnknownError says that the repo has no such installation.
type UnknownError struct {
	Name  string
	Known []string
}

// Error names it.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("no package %q is installed", e.Name)
}

// Fix says which there are.
func (e *UnknownError) Fix() string {
	if len(e.Known) == 0 {
		return "plural package add " + e.Name
	}
	return "one of " + strings.Join(e.Known, ", ") + "; plural package add " + e.Name
}

// Plan is what Run would do.
func (d *Deploy) Plan() *plan.Plan { return d.plan }

// replan compares the world with the record.
func (d *Deploy) replan(ctx context.Context) error {
	if d.Down {
		d.plan = plan.Down(d.guarded(), d.First...).Only(d.Only)
		return nil
	}
	if err := d.ahead(); err != nil {
		return err
	}
	composed, err := d.world.composeAll()
	if err != nil {
		return err
	}
	made, err := plan.Of(composed, d.record, plan.Facts{
		Tools: d.findTools(ctx, composed), Clusters: d.world.targets(composed), Gone: d.Gone,
	})
	if err != nil {
		return err
	}
	made = made.Only(d.Only)
	for i := range made.Steps { // before anything is done
		if s := &made.Steps[i]; s.Action == plan.Run && d.missing[s.ID] != nil {
			return fmt.Errorf("%s: %w", s.ID, d.missing[s.ID])
		}
	}
	d.plan = made
	return nil
}

// guarded is the record with what the repo protects and the record does not know of yet.
func (d *Deploy) guarded() *ledger.Record {
	out := &ledger.Record{Installations: maps.Clone(d.record.Installations), Lock: d.record.Lock}
	for name, was := range out.Installations {
		if in, ok := d.world.now().state.Fleet.Installation(name); ok && in.Spec.Protected {
			is := *was
			is.Protected = true
			out.Installations[name] = &is
		}
	}
	return out
}

// DestroyError says what terraform would destroy although nobody has asked for that.
type DestroyError struct{ Steps []plan.ID }

// Error names the steps.
func (e *DestroyError) Error() string {
	names := make([]string, len(e.Steps))
	for i, id := range e.Steps {
		names[i] = string(id)
	}
	return "no package has " + strings.Join(names, ", ") + " any more, and terraform would destroy all that was made there"
}

// Fix says what to do.
func (e *DestroyError) Fix() string {
	return "if that is meant: --allow-destroy; if not, see what took it away: git log packages/" + e.Steps[0].Installation()
}

// Refused says why the plan is not carried out as it is, if it is not: a step that is gone, perhaps because a new version of a
// package calls it otherwise, is no reason to destroy what it made. Going down is one.
func (d *Deploy) Refused(ctx context.Context) error {
	if d.AllowDestroy || d.Down {
		return nil
	}
	refused := &DestroyError{}
	for i := range d.plan.Steps {
		s := &d.plan.Steps[i]
		if s.Action == plan.Remove && s.Kind == compose.Terraform && !d.mayGo(ctx, s.ID) {
			refused.Steps = append(refused.Steps, s.ID)
		}
	}
	if len(refused.Steps) == 0 {
		return nil
	}
	return refused
}

// mayGo says whether a step that is gone said, when it was taken, that what it makes may be destroyed.
func (d *Deploy) mayGo(ctx context.Context, id plan.ID) bool {
	then, err := d.openDeployed(ctx, d.done(id))
	if err != nil {
		return false
	}
	_, step, err := then.compose(id)
	return err == nil && step.Terraform != nil && step.Terraform.AllowDestroy
}

// ahead refuses a clone that does not have what was deployed.
func (d *Deploy) ahead() error {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.record.Installations)) {
		for _, step := range d.record.Installations[name].Steps {
			if step.Commit == "" || seen[step.Commit] {
				continue
			}
			seen[step.Commit] = true
			if err := d.contains(step); err != nil {
				return err
			}
		}
	}
	return nil
}

// findTools finds what each terraform step is run with, and says so for the plan. One that is not there is an error only when
// the step has to be taken.
func (d *Deploy) findTools(ctx context.Context, composed []*compose.Composed) map[plan.ID]string {
	d.tools, d.missing = map[plan.ID]*terraform.Tool{}, map[plan.ID]error{}
	versions := map[plan.ID]string{}
	found := map[terraform.Want]*terraform.Tool{}
	for _, c := range composed {
		for i := range c.Steps {
			step := &c.Steps[i]
			m := module(c.Package, step.Name)
			if m == nil || step.Skipped {
				continue
			}
			id := plan.NewID(c.Name, step.Name)
			want := terraform.Want{Product: terraform.Product(m.Product), Version: m.Version}
			tool, err := found[want], error(nil)
			if tool == nil {
				tool, err = d.Tool(ctx, want)
			}
			if err != nil {
				d.missing[id] = err
				if was := d.done(id); was != nil && was.Product != "" { // the record says what it was made with
					versions[id] = was.Product + " " + was.Version
				}
				continue
			}
			found[want] = tool
			d.tools[id] = tool
			versions[id] = string(tool.Product) + " " + tool.Version
		}
	}
	return versions
}

func (d *Deploy) done(id plan.ID) *ledger.Step {
	if was := d.record.Installations[id.Installation()]; was != nil {
		return was.Steps[id.Step()]
	}
	return nil
}

// ErrNothing says that there is nothing to run.
var ErrNothing = errors.New("nothing to do")
