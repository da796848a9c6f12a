// Package cluster owns the commands about clusters.
//
// It refuses to know how the hub is found and asked, and who can open what. A command asks the hub one question and shows
// the answer, or plans one commit to the installation repo and makes it.
package cluster

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// NewCmdCluster is `plural cluster`.
func NewCmdCluster(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "cluster",
		GroupID: cmdutil.GroupFleet,
		Aliases: []string{"cl"},
		Short:   "See, register and delete the fleet's clusters",
		Example: cmdutil.Example("plural cluster list", "plural cluster get edge-1 -o json"),
	}, newCmdList(f), newCmdGet(f), newCmdEvents(f), newCmdRegister(f), newCmdDelete(f))
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List all clusters and how they are",
		Example: cmdutil.Example("plural cluster list", "plural cl list --jq '.items[] | select(.phase != \"healthy\").name'"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			hub, printer, err := f.Ask()
			if err != nil {
				return err
			}
			list, err := hub.Clusters(cmd.Context())
			if err != nil {
				return err
			}
			if len(list.Items) == 0 && printer.Human() {
				f.Say("there are no clusters: a cluster is a file in clusters/")
			}
			return printer.Print(ui.View{
				Value: list, Columns: cmdutil.ClusterColumns(), Rows: cmdutil.ClusterRows(list.Items, f.Now()), Names: names(list.Items),
			})
		},
	}
}

func newCmdGet(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "get NAME",
		Short:   "Show one cluster and what runs on it",
		Example: cmdutil.Example("plural cluster get edge-1", "plural cl get edge-1 -o yaml"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			hub, printer, err := f.Ask()
			if err != nil {
				return err
			}
			c, err := hub.Cluster(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var open []v1.Connection
			if printer.Human() {
				// A hub that cannot say, or does not say it to this person, keeps nobody from seeing the rest.
				if list, err := hub.Connections(cmd.Context(), args[0]); err == nil {
					open = list.Items
				}
			}
			return printer.Print(ui.View{
				Value: c, Names: names([]v1.Cluster{c.Cluster}),
				Screen: func(w io.Writer) error { return screen(f, w, c, open) },
			})
		},
	}
}

func screen(f *cmdutil.Factory, w io.Writer, c *v1.ClusterDetail, open []v1.Connection) error {
	rows := [][]string{
		{"phase", string(c.Phase)},
		{"services", cmdutil.Ratio(c.Ready, c.Services) + " ready"},
		{"kubernetes", cmdutil.OrDash(c.KubernetesVersion)},
		{"agent", cmdutil.OrDash(c.AgentVersion)},
		{"report", cmdutil.Ago(f.Now(), c.LastReport)},
		{"tags", tags(c.Tags)},
		{"reason", cmdutil.OrDash(c.Message)},
	}
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
	fmt.Fprintf(w, "\nwaits for an agreement: %d services (%s)\n", c.Held.Count, ui.Clean(c.Held.Token))
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

func tags(all map[string]string) string {
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
