package cryptocmd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/groups"
)

type shareOptions struct {
	change
	who, name string
	groups    []string
}

func newCmdShare(f *cmdutil.Factory) *cobra.Command {
	o := &shareOptions{change: change{f: f}}
	cmd := &cobra.Command{
		Use:   "share WHO --group GROUP",
		Short: "Let somebody open what a group can",
		Long: "Let somebody open what a group can.\n\n" +
			"WHO is a public key (age or SSH), a file with public keys, gh:USER for the keys that GitHub knows of a user, a member that the repository knows already, cluster/NAME, or group/NAME. " +
			"The change is shown and has to be confirmed; it is one commit with one small file for each group.",
		Example: cmdutil.Example(
			"plural crypto share gh:alice --group fleet",
			"plural crypto share age105247ecju8m3g7a5mmf7pk4jcs4raffe4rq5n4ry5ftp7ehyn33syllayl --name bob --group fleet",
			"plural crypto share cluster/edge-1 --group prod --yes"),
		Args: oneWho,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.who = strings.Join(args, " ")
			return o.run(cmd.Context())
		},
	}
	o.flags(cmd)
	cmd.Flags().StringSliceVar(&o.groups, "group", nil, "the `GROUP`; may be repeated (default the only one there is)")
	cmd.Flags().StringVar(&o.name, "name", "", "what a new person is called here")
	return cmd
}

// oneWho takes one WHO. An SSH key has words of its own, and people forget the quotes.
func oneWho(cmd *cobra.Command, args []string) error {
	if len(args) > 1 && strings.HasPrefix(args[0], "ssh-") {
		return nil
	}
	return cmdutil.Exactly("WHO")(cmd, args)
}

func (o *shareOptions) run(ctx context.Context) error {
	editor, err := o.editor(ctx)
	if err != nil {
		return err
	}
	set := editor.Vault().Groups()
	names, err := chosen(set, o.groups)
	if err != nil {
		return err
	}
	find := finder{set: set, name: o.name, github: github{}.keys, today: o.f.Now().Format(time.DateOnly)}
	member, person, err := find.find(ctx, o.who)
	if err != nil {
		return err
	}
	plan, err := editor.Share(member, person, names)
	if err != nil {
		return err
	}
	_, err = o.carryOut(ctx, plan)
	return err
}

// chosen are the groups that are meant: those named, or the only one there is.
func chosen(set *groups.Set, named []string) ([]string, error) {
	all := set.Names()
	if len(named) == 0 {
		if len(all) != 1 {
			return nil, &ui.Err{Msg: "nothing says which group is meant", Fix: "--group " + strings.Join(all, " or --group ")}
		}
		return all, nil
	}
	for _, name := range named {
		if !slices.Contains(all, name) {
			return nil, unknownGroup(name, all)
		}
	}
	return named, nil
}

func unknownGroup(name string, all []string) error {
	return &ui.Err{
		Msg: "there is no group " + name, Cause: "the groups are " + strings.Join(all, ", "), Fix: "plural crypto groups create " + name, Doc: ui.DocNotFound,
	}
}

type revokeOptions struct {
	change
	who    string
	groups []string
}

func newCmdRevoke(f *cmdutil.Factory) *cobra.Command {
	o := &revokeOptions{change: change{f: f}}
	cmd := &cobra.Command{
		Use:   "revoke WHO [--group GROUP]",
		Short: "Take somebody out of groups, and seal anew",
		Long: "Take somebody out of groups, and seal anew.\n\n" +
			"The groups get new identities, and every file that they cover is sealed again, in one commit. A run that was stopped is finished by the next. " +
			"What git's history holds stays readable to whoever was taken out: change the values, too.",
		Example: cmdutil.Example("plural crypto revoke carol", "plural crypto revoke cluster/edge-1 --group prod"),
		Args:    cmdutil.Exactly("WHO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.who = args[0]
			return o.run(cmd.Context())
		},
	}
	o.flags(cmd)
	cmd.Flags().StringSliceVar(&o.groups, "group", nil, "only this `GROUP`; may be repeated (default all that WHO is in)")
	return cmd
}

func (o *revokeOptions) run(ctx context.Context) error {
	editor, err := o.editor(ctx)
	if err != nil {
		return err
	}
	member, err := groups.ParseMember(o.who)
	if err != nil {
		return err
	}
	for _, name := range o.groups {
		if _, ok := editor.Vault().Groups().Group(name); !ok {
			return unknownGroup(name, editor.Vault().Groups().Names())
		}
	}
	if o.resumed && len(editor.Vault().Groups().GroupsOf(member)) == 0 {
		return nil // that is what the earlier run was about
	}
	plan, err := editor.Revoke(ctx, member, o.groups)
	if err != nil {
		return err
	}
	done, err := o.carryOut(ctx, plan)
	if done {
		o.advise(member.String(), plan.Resealed)
	}
	return err
}

type rotateOptions struct {
	change
	groups []string
}

func newCmdRotate(f *cmdutil.Factory) *cobra.Command {
	o := &rotateOptions{change: change{f: f}}
	cmd := &cobra.Command{
		Use:   "rotate [GROUP...]",
		Short: "Give groups new identities, and seal anew",
		Long: "Give groups new identities, and seal anew.\n\n" +
			"Without a name the only group there is. Members stay members; whoever kept a copy of the old identity cannot open what is sealed from now on.",
		Example: cmdutil.Example("plural crypto rotate fleet", "plural crypto rotate prod staging"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.groups = args
			return o.run(cmd.Context())
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *rotateOptions) run(ctx context.Context) error {
	editor, err := o.editor(ctx)
	if err != nil {
		return err
	}
	names, err := chosen(editor.Vault().Groups(), o.groups)
	if err != nil {
		return err
	}
	plan, err := editor.Rotate(ctx, names)
	if err != nil {
		return err
	}
	done, err := o.carryOut(ctx, plan)
	if done {
		o.advise("whoever had the old identity", plan.Resealed)
	}
	return err
}

// advise says plainly what new identities do not undo.
func (c *change) advise(who string, resealed []string) {
	c.f.Say("\ngit's history stays readable to %s: what was sealed before this commit, in every clone", who)
	if len(resealed) == 0 {
		return
	}
	c.f.Say("so change the values that these files hold, where they are used:")
	for _, path := range resealed {
		c.f.Say("  %s", ui.Clean(path))
	}
}
