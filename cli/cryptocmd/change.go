package cryptocmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/rekey"
)

// change is what the commands have in common that change who can open what.
type change struct {
	f       *cmdutil.Factory
	message string
	dryRun  bool
	noPush  bool
	// resumed says that an earlier run's change was brought to its end just now.
	resumed bool
}

func (c *change) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.message, "message", "m", "", "the commit's message")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show the change, and make none")
	cmd.Flags().BoolVar(&c.noPush, "no-push", false, "commit the change, and leave the push to you")
}

// editor opens the repo for a change, after it has brought to its end what an earlier run was killed at.
func (c *change) editor(ctx context.Context) (*rekey.Editor, error) {
	repo, err := c.f.Repo()
	if err != nil {
		return nil, err
	}
	if err := c.resume(ctx, repo); err != nil {
		return nil, err
	}
	editor, err := rekey.Open(repo, c.f.Keys(), c.f.Confirmed())
	return editor, err
}

func (c *change) resume(ctx context.Context, repo *workspace.Repo) error {
	about, underWay := rekey.UnderWay(repo)
	if !underWay {
		return nil
	}
	if c.dryRun {
		return &ui.Err{
			Msg: fmt.Sprintf("an earlier change has not come to its end: %s", about), Fix: "plural crypto doctor --fix", Doc: ui.DocUnfinished,
		}
	}
	done, err := rekey.Resume(ctx, repo, c.f.Confirmed())
	if err != nil || done == nil {
		return err
	}
	c.resumed = true
	c.f.Say("finished what an earlier run was stopped at: %s", about)
	if len(done.Resealed) > 0 {
		c.advise("whoever had the old identity", done.Resealed)
	}
	return c.push(ctx)
}

// carryOut shows what plan changes, asks, makes it a commit and pushes that. It says whether there is one.
func (c *change) carryOut(ctx context.Context, plan *rekey.Plan) (bool, error) {
	if plan.Empty() {
		c.f.Say("nothing to do: it is so already")
		return false, nil
	}
	c.show(plan)
	if c.dryRun {
		return false, nil
	}
	if err := c.agree(ctx, plan.Message); err != nil {
		return false, err
	}
	commit, err := plan.Apply(ctx, c.message)
	if err != nil {
		return false, err
	}
	c.f.Say("committed as %s: %s", cmdutil.ShortCommit(commit), plan.Message)
	if _, changed := plan.Changes[policy.File]; changed {
		if err := c.refresh(ctx); err != nil {
			return true, err
		}
	}
	return true, c.push(ctx)
}

// refresh tells git of a changed policy, where this clone is set up.
func (c *change) refresh(ctx context.Context) error {
	git, err := gitcmd.Find(ctx, c.f.WorkDir())
	if err != nil {
		return err
	}
	self, err := Program()
	if err != nil {
		return err
	}
	state, err := gitsetup.Inspect(ctx, git, self)
	if err != nil || state.Filter == "" {
		return err
	}
	_, err = gitsetup.Refresh(ctx, git)
	return err
}

// push sends the commit where the branch is pushed to, if it is pushed anywhere.
func (c *change) push(ctx context.Context) error {
	repo, err := c.f.Repo()
	if err != nil || c.noPush {
		return err
	}
	has, err := repo.HasRemote()
	if err != nil || !has {
		return err
	}
	commit, err := repo.Push(ctx)
	if err != nil {
		return fmt.Errorf("push the commit: %w", err)
	}
	c.f.Say("pushed as %s", cmdutil.ShortCommit(commit))
	return nil
}

func (c *change) show(plan *rekey.Plan) {
	showChanges(c.f, plan.Differences())
	for _, group := range plan.Rotated {
		c.f.Say("  group %s gets a new identity", group)
	}
	if n := len(plan.Resealed); n > 0 {
		c.f.Say("  %s sealed again", count(n, "file is", "files are"))
	}
	for _, group := range plan.Unreachable {
		c.f.Say("  group %s stays as it is: you are no member of it", group)
	}
}

func showChanges(f *cmdutil.Factory, changes []trust.Change) {
	for _, change := range changes {
		sign, style := "-", ui.Red
		if change.Added {
			sign, style = "+", ui.Green
		}
		f.Say("%s", f.IO.Paint(style, "  "+sign+" "+ui.Clean(change.String())))
	}
}

// agree asks whether to go on. Where nobody can be asked, the error names what it is about.
func (c *change) agree(ctx context.Context, what string) error { return agree(ctx, c.f, what+"?") }

func agree(ctx context.Context, f *cmdutil.Factory, question string) error {
	if f.Yes {
		return nil
	}
	yes, err := f.Prompter().Confirm(ctx, question, "--yes")
	if err == nil && !yes {
		err = context.Canceled
	}
	return err
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
