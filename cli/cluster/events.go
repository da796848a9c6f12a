package cluster

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func newCmdEvents(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "events NAME",
		Short:   "Show what happened on one cluster lately",
		Long:    "Show what the hub saw happen on one cluster lately: the newest last.",
		Example: cmdutil.Example("plural cluster events edge-1", "plural cl events edge-1 --jq '.items[] | select(.warning).message'"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			hub, printer, err := f.Ask()
			if err != nil {
				return err
			}
			if _, err := hub.Cluster(cmd.Context(), args[0]); err != nil { // of one that is not there nothing happened either
				return err
			}
			list, err := hub.ClusterEvents(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			slices.Reverse(list.Items)
			if len(list.Items) == 0 && printer.Human() {
				f.Say("nothing happened on %s since the hub started", ui.Clean(args[0]))
			}
			view := ui.View{Value: list, Columns: []ui.Column{
				{Name: "SEEN"}, {Name: "SERVICE"}, {Name: "REASON", Style: reasonStyle}, {Name: "MESSAGE"},
			}}
			for i := range list.Items {
				e := &list.Items[i]
				view.Rows = append(view.Rows, []string{cmdutil.Ago(f.Now(), &e.Time), cmdutil.OrDash(e.Service), e.Reason, cmdutil.OrDash(e.Message)})
			}
			return printer.Print(view)
		},
	}
}

// reasonStyle sets off what is not well.
func reasonStyle(cell string) ui.Style {
	switch cell {
	case "Failed", "Degraded", "Held", "TestFailed", "Quarantined", "Silent":
		return ui.Yellow
	}
	return ""
}
