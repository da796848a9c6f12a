// Package simcmd owns `plural sim`: a hub under the load of a fleet that is not there.
//
// It refuses to know how an agent behaves, and what a hub is made of. The agents are agent/sim's, in this process; the
// hub is a process of its own (stage), so that what is measured is what it will cost. A run plays scenarios one after
// the other (play.go, scenario.go), and shows one row of figures for each (show.go).
package simcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/simcmd/stage"
	"github.com/pluralsh/plural/cli/ui"
)

// options are what a person can set.
type options struct {
	factory   *cmdutil.Factory
	fleet     stage.Fleet
	scenarios []string
	lasts     time.Duration
	changes   int
	channels  int
	step      bool
	ramp      time.Duration
	poll      time.Duration
	report    time.Duration
	keep      string
	program   string
	hubArgs   []string
	bench     string
	// repo and ca belong to a hub that somebody else runs.
	repo, ca string
}

// NewCmdSim is `plural sim`.
func NewCmdSim(f *cmdutil.Factory) *cobra.Command {
	var fleet stage.Fleet
	var poll time.Duration
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Foresee how large a fleet this machine carries",
		Long: "Foresee how large a fleet the hub on this machine carries.\n\n" +
			"Measures for some 8 seconds what a poll and a bundle cost here, and says in words how many clusters that allows for, " +
			"what ends first, and what the hub of a fleet of --clusters has to be given. Memory is reckoned by docs/sizing.md. " +
			"plural sim run plays such a fleet against a real hub, for minutes.",
		GroupID: cmdutil.GroupTool,
		Example: cmdutil.Example(
			"plural sim",
			"plural sim --clusters 1500 --services 40 --poll-interval 10s",
			"plural sim run --clusters 1500 --services 40"),
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return foresee(cmd.Context(), f, fleet, poll) },
	}
	fleetFlags(cmd, &fleet)
	cmd.Flags().DurationVar(&poll, "poll-interval", 30*time.Second, "the wait between two polls of an agent")
	cmd.AddCommand(newCmdRun(f), newCmdInit(f), newCmdReplay(f))
	return cmd
}

// newCmdRun is `plural sim run`.
func newCmdRun(f *cmdutil.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Load a hub with a simulated fleet, to size it",
		Long: "Load a hub with a simulated fleet, to size it.\n\n" +
			"Makes up an installation repo, starts a hub on it as a process of its own, and lets simulated agents poll, " +
			"download, verify and report over TLS as real ones do; no Kubernetes is involved. The figures of the hub are its " +
			"process's own. With --hub and --repo the agents ask a hub that runs already, on a repo made by plural sim init. " +
			"By default it takes some three minutes.\n\n" +
			"In the scenario changes, services fall ill and recover, each on the next cluster, --changes of them a second, and are " +
			"reported at once: what a console shows then is alive. Agents by the number of --channels keep the reverse channel " +
			"open besides; there is no API server behind it. With --step nothing is played before enter is pressed, and the fleet " +
			"stays at work meanwhile.\n\n" +
			"Scenarios: " + strings.Join(scenarioNames(), ", ") + ".",
		Example: cmdutil.Example(
			"plural sim run --clusters 1100",
			"plural sim run --clusters 1000 --scenario steady,commit,storm --for 5m -o json",
			"plural sim run --clusters 500 --channels 500 --scenario changes --for 10m",
			"plural sim run --repo ./sim/fleet --clusters 500 --hub https://hub.example.com"),
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	fleetFlags(cmd, &o.fleet)
	flags := cmd.Flags()
	flags.StringSliceVar(&o.scenarios, "scenario", []string{"steady", "commit", "touch-all", "storm"}, "the `NAMES` of what to play, in order")
	flags.DurationVar(&o.lasts, "for", time.Minute, "how long the scenarios steady and changes last")
	flags.IntVar(&o.changes, "changes", 100, "how many services a second fall ill or recover in the scenario changes")
	flags.IntVar(&o.channels, "channels", 0, "how many of the agents keep the reverse channel open")
	flags.BoolVar(&o.step, "step", false, "wait for enter before each scenario")
	flags.DurationVar(&o.ramp, "ramp", 30*time.Second, "the time over which the agents start")
	flags.DurationVar(&o.poll, "poll-interval", 30*time.Second, "the wait between two polls of an agent")
	flags.DurationVar(&o.report, "report-interval", time.Minute, "the longest silence of an agent")
	flags.StringVar(&o.keep, "keep", "", "the `FOLDER` for repo, hub data and log, which are kept (default a temporary one)")
	flags.StringVar(&o.program, "program", "", "the plural program whose hub is measured (default this one)")
	flags.StringArrayVar(&o.hubArgs, "hub-arg", nil, "a further `ARGUMENT` for plural hub serve; may be repeated")
	flags.StringVar(&o.bench, "bench", "", "print lines for benchmarks in place of the table, whose names begin with this `NAME`")
	flags.StringVar(&o.repo, "repo", "", "the work tree of a fleet made by plural sim init, for --hub")
	flags.StringVar(&o.ca, "ca", "", "the `FILE` of PEM certificates to trust, for --hub")
	return cmd
}

func fleetFlags(cmd *cobra.Command, fleet *stage.Fleet) {
	flags := cmd.Flags()
	flags.IntVar(&fleet.Clusters, "clusters", 1000, "how many clusters the fleet has")
	flags.IntVar(&fleet.Services, "services", 20, "how many services each cluster runs")
	flags.IntVar(&fleet.Profiles, "profiles", 3, "how many sets of services tags pick from")
	flags.IntVar(&fleet.BundleBytes, "bundle-bytes", 4096, "about how large a service's bundle is")
	flags.StringVar(&fleet.Seed, "seed", "1", "what the agents' keys and all chance are drawn from")
}

