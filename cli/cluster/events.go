package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// usualEvents is how many are shown where nothing else is said.
const usualEvents = 200

func newCmdEvents(f *cmdutil.Factory) *cobra.Command {
	var selection cmdutil.Selection
	watching := cmdutil.Watching{Kinds: []v1.ChangeKind{v1.Happened}}
	cmd := &cobra.Command{
		Use:   "events [NAME...]",
		Short: "Show what happened on clusters lately",
		Long: "Show what the hub saw happen lately, on the clusters that are named or on all: the newest last.\n\n" +
			"Without --limit these are the newest 200. With --watch a pipe gets what happens, as it does.",
		Example: cmdutil.Example(
			"plural cluster events edge-1",
			"plural cluster events --filter warning:true --watch",
			"plural cl events edge-1 --jq '.items[] | select(.warning).message'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("limit") {
				selection.Limit = usualEvents
			}
			q, err := selection.Query("cluster", args)
			if err != nil {
				return err
			}
			watching.Filter = q.Filter
			return f.Show(cmd.Context(), watching, func(ctx context.Context, hub *client.Client, _ *ui.Printer) (ui.View, error) {
				list, err := cmdutil.Pick(ctx, &selection, q, hub.EventsPage)
				if err != nil {
					return ui.View{}, err
				}
				view := eventsView(list, f.Now(), len(args) == 1)
				if len(list.Items) == 0 {
					view.Note, err = nothing(ctx, hub, args)
				}
				return view, err
			})
		},
	}
	selection.Flags(cmd.Flags())
	watching.Flags(cmd.Flags())
	return cmd
}

// nothing is why there are no events: of a cluster that is not there nothing happened either, and that is an error.
func nothing(ctx context.Context, hub *client.Client, names []string) (string, error) {
	if len(names) != 1 || strings.Contains(names[0], "*") {
		return "nothing happened since the hub started", nil
	}
	_, err := hub.Cluster(ctx, names[0])
	return fmt.Sprintf("nothing happened on %s since the hub started", names[0]), err
}

// eventsView shows events, the newest last; where they are all of one cluster it is not said of each.
func eventsView(list *v1.List[v1.Event], now time.Time, one bool) ui.View {
	slices.Reverse(list.Items)
	view := ui.View{Value: list, Past: true, IDs: []string{}, Rows: [][]string{}, Columns: []ui.Column{
		{Name: "SEEN", Age: true}, {Name: "CLUSTER"}, {Name: "SERVICE"}, {Name: "REASON", Style: reasonStyle}, {Name: "MESSAGE"},
	}}
	if one {
		view.Columns = slices.Delete(view.Columns, 1, 2)
	}
	for i := range list.Items {
		e := &list.Items[i]
		row := []string{
			cmdutil.Ago(now, &e.Time), cmdutil.OrDash(e.Cluster), cmdutil.OrDash(e.Service), e.Reason, cmdutil.OrDash(e.Message),
		}
		if one {
			row = slices.Delete(row, 1, 2)
		}
		view.Rows = append(view.Rows, row)
		about := "cluster/" + e.Cluster
		if e.Service != "" {
			about = cmp.Or(e.Cluster, "-") + "/" + e.Service
		}
		view.Names = append(view.Names, about)
		view.IDs = append(view.IDs, fmt.Sprintf("%s %s %s", e.Time.Format(time.RFC3339Nano), about, e.Reason))
	}
	return view
}

// reasonStyle sets off what is not well.
func reasonStyle(cell string) ui.Style {
	switch cell {
	case "Failed", "Degraded", "Held", "TestFailed", "Quarantined", "Silent":
		return ui.Yellow
	}
	return ""
}
