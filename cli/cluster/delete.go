package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

type deleteOptions struct {
	change.CommitOptions
	name, confirm string
}

func newCmdDelete(f *cmdutil.Factory) *cobra.Command {
	o := &deleteOptions{CommitOptions: change.CommitOptions{Factory: f}}
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Take a cluster out of the fleet",
		Long: "Take a cluster out of the fleet.\n\n" +
			"clusters/NAME.yaml is removed, so that the hub turns the cluster's agent away. The groups that the cluster was in\n" +
			"get new identities, and what they cover is sealed again for those who stay. What runs in the cluster stays running.",
		Example: cmdutil.Example(
			"plural cluster delete edge-1",
			"plural cluster delete edge-1 --confirm=edge-1",
			"plural cluster delete edge-1 --dry-run"),
		Args: cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.confirm, "confirm", "", "the cluster's `NAME` once more, for scripts")
	o.Flags(flags)
	return cmd
}

func (o *deleteOptions) run(ctx context.Context) error {
	if err := workspace.CheckName(o.name); err != nil { // it is part of a file's name
		return fmt.Errorf("cluster %w", err)
	}
	c, err := open(ctx, o.Factory, o.DryRun)
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
	if err := o.prepare(ctx, c, file); err != nil {
		return err
	}
	c.sayReaders()
	if c.editor != nil {
		if o.DryRun {
			return c.show()
		}
		o.Instead = change.Committer{Commit: c.plan.Apply, Write: c.write}
	}
	o.Ask = func(ctx context.Context) error {
		return document.Typed(ctx, o.Factory, o.name, o.confirm, fmt.Sprintf("Type %s to take it out of the fleet", o.name))
	}
	made, err := o.CarryOutFiles(ctx, c.repo, c.plan.Changes, envelopes, "Delete cluster "+o.name)
	if made.Written && made.Branch == "" {
		o.sayWhatStays(c)
	}
	if err != nil {
		return err
	}
	return o.Finish(ctx, made, waitfor.About{Clusters: []string{o.name}, Gone: true})
}

// envelopes folds what nobody reads.
func envelopes(path string) string {
	if strings.HasPrefix(path, ".plural/groups/") {
		return "who can open what"
	}
	return ""
}

// gone is for a cluster without a file: an earlier run may have been stopped before its push, and else there is nothing
// to delete.
func (o *deleteOptions) gone(ctx context.Context, c *intent) error {
	if !c.resumed || !o.Pushes() {
		return &ui.Err{
			Msg: fmt.Sprintf("no cluster %q in this repository: there is no %s", o.name, register.Path(o.name)),
			Fix: "ls clusters/; if it was deleted by a run that was stopped: git push", Doc: ui.DocNotFound,
		}
	}
	commit, err := c.repo.Push(ctx)
	if err == nil {
		o.Factory.Say("pushed as %s", cmdutil.ShortCommit(commit))
	}
	return err
}

// prepare plans the change, and refuses one that the hub would refuse.
func (o *deleteOptions) prepare(ctx context.Context, c *intent, file []byte) error {
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
	c.plan, err = c.editor.RemoveCluster(ctx, o.name, path)
	return err
}

// checkUnused refuses to leave behind what names the cluster. A repo that has mistakes already is for its own errors to
// tell.
func (o *deleteOptions) checkUnused(c *intent, path string) error {
	files := os.DirFS(c.repo.Root())
	if _, err := fleet.Load(files); err != nil {
		return nil //nolint:nilerr // said above
	}
	_, err := fleet.Load(overlay.New(files, map[string][]byte{path: nil}))
	var left fleet.Errors
	if !errors.As(err, &left) {
		return err
	}
	problems := cmdutil.FleetProblems(left)
	for i := range problems {
		problems[i].Fix = "" // a nearest name is no advice about one that is meant to go
	}
	return &ui.Err{
		Msg: fmt.Sprintf("cluster %q is still named elsewhere", o.name), Problems: problems,
		Fix: "take it out there first", Doc: ui.DocStillNamed, Err: err,
	}
}

// sayWhatStays says what no commit can take back.
func (o *deleteOptions) sayWhatStays(c *intent) {
	o.Factory.Say("what runs there stays running: its agent hears nothing new from the hub, and keeps what it has until it is stopped there")
	if len(c.plan.Resealed) == 0 {
		return
	}
	files := slices.Sorted(slices.Values(c.plan.Resealed))
	o.Factory.Say("it could read the files below, and can still read them as they are in git's history: change the values in them")
	o.Factory.Say("  %s", ui.CleanText(strings.Join(files, "\n  ")))
}
