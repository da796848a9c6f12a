package hubsvc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	// SigningKey is a private SSH key with which the hub signs its commits. Beside Options.RepoKeys it is what lets the hub commit.
	SigningKey []byte
}

// change makes a change that somebody asks for, as a commit. It is empty when everything was so already.
func (h *hub) change(ctx context.Context, by person.Person, e api.Edit) (commit string, err error) {
	if err := h.editable(e.Action, e.Service); err != nil {
		return "", err
	}
	plan, message, err := h.planned(e)
	if err != nil {
		return "", err
	}
	if e.Message != "" {
		if message, err = plainMessage(e.Message); err != nil {
			return "", err
		}
	}
	commit, err = h.edit(ctx, by, message, plan)
	unfit, unwanted := new(amend.Error), new(workspace.PushError)
	switch {
	case errors.As(err, &unfit):
		err = &api.Refused{Status: http.StatusConflict, Message: unfit.Message, Fix: unfit.Fix}
	case err != nil && !errors.As(err, &unwanted):
		h.Log.Error("a change that somebody asked for was not committed", "person", by.Name, "service", e.Service, "action", e.Action, "error", err)
		err = errNoCommit
	}
	return commit, err
}

// errNoCommit is what people are told when it is nothing that they can do something about: the rest speaks of the hub's own disk
// and network.
var errNoCommit = errors.New("the hub could not read the installation repo, or not write to it; its log says why")

// editable says why the hub does not commit what somebody asks of a service, if it does not.
func (h *hub) editable(action, service string) error {
	return h.commits("plural service " + action + " " + service + ", in a clone")
}

// commits says why the hub does not commit, if it does not, with what to do instead.
func (h *hub) commits(fix string) error {
	switch {
	case h.Edits == nil:
		return &api.Refused{Status: http.StatusForbidden, Message: "this hub only reads the installation repo", Fix: fix}
	case len(h.RepoKeys) > 0 && len(h.Edits.SigningKey) == 0: // its own commit would be refused, and with it all those behind it
		return &api.Refused{
			Status: http.StatusForbidden, Message: "this hub believes signed commits alone, and has no key to sign with", Fix: fix,
		}
	}
	return nil
}

// maxMessage bounds what people write into a commit, in bytes.
const maxMessage = 4 << 10

// trailer is a line by which the hub knows its own commits, or by which others say who stands for one.
var trailer = regexp.MustCompile(`(?i)^\s*(plural-[a-z-]*|signed-off-by|co-authored-by)\s*:`)

// plainMessage is the message of a commit, as somebody wrote it. Whoever shows it later need not be careful.
func plainMessage(text string) (string, error) {
	odd := func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == utf8.RuneError // marks that turn the direction of text are not printed
	}
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxMessage || strings.ContainsFunc(text, odd) {
		return "", &api.Refused{
			Status: http.StatusBadRequest, Message: "the message is no plain text", Fix: fmt.Sprintf("write at most %d bytes, without control characters", maxMessage),
		}
	}
	for line := range strings.Lines(text) {
		if trailer.MatchString(line) {
			return "", &api.Refused{
				Status:  http.StatusBadRequest,
				Message: fmt.Sprintf("the message has the line %q, which programs believe", strings.TrimSpace(line)),
				Fix:     "leave out lines that begin with Plural-...:, Signed-off-by: and Co-authored-by:",
			}
		}
	}
	return text, nil
}

