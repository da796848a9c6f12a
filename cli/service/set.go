package service

import (
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/completions"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/amend"
	"github.com/pluralsh/plural/workspace/fleet"
)

func newCmdSet(f *cmdutil.Factory) *cobra.Command {
	w := new(written)
	c := document.New(f, amend.Service)
	cmd := &cobra.Command{
		Use:   "set NAME [PARAMETER=VALUE | PARAMETER-]...",
		Short: "Change a service, and wait until it runs so",
		Long: `Change a service, and wait until it runs so.

PARAMETER=VALUE sets one of its parameters, PARAMETER- takes it away; --value does
the same to Helm values, which are read as YAML: 3 is a number, '"3"' a text. The
other flags write the field of their name; an empty text takes it away. --cluster
and -l say anew where it runs.

Only these fields of its file change. All of the repo is checked with the change
before it is shown, committed and pushed: a mistake is told with its line, and
nothing is changed. A parameter or value that no template of the service reads is
warned of; at a terminal you are asked.`,
		Example: cmdutil.Example(
			"plural service set podinfo replicas=3",
			"plural service set web --value image.tag=1.10 --value ingress.hosts='[web.example.org]'",
			"plural service set redis --ref '>=20 <21' -m 'Take redis 20' --dry-run"),
		Args:              named,
		ValidArgsFunction: cmdutil.Complete(f, completions.Services),
	}
	w.flags(cmd.Flags())
	complete(cmd)
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields, err := document.Assigned(args[1:], func(key string) string { return amend.Key("spec", "parameters", key) })
		if err != nil {
			return err
		}
		values, err := document.Valued(w.values, func(key string) string { return "spec.helm.values." + key })
		if err != nil {
			return err
		}
		fields = append(append(fields, values...), w.fields(cmd.Flags())...)
		folder, unread := hasFolder(args[0], committing(cmd)), warnUnread(cmd.Context(), f, args[0], fields)
		c.Check = func(repo *workspace.Repo, after *fleet.Fleet) error {
			if err := folder(repo, after); err != nil {
				return err
			}
			return unread(repo, after)
		}
		return c.Set(cmd.Context(), args[0], "plural service set "+args[0]+" PARAMETER=VALUE, or a flag: --help", fields)
	}
	return cmd
}

func newCmdEdit(f *cmdutil.Factory) *cobra.Command {
	c := document.New(f, amend.Service)
	cmd := &cobra.Command{
		Use:   "edit NAME",
		Short: "Edit a service's file, and wait until it runs so",
		Long: `Edit a service's file, and wait until it runs so.

The editor ($VISUAL, $EDITOR, else vi) works on a copy. What comes of it is checked
with all of the repo: where it would be a mistake, its line is told, and you can
edit again. Then it is shown, committed and pushed.`,
		Example: cmdutil.Example("plural service edit web", "EDITOR='code --wait' plural svc edit web -m 'Give web more memory'"),
		Args:    cmdutil.Exactly("NAME"),
	}
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.Check = hasFolder(args[0], committing(cmd))
		return c.Edit(cmd.Context(), args[0])
	}
	return cmd
}
