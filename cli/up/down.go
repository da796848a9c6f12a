package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/deploy"
	"github.com/pluralsh/plural/cli/local"
	"github.com/pluralsh/plural/cli/pkg"
	"github.com/pluralsh/plural/cli/ui"
	installed "github.com/pluralsh/plural/installer/deploy"
	"github.com/pluralsh/plural/installer/ledger"
	installer "github.com/pluralsh/plural/installer/local"
	"github.com/pluralsh/plural/workspace"
)

type downOptions struct {
	f          *cmdutil.Factory
	dir        string
	keep       bool
	dryRun     bool
	kubeconfig string
	contexts   []string
	confirm    string
}

// NewCmdDown is `plural down`.
func NewCmdDown(f *cmdutil.Factory) *cobra.Command {
	o := &downOptions{f: f}
	cmd := &cobra.Command{
		Use:     "down [DIR]",
		Aliases: []string{"destroy"},
		Short:   "Take a fleet down",
		GroupID: cmdutil.GroupStart,
		Long: "Take a fleet down. The installation repo in DIR (default: the one around the working directory, else ./fleet) and its\n" +
			"origin stay.\n\n" +
			"Of a fleet on this machine the processes end and the clusters are deleted. Of any other, the packages that were deployed\n" +
			"are taken down in the opposite order, agents first, so that nobody puts anything back: services are removed from the\n" +
			"clusters that this machine reaches, terraform destroys what it made. What is protected stays, with all that it needs. What\n" +
			"fails keeps nothing else from going, is listed, and is tried again by the next down. A single package goes by\n" +
			"plural package remove, with plural deploy after it.",
		Example: cmdutil.Example("plural down", "plural down ./demo --keep-clusters",
			"plural down --context mgmt=prod --confirm=fleet"),
		Args: cmdutil.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = dirOf(f, args)
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.keep, "keep-clusters", false,
		"of a fleet on this machine: end the processes, but keep the clusters' data for the next up")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would be taken down, and take nothing down")
	flags.StringVar(&o.confirm, "confirm", "", "the workspace's `NAME`: take its packages down without asking")
	flags.StringArrayVar(&o.contexts, "context", nil,
		"reach a cluster by this context, `CLUSTER=CONTEXT` (default: the one of its name)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "read contexts from this `FILE` (default: as kubectl)")
	return cmd
}

func (o *downOptions) run(ctx context.Context) error {
	at, err := local.Existing(o.dir)
	if err == nil && o.dryRun {
		gone := ", and delete the clusters with all that is on them"
		if o.keep {
			gone = ""
		}
		o.f.Say("it would end %s%s; the repo would stay in %s", running(at), gone, at.Repo)
		return nil
	}
	if err == nil {
		if o.f.Timeout == 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, downPatience, fmt.Errorf("not down after %s", downPatience))
			defer cancel()
		}
		defer time.AfterFunc(downNamed, func() { o.f.Say("waiting for %s", running(at)) }).Stop()
		if err := at.Down(ctx, o.keep); errors.Is(err, context.Canceled) {
			return err
		} else if err != nil {
			return &ui.Err{
				Msg: "the fleet is not down", Cause: err.Error() + "; still there: " + running(at),
				Fix: "plural down " + o.dir + " goes on; plural local list -o wide names their logs", Doc: ui.DocLocal, Err: err,
			}
		}
		o.f.Say("the fleet is down; the repo stays in %s", at.Repo)
		return nil
	}
	repo, notRepo := workspace.Find(o.dir)
	if notRepo != nil {
		return err
	}
	repo.UseKeys(o.f.Keys())
	return o.takeDown(ctx, repo)
}

const (
	// downPatience is how long a fleet's processes may take to end where --timeout says nothing, downNamed when those are told that do.
	downPatience = 2 * time.Minute
	downNamed    = 5 * time.Second
)

// running are the processes of a local fleet that still run.
func running(at installer.Fleet) string {
	parts, err := at.Parts()
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, p := range parts {
		if p.PID != 0 {
			names = append(names, p.Name)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "the supervisor")
}

func (o *downOptions) takeDown(ctx context.Context, repo *workspace.Repo) error {
	printer, err := o.f.Printer("table")
	if err != nil {
		return err
	}
	work, stop, done := o.f.Patiently(ctx)
	defer done()
	agents, err := agentsOf(work, repo)
	if err != nil {
		return err
	}
	d, reporter, err := deploy.Open(work, o.f, repo, deploy.Choice{
		Down: true, First: agents, Stop: stop, Kubeconfig: o.kubeconfig, Contexts: o.contexts,
	})
	if err != nil {
		return deploy.Explain(err)
	}
	defer reporter.Close()
	if o.dryRun {
		return printer.Print(deploy.PlanView(d.Plan(), nil))
	}
	if !d.Plan().Changes() {
		if _, err := d.Run(work, "plural down"); !errors.Is(err, installed.ErrNothing) {
			return deploy.Explain(err)
		}
		o.f.Say("nothing is deployed")
		return nil
	}
	if err := o.agree(ctx, repo, d); err != nil {
		return err
	}
	report, err := d.Run(work, "plural down")
	reporter.Close()
	return deploy.Tell(o.f, printer, d.Plan(), report, err)
}

// agentsOf are the installations of agents in the record. They go first: an agent would put back what goes.
func agentsOf(ctx context.Context, repo *workspace.Repo) ([]string, error) {
	l, err := ledger.Open(repo)
	if err != nil {
		return nil, err
	}
	record, err := l.Read(ctx)
	if err != nil {
		return nil, err
	}
	var agents []string
	for name, i := range record.Installations {
		if i.Package == pkg.AgentPackage {
			agents = append(agents, name)
		}
	}
	slices.Sort(agents)
	return agents, nil
}

// agree has a person type the workspace's name: a fleet does not come back by itself.
func (o *downOptions) agree(ctx context.Context, repo *workspace.Repo, d *installed.Deploy) error {
	w, err := cmdutil.Manifest(repo)
	if err != nil {
		return err
	}
	name := w.Metadata.Name
	deploy.ShowPlan(o.f, d.Plan())
	if o.confirm == name {
		return nil
	}
	if o.confirm != "" {
		return &ui.Err{
			Msg: fmt.Sprintf("--confirm=%s is not this workspace's name", o.confirm), Fix: "--confirm=" + name, Doc: ui.DocUnconfirmed,
		}
	}
	typed := ""
	err = o.f.Prompter().Ask(ctx, []ui.Question{{
		Flag: "confirm", Title: "Type " + name + " to take all of this down", Value: &typed, Wanted: name,
		Check: func(answer string) error {
			if answer != name {
				return errors.New("that is not the workspace's name")
			}
			return nil
		},
	}})
	if err != nil {
		return err
	}
	return nil
}
