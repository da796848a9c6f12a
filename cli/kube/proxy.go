package kube

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/apiproxy"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func newCmdProxy(f *cmdutil.Factory) *cobra.Command {
	var port uint16
	cmd := &cobra.Command{
		Use:   "proxy CLUSTER",
		Short: "Serve a cluster's API on a port of this machine",
		Long: `Serve a cluster's API on a port of this machine, until it is interrupted.

It is for tools that cannot run another program for a token. Every program on
this machine can use the port, as you; the pages of a browser cannot.`,
		Example: cmdutil.Example("plural kube proxy prod-eu", "plural kube proxy prod-eu --port 8001"),
		Args:    cmdutil.Exactly("CLUSTER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return serve(cmd.Context(), f, args[0], int(port))
		},
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "the `PORT` of 127.0.0.1 (default: a free one)")
	return cmd
}

func serve(ctx context.Context, f *cmdutil.Factory, cluster string, port int) error {
	w, err := open(ctx, f, cluster)
	if err != nil {
		return err
	}
	handler, err := w.handler(f)
	if err != nil {
		return err
	}
	door, err := apiproxy.Open(ctx, handler, port, false)
	if err != nil {
		return &ui.Err{Msg: fmt.Sprintf("cannot listen on port %d", port), Cause: err.Error(), Fix: "leave --port out for a free one", Err: err}
	}
	defer door.Close()
	fmt.Fprintln(f.IO.Out, door.URL)
	f.Say("serving %s; for example: kubectl --server %s get pods", ui.Clean(cluster), door.URL)
	<-ctx.Done()
	return context.Cause(ctx)
}
