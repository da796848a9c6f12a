package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

type deleteOptions struct {
	factory          *cmdutil.Factory
	name             string
	confirm          string
	message          string
	dryRun, noCommit bool
}

func newCmdDelete(f *cmdutil.Factory) *cobra.Command {
	o := &deleteOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Take a cluster out of the fleet",
		Long: "Take a cluster out of the fleet.\n\n" +
			"clusters/NAME.yaml is removed, so that the hub turns the cluster's agent away. The groups that the cluster was in\n" +
			"get new identities, and what they cover is sealed again for those who stay. What runs in the cluster stays running.",
		Example: cmdutil.Example("plural cluster delete edge-1", "plural cluster delete edge-1 --confirm=edge-1", "plural cluster delete edge-1 --dry-run"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.confirm, "confirm", "", "the cluster's `NAME` once more, for scripts")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be done, and do nothing")
	flags.StringVarP(&o.message, "message", "m", "", "the commit's message")
	flags.BoolVar(&o.noCommit, "no-commit", false, "change the files, but leave the commit to you")
	return cmd
}

func (o *deleteOptions) run(ctx context.Context) error {
	if err := workspace.CheckName(o.name); err != nil { // it is part of a file's name
		return fmt.Errorf("cluster %w", err)
	}
	c, err := open(ctx, o.factory, o.dryRun)
	if err != nil {
		return err
	}
	file, err := c.read(register.Path(o.name))
	if err != nil {
		return err
	}
	if file == nil {
		return o.gone(ctx, c)
	}
	if err := o.prepare(c, file); err != nil {
		return err
	}
	if o.dryRun {
		c.sayReaders()
		return c.show()
	}
	if err := o.ask(ctx); err != nil {
		return err
	}
	c.sayReaders()
	if o.noCommit {
		if err := c.write(); err != nil {
			return err
		}
		o.factory.Say("%s is removed; commit and push: git add -A && git commit", register.Path(o.name))
		o.sayWhatStays(c)
		return nil
	}
	commit, err := c.commit(ctx, o.commitMessage())
	if err != nil {
		return err
	}
	o.factory.Say("cluster %s is deleted at %s", o.name, cmdutil.ShortCommit(commit))
	o.sayWhatStays(c)
	return nil
}

// gone is for a cluster without a file: an earlier run may have been stopped before its push, and else there is nothing
// to delete.
func (o *deleteOptions) gone(ctx context.Context, c *change) error {
	if !c.resumed || o.noCommit {
		return &ui.Err{
			Msg: fmt.Sprintf("no cluster %q in this repository: there is no %s", o.name, register.Path(o.name)),
			Fix: "ls clusters/; if it was deleted by a run that was stopped: git push",
		}
	}
	commit, err := c.repo.Push(ctx)
	if err == nil {
		o.factory.Say("pushed as %s", cmdutil.ShortCommit(commit))
	}
	return err
}

// prepare plans the change, and refuses one that the hub would refuse.
func (o *deleteOptions) prepare(c *change, file []byte) error {
	path := register.Path(o.name)
	if err := register.Owns(o.name, file); err != nil {
		return err
	}
	if err := o.checkUnused(c, path); err != nil {
		return err
	}
	if c.editor == nil {
		c.plan.Changes[path] = nil
		return nil
	}
	var err error
	c.plan, err = c.editor.RemoveCluster(o.name, path)
	return err
}

// checkUnused refuses to leave behind what names the cluster. A repo that has mistakes already is for its own errors to
// tell.
func (o *deleteOptions) checkUnused(c *change, path string) error {
	files := os.DirFS(c.repo.Root())
	if _, err := fleet.Load(files); err != nil {
		return nil //nolint:nilerr // said above
	}
	_, err := fleet.Load(overlay.New(files, map[string][]byte{path: nil}))
	var left fleet.Errors
	if !errors.As(err, &left) {
		return err
	}
	return &ui.Err{
		Msg: fmt.Sprintf("cluster %q is still named elsewhere", o.name), Problems: cmdutil.FleetProblems(left),
		Fix: "take it out there first", Err: err,
	}
}

// ask wants the name typed, or given by flag: -y is too easily said.
func (o *deleteOptions) ask(ctx context.Context) error {
	if o.confirm == "" {
		question := ui.Question{
			Flag: "confirm", Title: fmt.Sprintf("Type %s to take it out of the fleet", o.name), Value: &o.confirm,
			Help: "what runs in the cluster stays running",
		}
		if err := o.factory.Prompter().Ask(ctx, []ui.Question{question}); err != nil {
			return err
		}
	}
	if o.confirm != o.name {
		return &ui.Err{Msg: fmt.Sprintf("%q is not %q: nothing was changed", o.confirm, o.name), Fix: "--confirm=" + o.name}
	}
	return nil
}

func (o *deleteOptions) commitMessage() string {
	if o.message != "" {
		return o.message
	}
	return "Delete cluster " + o.name
}

// sayWhatStays says what no commit can take back.
func (o *deleteOptions) sayWhatStays(c *change) {
	o.factory.Say("what runs there stays running: its agent hears nothing new from the hub, and keeps what it has until it is stopped there")
	if len(c.plan.Resealed) == 0 {
		return
	}
	files := slices.Sorted(slices.Values(c.plan.Resealed))
	o.factory.Say("it could read the files below, and can still read them as they are in git's history: change the values in them")
	o.factory.Say("  %s", ui.Clean(strings.Join(files, "\n  ")))
}
