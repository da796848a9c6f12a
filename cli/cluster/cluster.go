// Package cluster owns the commands about clusters.
//
// It refuses to know how the hub is found and asked, and who can open what. A command asks the hub one question and shows
// the answer, or plans one commit to the installation repo and makes it.
package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/filter"
)

// NewCmdCluster is `plural cluster`.
func NewCmdCluster(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "cluster",
		GroupID: cmdutil.GroupFleet,
		Aliases: []string{"cl"},
		Short:   "See, register and delete the fleet's clusters",
		Example: cmdutil.Example("plural cluster list", "plural cluster get edge-1 -o json"),
	}, newCmdList(f), newCmdGet(f), newCmdSync(f), newCmdEvents(f), newCmdRegister(f),
		newCmdCreate(f), newCmdSet(f), newCmdEdit(f), newCmdDelete(f), newCmdToken(f), newCmdUpgrade(f))
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	var selection cmdutil.Selection
	watching := cmdutil.Watching{Kinds: []v1.ChangeKind{v1.ChangedClusters}}
	cmd := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List clusters and how they are",
		Long: "List all clusters and how they are, or those that are named or fit a filter.\n\n" +
			"A star in a name stands for any text: 'prod-*'. With --watch a pipe gets a row for each change. With -o wide\n" +
			"CONNECTED says whether people reach the cluster by the connection that its agent keeps open: kubectl, logs, shells.",
		Example: cmdutil.Example(
			"plural cluster list -l env=prod --sort -health",
			"plural cl list --filter 'health:stale,degraded' --watch",
			"plural cl list --jq '.items[] | select(.phase != \"healthy\").name'",
			"plural cl list --jq '.items[] | select(.connected == false).name'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := selection.Query("name", args)
			if err != nil {
				return err
			}
			watching.Filter = q.Filter
			return f.Show(cmd.Context(), watching, func(ctx context.Context, hub *client.Client, _ *ui.Printer) (ui.View, error) {
				list, err := cmdutil.Pick(ctx, &selection, q, hub.ClustersPage)
				if err != nil {
					return ui.View{}, err
				}
				view := ui.View{
					Value: list, Columns: cmdutil.ClusterColumns(), Rows: cmdutil.ClusterRows(list.Items, f.Now()), Names: names(list.Items),
					Still: cmdutil.StillClusters(list.Items), Note: selection.Note("clusters", len(list.Items), list.Total),
				}
				if list.Total == 0 && q.Filter == "" {
					view.Note = "there are no clusters: a cluster is a file in clusters/"
				}
				view.IDs = cmdutil.IDs(view.Names)
				return view, selection.Missing("cluster", args, view.Names)
			})
		},
	}
	selection.Flags(cmd.Flags())
	watching.Flags(cmd.Flags())
	return cmd
}

func newCmdGet(f *cmdutil.Factory) *cobra.Command {
	watching := cmdutil.Watching{Kinds: []v1.ChangeKind{v1.ChangedClusters, v1.ChangedDeployments}}
	cmd := &cobra.Command{
		Use:     "get NAME",
		Short:   "Show one cluster and what runs on it",
		Example: cmdutil.Example("plural cluster get edge-1", "plural cl get edge-1 -o yaml", "plural cl get edge-1 --watch"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			watching.Filter = filter.OneOf("cluster", args)
			return f.Show(cmd.Context(), watching, func(ctx context.Context, hub *client.Client, printer *ui.Printer) (ui.View, error) {
				return get(ctx, f, hub, printer, args[0])
			})
		},
	}
	watching.Flags(cmd.Flags())
	return cmd
}

