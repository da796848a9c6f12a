// Package cli owns the command tree of plural: its root, its help and its end.
//
// It refuses to know what the commands do. Each noun or verb is a package below that exports NewCmdX(f
// *cmdutil.Factory) *cobra.Command, with a GroupID when the first help screen is to show it; newRoot plugs them in, and
// that is all it takes to add one.
//
// Main is the whole program: flags and environment become a cmdutil.Factory, cobra finds the command, the command runs
// under a context that ends with a signal or --timeout, and what it returns becomes, in one place, text on stderr and an
// exit code. A command below must not set a PersistentPreRun of its own: cobra would run it in the place of the root's.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/access"
	"github.com/pluralsh/plural/cli/agent"
	"github.com/pluralsh/plural/cli/application"
	"github.com/pluralsh/plural/cli/audit"
	"github.com/pluralsh/plural/cli/auth"
	"github.com/pluralsh/plural/cli/cluster"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/configcmd"
	"github.com/pluralsh/plural/cli/cryptocmd"
	"github.com/pluralsh/plural/cli/deploy"
	"github.com/pluralsh/plural/cli/diff"
	"github.com/pluralsh/plural/cli/doctor"
	"github.com/pluralsh/plural/cli/explain"
	"github.com/pluralsh/plural/cli/hub"
	"github.com/pluralsh/plural/cli/initcmd"
	"github.com/pluralsh/plural/cli/kube"
	"github.com/pluralsh/plural/cli/kubectl"
	"github.com/pluralsh/plural/cli/local"
	"github.com/pluralsh/plural/cli/logs"
	"github.com/pluralsh/plural/cli/manual"
	"github.com/pluralsh/plural/cli/pkg"
	"github.com/pluralsh/plural/cli/plugin"
	"github.com/pluralsh/plural/cli/rendercmd"
	"github.com/pluralsh/plural/cli/secret"
	"github.com/pluralsh/plural/cli/service"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/simcmd"
	"github.com/pluralsh/plural/cli/source"
	"github.com/pluralsh/plural/cli/status"
	"github.com/pluralsh/plural/cli/tui"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/undo"
	"github.com/pluralsh/plural/cli/up"
	"github.com/pluralsh/plural/cli/validate"
	"github.com/pluralsh/plural/cli/wait"
	"github.com/pluralsh/plural/cli/why"
	"github.com/pluralsh/plural/internal/buildinfo"
	"github.com/pluralsh/plural/internal/privacy"
	"github.com/pluralsh/plural/workspace"
)

// errTimeout is why a context ended when --timeout did it.
var errTimeout = errors.New("--timeout is over")

// Main runs the command that args (without the program's name) ask for, and returns the exit code. SIGINT and SIGTERM
// end the command's context.
func Main(args []string, streams *ui.Streams) int { return As("plural", args, streams) }

