// Package undo owns `plural undo`.
//
// It refuses to know how a commit is found that has its effect, and how its change is taken back: workspace/history and
// workspace/revert say. It shows what they say, asks, and has it carried out as any other change.
package undo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/revert"
)

type options struct {
	f       *cmdutil.Factory
	commit  string
	redo    bool
	confirm string
	making  change.CommitOptions
}

// NewCmdUndo is `plural undo`.
func NewCmdUndo(f *cmdutil.Factory) *cobra.Command {
	o := &options{f: f, making: change.CommitOptions{Factory: f}}
	cmd := &cobra.Command{
		Use:     "undo [COMMIT]",
		GroupID: cmdutil.GroupStart,
		Short:   "Take a change of the fleet back, by a new commit",
		Long: `Take a change of the fleet back, by a new commit.

This shows what changes, and which services and clusters it touches, asks, and
then commits and pushes the opposite of the commit, as git revert does; of a
merge, of all that it took in. Then it waits until the hub serves it and what it
touches is well.

Without COMMIT it is the newest change of the fleet that has its effect: to undo
twice in a row undoes the change before too, as in an editor. --redo brings back
what was undone last, until there is a new change; and to undo an undo does the
same for any. A change that registered clusters, or says where the hub is or which
cluster manages the fleet, is taken back only by its COMMIT.

Files that were changed since are merged, line by line. Where later commits
changed the same lines nothing is done, and they are named. A sealed file comes
back as it was sealed, unless it would be for other readers than it has now. To
take back who can open or do what, or which agent acts for a cluster, --confirm
says the commit's id once more.`,
		Example: cmdutil.Example("plural undo", "plural undo 4f9c2a1 --dry-run", "plural undo --redo", "plural undo HEAD~2 --pr -y"),
		Args:    cmdutil.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.commit = args[0]
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.redo, "redo", false, "bring back what was undone last")
	flags.StringVar(&o.confirm, "confirm", "", "the commit's `ID` once more, where it says who can open or do what")
	o.making.Flags(flags)
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if o.redo && o.commit != "" {
		return &ui.Err{Msg: "--redo finds the commit itself", Fix: "plural undo " + o.commit + ", which redoes what was undone by it"}
	}
	repo, err := o.f.Repo()
	if err != nil {
		return err
	}
	head, err := repo.Head()
	if err != nil {
		return err
	}
	if head == "" {
		return &ui.Err{Msg: "there is no commit to undo", Fix: "git log; a change is made by plural service set, for example", Doc: ui.DocUndo}
	}
	objects, err := repo.Objects()
	if err != nil {
		return err
	}
	log := history.Of(objects)
	r, err := o.find(ctx, repo, log, head)
	if err != nil {
		return err
	}
	o.f.Say("%s %s %q, by %s, %s", o.verb(), cmdutil.ShortCommit(r.ID), ui.Clean(r.Subject), ui.Clean(r.Author), cmdutil.Ago(o.f.Now(), &r.Time))
	plan, err := revert.Of(ctx, objects, head, r)
	if err != nil {
		return Explain(err)
	}
	if len(plan.Files) == 0 {
		if !o.making.DryRun {
			_, _ = repo.CommitOn(ctx, head, "", plan.Done) // what it cannot end is as it was
		}
		o.f.Say("all of it is taken back already")
		return nil
	}
	o.making.Trailer = revert.Trailer(r)
	b := Restoration{
		Factory: o.f, Making: &o.making, Repo: repo, Plan: plan, Commit: r.ID, Message: revert.Title(r.Subject), Question: "Undo this?",
		Agreed:   func(ctx context.Context, t revert.Touched) error { return o.trusted(ctx, plan, t, r) },
		Foretold: func(t revert.Touched) []string { return foretold(plan, t, r) },
	}
	switch {
	case o.redo:
		b.Question = "Redo this?"
	case o.commit == "":
		b.Unasked = func(before, after *fleet.Fleet) error { return joined(before, after, r) }
	}
	return b.Do(ctx)
}

func (o *options) verb() string {
	if o.redo {
		return "redo by undoing"
	}
	return "undo"
}

// find is the commit that is meant.
func (o *options) find(ctx context.Context, repo *workspace.Repo, log *history.Log, head string) (*history.Revision, error) {
	if o.commit != "" {
		return o.named(ctx, repo, log, head)
	}
	scope := history.Fleet(nil, nil)
	if now, err := offline.Open(repo, "HEAD"); err == nil { // what does not read as a fleet has its folders all the same
		scope = history.Fleet(now.Fleet, now)
	}
	search, nothing := log.Undoable, "there is nothing to undo: no commit here changed the fleet, or all are undone"
	if o.redo {
		search, nothing = log.Redoable, "there is nothing to redo: the newest change of the fleet is no undo"
	}
	r, err := search(ctx, head, scope)
	if err == nil && r == nil {
		err = &ui.Err{Msg: nothing, Fix: "git log --oneline, then plural undo COMMIT", Doc: ui.DocUndo}
	}
	return r, err
}

