package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func newCmdOpen(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "open",
		Short: "Open the hub's page, or print its address",
		Long: `Print the hub's address and, on a terminal, open its page in a browser: $BROWSER,
else the system's. Whoever is logged in here is asked there to log in as the same,
with a ticket that is good once and for a minute. Where the hub has no page, what
shows the fleet in the terminal is named.`,
		Example: cmdutil.Example("plural hub open", "plural hub open --hub https://hub.example.com"),
		Args:    cmdutil.Exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return open(cmd.Context(), f) },
	}
}

func open(ctx context.Context, f *cmdutil.Factory) error {
	hub, err := f.HubClient()
	if err != nil {
		return err
	}
	address := hub.Address()
	if _, err := fmt.Fprintln(f.IO.Out, ui.Clean(address)); err != nil {
		return err
	}
	token, err := f.HubToken(address)
	if err != nil {
		return err
	}
	if token == "" {
		f.Say("log in: plural auth login --hub %s", ui.Clean(address))
	}
	if !f.IO.OutTTY {
		return nil
	}
	has, err := hub.HasPage(ctx)
	if err != nil {
		return err
	}
	if !has {
		f.Say("it has no page; in the terminal: plural tui")
		return nil
	}
	page := address
	if token != "" {
		page, err = ticketed(ctx, f, hub)
		if err != nil {
			return err
		}
	}
	err = f.Browse(ctx, page)
	if errors.Is(err, exec.ErrNotFound) {
		f.Say("there is no browser here: open it where there is one")
		return nil
	}
	if err != nil {
		return &ui.Err{
			Msg: "the browser did not open " + address, Cause: err.Error(), Fix: "set BROWSER, or open it by hand",
			Doc: ui.DocProgram, Err: err,
		}
	}
	return nil
}

// ticketed is the address at which a browser logs in as the person. The ticket stands behind the #, which is sent to no server. A hub of an
// earlier release gives none, and one that does not take the login shows how to log in.
func ticketed(ctx context.Context, f *cmdutil.Factory, hub *client.Client) (string, error) {
	ticket, ok, err := hub.PageTicket(ctx)
	refused := new(client.Error)
	if errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
		f.Say("the page opens without a login: %s; %s", ui.Clean(refused.Message), ui.Clean(refused.Fix))
		return hub.Address(), nil
	}
	if err != nil || !ok {
		return hub.Address(), err
	}
	return hub.Address() + ticket.Path + "#" + ticket.Ticket, nil
}
