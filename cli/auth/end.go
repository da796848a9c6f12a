package auth

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

func newCmdEnd(f *cmdutil.Factory) *cobra.Command {
	m := &change.CommitOptions{Factory: f, Unobserved: true}
	cmd := &cobra.Command{
		Use:   "end USER",
		Short: "End all logins of a user, or of an identity provider",
		Long: "End all logins of a user, or of an identity provider.\n\n" +
			"From when the hub serves the commit, logins that began before now are refused, and what was opened with them ends\n" +
			"within seconds. Who may still log in with the provider can do so again: to keep somebody out, take away the identity\n" +
			"or the groups there, or the roles here. Tokens of plural auth token create go on; delete those too.",
		Example: cmdutil.Example("plural auth end ada", "plural auth end provider/corp"),
		Args:    cmdutil.Exactly("USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return end(cmd.Context(), m, args[0])
		},
	}
	m.Flags(cmd.Flags())
	return cmd
}

func end(ctx context.Context, m *change.CommitOptions, what string) error {
	repo, f, err := m.Factory.Fleet()
	if err != nil {
		return err
	}
	d := yamledit.Document{Kind: yamledit.User, Name: what}
	if name, ok := strings.CutPrefix(what, "provider/"); ok {
		d = yamledit.Document{Kind: yamledit.Provider, Name: name}
		if !slices.ContainsFunc(f.Providers, func(p fleet.Provider) bool { return p.Metadata.Name == name }) {
			return &ui.Err{
				Msg: fmt.Sprintf("the installation repo has no provider %q", name), Fix: "see the Provider documents in access/", Doc: ui.DocNotFound,
			}
		}
	} else if _, known := f.User(what); !known {
		return &ui.Err{
			Msg: fmt.Sprintf("the installation repo has no user %q", what),
			Fix: "make the identity one of a User in access/, and end that; or all of the provider: plural auth end provider/NAME",
			Doc: ui.DocNotFound,
		}
	}
	now := m.Factory.Now().UTC().Truncate(time.Second).Add(time.Second) // logins know whole seconds: those of this one end, too
	planned, err := yamledit.Set(os.DirFS(repo.Root()), d, yamledit.Field{Key: "spec.sessionsAfter", Value: now.Format(time.RFC3339)})
	if err != nil {
		return change.Explained(err)
	}
	_, err = m.CarryOut(ctx, repo, planned, "End logins of "+what)
	return err
}