func (o *options) named(ctx context.Context, repo *workspace.Repo, log *history.Log, head string) (*history.Revision, error) {
	id, err := repo.Resolve(o.commit)
	if err != nil {
		return nil, err
	}
	held, err := log.Holds(head, id)
	if err != nil {
		return nil, err
	}
	if !held {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("commit %s is not in this branch, so there is nothing of it to undo", cmdutil.ShortCommit(id)), Fix: "git log --oneline", Doc: ui.DocUndo,
		}
	}
	r, err := log.Revision(ctx, id)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, &ui.Err{
			Msg: "this clone does not have the commit before " + cmdutil.ShortCommit(id), Fix: "git fetch --unshallow", Doc: ui.DocUndo, Err: err,
		}
	}
	return r, err
}

// joined refuses to take back, unless it is named, what made the fleet one: that agents act for clusters, where its hub is,
// and which cluster manages it. The program has committed that itself when the fleet was set up, so that nobody means it by
// the newest change.
func joined(before, after *fleet.Fleet, r *history.Revision) error {
	id, subject := cmdutil.ShortCommit(r.ID), ui.Clean(r.Subject)
	fix := "plural undo " + id + " takes the commit back all the same\n" +
		"or plural undo COMMIT takes an older one back: git log --oneline"
	var out []string
	for i := range before.Clusters {
		c := &before.Clusters[i]
		if c.Spec.Agent == (fleet.AgentKeys{}) {
			continue
		}
		if then, stays := after.Cluster(c.Metadata.Name); !stays || then.Spec.Agent != c.Spec.Agent {
			out = append(out, c.Metadata.Name)
		}
	}
	if len(out) > 0 {
		return &ui.Err{
			Msg:   fmt.Sprintf("the newest change to undo, %s %q, registered %s; nothing was changed", id, subject, cmdutil.Few(out)),
			Cause: "without it the hub turns away the agents that act for them",
			Fix:   "plural cluster delete " + out[0] + " takes a cluster out of the fleet\nor " + fix, Doc: ui.DocUndo,
		}
	}
	was, is := after.Workspace.Spec, before.Workspace.Spec
	for _, field := range []struct{ name, was, is string }{
		{"spec.hub.url", was.Hub.URL, is.Hub.URL}, {"spec.management", was.Management, is.Management},
	} {
		if field.was != field.is {
			return &ui.Err{
				Msg:   fmt.Sprintf("the newest change to undo, %s %q, set up the fleet itself; nothing was changed", id, subject),
				Cause: fmt.Sprintf("without it %s in plural.yaml is %q, in place of %q", field.name, field.was, field.is),
				Fix:   fix, Doc: ui.DocUndo,
			}
		}
	}
	return nil
}

// regained says what is about who can open or do what, or which agent acts for a cluster.
func regained(plan *revert.Plan, t revert.Touched) []string {
	var lines []string
	if len(plan.Trust) > 0 {
		lines = append(lines, "this takes back who can open or do what: "+ui.Clean(strings.Join(plan.Trust, ", ")))
	}
	if len(t.Agents) > 0 {
		lines = append(lines, "this brings back agents, or tokens to join: "+cmdutil.Few(t.Agents))
	}
	return lines
}

// foretold is what a dry run says of what has to be confirmed. Programs read the last line: the console has it typed.
func foretold(plan *revert.Plan, t revert.Touched, r *history.Revision) []string {
	lines := regained(plan, t)
	if len(lines) == 0 {
		return nil
	}
	return append(lines, ui.ToConfirm+cmdutil.ShortCommit(r.ID))
}

// trusted wants the commit's id typed, or given by flag, where it is about who can open or do what, or which agent acts for a
// cluster: what was withdrawn comes back, and -y is too easily said.
func (o *options) trusted(ctx context.Context, plan *revert.Plan, t revert.Touched, r *history.Revision) error {
	lines := regained(plan, t)
	if len(lines) == 0 {
		return nil
	}
	id := cmdutil.ShortCommit(r.ID)
	if o.confirm == "" {
		for _, line := range lines {
			o.f.Say("%s", line)
		}
		question := ui.Question{
			Flag: "confirm", Title: "Type " + id + " to let it be as it was", Value: &o.confirm,
			Wanted: id, Help: "whoever was taken out is in again",
		}
		if err := o.f.Prompter().Ask(ctx, []ui.Question{question}); err != nil {
			return err
		}
	}
	if len(o.confirm) < len(id) || !strings.HasPrefix(r.ID, o.confirm) {
		return &ui.Err{
			Msg: fmt.Sprintf("%q is not %s: nothing was changed", o.confirm, id), Fix: "--confirm=" + id, Doc: ui.DocUndo,
		}
	}
	return nil
}
