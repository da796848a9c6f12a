package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/undo"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/revert"
)

type rollbackOptions struct {
	f       *cmdutil.Factory
	service string
	commit  string
	making  change.CommitOptions
}

func newCmdRollback(f *cmdutil.Factory) *cobra.Command {
	o := &rollbackOptions{f: f, making: change.CommitOptions{Factory: f}}
	cmd := &cobra.Command{
		Use:   "rollback NAME [COMMIT]",
		Short: "Bring a service back to what it was at a commit",
		Long: `Bring a service back to what it was at a commit, by a new commit.

This brings back its file, and what it reads of the installation repo: its
manifests, values and what they refer to. It shows what changes, and which
other services read the same files, asks, commits and pushes, and waits until
the service is well. Secrets stay as they are.

Without COMMIT it is the state before the newest change of the service, so that
to roll back twice is to go there and back. It passes over states that the hub
refused, that do not render, or that an API server would refuse; plural service
history lists them.`,
		Example: cmdutil.Example("plural service rollback web", "plural svc rollback web 4f9c2a1 --dry-run"),
		Args:    cobra.MatchAll(cmdutil.AtMost(2), atLeastName),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.service = args[0]
			if len(args) > 1 {
				o.commit = args[1]
			}
			return o.run(cmd.Context())
		},
	}
	o.making.Flags(cmd.Flags())
	return cmd
}

func atLeastName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return &ui.Err{Msg: "NAME is missing", Fix: cmd.UseLine()}
	}
	return nil
}

func (o *rollbackOptions) run(ctx context.Context) error {
	if err := workspace.CheckName(o.service); err != nil {
		return fmt.Errorf("service %w", err)
	}
	repo, err := o.f.Repo()
	if err != nil {
		return err
	}
	head, err := repo.Head()
	if err != nil {
		return err
	}
	now, err := offline.Open(repo, "HEAD")
	if err != nil {
		return err
	}
	to, err := o.target(ctx, repo, now, head)
	if err != nil {
		return err
	}
	then, err := offline.Open(repo, to)
	if err != nil {
		return fmt.Errorf("read the fleet as of %s: %w", cmdutil.ShortCommit(to), err)
	}
	scope, err := o.scope(now, then, to)
	if err != nil {
		return err
	}
	objects, err := repo.Objects()
	if err != nil {
		return err
	}
	plan, err := revert.At(ctx, objects, head, to, scope)
	if err != nil {
		return undo.Explain(err)
	}
	commit := then.Taken().Commit()
	o.f.Say("%s as of %s %q, by %s, %s", ui.Clean(o.service), cmdutil.ShortCommit(to), ui.Clean(commit.Subject), ui.Clean(commit.Author),
		cmdutil.Ago(o.f.Now(), &commit.Time))
	if len(plan.Files) == 0 {
		o.f.Say("it is so already")
		return nil
	}
	return undo.Restoration{
		Factory: o.f, Making: &o.making, Repo: repo, Plan: plan, Commit: to, Question: "Roll " + o.service + " back to this?",
		Message: fmt.Sprintf("Roll %s back to %s\n\nIts files are as they were in commit %s.", o.service, cmdutil.ShortCommit(to), to),
	}.Do(ctx)
}

// target is the commit to go back to.
func (o *rollbackOptions) target(ctx context.Context, repo *workspace.Repo, now *offline.State, head string) (string, error) {
	if o.commit != "" {
		return repo.Resolve(o.commit)
	}
	objects, err := repo.Objects()
	if err != nil {
		return "", err
	}
	page, err := history.Of(objects).Read(ctx, history.Query{
		From: head, Scope: history.Service(now.Fleet, o.service, now), Limit: maxPassed + 1,
	})
	if err != nil {
		return "", err
	}
	known, err := o.faults(ctx, now) // which clusters may take all the same
	if err != nil {
		return "", err
	}
	for i, newer := range page.Items {
		if newer.Parent == "" {
			break
		}
		if i+1 == len(page.Items) {
			return newer.Parent, nil
		}
		r := page.Items[i+1] // the state is that of all commits from this one to the parent of the newer
		reason := ""
		for _, commit := range slices.Compact([]string{newer.Parent, r.ID}) {
			if reason, err = o.unserved(ctx, repo, commit, known); err != nil || reason == "" {
				return commit, err
			}
		}
		o.f.Say("passed over %s %q, which clusters never took: %s", cmdutil.ShortCommit(r.ID), ui.Clean(r.Subject), ui.Clean(reason))
	}
	return "", &ui.Err{
		Msg: fmt.Sprintf("there is nothing before what service %q is now", o.service), Fix: "plural service history " + o.service,
		Doc: ui.DocUndo,
	}
}