// check refuses what cannot be played.
func (o *options) check() error {
	for _, name := range o.scenarios {
		if !slices.Contains(scenarioNames(), name) {
			return &ui.Err{Msg: fmt.Sprintf("unknown scenario %q", name), Fix: "--scenario " + strings.Join(scenarioNames(), ",")}
		}
	}
	switch {
	case (o.factory.Hub == "") != (o.repo == ""):
		return &ui.Err{Msg: "a hub that runs already, and the fleet that it serves, belong together", Fix: "give both --hub and --repo, or none"}
	case o.poll <= 0 || o.report <= 0 || o.lasts <= 0 || o.ramp < 0:
		return &ui.Err{Msg: "intervals are longer than nothing", Fix: "for example --poll-interval 30s"}
	case o.changes < 1 || o.channels < 0:
		return &ui.Err{Msg: "--changes is at least 1, and --channels at least 0", Fix: "for example --changes 100 --channels 500"}
	}
	return checkFleet(o.fleet)
}

func checkFleet(f stage.Fleet) error {
	if f.Clusters < 1 || f.Services < 1 || f.Profiles < 1 || f.BundleBytes < 0 || f.Clusters > 99_999 {
		return &ui.Err{Msg: "a fleet has clusters, services and profiles, and at most 99999 clusters", Fix: "for example --clusters 1000 --services 20"}
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	printer, err := o.factory.Printer("")
	if err != nil {
		return err
	}
	rows, err := o.play(ctx)
	if err != nil {
		return err
	}
	if o.bench != "" {
		return printBench(o.factory.IO.Out, o.bench, rows)
	}
	return printer.Print(show(rows))
}

// play sets up what is played on, plays, and removes it.
func (o *options) play(ctx context.Context) ([]row, error) {
	scene, leave, err := o.scene(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return scene.play(ctx, o.scenarios)
}

// scene sets up what is played on; leave ends and removes it.
func (o *options) scene(ctx context.Context) (_ *scene, leave func(), err error) {
	if o.factory.Hub != "" {
		scene, err := o.foreign()
		return scene, func() {}, err
	}
	dir, clean := o.keep, func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "plural-sim-"); err != nil {
			return nil, nil, err
		}
		clean = func() { _ = os.RemoveAll(dir) }
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	scene, err := o.own(ctx, dir)
	if err != nil {
		clean()
		return nil, nil, err
	}
	return scene, func() {
		_ = scene.hub.(*stage.Hub).Stop() // its words are in its log
		clean()
	}, nil
}

// own makes up a repo and starts a hub on it.
func (o *options) own(ctx context.Context, dir string) (*scene, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	program := o.program
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	hub, err := stage.NewHub(stage.HubOptions{Program: program, Args: o.hubArgs, Dir: dir, PollInterval: o.poll, ReportInterval: o.report})
	if err != nil {
		return nil, err
	}
	o.fleet.HubURL = hub.URL
	o.factory.Say("making up a fleet of %d clusters with %d services each in %s", o.fleet.Clusters, o.fleet.Services, dir)
	repo, err := stage.Make(ctx, dir, o.fleet)
	if err != nil {
		return nil, err
	}
	o.factory.Say("starting a hub on it at %s", hub.URL)
	if err := hub.Start(ctx, repo.Origin); err != nil {
		_ = hub.Kill()
		return nil, err
	}
	return newScene(o, hub, repo, hub.URL, hub.CA)
}

// foreign takes a hub that runs already.
func (o *options) foreign() (*scene, error) {
	var ca []byte
	if o.ca != "" {
		var err error
		if ca, err = os.ReadFile(o.ca); err != nil {
			return nil, err
		}
	}
	token, err := o.factory.HubToken(o.factory.Hub)
	if err != nil {
		return nil, err
	}
	hub, err := stage.NewRemote(o.factory.Hub, token, ca)
	if err != nil {
		return nil, err
	}
	o.fleet.HubURL = o.factory.Hub
	return newScene(o, hub, stage.Open(o.repo, o.fleet), o.factory.Hub, ca)
}

// newCmdInit is `plural sim init`.
func newCmdInit(f *cmdutil.Factory) *cobra.Command {
	var fleet stage.Fleet
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Make up an installation repo for a hub that runs already",
		Long: "Make up an installation repo for a hub that runs already.\n\n" +
			"Writes the work tree DIR/fleet and its bare origin DIR/fleet.git, which can be pushed wherever the hub looks.\n" +
			"The agents' keys are drawn from --seed, so such a repo is for trying out and nothing else.",
		Example: cmdutil.Example("plural sim init ./sim --clusters 500 --hub https://hub.example.com", "plural sim init ./sim --services 50 --seed 7"),
		Args:    cmdutil.Exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.Hub == "" {
				return &ui.Err{Msg: "which hub will the agents ask?", Fix: "--hub URL"}
			}
			if err := checkFleet(fleet); err != nil {
				return err
			}
			fleet.HubURL = f.Hub
			dir, err := filepath.Abs(args[0])
			if err == nil {
				err = os.MkdirAll(dir, 0o755)
			}
			if err != nil {
				return err
			}
			repo, err := stage.Make(cmd.Context(), dir, fleet)
			if err != nil {
				return err
			}
			f.Say("made %s with its origin %s", repo.Work, repo.Origin)
			return nil
		},
	}
	fleetFlags(cmd, &fleet)
	return cmd
}
