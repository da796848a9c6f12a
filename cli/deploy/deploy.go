// Package deploy owns `plural deploy`.
//
// It refuses to know what steps do: installer/deploy does. What it says goes to people, what came of it to programs too.
package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/adrg/xdg"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/progress"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/clusters"
	"github.com/pluralsh/plural/installer/deploy"
	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/installer/run"
	"github.com/pluralsh/plural/installer/terraform"
	"github.com/pluralsh/plural/workspace"
)

type options struct {
	f            *cmdutil.Factory
	packages     []string
	dryRun       bool
	exitCode     bool
	unlock       string
	allowDestroy bool
	// terraformUnlock is the lock of a terraform that is gone.
	terraformUnlock string
	parallel        int
	kubeconfig      string
	contexts        []string
}

// NewCmdDeploy is `plural deploy`.
func NewCmdDeploy(f *cmdutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:     "deploy [PACKAGE...]",
		Short:   "Install packages in the order of their dependencies",
		GroupID: cmdutil.GroupStart,
		Long: `Install the packages that the installation repo asks for, or only those named
with all that they need: terraform is run, services are put on their clusters,
and what was installed before and is asked for no longer is taken down. Steps
that do not need each other run side by side.

What has not changed since the last deploy is left alone. A deploy that was
interrupted, by whatever, goes on where it stopped when it is run again. Only
one person deploys at a time: a second one is told who does.`,
		Example: cmdutil.Example("plural deploy", "plural deploy monitoring --yes", "plural deploy --dry-run --exit-code"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.packages = args
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would be done, and do nothing")
	flags.BoolVar(&o.exitCode, "exit-code", false, "with --dry-run: end with 2 when there is something to do")
	flags.StringVar(&o.unlock, "unlock", "", "take the lock with this `ID` away from a deploy that died on another machine")
	flags.StringVar(&o.terraformUnlock, "terraform-unlock", "",
		"take the lock with this `ID` away from a terraform that died, and go on")
	flags.BoolVar(&o.allowDestroy, "allow-destroy", false, "let terraform destroy or replace what it made")
	flags.IntVar(&o.parallel, "parallel", 0, "how many steps run at once (default 8)")
	flags.StringArrayVar(&o.contexts, "context", nil,
		"reach a cluster by this context, `CLUSTER=CONTEXT` (default: the one of its name)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "read contexts from this `FILE` (default: as kubectl)")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	repo, err := o.f.Repo()
	if err != nil {
		return err
	}
	if o.unlock != "" {
		return Unlock(ctx, repo, o.f.NoInput, o.unlock)
	}
	return Carry(ctx, o.f, repo, Choice{
		Only: o.packages, AllowDestroy: o.allowDestroy, TerraformUnlock: o.terraformUnlock, Parallel: o.parallel,
		Kubeconfig: o.kubeconfig, Contexts: o.contexts,
	}, RunOptions{Command: "plural deploy", DryRun: o.dryRun, ExitCode: o.exitCode})
}

// RunOptions is how a deploy is carried out.
type RunOptions struct {
	// Command is what the person ran, for the record.
	Command string
	// DryRun shows what would be done, and does nothing; with ExitCode that there is something is ui.ExitDiffers.
	DryRun, ExitCode bool
}

// Carry shows what is to be done, asks whether it is meant, does it, and prints what came of it. A first interrupt lets the steps
// that are under way end.
func Carry(ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, c Choice, m RunOptions) error {
	printer, err := f.Printer("table")
	if err != nil {
		return err
	}
	work, stop, done := f.Patiently(ctx)
	defer done()
	c.Stop = stop
	d, reporter, err := Open(work, f, repo, c)
	if err != nil {
		return Explain(err)
	}
	defer reporter.Close()
	made := d.Plan()
	if m.DryRun {
		return foresee(work, f, d, printer, m)
	}
	if !made.Changes() {
		if _, err := d.Run(work, m.Command); !errors.Is(err, deploy.ErrNothing) {
			return Explain(err)
		}
		f.Say("nothing to do: %d steps are as they should be", made.Count(plan.Unchanged))
		return printer.Print(reportView(made, nil))
	}
	if err := d.Refused(work); err != nil {
		ShowPlan(f, made)
		return Explain(err)
	}
	if err := Agree(ctx, f, made); err != nil {
		return err
	}
	report, err := d.Run(work, m.Command)
	reporter.Close()
	return Tell(f, printer, made, report, err)
}

// foresee prints what a deploy would do.
func foresee(ctx context.Context, f *cmdutil.Factory, d *deploy.Deploy, printer *ui.Printer, m RunOptions) error {
	made := d.Plan()
	if len(made.Steps) == 0 {
		f.Say("nothing to do: the repo has no packages")
	}
	known, err := d.Foresee(ctx)
	if err != nil {
		return err
	}
	if err := printer.Print(PlanView(made, known)); err != nil {
		return err
	}
	if m.ExitCode && made.Changes() {
		return ui.Silent(ui.ExitDiffers)
	}
	return nil
}

// Choice is what a person says about a deploy.
type Choice struct {
	Only         []string
	AllowDestroy bool
	// TerraformUnlock is the id of a lock of a terraform that died.
	TerraformUnlock string
	Parallel        int
	Stop            <-chan struct{}
	Kubeconfig      string
	Contexts        []string
	// Gone are installations that their cluster has lost.
	Gone []string
	// Down takes down what was deployed, installations in First before all others.
	Down  bool
	First []string
}

// Open opens the repo for a deploy, with what this machine knows of clusters and the hub. The reporter is to be closed.
func Open(ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, c Choice) (*deploy.Deploy, progress.Reporter, error) {
	reporter := progress.New(f.IO, f.LogFormat, f.Now)
	d, err := OpenFor(ctx, f, repo, reporter, c)
	if err != nil {
		reporter.Close()
		return nil, nil, err
	}
	return d, reporter, nil
}

// OpenFor is Open with a reporter that is there already.
func OpenFor(ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, reporter run.Reporter, c Choice) (*deploy.Deploy, error) {
	hub, err := hubOf(f)
	if err != nil {
		return nil, err
	}
	ways := clusters.Locator{
		Root: repo.Root(), Config: f.ConfigDir(), Local: cmdutil.LocalState(),
		Kubeconfig: c.Kubeconfig, Contexts: c.Contexts,
	}
	return deploy.Open(ctx, deploy.Options{
		Repo: repo, Dir: deploy.Dir(filepath.Join(xdg.StateHome, "plural", "deploy"), repo.Root()), Identities: f.Identities().Load,
		Environment: f.OwnEnvironment(),
		Reach:       ways.Reach, Hub: hub, NoInput: f.NoInput || !f.IO.InTTY,
		Only: c.Only, AllowDestroy: c.AllowDestroy, TerraformUnlock: c.TerraformUnlock, Parallel: c.Parallel,
		Reporter: reporter, Stop: c.Stop, Gone: c.Gone, Down: c.Down, First: c.First,
	})
}

// Unlock takes a lock away from a deploy that died.
func Unlock(ctx context.Context, repo *workspace.Repo, noInput bool, id string) error {
	l, err := ledger.Open(repo)
	if err != nil {
		return err
	}
	l.NoInput = noInput
	return l.Break(ctx, id)
}

// ShowPlan says what is about to be done.
func ShowPlan(f *cmdutil.Factory, p *plan.Plan) {
	var text strings.Builder
	for i := range p.Steps {
		s := &p.Steps[i]
		mark, ok := marks()[s.Action]
		if !ok {
			continue
		}
		fmt.Fprintf(&text, "  %s %s (%s): %s\n", mark, s.ID, s.Kind, s.Reason)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Protect)) {
		fmt.Fprintf(&text, "  %s %s: %s\n", marks()[plan.Keep], name, protection(p, name))
	}
	f.Say("%s%d to run, %d to remove, %d unchanged", text.String(), p.Count(plan.Run), p.Count(plan.Remove), p.Count(plan.Unchanged))
}

// protection says what a plan changes about an installation's protection.
func protection(p *plan.Plan, name string) string {
	if p.Protect[name] {
		return "protected from now on"
	}
	return "protected no longer"
}

// Agree shows a plan and asks whether it is meant.
func Agree(ctx context.Context, f *cmdutil.Factory, p *plan.Plan) error {
	ShowPlan(f, p)
	if f.Yes {
		return nil
	}
	yes, err := f.Prompter().Confirm(ctx, "Do it?", "--yes")
	if err != nil {
		return err
	}
	if !yes {
		return &ui.Err{Msg: "nothing was done", Fix: "--yes does it without asking", Doc: ui.DocUnconfirmed}
	}
	return nil
}

// marks set off the steps about which something is done, or on purpose not done.
func marks() map[plan.Action]string {
	return map[plan.Action]string{plan.Run: "+", plan.Remove: "-", plan.Keep: "="}
}

// due is one step of a plan as programs read it.
type due struct {
	*plan.Step
	// Terraform is what it would do, where that was asked and is known.
	Terraform *foreseen `json:"terraform,omitempty"`
}

type foreseen struct {
	Add     int                `json:"add"`
	Change  int                `json:"change"`
	Replace int                `json:"replace"`
	Destroy int                `json:"destroy"`
	Changes []terraform.Change `json:"changes,omitempty"`
	Error   string             `json:"error,omitempty"`
}

func (f *foreseen) String() string {
	if f == nil {
		return "-"
	}
	if f.Error != "" {
		return "cannot be told: " + f.Error
	}
	return fmt.Sprintf("%d to add, %d to change, %d to replace, %d to destroy", f.Add, f.Change, f.Replace, f.Destroy)
}

// PlanView is a plan as it is printed, with what terraform would do as far as that is known.
func PlanView(p *plan.Plan, known map[plan.ID]deploy.Foreseen) ui.View {
	list := make([]due, 0, len(p.Steps))
	view := ui.View{Columns: []ui.Column{{Name: "STEP"}, {Name: "KIND"}, {Name: "ACTION"}, {Name: "REASON"}, {Name: "TERRAFORM"}}}
	for i := range p.Steps {
		s := due{Step: &p.Steps[i]}
		if f, ok := known[s.ID]; ok {
			s.Terraform = &foreseen{}
			switch {
			case f.Err != nil:
				s.Terraform.Error = f.Err.Error()
			case f.Summary != nil:
				s.Terraform = &foreseen{Add: f.Add, Change: f.Change, Replace: f.Replace, Destroy: f.Destroy, Changes: f.Changes}
			}
		}
		list = append(list, s)
		view.Rows = append(view.Rows, []string{string(s.ID), s.Kind, string(s.Action), cmdutil.OrDash(s.Reason), s.Terraform.String()})
		view.Names = append(view.Names, "step/"+string(s.ID))
	}
	view.Value = map[string][]due{"steps": list}
	return view
}

// result is what came of one step, for programs.
type result struct {
	Step    string  `json:"step"`
	Action  string  `json:"action"`
	State   string  `json:"state"`
	Seconds float64 `json:"seconds,omitempty"`
	Error   string  `json:"error,omitempty"`
}

func results(p *plan.Plan, report *run.Report) []result {
	outcomes := map[string]run.Outcome{}
	if report != nil {
		for _, o := range report.Tasks {
			outcomes[o.ID] = o
		}
	}
	list := make([]result, 0, len(p.Steps))
	for i := range p.Steps {
		s := &p.Steps[i]
		r := result{Step: string(s.ID), Action: string(s.Action), State: string(s.Action)}
		if o, ok := outcomes[r.Step]; ok {
			r.State = string(o.State)
			if !o.End.IsZero() {
				r.Seconds = o.End.Sub(o.Begin).Seconds()
			}
			if o.Err != nil {
				r.Error = o.Err.Error()
			}
		}
		list = append(list, r)
	}
	return list
}

func reportView(p *plan.Plan, report *run.Report) ui.View {
	list := results(p, report)
	view := ui.View{Value: list, Columns: []ui.Column{{Name: "STEP"}, {Name: "ACTION"}, {Name: "STATE"}, {Name: "SECONDS"}}}
	for _, r := range list {
		view.Rows = append(view.Rows, []string{r.Step, r.Action, r.State, fmt.Sprintf("%.1f", r.Seconds)})
		view.Names = append(view.Names, "step/"+r.Step)
	}
	view.Screen = func(w io.Writer) error {
		done := 0
		for _, r := range list {
			if r.State == string(run.Done) {
				done++
			}
		}
		if done == 0 {
			return nil
		}
		_, err := fmt.Fprintf(w, "%d of %d steps done\n", done, p.Count(plan.Run)+p.Count(plan.Remove))
		return err
	}
	return view
}

// Tell prints what came of a run, and makes of its error what people are told.
func Tell(f *cmdutil.Factory, printer *ui.Printer, p *plan.Plan, report *run.Report, err error) error {
	if report != nil {
		if err := printer.Print(reportView(p, report)); err != nil {
			return err
		}
	}
	return Explain(err)
}

// Explain makes one error of all steps that failed.
func Explain(err error) error {
	var incomplete *run.IncompleteError
	var unsettled *deploy.UnsettledError
	switch {
	case errors.As(err, &unsettled):
		told := &ui.Err{
			Msg: "what nothing asks for any more is still there", Fix: "mend that and run the command again: what is done stays done",
			Doc: ui.DocSteps, Err: err,
		}
		for _, each := range unsettled.Errs {
			told.Problems = append(told.Problems, problem("", each))
		}
		return told
	case !errors.As(err, &incomplete):
		return classified(err)
	}
	report := incomplete.Report
	failed, left := len(report.In(run.Failed)), len(report.In(run.NotReached))
	told := &ui.Err{
		Msg: fmt.Sprintf("%d of %d steps failed, %d not reached", failed, len(report.Tasks), left),
		Fix: "mend that and run the command again: what is done stays done", Doc: ui.DocSteps, Err: err,
	}
	if report.Stopped {
		told.Code, told.Fix = ui.ExitInterrupted, "run the command again to go on"
	}
	for _, o := range report.Tasks {
		if o.Err != nil {
			told.Problems = append(told.Problems, problem(o.ID, o.Err))
			told.Doc = cmp.Or(classOf(o.Err), told.Doc)
		}
	}
	var unreleased *deploy.UnreleasedError
	if errors.As(err, &unreleased) {
		told.Problems = append(told.Problems, problem("", unreleased))
	}
	return told
}

// problem is why a step failed, as people are told it.
func problem(step string, err error) ui.Problem {
	p := ui.Problem{Where: step, Message: err.Error()}
	var told *ui.Err
	if errors.As(cmdutil.Explain(err), &told) {
		p.Message, p.Fix = told.Error(), told.Fix
		for _, each := range told.Problems {
			p.Message += "; " + each.Message
			p.Fix = cmp.Or(p.Fix, each.Fix)
		}
	}
	return p
}
