package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

func newCmdToken(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "token",
		Short:   "Make tokens for users, and take them back",
		Example: cmdutil.Example("plural auth token create ada --name laptop --expires 90d", "plural auth token list", "plural auth token delete ada laptop"),
	}, newCmdCreate(f), newCmdList(f), newCmdDelete(f))
}

type createOptions struct {
	change.CommitOptions
	user, name, expires string
	groups              []string
}

func newCmdCreate(f *cmdutil.Factory) *cobra.Command {
	o := &createOptions{CommitOptions: change.CommitOptions{Factory: f, Unobserved: true}}
	cmd := &cobra.Command{
		Use:   "create USER",
		Short: "Make a token for a user, and commit its hash",
		Long: "Make a token for a user, and commit its hash.\n\n" +
			"The token is printed once, and kept nowhere. It is good from when the hub serves the commit. A user who is not\n" +
			"there yet is added; what they may do is said by roles in access/.",
		Example: cmdutil.Example("plural auth token create ada", "plural auth token create ci --name pipeline --expires 30d --groups deployers"),
		Args:    cmdutil.Exactly("USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.user = args[0]
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "the token's `NAME` (default: of the day)")
	flags.StringVar(&o.expires, "expires", "", "how long it is good, such as 90d or 12h, or until when, such as 2027-01-31 (default: for ever)")
	flags.StringSliceVar(&o.groups, "groups", nil, "the `GROUPS` of a user who is added")
	o.Flags(flags)
	return cmd
}

func (o *createOptions) run(ctx context.Context) error {
	repo, f, err := o.Factory.Fleet()
	if err != nil {
		return err
	}
	if err := workspace.CheckName(o.user); err != nil {
		return fmt.Errorf("user %w", err)
	}
	expires, err := until(o.expires, o.Factory.Now())
	if err != nil {
		return err
	}
	secret := fleet.NewToken()
	token := fleet.UserToken{Name: cmp.Or(o.name, "token-"+o.Factory.Now().UTC().Format("2006-01-02-150405")), Hash: fleet.HashToken(secret), Expires: expires}
	tokens, err := o.with(f, token)
	if err != nil {
		return err
	}
	planned, err := yamledit.Tokens(os.DirFS(repo.Root()), o.user, o.groups, tokens)
	if err != nil {
		return change.Explained(err)
	}
	made, err := o.CarryOut(ctx, repo, planned, fmt.Sprintf("Add token %s of %s", token.Name, o.user))
	if !made.Written {
		return err
	}
	// Its hash is written: whatever became of the push, nobody can ask for it again.
	if !bound(f, o.user, o.groups) {
		o.Factory.Say("warning: no RoleBinding names %s, or a group of theirs: with this token nothing may be seen", ui.Clean(o.user))
		o.Factory.Say("  fix: bind a Role in access/: plural explain rolebinding, plural explain role")
	}
	o.Factory.Say("token %s of %s, shown this once:", ui.Clean(token.Name), ui.Clean(o.user))
	_, printed := fmt.Fprintln(o.Factory.IO.Out, secret)
	return errors.Join(err, printed)
}

// bound says whether a role is bound to a user, who is given the groups where they are new.
func bound(f *fleet.Fleet, user string, groups []string) bool {
	if u, known := f.User(user); known {
		groups = u.Spec.Groups
	}
	return slices.ContainsFunc(f.RoleBindings, func(b fleet.RoleBinding) bool {
		inGroup := func(group string) bool { return slices.Contains(b.Spec.Groups, group) }
		return slices.Contains(b.Spec.Users, user) || slices.ContainsFunc(groups, inGroup)
	})
}

// with are the user's tokens and a new one.
func (o *createOptions) with(f *fleet.Fleet, token fleet.UserToken) ([]fleet.UserToken, error) {
	user, known := f.User(o.user)
	if !known {
		return []fleet.UserToken{token}, nil
	}
	if len(o.groups) > 0 {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("user %q is there already, in groups of their own", o.user), Fix: "change the groups in " + user.Position.File, Doc: ui.DocExists,
		}
	}
	if slices.ContainsFunc(user.Spec.Tokens, func(t fleet.UserToken) bool { return t.Name == token.Name }) {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("user %q has a token %q already", o.user, token.Name),
			Fix: fmt.Sprintf("give another --name, or plural auth token delete %s %s", o.user, token.Name), Doc: ui.DocExists,
		}
	}
	return slices.Concat(user.Spec.Tokens, []fleet.UserToken{token}), nil
}

