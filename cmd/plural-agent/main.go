// Command plural-agent is the agent alone, for the agent's image: it links nothing of the hub, and no screen.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/agent/health/lua"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/cli/agent"
	"github.com/pluralsh/plural/internal/buildinfo"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == "health-child" {
		os.Exit(lua.ChildMain(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "plural-agent",
		Short:         "The agent of one cluster of a plural fleet",
		Version:       buildinfo.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	format := root.PersistentFlags().String("log-format", "json", "`text` or json")
	verbose := root.PersistentFlags().BoolP("verbose", "v", false, "log what is of use to who looks for a mistake, too")
	root.AddCommand(agent.NewCmdRun(func() *slog.Logger {
		options := &slog.HandlerOptions{}
		if *verbose {
			options.Level = slog.LevelDebug
		}
		if *format == "text" {
			return slog.New(slog.NewTextHandler(os.Stderr, options))
		}
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}))
	return root
}
