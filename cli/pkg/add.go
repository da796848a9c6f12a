package pkg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packs"
)

type addOptions struct {
	f        *cmdutil.Factory
	as, from string
	clusters []string
	labels   []string
	given    Given
	making   change.CommitOptions
}

func newCmdAdd(f *cmdutil.Factory) *cobra.Command {
	o := &addOptions{f: f, given: Given{f: f}, making: change.CommitOptions{Factory: f, Unobserved: true}}
	cmd := &cobra.Command{
		Use:   "add NAME[@RANGE]...",
		Short: "Add packages to the repo, with all that they need",
		Long: `Add packages to the installation repo, with all that they need.

What fits together is shown before anything is done: each package that comes or
changes, and who asked for it. Then the questions that have no default are asked;
without a terminal, all that nothing answers are listed at once, each with its
flag. All of it becomes one commit. plural deploy carries it out.

--set NAME=VALUE answers a question of the package that is added, --set
PACKAGE.NAME=VALUE one of another that comes with it. Lists are written with commas
between their entries, maps as KEY=VALUE. Secrets are answered in a file (--answers,
- is stdin), which holds answers by the same names, or made up where the package
allows that; they are never given as flags, where everybody on the machine could
read them.`,
		Example: cmdutil.Example(
			"plural package add cluster-aws --set region=eu-central-1",
			"plural package add agent@^0.1 --as agent-edge-1 --set memory=256Mi --clusters edge-1",
			"plural package add web --as shop --answers answers.yaml --yes"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &ui.Err{Msg: "NAME is missing", Fix: cmd.UseLine()}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.as, "as", "", "the installation's `NAME`, for another of the same package")
	flags.StringVar(&o.from, "catalog", "", "the `CATALOG` that it must come from")
	flags.StringSliceVar(&o.clusters, "clusters", nil, "the `CLUSTERS` that it runs on; else the management cluster")
	flags.StringSliceVar(&o.labels, "cluster-labels", nil, "or those whose tags match, as `KEY=VALUE`")
	o.given.flags(flags)
	o.making.Flags(flags)
	return cmd
}

func (o *addOptions) run(ctx context.Context, args []string) error {
	if o.as != "" && len(args) > 1 {
		return &ui.Err{Msg: "--as is for one package", Fix: "add them one after the other"}
	}
	wanted := make([]packs.Wanted, len(args))
	for i, text := range args {
		if folder := strings.HasPrefix(text, ".") || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "~"); folder {
			return &ui.Err{
				Msg: fmt.Sprintf("%s is a folder, and packages come from catalogs", text),
				Fix: "push it to a git repository or publish it (plural package publish), name that in spec.catalogs of plural.yaml, " +
					"then: plural package add NAME",
				Doc: ui.DocPackage,
			}
		}
		wanted[i] = packs.ParseWanted(text)
		wanted[i].As, wanted[i].Catalog = o.as, o.from
		wanted[i].Clusters.Names = o.clusters
		for _, label := range o.labels {
			key, value, ok := strings.Cut(label, "=")
			if !ok {
				return &ui.Err{Msg: fmt.Sprintf("--cluster-labels %q is no KEY=VALUE", label), Fix: "--cluster-labels env=prod"}
			}
			if wanted[i].Clusters.MatchLabels == nil {
				wanted[i].Clusters.MatchLabels = map[string]string{}
			}
			wanted[i].Clusters.MatchLabels[key] = value
		}
	}
	d, err := open(o.f)
	if err != nil {
		return err
	}
	proposal, err := d.Add(ctx, wanted...)
	if err != nil {
		return err
	}
	if err := d.show(proposal); err != nil {
		return err
	}
	main := ""
	if len(proposal.Asked) == 1 {
		main = proposal.Asked[0]
	}
	if err := o.given.answer(ctx, proposal, main); err != nil {
		return err
	}
	_, err = d.finish(ctx, &o.making, proposal, len(args))
	return clash(args, err)
}

// clash is the error about packages that bring what the fleet has by the same name.
func clash(packages []string, err error) error {
	var mistakes fleet.Errors
	if !errors.As(err, &mistakes) || !strings.HasPrefix(mistakes[0].Message, "a second ") {
		return err
	}
	return &ui.Err{
		Msg: "the package brings " + mistakes[0].Message, Cause: "nothing was changed",
		Fix: fmt.Sprintf("plural package add %s --as NAME, which gives all of it another name", packages[0]), Doc: ui.DocPackage, Err: err,
	}
}

// show says what a proposal would change, and who asked for it.
func (d *packageRepo) show(p *packs.Proposal) error {
	changed := p.Changed()
	if len(changed) == 0 {
		return nil
	}
	rows := make([][]string, len(changed))
	for i, pick := range changed {
		what := "add"
		if pick.From != "" {
			what = "from " + pick.From
		}
		name := pick.As
		if pick.Name != pick.As {
			name += " (" + pick.Name + ")"
		}
		rows[i] = []string{name, pick.Version, what, catalogOf(pick.Catalog), cmp.Or(strings.Join(pick.For, ", "), "-")}
	}
	if d.f.Quiet {
		return nil
	}
	columns := []ui.Column{{Name: "PACKAGE"}, {Name: "VERSION"}, {Name: "CHANGE"}, {Name: "CATALOG"}, {Name: "ASKED BY"}}
	return d.f.IO.Aligned(d.f.IO.ErrOut, columns, rows)
}

// finish plans a proposal's files, asks where more would change than was asked for, and carries it out.
func (d *packageRepo) finish(ctx context.Context, making *change.CommitOptions, p *packs.Proposal, asked int) (made change.Outcome, err error) {
	result, err := p.Plan(ctx)
	if err != nil {
		return made, err
	}
	for _, note := range result.Notes {
		d.f.Say("note  %s", ui.Clean(note))
	}
	if len(result.Conflicts) > 0 {
		return made, d.conflicts(making, result)
	}
	if len(p.Changed()) > asked && !d.f.Yes && !making.DryRun {
		yes, err := d.f.Prompter().Confirm(ctx, "Go on with all of these?", "--yes")
		if err == nil && !yes {
			err = context.Canceled
		}
		if err != nil {
			return made, err
		}
	}
	return d.carryOut(ctx, making, result.Changes, result.Message)
}
