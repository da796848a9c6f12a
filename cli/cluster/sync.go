package cluster

import (
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func newCmdSync(f *cmdutil.Factory) *cobra.Command {
	var services []string
	cmd := &cobra.Command{
		Use:   "sync NAME",
		Short: "Have a cluster's agent apply its services now",
		Long: `Have a cluster's agent apply its services now: it asks the hub what is wanted,
heals what has drifted, and tries again what failed, instead of when its turn comes.
Nothing is waited for: plural cluster get shows what comes of it.`,
		Example: cmdutil.Example("plural cluster sync edge-1", "plural cl sync edge-1 --service web"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			hub, err := f.HubClient()
			if err != nil {
				return err
			}
			told, err := hub.SyncCluster(cmd.Context(), args[0], services)
			if err != nil {
				return err
			}
			if told.Absent > 0 {
				f.Say("the agent of %s is not connected now; it looks when it asks the hub next", ui.Clean(args[0]))
				return nil
			}
			f.Say("the agent of %s looks now", ui.Clean(args[0]))
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&services, "service", nil, "only this `SERVICE`; may be repeated")
	return cmd
}
