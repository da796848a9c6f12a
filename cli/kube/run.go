package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/apiproxy"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// grace is how long a program has to end by itself when --timeout is over.
const grace = 10 * time.Second

func newCmdRun(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "run CLUSTER -- CMD...",
		Short: "Run a program against a cluster",
		Long: `Run a program against a cluster.

KUBECONFIG names, for that program alone, a file with this one cluster in it,
which is gone afterwards. The command ends with the program's own exit code.`,
		Example: cmdutil.Example("plural kube run prod-eu -- k9s", "plural kube run prod-eu -- helm list -A"),
		Args:    runArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return Run(cmd.Context(), f, args[0], args[1:])
		},
	}
}

// runArgs wants one cluster before the dash and a program after it.
func runArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return &ui.Err{Msg: "CLUSTER is missing", Fix: cmd.UseLine()}
	case dash < 0 && len(args) > 1:
		return &ui.Err{
			Msg: "the program to run comes after --",
			Fix: fmt.Sprintf("%s %s -- %s", cmd.CommandPath(), args[0], strings.Join(args[1:], " ")),
		}
	case dash > 1:
		return &ui.Err{Msg: fmt.Sprintf("unexpected argument %q", args[1]), Fix: cmd.UseLine()}
	case len(args) == 1:
		return &ui.Err{Msg: "which program?", Fix: fmt.Sprintf("%s %s -- kubectl get pods", cmd.CommandPath(), args[0])}
	}
	return nil
}

// Run runs a program, with its arguments, whose KUBECONFIG leads to a cluster. Its exit code is that of the error, a
// *ui.Err that says nothing more.
func Run(ctx context.Context, f *cmdutil.Factory, cluster string, command []string) error {
	return runWith(ctx, f, cluster, command, func(string) ([]string, []string, error) { return nil, nil, nil })
}

// runWith is Run of a program that prepare gives more arguments and variables, once the cluster is known to let the person in. What it
// writes into dir is there for as long as the program runs.
func runWith(
	ctx context.Context, f *cmdutil.Factory, cluster string, command []string, prepare func(dir string) (args, env []string, err error),
) error {
	program, err := exec.LookPath(command[0])
	if err != nil {
		return &ui.Err{
			Msg: fmt.Sprintf("cannot run %q", command[0]), Cause: err.Error(), Fix: "install it, or give its path", Doc: ui.DocProgram, Err: err,
		}
	}
	w, err := open(ctx, f, cluster)
	if err != nil {
		return err
	}
	if err := w.answers(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "plural-kube-")
	if err != nil {
		return fmt.Errorf("make a kubeconfig: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left holds no secret that still opens anything
	// A signal ends the command's context. It is the program that a signal is for: what it needs stays until it has ended.
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	file, err := w.temporary(running, f, dir)
	if err != nil {
		return err
	}
	args, env, err := prepare(dir)
	if err != nil {
		return err
	}
	//nolint:noctx // what the person asked to run; obey ends it
	child := exec.Command(program, slices.Concat(command[1:], args)...)
	child.Env = slices.Concat(withoutKube(os.Environ()), env, []string{"KUBECONFIG=" + file})
	if !secure(w.hub) {
		// Tools keep what they learn of a server by its address, and this one's is another each time.
		child.Env = append(child.Env, "KUBECACHEDIR="+filepath.Join(dir, "cache"))
	}
	child.Stdin, child.Stdout, child.Stderr = f.IO.In, f.IO.Out, f.IO.ErrOut
	child.WaitDelay = grace
	if !isKubectl(program) {
		return obey(ctx, child, f.IO.InTTY)
	}
	said := &overhearing{to: f.IO.ErrOut}
	child.Stderr = said
	err = obey(ctx, child, f.IO.InTTY)
	if err != nil {
		w.explain(ctx, f, said)
	}
	return err
}

// temporary writes the program's kubeconfig. Over TLS the program speaks to the hub itself; else it is let through a door.
func (w *way) temporary(ctx context.Context, f *cmdutil.Factory, dir string) (string, error) {
	file := filepath.Join(dir, "config")
	if secure(w.hub) {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find this program: %w", err)
		}
		entries, err := entriesFor(f, w.hub, self, []string{w.cluster})
		if err != nil {
			return "", err
		}
		entries.CurrentContext = contextName(w.cluster)
		return file, write(file, entries)
	}
	handler, err := w.handler(f)
	if err != nil {
		return "", err
	}
	door, err := apiproxy.Open(ctx, handler, 0, true)
	if err != nil {
		return "", err
	}
	return file, write(file, behind(door.URL, w.cluster))
}

// withoutKube is an environment without what would lead a Kubernetes tool elsewhere.
func withoutKube(environment []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "KUBECONFIG" || strings.HasPrefix(name, "HELM_KUBE")
	})
}

// obey runs child to its end, and passes on the signals that this process gets. Its exit code comes back as an error.
func obey(ctx context.Context, child *exec.Cmd, terminal bool) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return &ui.Err{Msg: fmt.Sprintf("cannot run %q", child.Path), Cause: err.Error(), Fix: "see that it is a program of this machine", Doc: ui.DocProgram, Err: err}
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	over, kill := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case err := <-ended:
			if over == nil && kill != nil {
				return context.Cause(ctx)
			}
			return exitOf(err)
		case s := <-signals:
			// A terminal has sent its own signals to the program as well.
			if !terminal || s == syscall.SIGTERM || s == syscall.SIGHUP {
				_ = child.Process.Signal(s)
			}
		case <-over:
			over = nil
			if bySignal(ctx) {
				continue
			}
			_ = child.Process.Signal(syscall.SIGTERM)
			timer := time.NewTimer(grace)
			defer timer.Stop()
			kill = timer.C
		case <-kill:
			_ = child.Process.Kill()
		}
	}
}

// bySignal says that a context was ended by a signal, which obey passes on itself.
func bySignal(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, context.Canceled) && cause != context.Canceled //nolint:errorlint // a signal's cause is like Canceled, and another
}

// exitOf turns a program's end into this program's.
func exitOf(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return ui.Silent(ui.Code(128 + int(status.Signal()))) // as a shell says it
	}
	return ui.Silent(ui.Code(exit.ExitCode()))
}