// As is Main for a program that was called by this name: as kubectl-plural it is a command of kubectl's, and as
// kubectl_complete-plural what kubectl asks for its completion.
func As(name string, args []string, streams *ui.Streams) int {
	if err := privacy.Close(); err != nil { // identities and tokens are in the environment, and then in memory
		fmt.Fprintln(streams.ErrOut, "error:", err)
		return int(ui.ExitFailed)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	getenv, err := cmdutil.TakeIdentity()
	if err != nil {
		fmt.Fprintln(streams.ErrOut, "error:", err)
		return int(ui.ExitFailed)
	}
	f := &cmdutil.Factory{IO: streams, Version: buildinfo.Version(), Now: time.Now, Getenv: getenv}
	name, args = calledAs(name, args)
	return run(ctx, f, name, args)
}

// calledAs is what help calls the program that has this name, with the arguments that it then has.
func calledAs(name string, args []string) (shown string, asked []string) {
	name = filepath.Base(name)
	if strings.HasPrefix(name, "kubectl_complete-") {
		return "kubectl plural", append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	if strings.HasPrefix(name, "kubectl-") {
		return "kubectl plural", args
	}
	return "plural", args
}

func run(ctx context.Context, f *cmdutil.Factory, name string, args []string) int {
	root := newRoot(f)
	if name != root.Name() {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	args, err := expanded(f, root, args)
	if err == nil {
		err = runPlugin(f, root, args)
	}
	if err != nil {
		tell(f, err)
		return int(ui.CodeOf(err))
	}
	root.SetArgs(args)
	root.SetIn(f.IO.In)
	root.SetOut(f.IO.Out)
	root.SetErr(f.IO.ErrOut)
	mendScripts(root)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		complete(root, f) // here alone: it is a tenth of what a command takes to start
		plainUsages(root)
	}
	stop, tellNews := func() {}, func() {}
	ofMachines := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		ofMachines = isOfMachines(cmd)
		if err := prepare(f, cmd); err != nil {
			return err
		}
		if err := errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil {
			return cmdutil.FlagError(cmd, err)
		}
		if !isOfTheProgram(cmd) && !isOfMachines(cmd) {
			tellNews = notice(ctx, f, checker(f))
		}
		if f.Timeout == 0 {
			return nil
		}
		ctx, stop = context.WithTimeoutCause(ctx, f.Timeout, errTimeout)
		cmd.SetContext(ctx)
		return nil
	}
	mistaken := refuseUnknownWords(root)
	err = root.ExecuteContext(ctx)
	err = inOurWords(root, cmp.Or(err, *mistaken))
	stop()
	tellNews()
	if err == nil {
		return int(ui.ExitOK)
	}
	if f.Output == "" && asksForJSON(args) { // behind a flag that could not be read
		f.Output = "json"
	}
	if errors.Is(context.Cause(ctx), errTimeout) && (errors.Is(err, errTimeout) || errors.Is(err, context.DeadlineExceeded)) {
		late := &ui.Err{
			Msg: fmt.Sprintf("still at work after %s", f.Timeout), Fix: "give it longer: --timeout", Doc: ui.DocTimeout, Code: ui.ExitPending, Err: err,
		}
		var told *ui.Err
		if errors.As(err, &told) { // what it was at
			late.Problems = told.Problems
			if told.Fix != "" {
				late.Fix = told.Fix
			}
			if told.Fix != "" && !strings.Contains(told.Fix, "--timeout") {
				late.Fix += "; --timeout gives it longer"
			}
		}
		err = late
	}
	if told := f.Remembered(context.WithoutCancel(ctx), cmdutil.Explain(err)); !ofMachines {
		// of machines errors are in logs, and nobody is in front of them
		err = unexpected(f, told)
	}
	tell(f, err)
	return int(ui.CodeOf(cmdutil.Explain(err)))
}

// asksForJSON says whether the arguments have -o json, whatever else is among them.
func asksForJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "-o", "--output":
			return i+1 < len(args) && args[i+1] == "json"
		case "-ojson", "-o=json", "--output=json":
			return true
		}
	}
	return false
}

// prepare acts on the global flags, once they are known.
func prepare(f *cmdutil.Factory, cmd *cobra.Command) error {
	if _, err := settings.Load(f.ConfigDir()); err != nil && !isOfTheProgram(cmd) {
		return configcmd.Explain(err)
	}
	if color := f.Setting(settings.Color); color != "" && !cmd.Flags().Changed("color") {
		f.Color = color
	}
	colored, err := f.IO.Colored(f.Color)
	if err != nil {
		return err
	}
	colored.NoHeaders = f.NoHeaders
	f.IO = colored
	f.IO.Pager = f.Pager()
	if f.LogFormat != "text" && f.LogFormat != "json" {
		return &ui.Err{Msg: fmt.Sprintf("unknown log format %q", f.LogFormat), Fix: "--log-format text or json"}
	}
	if f.Timeout < 0 {
		return &ui.Err{Msg: fmt.Sprintf("--timeout %s is negative", f.Timeout), Fix: "--timeout 30s"}
	}
	return nil
}

// isOfTheProgram says that a command is about the program itself, so that it works with settings that are wrong, and has no news.
func isOfTheProgram(cmd *cobra.Command) bool {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	switch cmd.Name() {
	case "config", "alias", "version", "help", "completion", "man", "docs", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		return true
	}
	return false
}

// isOfMachines says that a command is a part of a fleet that somebody runs: what that talks to is for its own settings to say.
func isOfMachines(cmd *cobra.Command) bool {
	parent := cmd.Parent()
	return parent != nil && (parent.Name() == "hub" && cmd.Name() == "serve" || parent.Name() == "agent" && cmd.Name() == "run")
}

// tell says on stderr what went wrong, in the form that stdout would have had.
func tell(f *cmdutil.Factory, err error) {
	told := cmdutil.Explain(err)
	if f.Output == "json" || f.JQ != "" {
		ui.RenderJSON(f.IO.ErrOut, told)
		return
	}
	ui.Render(f.IO.ErrOut, told)
	if f.Verbose && told.Error() != err.Error() {
		fmt.Fprintf(f.IO.ErrOut, "  chain: %s\n", ui.Clean(err.Error()))
	}
}

