package service

import (
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/completions"
	"github.com/pluralsh/plural/workspace/yamledit"
)

func newCmdSet(f *cmdutil.Factory) *cobra.Command {
	w := new(written)
	c := document.New(f, yamledit.Service)
	confirm := ""
	cmd := &cobra.Command{
		Use:   "set NAME [PARAMETER=VALUE | PARAMETER-]...",
		Short: "Change a service, and wait until it runs so",
		Long: `Change a service, and wait until it runs so.

PARAMETER=VALUE sets one of its parameters, PARAMETER- takes it away; --value does
the same to Helm values, which are read as YAML: 3 is a number, '"3"' a text. The
other flags write the field of their name; an empty text takes it away. --cluster
and -l say anew where it runs: where that takes it off clusters you are asked, and
for all of them its name has to be typed, as by plural service delete.

Only these fields of its file change. All of the repo is checked with the change
before it is shown, committed and pushed, and what the service renders to by then
as plural validate does: a mistake is told with its line, and nothing is changed.
A parameter or value that no template of the service reads is warned of; at a
terminal you are asked, and elsewhere one that is almost the name of another, or
that of a Helm value, needs --yes.`,
		Example: cmdutil.Example(
			"plural service set podinfo replicas=3",
			"plural service set redis --value image.tag=1.10 --value master.extraFlags='[--appendonly]'",
			"plural service set redis --ref '>=20 <21' -m 'Take redis 20' --dry-run"),
		Args:              named,
		ValidArgsFunction: cmdutil.Complete(f, completions.Services),
	}
	w.flags(cmd.Flags())
	complete(cmd)
	cmd.Flags().StringVar(&confirm, "confirm", "", "the service's `NAME` once more, where it leaves all its clusters")
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields, err := assigned(args[1:], w.values)
		if err != nil {
			return err
		}
		fields = append(fields, w.fields(cmd.Flags())...)
		c.Check = checks{f: f, name: args[0], change: c, fields: fields, committed: committing(cmd), confirm: &confirm}.all(cmd.Context())
		return c.Set(cmd.Context(), args[0], "plural service set "+args[0]+" PARAMETER=VALUE, or a flag: --help", fields)
	}
	return cmd
}

// assigned are the fields of parameters and values.
func assigned(parameters, values []string) ([]yamledit.Field, error) {
	fields, err := document.Assigned(parameters, func(key string) string { return yamledit.Key("spec", "parameters", key) })
	if err != nil {
		return nil, err
	}
	more, err := document.Valued(values, func(key string) string { return "spec.helm.values." + key })
	return append(fields, more...), err
}

func newCmdEdit(f *cmdutil.Factory) *cobra.Command {
	c := document.New(f, yamledit.Service)
	confirm := ""
	cmd := &cobra.Command{
		Use:   "edit NAME",
		Short: "Edit a service's file, and wait until it runs so",
		Long: `Edit a service's file, and wait until it runs so.

The editor ($VISUAL, $EDITOR, else vi) works on a copy. What comes of it is checked
with all of the repo: where it would be a mistake, its line is told, and you can
edit again. Then it is shown, committed and pushed; --ask wants a yes first.`,
		Example: cmdutil.Example("plural service edit web", "EDITOR='code --wait' plural svc edit web -m 'Give web more memory'"),
		Args:    cmdutil.Exactly("NAME"),
	}
	cmd.Flags().StringVar(&confirm, "confirm", "", "the service's `NAME` once more, where it leaves all its clusters")
	c.EditFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.Check = checks{f: f, name: args[0], change: c, committed: committing(cmd), confirm: &confirm}.all(cmd.Context())
		return c.Edit(cmd.Context(), args[0])
	}
	return cmd
}
