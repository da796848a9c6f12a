package committer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	commits "github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/revert"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// Change makes an edit that somebody asks for.
func (c *Committer) Change(ctx context.Context, by principal.Person, e api.Edit) (*v1.Edited, error) {
	job, err := c.job(&e)
	if err != nil {
		return nil, err
	}
	return c.Make(ctx, by, e, *job)
}

// job says how an edit is made.
func (c *Committer) job(e *api.Edit) (*Job, error) {
	switch e.Action {
	case api.ActionSuspend, api.ActionResume:
		word := map[string]string{api.ActionSuspend: "Suspend ", api.ActionResume: "Resume "}[e.Action]
		return narrow(func(tip *workspace.Tip) (*yamledit.Change, error) {
			return yamledit.Suspend(tip.Files, e.Name, e.Action == api.ActionSuspend)
		}, word+e.Name), nil
	case api.ActionAck:
		return c.agreement(e)
	case api.ActionSet:
		return c.setting(e)
	case api.ActionUndo:
		return undoing(e), nil
	}
	return nil, &api.Refused{Status: http.StatusNotFound, Message: "nobody knows how to " + strconv.Quote(e.Action)}
}

// narrow is a job of one file that the hub's own key covers.
func narrow(plan func(*workspace.Tip) (*yamledit.Change, error), message string) *Job {
	return &Job{Narrow: true, Plan: func(_ context.Context, tip *workspace.Tip) (*Draft, error) {
		change, err := plan(tip)
		if err != nil {
			return nil, err
		}
		return drafted(change, message), nil
	}}
}

func drafted(change *yamledit.Change, message string) *Draft {
	return &Draft{Plan: workspace.Plan{Files: map[string][]byte{change.File: change.After}, Message: message}}
}

func (c *Committer) agreement(e *api.Edit) (*Job, error) {
	if err := c.Refusal(e.Command() + ", in a clone"); err != nil {
		return nil, err
	}
	waiting := c.Waiting(e.Name)
	if !waiting[e.Token] {
		return nil, &api.Refused{
			Status: http.StatusConflict, Message: "nothing of " + strconv.Quote(e.Name) + " waits under this token",
			Fix: "plural service get " + e.Name,
		}
	}
	return narrow(func(tip *workspace.Tip) (*yamledit.Change, error) {
		return yamledit.Agree(tip.Files, e.Name, []string{e.Token}, func(token string) bool { return waiting[token] })
	}, "Agree to deletions of "+e.Name), nil
}

// setting changes fields of a service.
func (c *Committer) setting(e *api.Edit) (*Job, error) {
	fields, err := fieldsOf(e.Set)
	if err != nil {
		return nil, err
	}
	return &Job{
		Confirm: e.Name,
		Plan: func(_ context.Context, tip *workspace.Tip) (*Draft, error) {
			change, err := yamledit.Set(tip.Files, yamledit.Document{Kind: yamledit.Service, Name: e.Name}, fields...)
			if err != nil {
				return nil, err
			}
			return drafted(change, yamledit.Subject(e.Name, fields)), nil
		},
		Unread: func(next *snapshot.Snapshot) []string { return c.unread(next, e.Name, fields) },
	}, nil
}

// unread warns of what is set and read by nothing.
func (c *Committer) unread(next *snapshot.Snapshot, service string, fields []yamledit.Field) []string {
	if c.Unread == nil {
		return nil
	}
	var warnings []string
	for _, n := range c.Unread(next, service) {
		if !yamledit.Sets(fields, n.Field) {
			continue
		}
		text := "nothing in service " + service + " reads " + n.Field
		switch {
		case n.Value:
			text += "; did you mean the Helm value?"
		case n.Nearest != "":
			text += "; did you mean " + n.Nearest + "?"
		}
		warnings = append(warnings, text)
	}
	return warnings
}

// undoDepth is how many commits are looked at for one that is to be taken back: all that the API tells of, and what they came out of.
const undoDepth = 301

// undoing takes a commit back.
func undoing(e *api.Edit) *Job {
	job := &Job{Depth: undoDepth, Confirm: e.Name[:min(len(e.Name), 7)]}
	job.Plan = func(ctx context.Context, tip *workspace.Tip) (*Draft, error) {
		r, err := findCommit(ctx, tip, e.Name)
		if err != nil {
			return nil, err
		}
		plan, err := revert.Of(ctx, tip.Objects(), tip.ID, r)
		if err != nil {
			return nil, err
		}
		if err := mayUndo(tip, plan, r); err != nil {
			return nil, err
		}
		message, err := plainMessage(revert.Title(r.Subject))
		if err != nil {
			message = fmt.Sprintf("Revert commit %.7s", r.ID)
		}
		draft := &Draft{Plan: workspace.Plan{Files: plan.Files, Message: message}, Trailer: revert.Trailer(r)}
		if len(plan.Sealed) > 0 {
			draft.Warnings = []string{"comes back as it was sealed: " + few(plan.Sealed)}
		}
		return draft, nil
	}
	return job
}

// findCommit is the commit that is meant, among those of the branch.
func findCommit(ctx context.Context, tip *workspace.Tip, id string) (*commits.Revision, error) {
	unknown := &api.Refused{
		Status: http.StatusNotFound, Message: fmt.Sprintf("no commit %q among the newest %d", id, undoDepth-1),
		Fix: "plural undo " + id + ", in a clone",
	}
	whole, err := tip.Resolve(id)
	if err != nil {
		return nil, unknown
	}
	log := commits.Of(tip.Objects())
	held, err := log.Holds(tip.ID, whole)
	if err != nil || !held {
		return nil, unknown
	}
	r, err := log.Revision(ctx, whole)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, unknown
	}
	return r, err
}

// mayUndo refuses what a verb of the API is not for: who may do what, who can open what, and which agents act for clusters.
func mayUndo(tip *workspace.Tip, plan *revert.Plan, r *commits.Revision) error {
	short := fmt.Sprintf("%.7s", r.ID)
	refuse := func(what string) error {
		return &api.Refused{
			Status: http.StatusForbidden, Message: "the hub does not take back " + what, Fix: "plural undo " + short + ", in a clone",
		}
	}
	if len(plan.Trust) > 0 {
		return refuse("who can open or do what: " + few(plan.Trust))
	}
	will := overlay.New(tip.Files, plan.Files)
	before, err := fleet.Load(tip.Files)
	if err != nil { // it cannot be compared; mending it is what undo is for
		for _, file := range slices.Sorted(maps.Keys(plan.Files)) {
			if path.Dir(file) == "clusters" {
				return refuse("which agents there are: " + file)
			}
		}
	} else if after, err := fleet.Load(will); err == nil {
		if agents := plan.Touches(before, after, nil).Agents; len(agents) > 0 {
			return refuse("which agents act for clusters: " + few(agents))
		}
	}
	if len(plan.Sealed) == 0 {
		return nil
	}
	vault, err := sealer.Open(sealer.Config{Files: will})
	if errors.Is(err, policy.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	return plan.Standing(vault, r.ID)
}
