package undo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/observe"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/revert"
	"github.com/pluralsh/plural/workspace/treediff"
)

// Bringing is the way from a plan that brings something back to a commit that is observed.
type Bringing struct {
	Factory *cmdutil.Factory
	Making  *change.Making
	Repo    *workspace.Repo
	Plan    *revert.Plan
	// Commit is the one that is taken back, or gone back to. Message is that of the new one.
	Commit, Message string
	// Question is asked once everything is shown. Agreed, if set, is asked before it, and refuses.
	Question string
	Agreed   func(context.Context, revert.Touched) error
	// Foretold, if set, is what a dry run says of what Agreed will want.
	Foretold func(revert.Touched) []string
}

// Do shows what is brought back, asks, makes it, and waits for it.
func (b Bringing) Do(ctx context.Context) error {
	if err := b.standing(); err != nil {
		return Explain(err)
	}
	before, after, broken, err := loaded(b.Repo, b.Plan.Files)
	if err != nil {
		return unfit(err)
	}
	b.sayBroken(broken, after)
	touched := b.touched(before, after)
	for _, line := range summary(touched, b.Plan) {
		b.Factory.Say("%s", line)
	}
	if b.Making.DryRun && b.Foretold != nil {
		for _, line := range b.Foretold(touched) {
			b.Factory.Say("%s", line)
		}
	}
	b.Making.On, b.Making.Ask = b.Plan.Head, func(ctx context.Context) error { return b.ask(ctx, touched) }
	made, err := b.Making.CarryOutFiles(ctx, b.Repo, b.Plan.Files, nil, b.Message)
	if err != nil {
		return err
	}
	return b.Making.Finish(ctx, made, about(touched))
}

// sayBroken says what it means that the fleet cannot be read as it is: that nothing of it is in force.
func (b Bringing) sayBroken(broken error, after *fleet.Fleet) {
	var mistakes fleet.Errors
	if !errors.As(broken, &mistakes) || len(mistakes) == 0 {
		return
	}
	b.Factory.Say("the fleet cannot be read as it is, so the hub keeps what it served before: %s: %s", mistakes[0].Position,
		ui.Clean(mistakes[0].Message))
	if len(after.Clusters) > 0 {
		b.Factory.Say("with this it can be read again; what is in force changes only where it differs from what is served")
	}
}

// standing judges what comes back sealed.
func (b Bringing) standing() error {
	if len(b.Plan.Sealed) == 0 {
		return nil
	}
	vault, err := b.Repo.Vault(b.Plan.Files)
	if errors.Is(err, policy.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	return b.Plan.Standing(vault, b.Commit)
}

func (b Bringing) touched(before, after *fleet.Fleet) revert.Touched {
	var src resolve.Sources
	if now, err := offline.Open(b.Repo, "HEAD"); err == nil {
		src = now
	}
	return b.Plan.Touches(before, after, src)
}

func (b Bringing) ask(ctx context.Context, touched revert.Touched) error {
	if b.Agreed != nil {
		if err := b.Agreed(ctx, touched); err != nil {
			return err
		}
	}
	if b.Factory.Yes {
		return nil
	}
	yes, err := b.Factory.Prompter().Confirm(ctx, b.Question, "--yes")
	if err == nil && !yes {
		err = &ui.Err{Msg: "nothing was done", Fix: "--yes does it without asking", Doc: ui.DocUnconfirmed}
	}
	return err
}

// summary says what a change is about, each thing in one line.
func summary(t revert.Touched, p *revert.Plan) []string {
	var lines []string
	add := func(title string, names []string) {
		if len(names) > 0 {
			lines = append(lines, title+ui.Clean(few(names)))
		}
	}
	add("services: ", t.Services)
	add("takes away the services: ", t.Gone)
	add("on clusters: ", t.Clusters)
	add("changes the clusters: ", t.Changed)
	add("comes back as it was sealed: ", p.Sealed)
	add("stays as it is, since it is sealed: ", p.Kept)
	return lines
}

// few names some of many.
func few(names []string) string {
	const most = 8
	if rest := len(names) - most; rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), rest)
	}
	return strings.Join(names, ", ")
}

// maxWatched is how many services are waited for one by one: of more, the hub is only asked whether it serves the commit.
const maxWatched = 20

// about is what has to be well afterwards. What is taken away may wait for a person: that is the budget's to say.
func about(t revert.Touched) observe.About {
	switch {
	case len(t.Services) > maxWatched, len(t.Gone) > maxWatched:
		return observe.About{}
	case len(t.Services) == 0 && len(t.Gone) > 0:
		return observe.About{Services: t.Gone, Gone: true}
	}
	return observe.About{Services: t.Services}
}

// Explain names what stands in the way of a plan.
func Explain(err error) error {
	if errors.As(err, new(*treediff.TooManyError)) {
		return &ui.Err{
			Msg: "too much changes for it to be brought back here; nothing was changed", Cause: err.Error(),
			Fix: "git revert COMMIT, or git restore --source COMMIT FOLDER, or name another commit", Doc: ui.DocUndo, Err: err,
		}
	}
	var stuck *revert.ConflictError
	if !errors.As(err, &stuck) {
		return err
	}
	told := &ui.Err{
		Msg: fmt.Sprintf("%s cannot be taken back as it is; nothing was changed", cmdutil.ShortCommit(stuck.Commit)), Err: err,
		Fix: "undo the later commits first, or edit the files: git revert " + cmdutil.ShortCommit(stuck.Commit) + " shows both sides",
		Doc: ui.DocUndo,
	}
	for _, c := range stuck.Conflicts {
		told.Problems = append(told.Problems, ui.Problem{Where: c.Path, Message: c.Reason})
		for _, r := range c.Since {
			told.Problems = append(told.Problems, ui.Problem{
				Where: c.Path, Message: fmt.Sprintf("changed by %s %q, %s", cmdutil.ShortCommit(r.ID), r.Subject, r.Author),
			})
		}
	}
	return told
}

// unfit is about a fleet that would be none.
func unfit(err error) error {
	var mistakes fleet.Errors
	if !errors.As(err, &mistakes) {
		return err
	}
	return &ui.Err{
		Msg: "the fleet would not be one any more; nothing was changed", Problems: cmdutil.FleetProblems(mistakes),
		Fix: "undo what came after it first, or change the files by hand", Doc: ui.DocUndo, Err: err,
	}
}
