package pkg

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
)

type setOptions struct {
	f      *cmdutil.Factory
	unset  []string
	given  Given
	making change.CommitOptions
}

func newCmdSet(f *cmdutil.Factory) *cobra.Command {
	o := &setOptions{f: f, given: Given{f: f}, making: change.CommitOptions{Factory: f, Unobserved: true}}
	cmd := &cobra.Command{
		Use:   "set NAME [QUESTION=VALUE]...",
		Short: "Change answers of a package",
		Long: `Change answers of a package.

The package's Services are composed anew with the answers, and so are those of
packages that depend on it: all of it is one commit. Without answers they are
composed from what the repo has, such as after a file of it was changed by hand.
Secrets are changed by a file (--answers, - is stdin).`,
		Example: cmdutil.Example(
			"plural package set ingress-nginx replicas=3",
			"plural package set web --unset domain -m 'Use the default domain'",
			"plural package set web --answers - < secrets.yaml"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &ui.Err{Msg: "NAME is missing", Fix: cmd.UseLine()}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0], args[1:]) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.unset, "unset", nil, "go back to the default of this `QUESTION`; may be repeated")
	flags.StringVar(&o.given.file, "answers", "", "a `FILE` of answers in YAML; - is stdin")
	o.making.Flags(flags)
	return cmd
}

func (o *setOptions) run(ctx context.Context, name string, args []string) error {
	d, err := open(o.f)
	if err != nil {
		return err
	}
	p, err := d.Installed(name)
	if err != nil {
		return err
	}
	o.given.set = args
	texts, values, err := o.given.read(name)
	if err != nil {
		return err
	}
	all, err := parsed(p, texts[name], values[name])
	if err != nil {
		return unanswered(wrong(name, err))
	}
	changes, err := d.Set(name, all, o.unset)
	if isAnswer(err) {
		return unanswered(wrong(name, err))
	}
	if err != nil {
		return err
	}
	_, err = d.carryOut(ctx, &o.making, changes, "Configure package "+name)
	return err
}

func newCmdRemove(f *cmdutil.Factory) *cobra.Command {
	making := &change.CommitOptions{Factory: f, Unobserved: true}
	cmd := &cobra.Command{
		Use:   "remove NAME...",
		Short: "Take packages out of the installation repo",
		Long: `Take packages out of the installation repo.

A package that others need stays, unless those are named too, and so does one that
is protected. With the commit its Services are taken off their clusters by the
agents; plural deploy --allow-destroy takes down what terraform made for it.

Before anything is written the command says how many objects that is on which
clusters, as the hub knows it, and which deletions will wait for an agreement
(plural service ack), since they are more than a deletion budget allows.`,
		Example: cmdutil.Example("plural package remove redis", "plural package remove web redis --dry-run"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &ui.Err{Msg: "NAME is missing", Fix: cmd.UseLine()}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return remove(cmd.Context(), f, making, args) },
	}
	making.Flags(cmd.Flags())
	return cmd
}

func remove(ctx context.Context, f *cmdutil.Factory, making *change.CommitOptions, names []string) error {
	d, err := open(f)
	if err != nil {
		return err
	}
	removal, err := d.Remove(names...)
	if err != nil {
		return err
	}
	if len(removal.Idle) > 0 {
		f.Say("note  nothing needs %s any more: plural package remove %s", strings.Join(removal.Idle, ", "), strings.Join(removal.Idle, " "))
	}
	if err := d.sayToll(ctx, names, removal); err != nil {
		return err
	}
	if !f.Yes && !making.DryRun {
		yes, err := f.Prompter().Confirm(ctx, fmt.Sprintf("Remove %s?", strings.Join(names, ", ")), "--yes")
		if err == nil && !yes {
			err = context.Canceled
		}
		if err != nil {
			return err
		}
	}
	_, err = d.carryOut(ctx, making, removal.Changes, "Remove package "+strings.Join(names, ", "))
	return err
}

