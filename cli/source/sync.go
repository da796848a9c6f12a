package source

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// A fetch that was asked for is looked for this often, and this long.
const (
	syncEvery   = 100 * time.Millisecond
	syncTimeout = 2 * time.Minute
)

func newCmdSync(f *cmdutil.Factory) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use:   "sync NAME",
		Short: "Have the hub look at a source now",
		Long: "Have the hub look at a source now, instead of at its next interval, and wait until it has.\n\n" +
			"The installation repo itself is the source named \".\".",
		Example: cmdutil.Example("plural source sync podinfo", "plural source sync . --no-wait"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			hub, printer, err := f.Ask()
			if err != nil {
				return err
			}
			s, err := synced(cmd.Context(), hub, args[0], noWait)
			if err != nil {
				return err
			}
			return printer.Print(ui.View{
				Value: s, Names: names([]v1.Source{*s}),
				Screen: func(w io.Writer) error { return screen(f, w, s) },
			})
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the fetch")
	return cmd
}

// synced asks for a fetch, and gives the source as it is after it.
func synced(ctx context.Context, hub *client.Client, name string, noWait bool) (*v1.Source, error) {
	before, err := hub.Source(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := hub.Sync(ctx, name); err != nil || noWait {
		return before, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		now, err := hub.Source(ctx, name)
		if err != nil {
			return nil, err
		}
		if now.Fetches > before.Fetches && (now.Error != "" || later(now.LastFetch, before.LastFetch)) {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return nil, &ui.Err{
				Msg: fmt.Sprintf("source %s was not fetched within %s", name, syncTimeout), Fix: "plural hub status", Doc: ui.DocNotConverged,
			}
		case <-tick.C:
		}
	}
}

func later(a, b *time.Time) bool { return a != nil && (b == nil || a.After(*b)) }
