package hubsvc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/person"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/amend"
	"github.com/pluralsh/plural/workspace/gitsource"
	"github.com/pluralsh/plural/workspace/outbound"
)

// EditOptions let the hub commit what people ask for by way of its API.
type EditOptions struct {
	// Credentials may push to the branch. They are no others than these: the hub reads with its own.
	Credentials outbound.Credentials
}

// change makes a change that somebody asks for, as a commit. It is empty when everything was so already.
func (h *hub) change(ctx context.Context, by person.Person, e api.Edit) (commit string, err error) {
	if h.Edits == nil {
		return "", &api.Refused{
			Status: http.StatusForbidden, Message: "this hub only reads the installation repo", Fix: "plural service " + e.Action + " " + e.Service + ", in a clone",
		}
	}
	plan, message, err := h.planned(e)
	if err != nil {
		return "", err
	}
	if e.Message != "" {
		message = e.Message
	}
	commit, err = h.edit(ctx, by, message, plan)
	if unfit := new(amend.Error); errors.As(err, &unfit) {
		err = &api.Refused{Status: http.StatusConflict, Message: unfit.Message, Fix: unfit.Fix}
	}
	return commit, err
}

// planned says what an edit changes, and how its commit is called.
func (h *hub) planned(e api.Edit) (plan func(tip fs.FS) (*amend.Change, error), message string, err error) {
	switch e.Action {
	case "suspend", "resume":
		word := map[string]string{"suspend": "Suspend ", "resume": "Resume "}[e.Action]
		return func(tip fs.FS) (*amend.Change, error) { return amend.Suspend(tip, e.Service, e.Action == "suspend") }, word + e.Service, nil
	case "ack":
		waiting := h.waiting(e.Service)
		if !waiting[e.Token] {
			return nil, "", &api.Refused{
				Status: http.StatusConflict, Message: "nothing of " + strconv.Quote(e.Service) + " waits under this token", Fix: "plural service get " + e.Service,
			}
		}
		return func(tip fs.FS) (*amend.Change, error) {
			return amend.Agree(tip, e.Service, []string{e.Token}, func(token string) bool { return waiting[token] })
		}, "Agree to deletions of " + e.Service, nil
	}
	return nil, "", &api.Refused{Status: http.StatusNotFound, Message: "nobody knows how to " + strconv.Quote(e.Action)}
}

// waiting are the tokens of a service's deletions that wait for somebody.
func (h *hub) waiting(service string) map[string]bool {
	tokens := map[string]bool{}
	found, _ := h.view.Service(service)
	for i := range found.Deployments {
		if held := found.Deployments[i].Held; held != nil {
			tokens[held.Token] = true
		}
	}
	return tokens
}

// edit commits a change to the installation repo, as somebody asked for it, and has the hub look at it. It returns the commit, empty when
// everything was so already.
func (h *hub) edit(ctx context.Context, by person.Person, message string, plan func(tip fs.FS) (*amend.Change, error)) (string, error) {
	dir := filepath.Join(h.Data, "edits")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make room for a clone: %w", err)
	}
	remote := workspace.Remote{URL: gitsource.Expand(h.Repo), Branch: h.Branch, Credentials: h.Edits.Credentials, Dir: dir}
	who := workspace.Author{Name: by.Name, Email: by.Name + "@plural"}
	done := false
	commit, err := remote.Commit(ctx, who, message, func(tip fs.FS) (map[string][]byte, error) {
		change, err := plan(tip)
		if err != nil {
			return nil, err
		}
		done = change.Done()
		return map[string][]byte{change.File: change.After}, nil
	})
	if err != nil || done {
		return "", err
	}
	h.replica.hint(h.planner.upstreams.own.ID)
	return commit, nil
}
