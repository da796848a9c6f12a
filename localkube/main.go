// Command localkube serves a Kubernetes control plane with simulated nodes from
// one process, for trying things out and for tests.
//
// It owns the command line only; see package cluster for what runs. Exit codes: 0
// when it was asked to stop, 1 when it could not start or a part of it gave up, 2
// for a command line it does not understand.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/localkube/cluster"
	"github.com/pluralsh/plural/localkube/controlplane"
	"github.com/pluralsh/plural/localkube/simnode"
)

// errStoppedByParent is why a cluster stops when standard input ends.
var errStoppedByParent = errors.New("standard input ended")

// usageError is a command line that is not understood.
type usageError struct{ error }

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, release)

	root := newRootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "localkube: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintln(os.Stderr, "Run 'localkube --help' for usage.")
		return 2
	}
	return 1
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "localkube",
		Short:         "Serve a local Kubernetes API with simulated nodes",
		Long:          "Serve a local Kubernetes API with simulated nodes: objects behave as in a\ncluster and pods become Ready, but no containers run. Logs, exec, attach, cp\nand port-forward answer, and say so.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{errors.New("no command given")}
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newRunCommand(), newVersionCommand())
	return root
}

// usage makes errors of an argument check usage errors.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the Kubernetes version that is served",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), controlplane.Version())
			return err
		},
	}
}

func newRunCommand() *cobra.Command {
	var config cluster.Config
	var logLevel string
	var withParent bool
	cmd := &cobra.Command{
		Use:   "run --dir DIR",
		Short: "Serve one cluster until told to stop",
		Long: `Serve one cluster on a port of 127.0.0.1 until SIGTERM or SIGINT.

The folder keeps the data and the port between runs. Once the cluster can be used it
holds 'kubeconfig' and 'ready.json'; the latter is removed when the cluster stops.
Data is not flushed to the disk: it survives a crash of the process, but a power
cut may lose it.`,
		Example: "  localkube run --dir ./dev --name dev\n  kubectl --kubeconfig ./dev/kubeconfig get nodes",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config.Dir == "" {
				return usageError{errors.New("flag --dir is required")}
			}
			if config.Nodes < 1 || config.Nodes > cluster.MaxNodes {
				return usageError{fmt.Errorf("invalid --nodes %d: give 1 to %d", config.Nodes, cluster.MaxNodes)}
			}
			if config.AuthenticationConfig != "" {
				path, err := filepath.Abs(config.AuthenticationConfig)
				if err != nil {
					return fmt.Errorf("find --authentication-config: %w", err)
				}
				config.AuthenticationConfig = path
			}
			levels, err := parseLevel(logLevel)
			if err != nil {
				return usageError{err}
			}
			ctx := cmd.Context()
			if withParent {
				ctx = untilEnd(ctx, os.Stdin)
			}
			config.Log, config.StoreLog = newLog(ctx, cmd.ErrOrStderr(), levels.ours), levels.store
			fmt.Fprintf(cmd.ErrOrStderr(), "localkube: %s\n", simnode.Explanation)
			return cluster.Run(ctx, config)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Dir, "dir", "", "folder of the cluster, created when missing")
	flags.StringVar(&config.Name, "name", "localkube", "name of the context in the kubeconfig")
	flags.IntVar(&config.Nodes, "nodes", 3, "number of simulated nodes")
	flags.BoolVar(&withParent, "with-parent", false, "stop when standard input ends, as it does when the parent process ends")
	flags.BoolVar(&config.Ephemeral, "ephemeral", false, "remove the folder when stopping; it must be missing or empty at the start")
	flags.StringVar(&config.AuthenticationConfig, "authentication-config", "",
		"AuthenticationConfiguration `FILE`: issuers whose tokens the API server takes")
	flags.StringVar(&logLevel, "log-level", "error", "what to log to standard error: error, info or debug")
	return cmd
}

// untilEnd returns a context that ends with ctx or when input does. The reader cannot be
// interrupted, so its goroutine lasts as long as the process.
func untilEnd(ctx context.Context, input io.Reader) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, err := io.Copy(io.Discard, input)
		cancel(errors.Join(errStoppedByParent, err))
	}()
	return ctx
}
