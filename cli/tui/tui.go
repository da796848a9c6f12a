// Package tui owns `plural tui`.
//
// It refuses to know what is drawn and what keys do: it finds the hub and the installation repo, and puts the console's rooms
// together. What is known of the fleet comes from a goroutine of its own and enters the program's loop as messages; when the loop
// ends, what was seen last is kept for the next time without a hub.
package tui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/cmdline"
	"github.com/pluralsh/plural/cli/tui/console"
	"github.com/pluralsh/plural/cli/tui/details"
	"github.com/pluralsh/plural/cli/tui/kinds"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/tui/skins"
	"github.com/pluralsh/plural/cli/tui/tables"
	"github.com/pluralsh/plural/cli/tui/usercommands"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/views"
)

// collect is how much garbage there may be for each hundred bytes in use: rows come in pages, which are garbage at once.
const collect = 50

// frames are how many there can be in a second: a key waits half of the time between two of them, on average.
const frames = 120

type options struct {
	factory         *cmdutil.Factory
	readOnly, ascii bool
}

// NewCmdTUI is `plural tui`.
func NewCmdTUI(f *cmdutil.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "tui [VIEW]",
		GroupID: cmdutil.GroupStart,
		Aliases: []string{"console"},
		Short:   "See and steer the whole fleet on one screen",
		Long: `See and steer the whole fleet on one screen: every service on every cluster in one list, live.

VIEW is where to begin, as on the console's own command line: fleet, clusters, services, sources, packages or events, with a
name, a scope or a filter after it. ? shows what keys do.

Without a hub it shows what the installation repo wants, with what was seen last and how old that is.`,
		Example: cmdutil.Example("plural tui", "plural tui clusters", "plural tui 'fleet health:degraded @prod-*' --read-only"),
		Args:    cmdutil.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), strings.Join(args, " "))
		},
	}
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "leave out everything that changes something")
	cmd.Flags().BoolVar(&o.ascii, "ascii", false, "draw with ASCII characters only")
	return cmd
}

func (o *options) run(ctx context.Context, line string) error {
	f := o.factory
	if !f.IO.InTTY || !f.IO.OutTTY || f.IO.Plain {
		return &ui.Err{
			Msg: "the console needs a terminal that it can draw on", Fix: "plural status --watch prints lines", Doc: ui.DocNoInput,
		}
	}
	command := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	skin, misread := skins.Load(f.ConfigDir(), f.Setting(settings.Skin))
	world, seen, err := o.world(ctx, skin)
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(collect))
	desk, err := o.desk(world)
	if err != nil {
		return err
	}
	defer desk.Close()
	keep := func() func() error { return nil }
	if seen != nil {
		keep = func() func() error { return world.Fleet.Remember(seen) }
	}
	greeting := o.own(desk)
	if misread != nil {
		greeting = mistaken(misread)
	}
	model, err := newModel(world, desk, keep, line, greeting, f.Setting(settings.NoMouse) == "true")
	if err != nil {
		return err
	}
	defer model.Close()
	stop := interruptible(command, cancel, desk.Away)
	defer stop()
	program := tea.NewProgram(model, o.program(ctx)...)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		follow(gctx, world, program)
		return nil
	})
	_, err = program.Run()
	interrupted := ctx.Err() != nil
	cancel()
	err = errors.Join(err, g.Wait())
	if write := keep(); write != nil {
		err = errors.Join(err, write())
	}
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) || interrupted {
		return context.Canceled
	}
	return err
}

// follow passes on what comes to be known, and says why when nothing more will.
func follow(ctx context.Context, world *pane.World, program *tea.Program) {
	err := world.Source.Run(ctx, func(b model.Batch) { program.Send(b) })
	if ctx.Err() == nil && err != nil {
		program.Send(pane.Told{Text: cmdutil.Explain(err).Error(), Bad: true})
	}
}

// interruptible ends the console when its command ends, or a signal says so, but for an interrupt that was typed at a command that has
// the terminal: the keyboard sends that to all processes there.
func interruptible(command context.Context, end context.CancelFunc, away func() bool) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case got := <-signals:
				if got != os.Interrupt || !away() {
					end()
				}
			}
		}
	}()
	idle := context.AfterFunc(command, func() {
		if !away() || errors.Is(command.Err(), context.DeadlineExceeded) {
			end()
		}
	})
	return func() {
		idle()
		signal.Stop(signals)
		close(done)
	}
}

// program is how bubbletea is to run the console.
func (o *options) program(ctx context.Context) []tea.ProgramOption {
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithInput(o.factory.IO.In), tea.WithOutput(o.factory.IO.Out), tea.WithoutSignalHandler(),
		tea.WithFPS(frames),
	}
	if !o.factory.IO.Color {
		options = append(options, tea.WithColorProfile(colorprofile.Ascii))
	}
	return options
}

