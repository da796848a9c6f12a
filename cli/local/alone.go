package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/progress"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/completions"
	installer "github.com/pluralsh/plural/installer/local"
)

// alonePatience is how long a control plane may take to serve where --timeout says nothing. Slow machines take a minute.
const alonePatience = 5 * time.Minute

func newCmdCreate(f *cmdutil.Factory) *cobra.Command {
	var nodes int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a cluster on this machine that is of no fleet",
		Long: `Make a cluster on this machine that is of no fleet: a control plane whose nodes
are simulated, so that no containers run. Where it is there already, it is started
with that many nodes. It lives on in the background until plural local delete.`,
		Example: cmdutil.Example(
			"plural local create scratch",
			"plural local create scratch --nodes 10 --dry-run"),
		Args:              cmdutil.Exactly("NAME"),
		ValidArgsFunction: cmdutil.Complete(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return create(cmd.Context(), f, args[0], nodes, dryRun)
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 3, "how many nodes it simulates")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be made, and make nothing")
	return cmd
}

func create(ctx context.Context, f *cmdutil.Factory, name string, nodes int, dryRun bool) error {
	at, err := installer.Alone(name, cmdutil.LocalState())
	if err != nil {
		return err
	}
	if nodes < 1 {
		return &ui.Err{Msg: fmt.Sprintf("--nodes %d: a cluster has one at least", nodes), Fix: "--nodes 3", Doc: ui.DocUsage}
	}
	if dryRun {
		_, err := fmt.Fprintf(f.IO.Out, "make cluster %s with %d nodes in %s\n", name, nodes, at.Dir)
		return err
	}
	programs, err := FindPrograms()
	if err != nil {
		return err
	}
	if f.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, alonePatience, fmt.Errorf("not up after %v", alonePatience))
		defer cancel()
	}
	reporter := progress.New(f.IO, f.LogFormat, f.Now)
	err = at.Create(ctx, installer.AloneOptions{
		Name: name, Nodes: nodes, Plural: programs.Plural, Localkube: programs.Localkube, Reporter: reporter,
	})
	reporter.Close()
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return context.Cause(ctx)
		}
		return &ui.Err{
			Msg: "the cluster did not come up", Cause: err.Error(), Fix: "mend that and run it again, or: plural local delete " + name,
			Doc: ui.DocLocal, Err: err,
		}
	}
	if _, err := fmt.Fprintln(f.IO.Out, at.Kubeconfig(name)); err != nil {
		return err
	}
	f.Say("next  kubectl --kubeconfig %s get nodes", at.Kubeconfig(name))
	return nil
}

func newCmdDelete(f *cmdutil.Factory) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete clusters that plural local create made",
		Long: `Delete clusters that plural local create made, with all that is in them. Those of a
local fleet go with it: plural down.`,
		Example: cmdutil.Example("plural local delete scratch", "plural local delete scratch other --yes"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmdutil.Exactly("NAME")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: cmdutil.CompleteEach(f, completions.Fleets),
		RunE: func(cmd *cobra.Command, args []string) error {
			return remove(cmd.Context(), f, args, dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be deleted, and delete nothing")
	return cmd
}

func remove(ctx context.Context, f *cmdutil.Factory, names []string, dryRun bool) error {
	var all []installer.Fleet
	for _, name := range names { // all of them, before anything is deleted
		at, ok, err := alone(name)
		if err != nil {
			return err
		}
		if !ok {
			return &ui.Err{
				Msg: fmt.Sprintf("no cluster %q that plural local create made", name),
				Fix: "plural local list; a fleet's clusters go with it: plural down", Doc: ui.DocNotFound,
			}
		}
		all = append(all, at)
	}
	if dryRun {
		for i, name := range names {
			if _, err := fmt.Fprintf(f.IO.Out, "delete cluster %s in %s\n", name, all[i].Dir); err != nil {
				return err
			}
		}
		return nil
	}
	if !f.Yes {
		yes, err := f.Prompter().Confirm(ctx, fmt.Sprintf("Delete %s, with all that is in it?", strings.Join(names, ", ")), "--yes")
		if err == nil && !yes {
			err = context.Canceled
		}
		if err != nil {
			return err
		}
	}
	for i, name := range names {
		if err := all[i].Delete(ctx); err != nil {
			return err
		}
		f.Say("deleted cluster %s", name)
	}
	return nil
}

// alone is the place of a cluster that belongs to no fleet, and whether it is there.
func alone(name string) (at installer.Fleet, ok bool, err error) {
	if at, err = installer.Alone(name, cmdutil.LocalState()); err != nil {
		return at, false, err
	}
	_, err = os.Stat(at.Dir)
	return at, err == nil, nil
}