// Upgrade is how installations are brought to newer versions.
type Upgrade struct {
	f      *cmdutil.Factory
	to     string
	given  Given
	making change.CommitOptions
}

// NewUpgrade is an upgrade that has not been told anything yet.
func NewUpgrade(f *cmdutil.Factory) *Upgrade {
	return &Upgrade{f: f, given: Given{f: f}, making: change.CommitOptions{Factory: f, Unobserved: true}}
}

// Flags declares what a person may say of it.
func (o *Upgrade) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.to, "to", "", "this `VERSION`, and agree to what it breaks")
	o.given.flags(flags)
	o.making.Flags(flags)
}

// DryRun says whether the upgrade is to be shown alone.
func (o *Upgrade) DryRun() bool { return o.making.DryRun }

func newCmdUpgrade(f *cmdutil.Factory) *cobra.Command {
	o := NewUpgrade(f)
	cmd := &cobra.Command{
		Use:   "upgrade [NAME...]",
		Short: "Bring packages to newer versions, as a commit",
		Long: `Bring packages to newer versions, as a commit.

Each gets the newest version that fits what the repo and other packages ask for;
without a name, every one. What people changed in a package's files is merged with
what its author changed, line by line as git does; where both changed the same
lines, the files are written with conflict markers and nothing is committed.

A version that breaks what was, or that asks for agreement, is left out until
somebody names it: --to VERSION is the agreement, which is written down.`,
		Example: cmdutil.Example(
			"plural package upgrade",
			"plural package upgrade web redis --dry-run",
			"plural package upgrade web --to 2.0.0"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := o.Run(cmd.Context(), args)
			return err
		},
	}
	o.Flags(cmd.Flags())
	return cmd
}

// Run upgrades the named installations, all where none is named, and says how far that was carried.
func (o *Upgrade) Run(ctx context.Context, names []string) (made change.Outcome, err error) {
	d, err := open(o.f)
	if err != nil {
		return made, err
	}
	proposal, err := d.Upgrade(ctx, names, o.to)
	if err != nil {
		return made, err
	}
	for _, h := range proposal.Held {
		o.f.Say("held  %s: %s", ui.Clean(h.Why), h.Instead)
	}
	if proposal.Idle() {
		o.f.Say("nothing to upgrade")
		return made, nil
	}
	if err := d.show(proposal); err != nil {
		return made, err
	}
	main := ""
	if len(names) == 1 {
		main = names[0]
	}
	if err := o.given.answer(ctx, proposal, main); err != nil {
		return made, err
	}
	asked := len(names)
	if asked == 0 {
		asked = len(proposal.Changed()) // all was asked for
	}
	return d.finish(ctx, &o.making, proposal, asked)
}

// conflicts writes what could not be merged with git's markers, and commits nothing.
func (d *packageRepo) conflicts(making *change.CommitOptions, result *pkgupgrade.Result) error {
	problems := make([]ui.Problem, len(result.Conflicts))
	for i, file := range result.Conflicts {
		problems[i] = ui.Problem{Where: file, Message: "you and the package's author changed the same lines"}
	}
	told := &ui.Err{
		Msg: fmt.Sprintf("%d files could not be merged", len(problems)), Problems: problems, Doc: ui.DocMergeConflict,
	}
	if making.DryRun {
		told.Fix = "without --dry-run they are written with conflict markers"
		return told
	}
	if err := d.repo.Write(result.Changes); err != nil {
		return err
	}
	name := installationOf(result.Conflicts[0])
	told.Cause = "they are written with conflict markers, and nothing is committed"
	told.Fix = fmt.Sprintf("edit them, git add packages plural.lock && git commit, then: plural package set %s; or drop it: git checkout -- packages plural.lock", name)
	return told
}

// installationOf is the installation that a file belongs to.
func installationOf(file string) string {
	parts := strings.SplitN(file, "/", 3)
	if len(parts) < 3 {
		return "NAME"
	}
	return parts[1]
}
