package service

import (
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

func newCmdCreate(f *cmdutil.Factory) *cobra.Command {
	w := new(written)
	c := document.New(f, yamledit.Service)
	cmd := &cobra.Command{
		Use:   "create NAME [PARAMETER=VALUE]...",
		Short: "Write a service, and wait until it runs",
		Long: `Write a service, and wait until it runs.

It becomes services/NAME.yaml, which is shown, committed and pushed. What it says
is checked with all of the repo before: a mistake is told with its line, and
nothing is changed. Its files have to be committed already; parameters are what
its templates (*.tmpl) see as .parameters. Those that nothing reads are told as
plural service set tells them.`,
		Example: cmdutil.Example(
			"plural service create web --path apps/web -l env=prod replicas=3",
			"plural service create redis --source bitnami --chart redis --ref '>=20 <21' --cluster edge-1",
			"plural service create web --path apps/web -l env=prod --dry-run"),
		Args: named,
	}
	w.flags(cmd.Flags())
	complete(cmd)
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if len(w.clusters) == 0 && len(w.tags) == 0 {
			return &ui.Err{
				Msg: "nothing says where the service runs", Fix: "--cluster NAME, or -l KEY=VALUE for clusters with that tag", Doc: ui.DocUsage,
			}
		}
		service := &fleet.Service{Metadata: fleet.Metadata{Name: name}, Spec: w.spec()}
		if err := fill(&service.Spec, args[1:], w.values); err != nil {
			return err
		}
		fields, err := assigned(args[1:], w.values)
		if err != nil {
			return err
		}
		c.Check = checks{f: f, name: name, change: c, fields: fields, committed: committing(cmd)}.all(cmd.Context())
		return c.Create(cmd.Context(), name, service)
	}
	return cmd
}

// named wants a name, whatever comes behind it.
func named(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return &ui.Err{Msg: "NAME is missing", Fix: cmd.UseLine(), Doc: ui.DocUsage}
	}
	return nil
}

// committing says whether a change by the command becomes a commit.
func committing(cmd *cobra.Command) func() bool {
	return func() bool {
		only, err := cmd.Flags().GetBool("no-commit")
		return err != nil || !only
	}
}

// fill puts parameters and values into a new service.
func fill(spec *fleet.ServiceSpec, parameters, values []string) error {
	given, err := document.Assigned(parameters, func(key string) string { return key })
	if err != nil {
		return err
	}
	for _, p := range given {
		text, ok := p.Value.(string)
		if !ok {
			return &ui.Err{Msg: "a new service has no parameter " + p.Key, Fix: p.Key + "=VALUE", Doc: ui.DocUsage}
		}
		if spec.Parameters == nil {
			spec.Parameters = map[string]string{}
		}
		spec.Parameters[p.Key] = text
	}
	given, err = document.Valued(values, func(key string) string { return key })
	if err != nil || len(given) == 0 {
		return err
	}
	if spec.Helm == nil {
		spec.Helm = &fleet.Helm{}
	}
	spec.Helm.Values, err = document.Nested(given)
	return err
}

// complete completes what help does not tell apart from other names.
func complete(cmd *cobra.Command) {
	renderers := cobra.FixedCompletions([]cobra.Completion{"raw", "kustomize", "helm"}, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("renderer", renderers) // the flag is there, and has none
}