// planned says what an edit changes, and how its commit is called.
func (h *hub) planned(e api.Edit) (plan func(tip fs.FS) (*amend.Change, error), message string, err error) {
	switch e.Action {
	case "suspend", "resume":
		word := map[string]string{"suspend": "Suspend ", "resume": "Resume "}[e.Action]
		return func(tip fs.FS) (*amend.Change, error) { return amend.Suspend(tip, e.Service, e.Action == "suspend") }, word + e.Service, nil
	case "ack":
		waiting := h.view.Waiting(e.Service)
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

// editTime bounds one commit, with the time that it waits for others.
const editTime = 90 * time.Second

// edit commits a change to the installation repo, as somebody asked for it, and has the hub look at it. It returns the commit, empty when
// everything was so already.
func (h *hub) edit(ctx context.Context, by person.Person, message string, plan func(tip fs.FS) (*amend.Change, error)) (string, error) {
	done := false
	commit, err := h.commit(ctx, workspace.Proposal{By: author(by.Name)}, func(tip *workspace.Tip) (*workspace.Plan, error) {
		change, err := plan(tip.Files)
		if err != nil {
			return nil, err
		}
		done = change.Done()
		return &workspace.Plan{Files: map[string][]byte{change.File: change.After}, Message: message}, nil
	})
	if err != nil || done {
		return "", err
	}
	return commit, nil
}

// author is who a commit is made for.
func author(name string) workspace.Author {
	return workspace.Author{Name: name, Email: strings.ReplaceAll(name, "/", "-") + "@plural"}
}

// commit makes a commit in the installation repo, and has the hub look at it. It returns the tip when the plan changes nothing.
func (h *hub) commit(ctx context.Context, p workspace.Proposal, plan func(*workspace.Tip) (*workspace.Plan, error)) (commit string, err error) {
	s := h.signatures
	if s != nil && s.people != nil {
		p.Depth = historyDepth
	}
	err = h.cloning(ctx, func(ctx context.Context, remote *workspace.Remote) error {
		commit, err = remote.Propose(ctx, p, func(tip *workspace.Tip) (*workspace.Plan, error) {
			if s != nil && s.people != nil {
				if err := s.tip(ctx, tip); err != nil {
					h.Log.Warn("the hub does not commit on what it does not believe", "commit", tip.ID, "error", err)
					return nil, unbelieved(err)
				}
			}
			return plan(tip)
		})
		return err
	})
	if err == nil {
		h.replica.hint(h.planner.upstreams.own.ID)
	}
	return commit, err
}

// unbelieved is what people are told of a tip that the hub does not commit on. What could not be judged now is no verdict on it.
func unbelieved(err error) error {
	if errors.Is(err, gitsource.ErrUndecided) {
		return err
	}
	return &amend.Error{
		Message: "the newest commit of the installation repo is signed by nobody whom the hub believes",
		Fix:     "sign it, or take it back: plural status",
	}
}

// cloning works on the installation repo where it lies. There is one at a time: each needs a clone, and a hub that was killed has
// left its own behind.
func (h *hub) cloning(ctx context.Context, work func(context.Context, *workspace.Remote) error) error {
	ctx, cancel := context.WithTimeout(ctx, editTime)
	defer cancel()
	if err := h.reaching.editing.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for other changes: %w", err)
	}
	defer h.reaching.editing.Release(1)
	dir := filepath.Join(h.Data, "edits")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return fmt.Errorf("make room for a clone: %w", err)
	}
	return work(ctx, h.remote(dir))
}

// look shows the branch as it is now, and changes nothing. The context that it gives ends with the time that it has.
func (h *hub) look(ctx context.Context, depth int, look func(context.Context, *workspace.Tip) error) error {
	return h.cloning(ctx, func(ctx context.Context, remote *workspace.Remote) error {
		return remote.Look(ctx, depth, func(tip *workspace.Tip) error { return look(ctx, tip) })
	})
}

// remote is the installation repo, with the credentials for writing to it and no others.
func (h *hub) remote(dir string) *workspace.Remote {
	address := gitsource.Expand(h.Repo)
	if u, err := url.Parse(address); err == nil && u.User != nil && u.Scheme != "ssh" {
		u.User = nil
		address = u.String()
	}
	remote := &workspace.Remote{URL: address, Branch: h.Branch, Credentials: h.Edits.Credentials, Dir: dir}
	if s := h.signatures; s != nil && s.own != nil {
		remote.Sign = s.own.Git
	}
	return remote
}
