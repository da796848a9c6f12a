package upgrader

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/packs"
)

// Ask takes an installation to another version, as somebody asks for it: by what its range admits, and not by its policy.
func (u *Upgrader) Ask(ctx context.Context, by principal.Person, e api.Edit) (*v1.Edited, error) {
	return u.Committer.Make(ctx, by, e, committer.Job{
		Depth: committer.HistoryDepth, Confirm: e.Name,
		Plan: func(ctx context.Context, tip *workspace.Tip) (*committer.Draft, error) { return u.asked(ctx, tip, &e) },
	})
}

func (u *Upgrader) asked(ctx context.Context, tip *workspace.Tip, e *api.Edit) (*committer.Draft, error) {
	f, err := fleet.Load(tip.Files)
	if err != nil {
		return nil, err
	}
	lock, err := lockfile.Load(tip.Files)
	if err != nil {
		return nil, err
	}
	snap, err := tip.Snapshot()
	if err != nil {
		return nil, err
	}
	known := catalogs{mirrors: u.Mirrors, sources: u.Sources} // those of the loop are its own
	shelf := &packs.Snapshot{
		World:    &compose.World{Fleet: f, Repo: tip.Files, Lock: lock, Blind: true},
		Catalogs: known.of(&sources.Commit{Fleet: f, Snapshot: snap}), Past: pastOf(tip),
	}
	proposal, err := shelf.Upgrade(ctx, []string{e.Name}, e.Version)
	if err != nil {
		return nil, unplanned(ctx, err, e)
	}
	draft := &committer.Draft{Plan: workspace.Plan{Files: map[string][]byte{}}}
	for _, held := range proposal.Held {
		if held.Installation == e.Name {
			draft.Warnings = append(draft.Warnings, held.Version+" is left out: "+oneLine(errors.New(held.Why)))
		}
	}
	for i := range proposal.Picks {
		if pick := &proposal.Picks[i]; pick.As == e.Name {
			draft.Version = pick.Version
		}
	}
	if proposal.Idle() {
		return draft, nil
	}
	for _, pick := range proposal.Changed() {
		if pick.From == "" {
			return nil, &api.Refused{
				Status: http.StatusConflict, Message: "it needs package " + pick.Name + ", which is not installed", Fix: e.Command() + ", in a clone",
			}
		}
	}
	result, err := proposal.Plan(ctx)
	if err != nil {
		return nil, unplanned(ctx, err, e)
	}
	if len(result.Conflicts) > 0 {
		return nil, &api.Refused{
			Status:  http.StatusConflict,
			Message: "what was changed here and what the new version changes conflict in " + strings.Join(result.Conflicts, ", "),
			Fix:     e.Command() + ", in a clone",
		}
	}
	draft.Files, draft.Message, draft.Warnings = result.Changes, result.Message, append(draft.Warnings, result.Notes...)
	for _, pick := range proposal.Changed() {
		if pick.As != e.Name {
			draft.Warnings = append(draft.Warnings, "moves too: "+pick.As+" "+pick.From+" -> "+pick.Version)
		}
		steps := pick.Package.Spec.Steps
		if slices.ContainsFunc(steps, func(s packages.Step) bool { return s.Terraform != nil }) {
			draft.Warnings = append(draft.Warnings, pick.As+" runs terraform, which the hub does not: plural deploy, in a clone, afterwards")
		}
	}
	return draft, nil
}

// unplanned is why an upgrade cannot be put together. Mistakes of the fleet are told at their places.
func unplanned(ctx context.Context, err error, e *api.Edit) error {
	if ctx.Err() != nil || errors.As(err, new(fleet.Errors)) {
		return err
	}
	return &api.Refused{
		Status: http.StatusConflict, Message: "the upgrade cannot be put together: " + oneLine(err), Fix: fixOf(err, e.Command()+", in a clone"),
	}
}