func newRoot(f *cmdutil.Factory) *cobra.Command {
	root := &cobra.Command{
		Use:   "plural",
		Short: "Run Kubernetes fleets from one git repository",
		Example: cmdutil.Example(
			"plural init fleet --name demo",
			"plural status"),
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.RunE = func(cmd *cobra.Command, args []string) error { return runRoot(cmd, f, args) }
	root.SetFlagErrorFunc(cmdutil.FlagError)
	addGlobals(root, f)
	addGroups(root)
	root.AddCommand(
		initcmd.NewCmdInit(f),
		status.NewCmdStatus(f),
		validate.NewCmdValidate(f),
		rendercmd.NewCmdRender(f),
		cluster.NewCmdCluster(f),
		service.NewCmdService(f),
		source.NewCmdSource(f),
		pkg.NewCmdPackage(f),
		cryptocmd.NewCmdCrypto(f),
		secret.NewCmdSecret(f),
		auth.NewCmdAuth(f),
		access.NewCmdAccess(f),
		application.NewCmdApplication(f),
		audit.NewCmdAudit(f),
		kube.NewCmdKube(f),
		kubectl.NewCmdKubectl(f),
		logs.NewCmdLogs(f),
		diff.NewCmdDiff(f),
		why.NewCmdWhy(f),
		wait.NewCmdWait(f),
		doctor.NewCmdDoctor(f),
		explain.NewCmdExplain(f),
		tui.NewCmdTUI(f),
		undo.NewCmdUndo(f),
		up.NewCmdUp(f, nil),
		up.NewCmdDown(f), deploy.NewCmdDeploy(f),
		local.NewCmdLocal(f),
		hub.NewCmdHub(f),
		agentCommands(f),
		simcmd.NewCmdSim(f),
		configcmd.NewCmdConfig(f),
		plugin.NewCmdPlugin(f), configcmd.NewCmdAlias(f, isTaken(f)),
		newCmdVersion(f), newCmdUpdate(f),
		manual.NewCmdMan(f), manual.NewCmdDocs(f),
	)
	root.AddCommand(topicCommands()...)
	below(root, func(cmd *cobra.Command) {
		cmd.SuggestionsMinimumDistance = 2
		if cmd.Name() == "list" && !cmd.HasAlias("ls") {
			cmd.Aliases = append(cmd.Aliases, "ls")
		}
	})
	setHelp(root, f)
	return root
}

// agentCommands is `plural agent`. Its verbs stand apart: run is plural-agent too, the others are of clusters.
func agentCommands(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "agent",
		Short:   "Install, upgrade and run clusters' agents",
		Example: cmdutil.Example("plural agent install edge-1 --context edge-1", "plural agent run --kubeconfig ./kubeconfig --data ./agent"),
	}, agent.NewCmdRun(f.Logger), cluster.NewCmdAgentInstall(f), cluster.NewCmdAgentUpgrade(f))
}

func addGlobals(root *cobra.Command, f *cmdutil.Factory) {
	flags := root.PersistentFlags()
	flags.StringVarP(&f.Dir, "dir", "C", "", "the installation repo, or a folder in it")
	flags.StringVar(&f.Hub, "hub", "", "the hub's `URL`")
	flags.StringVarP(&f.Output, "output", "o", "", "`FORMAT`: table, wide, json, yaml, name, jsonpath=…, template=…")
	flags.StringVar(&f.JQ, "jq", "", "print the JSON as this jq `EXPRESSION` picks it")
	flags.BoolVar(&f.NoHeaders, "no-headers", false, "print tables without the names of their columns")
	flags.BoolVarP(&f.Quiet, "quiet", "q", false, "print results and errors only")
	flags.BoolVarP(&f.Verbose, "verbose", "v", false, "tell more of what happens, and of what fails")
	flags.StringVar(&f.Color, "color", "auto", "auto, always or never")
	flags.BoolVar(&f.NoPager, "no-pager", false, "print long texts without a pager")
	flags.BoolVar(&f.NoInput, "no-input", false, "never ask; fail with the flag to give")
	flags.BoolVarP(&f.Yes, "yes", "y", false, "take confirmations as given, but those that --confirm gives")
	flags.DurationVar(&f.Timeout, "timeout", 0, "give up after this long, such as 90s (default: never)")
	flags.StringVar(&f.LogFormat, "log-format", "text", "text or json")
}

// runRoot is plural without a command: where there is a fleet, how it is; elsewhere how to begin.
func runRoot(cmd *cobra.Command, f *cmdutil.Factory, args []string) error {
	if len(args) > 0 {
		return cmdutil.UnknownCommand(cmd, args)
	}
	if _, err := workspace.Find(f.WorkDir()); err == nil {
		return status.Brief(cmd.Context(), f)
	}
	if _, err := f.HubAddress(); err == nil { // the person's settings name one
		return status.Brief(cmd.Context(), f)
	}
	_, err := fmt.Fprintf(f.IO.Out, beginning, cmd.Root().Short)
	return err
}

// beginning is what somebody is told who is in no fleet's repo.
const beginning = `%s. There is none in this folder.

To begin
  plural up --local              a fleet of simulated clusters, here, in seconds
  plural up --context CONTEXT    a fleet on a cluster that your kubeconfig names

To join one that is there
  git clone URL fleet && cd fleet && plural auth login

All commands
  plural --help
`
