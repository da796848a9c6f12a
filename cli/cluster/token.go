package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/workspace"
)

func newCmdToken(f *cmdutil.Factory) *cobra.Command {
	o := &registerOptions{factory: f, CommitOptions: change.CommitOptions{Factory: f, Unobserved: true}}
	var revoke bool
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a new join token for a cluster of the fleet",
		Long: "Make a new join token for a cluster of the fleet: one that has not joined yet, or that lost its keys.\n\n" +
			"The line that uses it is printed, for whoever is the cluster's administrator to paste within a quarter of an hour. The\n" +
			"token is good once, for this cluster, and an older one is good for nothing once the hub has seen the commit. Keys that the\n" +
			"cluster has stay good until the new token is used. The hub has to run with --edits.\n\n" +
			"With --revoke there is no new token: the one that was made last is taken back.",
		Example: cmdutil.Example("plural cluster token edge-1", "plural cluster token edge-1 --revoke"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.token(cmd.Context(), revoke)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.hubCA, "hub-ca", "", "the `FILE` with the certificates that the agent trusts for the hub, PEM (default the system's)")
	flags.BoolVar(&revoke, "revoke", false, "take back the token that was made last")
	cmd.MarkFlagsMutuallyExclusive("revoke", "hub-ca")
	o.Flags(flags)
	return cmd
}

// token invites a cluster that is there once more, or takes its invitation back.
func (o *registerOptions) token(ctx context.Context, revoke bool) error {
	if err := workspace.CheckName(o.name); err != nil { // it is part of a file's name
		return fmt.Errorf("cluster %w", err)
	}
	c, err := open(ctx, o.factory, o.DryRun)
	if err != nil {
		return err
	}
	path := register.Path(o.name)
	file, err := c.read(path)
	if err != nil {
		return err
	}
	if file == nil {
		return &ui.Err{
			Msg: fmt.Sprintf("no cluster %q in this repository: there is no %s", o.name, path),
			Fix: "plural cluster register " + o.name + " --print", Doc: ui.DocNotFound,
		}
	}
	if !revoke {
		return o.inviteTo(ctx, c, file, "Invite cluster "+o.name+" again")
	}
	revoked, err := register.Revoke(o.name, file)
	if err != nil {
		return err
	}
	if revoked == nil {
		o.factory.Say("cluster %s has no join token", o.name)
		return nil
	}
	_, err = o.CarryOutFiles(ctx, c.repo, map[string][]byte{path: revoked}, nil, "Take back the join token of cluster "+o.name)
	return err
}