// maxPassed is how many states of a service may be passed over that were never served.
const maxPassed = 20

// unserved is why a commit never was in force; empty where it may have been. A hub knows which commits it refused. What it does
// not know of is judged here: whether it reads as a fleet that has the service's files, and whether clusters would take what they make;
// faults that are known are none.
func (o *rollbackOptions) unserved(ctx context.Context, repo *workspace.Repo, commit string, known []string) (string, error) {
	if hub, err := o.f.HubClient(); err == nil {
		if r, err := hub.Revision(ctx, commit); err == nil && r.Refusal != nil {
			p := cmdutil.HubProblem(*r.Refusal)
			return strings.TrimPrefix(p.Where+": "+p.Message, ": "), nil
		}
	}
	then, err := offline.At(repo, commit)
	var mistakes fleet.Errors
	if errors.As(err, &mistakes) {
		return mistakes[0].Position.String() + ": " + mistakes[0].Message, nil
	}
	if err != nil {
		return "", err
	}
	problems, _, err := then.Problems(ctx)
	for _, p := range problems {
		if p.Service == o.service {
			return p.Position.String() + ": " + p.Message, err
		}
	}
	if err != nil {
		return "", err
	}
	faults, err := o.faults(ctx, then)
	faults = slices.DeleteFunc(faults, func(fault string) bool { return slices.Contains(known, fault) })
	return slices.Concat(faults, []string{""})[0], err
}

// faults are what clusters would say of the service at a state.
func (o *rollbackOptions) faults(ctx context.Context, at *offline.State) ([]string, error) {
	report, err := judged(ctx, o.f, o.service, nil, at)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, p := range cmdutil.InspectProblems(report) {
		faults = append(faults, strings.TrimPrefix(p.Where+": "+p.Message, ": "))
	}
	return faults, nil
}

// scope is what the service is made of, now and then.
func (o *rollbackOptions) scope(now, then *offline.State, to string) (history.Scope, error) {
	was, ok := then.Fleet.Service(o.service)
	if !ok {
		return history.Scope{}, &ui.Err{
			Msg: fmt.Sprintf("there was no service %q at %s", o.service, cmdutil.ShortCommit(to)),
			Fix: fmt.Sprintf("plural service delete %s takes it away; plural undo COMMIT its changes: plural service history %[1]s names them",
				o.service),
			Doc: ui.DocUndo,
		}
	}
	paths := history.Reads(then.Fleet, was, then)
	if is, ok := now.Fleet.Service(o.service); ok {
		paths = append(paths, history.Reads(now.Fleet, is, now)...)
		if err := alone(now, is); err != nil {
			return history.Scope{}, err
		}
	}
	if err := alone(then, was); err != nil {
		return history.Scope{}, err
	}
	slices.Sort(paths)
	return history.Paths(slices.Compact(paths)...), nil
}

// alone refuses a service whose file says other things too: they would go back with it.
func alone(at *offline.State, s *fleet.Service) error {
	file := s.Position.File
	text, err := fs.ReadFile(at.Taken().FS(), file)
	if err != nil {
		return err
	}
	list, err := fleet.ReadServices(file, text)
	if err != nil {
		return err
	}
	if len(list) > 1 {
		return &ui.Err{
			Msg: fmt.Sprintf("%s holds other services too, which would go back with %s", file, s.Metadata.Name),
			Fix: "give each service a file of its own, or take single changes back: plural undo COMMIT", Doc: ui.DocUndo,
			Err: errors.ErrUnsupported,
		}
	}
	return nil
}