// until is when something ends that is to last so long, in RFC 3339; empty is never.
func until(written string, now time.Time) (string, error) {
	if written == "" {
		return "", nil
	}
	end, err := ending(written, now)
	if err != nil || !end.After(now) {
		return "", &ui.Err{Msg: fmt.Sprintf("--expires %q is no time ahead", written), Fix: "--expires 90d, 12h, or 2027-01-31"}
	}
	return end.UTC().Format(time.RFC3339), nil
}

func ending(written string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if end, err := time.Parse(layout, written); err == nil {
			return end, nil
		}
	}
	if days, ok := strings.CutSuffix(written, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15)
		return now.AddDate(0, 0, int(n)), err
	}
	d, err := time.ParseDuration(written)
	return now.Add(d), err
}

// row is a token as it is listed.
type row struct {
	User    string   `json:"user"`
	Name    string   `json:"name"`
	Groups  []string `json:"groups"`
	Expires string   `json:"expires,omitempty"`
	Expired bool     `json:"expired,omitempty"`
	File    string   `json:"file"`
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list [USER]",
		Short:   "List the tokens of users, as the installation repo says them",
		Example: cmdutil.Example("plural auth token list", "plural auth token list ada -o json"),
		Args:    cmdutil.AtMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, all, err := f.Fleet()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if _, ok := all.User(args[0]); !ok {
					return noUser(args[0])
				}
			}
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			rows := rowsOf(all, args, f.Now())
			view := ui.View{Value: rows, Columns: []ui.Column{{Name: "USER"}, {Name: "TOKEN"}, {Name: "GROUPS"}, {Name: "EXPIRES"}, {Name: "FILE", Wide: true}}}
			for _, r := range rows {
				view.Names = append(view.Names, "token/"+r.User+"/"+r.Name)
				view.Rows = append(view.Rows, []string{r.User, r.Name, cmdutil.OrDash(strings.Join(r.Groups, ", ")), cmp.Or(r.Expires, "never"), r.File})
			}
			return printer.Print(view)
		},
	}
}

// rowsOf are the tokens of the users that are named, or of all.
func rowsOf(f *fleet.Fleet, users []string, now time.Time) []row {
	rows := []row{}
	for i := range f.Users {
		u := &f.Users[i]
		if len(users) > 0 && !slices.Contains(users, u.Metadata.Name) {
			continue
		}
		for j := range u.Spec.Tokens {
			t := &u.Spec.Tokens[j]
			end := t.Until()
			rows = append(rows, row{
				User: u.Metadata.Name, Name: t.Name, Groups: u.Spec.Groups, Expires: t.Expires,
				Expired: !end.IsZero() && !end.After(now), File: u.Position.String(),
			})
		}
	}
	return rows
}

func noUser(name string) error {
	return &ui.Err{
		Msg: fmt.Sprintf("the installation repo has no user %q", name), Fix: "plural auth token list", Doc: ui.DocNotFound,
	}
}

func newCmdDelete(f *cmdutil.Factory) *cobra.Command {
	m := &change.CommitOptions{Factory: f, Unobserved: true}
	cmd := &cobra.Command{
		Use:   "delete USER NAME",
		Short: "Take a token back",
		Long: "Take a token back.\n\n" +
			"Its hash goes from the installation repo. From when the hub serves the commit the token is refused, and what was\n" +
			"opened with it ends within seconds.",
		Example: cmdutil.Example("plural auth token delete ada laptop", "plural auth token delete ada laptop --dry-run"),
		Args:    cmdutil.Exactly("USER", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return remove(cmd.Context(), m, args[0], args[1])
		},
	}
	m.Flags(cmd.Flags())
	return cmd
}

func remove(ctx context.Context, m *change.CommitOptions, name, token string) error {
	repo, f, err := m.Factory.Fleet()
	if err != nil {
		return err
	}
	user, ok := f.User(name)
	if !ok {
		return noUser(name)
	}
	rest := slices.DeleteFunc(slices.Clone(user.Spec.Tokens), func(t fleet.UserToken) bool { return t.Name == token })
	if len(rest) == len(user.Spec.Tokens) {
		return &ui.Err{
			Msg: fmt.Sprintf("user %q has no token %q", name, token), Fix: "plural auth token list " + name, Doc: ui.DocNotFound,
		}
	}
	planned, err := yamledit.Tokens(os.DirFS(repo.Root()), name, nil, rest)
	if err != nil {
		return change.Explained(err)
	}
	_, err = m.CarryOut(ctx, repo, planned, fmt.Sprintf("Delete token %s of %s", token, name))
	return err
}
