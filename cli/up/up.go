// Package up owns the two commands that make a whole fleet come and go: up, down.
package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/cryptocmd"
	"github.com/pluralsh/plural/cli/local"
	"github.com/pluralsh/plural/cli/progress"
	"github.com/pluralsh/plural/cli/ui"
	installer "github.com/pluralsh/plural/installer/local"
	"github.com/pluralsh/plural/workspace"
)

type options struct {
	factory  *cmdutil.Factory
	dir      string
	local    bool
	name     string
	clusters []string
	chosen   bool // clusters were named, and are not the default
	port     int
}

// NewCmdUp is `plural up`.
func NewCmdUp(f *cmdutil.Factory, runF func(*options) error) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "up --local [DIR]",
		Short:   "Bring up a fleet on this machine",
		GroupID: cmdutil.GroupStart,
		Long: "Bring up a fleet on this machine: a hub, a management cluster, two more, and an installation repo in DIR\n" +
			"(default ./fleet) that they follow. The clusters are real Kubernetes API servers with simulated nodes: no\n" +
			"containers run. Run it again to go on where it was interrupted.",
		Example: cmdutil.Example("plural up --local", "plural up --local ./demo --port 9000"),
		Args:    cmdutil.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir, o.chosen = dirOf(f, args), cmd.Flags().Changed("clusters")
			if runF != nil {
				return runF(o)
			}
			return run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.local, "local", false, "make the clusters on this machine")
	flags.StringVar(&o.name, "name", "", "the workspace's `NAME` (default the folder's)")
	flags.StringSliceVar(&o.clusters, "clusters", []string{"mgmt", "edge-1", "edge-2"}, "the clusters' `NAMES`, the management cluster first; without it, those of the last up")
	flags.IntVar(&o.port, "port", 8080, "the hub's `PORT`; another is taken when it is in use")
	return cmd
}

// dirOf is the folder that is meant: the argument, -C, or ./fleet.
func dirOf(f *cmdutil.Factory, args []string) string {
	switch {
	case len(args) > 0:
		return args[0]
	case f.Dir != "":
		return f.Dir
	}
	return "fleet"
}

func run(ctx context.Context, o *options) error {
	f := o.factory
	if !o.local {
		return &ui.Err{Msg: "where are the clusters to come from?", Fix: "plural up --local makes them on this machine"}
	}
	programs, err := local.FindPrograms()
	if err != nil {
		return err
	}
	at, err := installer.At(o.dir, local.StateDir())
	if err != nil {
		return err
	}
	if known, err := at.Members(); err != nil {
		return err
	} else if len(known) > 0 && !o.chosen {
		o.clusters = known
	}
	if o.name == "" {
		o.name = filepath.Base(at.Repo)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not up after %v", patience))
	defer cancel()
	reporter := progress.New(f.IO, f.LogFormat, f.Now)
	result, err := at.Up(ctx, installer.Options{
		Name: o.name, Clusters: o.clusters, Port: o.port,
		Plural: programs.Plural, Localkube: programs.Localkube, Agent: programs.Agent,
		Reporter: reporter, Keys: f.Keys(), Confirmed: f.Confirmed(),
		Seal: func(ctx context.Context, repo *workspace.Repo) error {
			_, _, err := cryptocmd.Begin(ctx, f, repo)
			return err
		},
		Status: func(ctx context.Context, hub, token string) (*v1.Status, error) {
			c, err := client.New(hub, token, f.Version)
			if err != nil {
				return nil, err
			}
			return c.Status(ctx)
		},
	})
	reporter.Close()
	if err != nil {
		return explain(ctx, err, o.dir)
	}
	if err := f.Hosts().Save(result.HubURL, result.Token); err != nil {
		return err
	}
	return show(f, result, o.dir)
}

// patience is how long a fleet may take to come up before it is said to hang. Slow machines take a few minutes.
const patience = 10 * time.Minute

func explain(ctx context.Context, err error, dir string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &ui.Err{
			Msg: "interrupted; what is up stays up", Fix: "plural up --local " + dir + " goes on, plural down " + dir + " ends it",
			Code: ui.ExitInterrupted, Err: err,
		}
	}
	return &ui.Err{
		Msg: "the fleet did not come up", Cause: err.Error(),
		Fix: "mend that and run plural up --local " + dir + " again; plural down " + dir + " ends it", Err: err,
	}
}

// outcome is what up prints for programs.
type outcome struct {
	Repo   string     `json:"repo"`
	Hub    string     `json:"hub"`
	Status *v1.Status `json:"status"`
}

func show(f *cmdutil.Factory, result *installer.Result, dir string) error {
	printer, err := f.Printer("table")
	if err != nil {
		return err
	}
	return printer.Print(ui.View{
		Value: outcome{result.Fleet.Repo, result.HubURL, result.Status},
		Names: []string{"hub/" + result.HubURL},
		Screen: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "hub   %s\nrepo  %s\nnext  cd %s && plural status\n", result.HubURL, result.Fleet.Repo, dir)
			return err
		},
	})
}

// NewCmdDown is `plural down`.
func NewCmdDown(f *cmdutil.Factory) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:     "down [DIR]",
		Short:   "Take a local fleet down",
		GroupID: cmdutil.GroupStart,
		Long: "Take a local fleet down: its processes end and its clusters are deleted. The installation repo in DIR (default:\n" +
			"the one around the working directory, else ./fleet) and its origin stay.",
		Example: cmdutil.Example("plural down", "plural down ./demo", "plural down --keep-clusters"),
		Args:    cmdutil.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := dirOf(f, args)
			if repo, err := f.Repo(); err == nil && len(args) == 0 {
				dir = repo.Root()
			}
			return down(cmd.Context(), f, dir, keep)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep-clusters", false, "end the processes, but keep the clusters' data for the next up")
	return cmd
}

func down(ctx context.Context, f *cmdutil.Factory, dir string, keep bool) error {
	at, err := local.Existing(dir)
	if err != nil {
		return err
	}
	if err := at.Down(ctx, keep); err != nil {
		return err
	}
	f.Say("the fleet is down; the repo stays in %s", at.Repo)
	return nil
}