func get(ctx context.Context, f *cmdutil.Factory, hub *client.Client, printer *ui.Printer, name string) (ui.View, error) {
	c, err := hub.Cluster(ctx, name)
	if err != nil {
		return ui.View{}, f.Unknown(ctx, "cluster", name, err)
	}
	var open []v1.Connection
	if printer.Human() {
		// A hub that cannot say, or does not say it to this person, keeps nobody from seeing the rest.
		if list, err := hub.Connections(ctx, name); err == nil {
			open = list.Items
		}
	}
	quiet := *c
	quiet.LastReport = nil
	return ui.View{
		Value: c, Names: names([]v1.Cluster{c.Cluster}), Still: quiet,
		Screen: func(w io.Writer) error { return screen(f, w, c, open) }, Note: next(c, hub.Address()),
	}, nil
}

// next is the command that starts what somebody stopped of a cluster on this machine, where that is why it is not well, or puts an
// agent where there never was one.
func next(c *v1.ClusterDetail, hub string) string {
	start := cmdutil.StartAgent(&c.Cluster, hub)
	for i := range c.Deployments {
		if c.Deployments[i].Unreached {
			start = cmp.Or(start, cmdutil.Start(&c.Deployments[i], hub))
		}
	}
	if start == "" && c.Phase == v1.Pending && c.LastReport == nil {
		start = "plural agent install " + c.Name + " puts an agent there; plural agent run is one, anywhere"
	}
	if start == "" {
		return ""
	}
	return "next  " + start
}

func screen(f *cmdutil.Factory, w io.Writer, c *v1.ClusterDetail, open []v1.Connection) error {
	rows := [][]string{
		{"phase", string(c.Phase)},
		{"services", cmdutil.Ratio(c.Ready, c.Services) + " ready"},
		{"kubernetes", cmdutil.OrDash(c.KubernetesVersion)},
		{"agent", cmdutil.OrDash(c.AgentVersion)},
		{"report", cmdutil.Ago(f.Now(), c.LastReport)},
		{"tags", pairs(c.Tags)},
	}
	if len(c.Parameters) > 0 {
		rows = append(rows, []string{"parameters", pairs(c.Parameters)})
	}
	rows = append(rows, []string{"reason", cmdutil.OrDash(c.Message)})
	for i := range open {
		rows = append(rows, []string{"connected", connected(&open[i], f.Now())})
	}
	if err := f.IO.Aligned(w, []ui.Column{{Name: "CLUSTER"}, {Name: c.Name}}, rows); err != nil {
		return err
	}
	if len(c.Deployments) > 0 {
		fmt.Fprintln(w)
		if err := f.IO.Aligned(w, cmdutil.DeploymentColumns(), cmdutil.DeploymentRows(c.Deployments)); err != nil {
			return err
		}
	}
	held(w, &c.Cluster)
	return nil
}

// connected tells one of the connections that its agent keeps open.
func connected(c *v1.Connection, now time.Time) string {
	text := "since " + cmdutil.Ago(now, &c.Since)
	if c.Replica != "" {
		text += " to " + c.Replica
	}
	if c.Host != "" {
		text += " from " + c.Host
	}
	return text
}

// held writes which removals of whole services wait for a person, and how one agrees.
func held(w io.Writer, c *v1.Cluster) {
	if c.Held == nil {
		return
	}
	fmt.Fprintf(w, "\nwaits for an agreement: %d services (%s)\n", c.Held.Count, ui.Clean(c.Held.Agreement(c.Name)))
	for _, name := range c.Held.Names {
		fmt.Fprintf(w, "  - %s\n", ui.Clean(name))
	}
	if rest := c.Held.Count - len(c.Held.Names); rest > 0 && len(c.Held.Names) > 0 {
		fmt.Fprintf(w, "  - and %d more\n", rest)
	}
	if c.Held.Message != "" {
		fmt.Fprintf(w, "  %s\n", ui.Clean(c.Held.Message))
	}
	fmt.Fprintf(w, "  agree: plural service ack --cluster-removals %s\n", ui.Clean(c.Name))
}

func pairs(all map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, key+"="+all[key])
	}
	return cmdutil.OrDash(strings.Join(list, " "))
}

func names(list []v1.Cluster) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = "cluster/" + c.Name
	}
	return out
}
