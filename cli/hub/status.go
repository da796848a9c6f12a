package hub

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func newCmdStatus(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the hub's replicas, sources and caches",
		Long: "Show the hub's replicas, sources and caches.\n\nCounts of bundles are those of the replica that answers, since it " +
			"started; all else is the same on every replica.",
		Example: cmdutil.Example("plural hub status", "plural hub status -o json --jq .replicas"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			hub, printer, err := f.Ask()
			if err != nil {
				return err
			}
			status, err := hub.Hub(cmd.Context())
			if err != nil {
				return err
			}
			sources, err := hub.Sources(cmd.Context())
			if err != nil {
				return err
			}
			return printer.Print(ui.View{
				Value: status, Names: []string{"hub"},
				Screen: func(w io.Writer) error { return screen(f, w, status, sources.Items) },
			})
		},
	}
}

func screen(f *cmdutil.Factory, w io.Writer, h *v1.Hub, sources []v1.Source) error {
	b := h.Bundles
	rows := [][]string{
		{"commit", cmdutil.OrDash(cmdutil.ShortCommit(h.Commit.ID))},
		{"edition", cmdutil.OrDash(h.Edition)},
		{"clusters", fmt.Sprintf("%d, %d silent", h.Clusters, h.Silent)},
		{"services", strconv.Itoa(h.Services)},
		{"bundles", fmt.Sprintf("%d files, %s", b.Files, size(b.Bytes))},
		{"served", fmt.Sprintf("%d from disk, %d from peers, %d packed, %d failed", b.Hits, b.FromPeers, b.Packed, b.Failed)},
		{"replaced", fmt.Sprintf("%d damaged, %d for room", b.Corrupt, b.Evicted)},
	}
	if h.TokenWarning != "" {
		rows = append(rows, []string{"token", h.TokenWarning})
	}
	if h.StoreError != "" {
		rows = append(rows, []string{"disk", "takes nothing: " + h.StoreError})
	}
	if err := f.IO.Aligned(w, []ui.Column{{Name: "HUB"}, {Name: h.Version}}, rows); err != nil {
		return err
	}
	if err := certificates(f, w, h); err != nil {
		return err
	}
	if err := replicas(f, w, h); err != nil {
		return err
	}
	return sourcesTable(f, w, sources)
}

// certificates tells of renewed certificates that the hub cannot show.
func certificates(f *cmdutil.Factory, w io.Writer, h *v1.Hub) error {
	var rows [][]string
	for _, c := range h.Certificates {
		if c.Error != "" {
			rows = append(rows, []string{c.Name, c.Ends.Format(time.DateOnly), c.Error})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return f.IO.Aligned(w, []ui.Column{{Name: "CERTIFICATE"}, {Name: "ENDS"}, {Name: "NOT RENEWED BECAUSE"}}, rows)
}

func replicas(f *cmdutil.Factory, w io.Writer, h *v1.Hub) error {
	if len(h.Replicas) == 0 {
		return nil
	}
	rows := make([][]string, len(h.Replicas))
	for i, r := range h.Replicas {
		state := "live"
		switch {
		case !r.Live:
			state = "gone"
		case r.Draining:
			state = "leaving"
		}
		if r.Name == h.Replica {
			state += ", answers"
		}
		age := time.Duration(r.LeaseAge * float64(time.Second)).Round(100 * time.Millisecond)
		rows[i] = []string{r.Name, state, strconv.Itoa(r.Owns), age.String(), cmdutil.OrDash(r.Version)}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return f.IO.Aligned(w, []ui.Column{{Name: "REPLICA"}, {Name: "STATE"}, {Name: "OWNS"}, {Name: "LEASE"}, {Name: "VERSION"}}, rows)
}

func sourcesTable(f *cmdutil.Factory, w io.Writer, sources []v1.Source) error {
	rows := make([][]string, len(sources))
	for i, s := range sources {
		rows[i] = []string{
			s.Name, s.Kind, cmdutil.Ago(f.Now(), s.LastFetch), strconv.FormatInt(s.Requests, 10), size(s.ReceivedBytes),
			cmdutil.OrDash(s.Owner), cmdutil.OrDash(s.Error),
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	columns := []ui.Column{
		{Name: "SOURCE"}, {Name: "KIND"}, {Name: "FETCHED"}, {Name: "REQUESTS"}, {Name: "RECEIVED"}, {Name: "OWNER"}, {Name: "ERROR"},
	}
	return f.IO.Aligned(w, columns, rows)
}

// size is bytes as people read them.
func size(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return fmt.Sprintf("%d B", n)
	case n < unit*unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/unit/unit)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/unit/unit/unit)
}