// world is what panes are given, with where to keep what was seen; that is nil where nothing can be kept.
func (o *options) world(ctx context.Context, skin *paint.Skin) (*pane.World, *fleetcache.Store, error) {
	f := o.factory
	repo, err := f.Repo()
	if err != nil && !errors.Is(err, workspace.ErrNotFound) {
		return nil, nil, err
	}
	var hub *client.Client
	if _, unsaid := f.HubAddress(); unsaid == nil || repo == nil { // a clone alone will do, but only where nothing names a hub
		if hub, err = f.HubClient(); err != nil {
			return nil, nil, err
		}
		hub.WhenSlow(nil) // it would be written across the screen
	}
	seen := f.LastSeen()
	source := model.FromBoth(hub, repo, seen, model.Options{Now: f.Now, Token: o.token(hub), Why: why})
	world := &pane.World{
		Context: ctx, Fleet: model.New(f.Now), Source: source, Hub: hub, TokenFrom: o.tokenFrom(), Repo: repo,
		Look: paint.NewLook(paint.Options{
			Color: f.IO.Color, Dark: true, Skin: skin, ASCII: o.ascii || f.Setting(settings.ASCII) != "" || !unicode(f.Getenv),
		}),
		Kinds: kinds.New(hub, f.Now), Now: f.Now, ReadOnly: o.readOnly,
	}
	if repo != nil {
		world.Views = func() ([]views.View, error) { return shared(repo) }
	}
	return world, seen, nil
}

// why is what keeps the hub away, in one line. What was seen last of a fleet that somebody stopped is shown beside how to start it.
func why(err error) string {
	if stopped := cmdutil.Stopped(err); stopped != nil {
		return stopped.Msg + ": " + stopped.Fix
	}
	return err.Error()
}

// shared are the views of an installation repo, as its work tree has them now.
func shared(repo *workspace.Repo) ([]views.View, error) {
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	return views.Load(root.FS())
}

// token is the person's for the hub as it is kept now; nil: there is no hub to ask.
func (o *options) token(hub *client.Client) func() (string, error) {
	if hub == nil {
		return nil
	}
	return func() (string, error) { return o.factory.HubToken(hub.Address()) }
}

// tokenFrom is the variable that counts in the place of a login, if one is set.
func (o *options) tokenFrom() string {
	for _, name := range []string{"PLURAL_TOKEN", "PLURAL_TOKEN_FILE"} {
		if o.factory.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// unicode says whether the terminal shows more than ASCII, as far as the environment knows.
func unicode(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToUpper(getenv(name)); value != "" {
			return strings.Contains(value, "UTF-8") || strings.Contains(value, "UTF8")
		}
	}
	return true
}

// desk runs this program with the flags that it was given itself.
func (o *options) desk(world *pane.World) (*act.Desk, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	var globals []string
	if o.factory.Dir != "" {
		globals = append(globals, "-C", o.factory.Dir)
	}
	if o.factory.Hub != "" {
		globals = append(globals, "--hub", o.factory.Hub)
	}
	return act.New(world, act.Runner{Program: program, Globals: globals, Own: o.factory.OwnEnvironment()}), nil
}

// own adds the person's own commands. A mistake in them keeps nobody from looking at the fleet: it is told.
func (o *options) own(desk *act.Desk) pane.Told {
	list, err := usercommands.Load(o.factory.ConfigDir(), taken())
	desk.Add(list)
	if err == nil {
		return pane.Told{}
	}
	return mistaken(err)
}

// mistaken tells the first of what is wrong in a file of the person's.
func mistaken(err error) pane.Told {
	var mistakes yamlstrict.Errors
	if errors.As(err, &mistakes) && len(mistakes) > 1 {
		return pane.Told{Text: fmt.Sprintf("%v (and %d more)", mistakes[0], len(mistakes)-1), Bad: true}
	}
	return pane.Told{Text: err.Error(), Bad: true}
}

// taken says what keys do already, anywhere in the console.
func taken() map[string]string {
	all := map[string]string{"enter": "look into it"}
	everywhere, open := console.Keys()
	for _, some := range [][]key.Binding{everywhere, open, tables.Keys(), details.Keys(), act.Keys()} {
		for _, b := range some {
			for _, name := range b.Keys() {
				all[name] = b.Help().Desc
			}
		}
	}
	return all
}

func newModel(world *pane.World, desk *act.Desk, keep func() func() error, line string, greeting pane.Told,
	noMouse bool,
) (*console.Model, error) {
	panes := map[string]pane.Maker{}
	for _, some := range []map[string]pane.Maker{tables.Panes(), details.Panes(), desk.Panes()} {
		maps.Copy(panes, some)
	}
	home := pane.Open{Pane: "fleet"}
	if line != "" {
		msg, err := cmdline.Parse(line, world)
		if err != nil {
			return nil, err
		}
		open, ok := msg.(pane.Open)
		if !ok {
			return nil, &ui.Err{Msg: fmt.Sprintf("%q is no view", line), Fix: "plural tui clusters"}
		}
		home = open
	}
	return console.New(console.Options{
		World: world, Panes: panes, Actions: desk, Keep: keep, Home: home, Greeting: greeting,
		NoMouse: noMouse,
	}), nil
}
