package secret

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/values"
)

func newCmdDelete(f *cmdutil.Factory) *cobra.Command {
	o := &edit{f: f}
	cmd := &cobra.Command{
		Use:   "delete FILE KEY",
		Short: "Remove one value from a sealed file",
		Long: `Remove one value, with its key, from a YAML, JSON or env file that is sealed in
git, commit the file and push it. Everything else in the file stays as it is.

Old commits keep the value. Where it still opens something, rotate it.`,
		Example: cmdutil.Example(
			"plural secret delete secrets/db.yaml stringData.password",
			"plural secret delete secrets/app.env TOKEN --dry-run"),
		Args: cmdutil.Exactly("FILE", "KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.remove(cmd.Context(), args[0], args[1])
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *edit) remove(ctx context.Context, file, key string) error {
	t, err := open(o.f, file)
	if err != nil {
		return err
	}
	if err := t.mustBeSealed(); err != nil {
		return err
	}
	if t.content == nil {
		return &ui.Err{Msg: t.path + " does not exist", Fix: "plural crypto status names what is sealed", Doc: ui.DocNotFound}
	}
	before, err := t.text()
	if err != nil {
		return err
	}
	after, err := values.Delete(t.path, before, key)
	if err != nil {
		return err
	}
	return o.carryOut(ctx, t, before, after, "Remove a value from "+t.path)
}
