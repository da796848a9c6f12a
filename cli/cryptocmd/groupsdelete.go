package cryptocmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
)

// deletion is a group on its way out.
type deletion struct {
	change
	name string
}

func newCmdGroupsDelete(f *cmdutil.Factory) *cobra.Command {
	d := &deletion{change: change{f: f}}
	cmd := &cobra.Command{
		Use:     "delete GROUP",
		Short:   "Delete a group that no path is sealed for",
		Example: cmdutil.Example("plural crypto groups delete legacy", "plural crypto groups delete legacy --dry-run"),
		Args:    cmdutil.Exactly("GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.name = args[0]
			return d.run(cmd.Context())
		},
	}
	d.flags(cmd)
	return cmd
}

func (d *deletion) run(ctx context.Context) error {
	editor, err := d.editor(ctx)
	if err != nil {
		return err
	}
	if _, ok := editor.Vault().Groups().Group(d.name); !ok {
		return unknownGroup(d.name, editor.Vault().Groups().Names())
	}
	plan, err := editor.DeleteGroup(d.name)
	if err != nil {
		return err
	}
	_, err = d.carryOut(ctx, plan)
	return err
}
