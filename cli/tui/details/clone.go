package details

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/patch"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/offline"
)

// errNoClone is what panes say that only a clone can fill.
func errNoClone() error {
	return &ui.Err{
		Msg: "there is no clone of the installation repo here", Fix: "start the console in it, or give it with -C DIR", Doc: ui.DocNoRepo,
	}
}

// log is the clone's history, with the commit at HEAD.
func (a asker) log() (log *history.Log, head string, err error) {
	if a.repo == nil {
		return nil, "", errNoClone()
	}
	g, err := git.PlainOpenWithOptions(a.repo.Root(), &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if err != nil {
		return nil, "", fmt.Errorf("open the clone: %w", err)
	}
	ref, err := g.Head()
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return nil, "", &ui.Err{Msg: "the clone has no commit yet", Fix: "git pull, or commit what is there", Doc: ui.DocGit}
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the clone's HEAD: %w", err)
	}
	return history.Of(g.Storer), ref.Hash().String(), nil
}

// revision is one commit, as the clone has it.
func (a asker) revision(ctx context.Context, id string) (*v1.Revision, error) {
	log, _, err := a.log()
	if err != nil {
		return nil, err
	}
	found, err := log.Revision(ctx, id)
	if err != nil {
		return nil, err
	}
	r := shown(found)
	return &r, nil
}

func shown(r *history.Revision) v1.Revision {
	return v1.Revision{
		Commit: v1.Commit{ID: r.ID, Subject: r.Subject, Author: r.Author, Time: &r.Time},
		Email:  r.Email, Files: r.Files, LeftOut: r.LeftOut, Incomplete: r.Incomplete, Merge: r.Merge, Reverts: r.Reverts,
	}
}

// patch is what a commit changed, as the clone has it.
func (a asker) patch(ctx context.Context, id string) ([]patch.Change, error) {
	log, _, err := a.log()
	if err != nil {
		return nil, err
	}
	r, err := log.Revision(ctx, id)
	if err != nil {
		return nil, &ui.Err{Msg: "the clone does not have commit " + id, Cause: err.Error(), Fix: "git pull", Doc: ui.DocGit}
	}
	return patch.Commits(ctx, a.repo, r.Parent, id)
}

// past is a subject's history as the clone has it: from HEAD back.
func (a asker) past(ctx context.Context, about pane.Subject) ([]v1.Revision, error) {
	log, head, err := a.log()
	if err != nil {
		return nil, err
	}
	state, err := offline.Open(a.repo, head)
	if err != nil {
		return nil, err
	}
	q := history.Query{From: head, Limit: maxRevisions}
	switch service := serviceOf(about); {
	case service != "":
		q.Scope = history.Service(state.Fleet, service, state)
	case about.Kind == pane.KindCluster:
		if c, ok := state.Fleet.Cluster(about.Name); ok {
			q.Scope = history.Paths(c.Position.File)
		}
	default:
		q.Scope = history.Fleet(state.Fleet, state)
	}
	page, err := log.Read(ctx, q)
	if err != nil {
		return nil, err
	}
	undone := history.Undone(page.Items)
	all := make([]v1.Revision, len(page.Items))
	for i := range page.Items {
		all[i] = shown(&page.Items[i])
		all[i].RevertedBy = undone[all[i].ID]
	}
	return all, nil
}

// serviceOf is the service that a subject is, or is of.
func serviceOf(about pane.Subject) string {
	if about.Kind == pane.KindService {
		return about.Name
	}
	return about.Service
}
