// Package kubectl owns `plural kubectl`.
//
// It refuses to know how a program is run against a cluster. What follows the cluster's name is kubectl's own, unread.
package kubectl

import (
	"errors"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/kube"
	"github.com/pluralsh/plural/cli/ui"
)

// NewCmdKubectl is `plural kubectl`.
func NewCmdKubectl(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "kubectl CLUSTER ARGS...",
		GroupID: cmdutil.GroupAccess,
		Aliases: []string{"k"},
		Short:   "Run kubectl against a cluster, through the hub",
		Long: `Run kubectl against a cluster, through the hub.

What follows the cluster's name goes to kubectl as it is; flags of plural come
before it. It is short for plural kube run CLUSTER -- kubectl ARGS.`,
		Example: cmdutil.Example("plural kubectl prod-eu get pods -A", "plural k edge-1 logs -f deploy/web -n web"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &ui.Err{Msg: "CLUSTER is missing", Fix: cmd.UseLine()}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := exec.LookPath("kubectl"); err != nil {
				return &ui.Err{
					Msg: "kubectl is not installed", Cause: err.Error(),
					Fix: "install it: https://kubernetes.io/docs/tasks/tools/; or use what is there: plural kube run " + args[0] + " -- CMD",
					Doc: ui.DocProgram, Err: err,
				}
			}
			err := kube.Run(cmd.Context(), f, args[0], append([]string{"kubectl"}, args[1:]...))
			var told *ui.Err
			if errors.As(err, &told) && told.Doc == ui.DocNotFound {
				told.Fix += "; the cluster comes first: " + cmd.CommandPath() + " CLUSTER " + strings.Join(args, " ")
			}
			return err
		},
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}
