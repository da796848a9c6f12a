package committer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Draft is what an edit changes at one tip of the branch.
type Draft struct {
	workspace.Plan
	// Trailer is the message's last paragraph, whoever wrote the rest; it may be empty.
	Trailer  string
	Warnings []string
	// Version is the one that an upgrade goes to.
	Version string
}

// Job is how an edit is made.
type Job struct {
	// Plan drafts it at a tip. It is asked again where others push meanwhile.
	Plan func(ctx context.Context, tip *workspace.Tip) (*Draft, error)
	// Depth is how many commits the plan sees, the tip included; zero means the tip alone.
	Depth int
	// Confirm has to be sent with the edit where it takes services off clusters.
	Confirm string
	// Narrow says that the hub's own key covers it, and that it breaks nothing. All else is judged as a whole.
	Narrow bool
	// Unread warns of what nothing reads of a state of the branch; it may be nil.
	Unread func(next *snapshot.Snapshot) []string
}

// errDryRun ends an edit before anything is pushed.
var errDryRun = errors.New("it is a dry run")

// Make makes an edit that somebody asks for, as a commit. Where the branch takes no pushes, and the hub can open pull requests, it is
// made as one.
func (c *Committer) Make(ctx context.Context, by principal.Person, e api.Edit, job Job) (*v1.Edited, error) {
	if err := c.Refusal(e.Command() + ", in a clone"); err != nil {
		return nil, err
	}
	if !job.Narrow && len(c.Keys) > 0 {
		return nil, &api.Refused{
			Status: http.StatusForbidden, Message: "this hub believes such a change only where a person signs it",
			Fix: e.Command() + ", in a clone",
		}
	}
	if e.Message != "" {
		var err error
		if e.Message, err = plainMessage(e.Message); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, editTime) // also where it is made a second time, as a branch
	defer cancel()
	m := &making{committer: c, edit: &e, job: &job, by: Author(by.Name)}
	out, err := m.commit(ctx, "")
	if declined := new(workspace.PushError); errors.As(err, &declined) && declined.Declined() {
		if !c.Opens() || len(c.Keys) > 0 {
			return nil, &api.Refused{
				Status: http.StatusBadGateway, Message: "the change was not committed: " + err.Error(),
				Fix: "let the hub's credential push there, or in a clone: " + e.Command() + " --pr",
			}
		}
		out, err = m.propose(ctx)
	}
	return out, c.told(err, by, &e)
}

// ErrNoCommit is what people are told when it is nothing that they can do something about: the rest speaks of the hub's own disk
// and network.
var ErrNoCommit = errors.New("the hub could not read the installation repo, or not write to it; its log says why")

// told is an error as far as it is for people: the rest is for the log.
func (c *Committer) told(err error, by principal.Person, e *api.Edit) error {
	if err == nil || errors.As(err, new(*workspace.PushError)) {
		return err
	}
	if refused := explained(err); refused != nil {
		return refused
	}
	c.Log.Error("a change that somebody asked for was not committed", "person", by.Name, "action", e.Action, "name", e.Name, "error", err)
	return ErrNoCommit
}

// making is one edit under way. What is known of it is that of the newest tip.
type making struct {
	committer *Committer
	edit      *api.Edit
	job       *Job
	by        workspace.Author

	tip   string
	draft *Draft
	out   v1.Edited
}

// commit makes the commit, on the branch or as a new one.
func (m *making) commit(ctx context.Context, to string) (*v1.Edited, error) {
	p := workspace.Proposal{
		By: m.by, To: to, Depth: m.job.Depth, Review: func(tip, next *workspace.Tip) error { return m.review(ctx, tip, next) },
	}
	if m.edit.Base != "" {
		p.Depth = max(p.Depth, HistoryDepth)
	}
	commit, err := m.committer.Commit(ctx, p, func(tip *workspace.Tip) (*workspace.Plan, error) { return m.plan(ctx, tip) })
	out := m.out
	switch {
	case errors.Is(err, errDryRun):
		return &out, nil
	case err != nil:
		return nil, err
	case commit == m.tip: // everything was so already
		return &v1.Edited{DryRun: m.edit.DryRun, Base: m.tip, Version: m.draft.Version}, nil
	}
	out.Commit = commit
	if out.Branch = to; to == "" {
		out.Branch = m.committer.Branch
	}
	return &out, nil
}

func (m *making) plan(ctx context.Context, tip *workspace.Tip) (*workspace.Plan, error) {
	draft, err := m.job.Plan(ctx, tip)
	if err != nil {
		return nil, err
	}
	if m.edit.Message != "" {
		draft.Message = m.edit.Message
	}
	if draft.Trailer != "" {
		draft.Message = strings.TrimSpace(draft.Message) + "\n\n" + draft.Trailer
	}
	if m.edit.Base != "" && m.edit.Base != tip.ID {
		if err := m.sameAsShown(ctx, tip, draft); err != nil {
			return nil, err
		}
	}
	m.tip, m.draft = tip.ID, draft
	return &draft.Plan, nil
}

// sameAsShown wants an edit to do at the tip what it did at its base: else somebody agreed to another one.
func (m *making) sameAsShown(ctx context.Context, tip *workspace.Tip, draft *Draft) error {
	changed := func(file string) error {
		message := "the installation repo was changed meanwhile"
		if file != "" {
			message = fmt.Sprintf("%q was changed meanwhile", file)
		}
		return &api.Refused{Status: http.StatusConflict, Message: message, Fix: "look at the change again: ?dry-run=1"}
	}
	base, err := tip.Back(m.edit.Base)
	if err != nil { // it is older than what was fetched, or never was on the branch
		return changed("")
	}
	was, err := m.job.Plan(ctx, base)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return changed("")
	}
	both := maps.Clone(draft.Files)
	maps.Copy(both, was.Files)
	for _, file := range slices.Sorted(maps.Keys(both)) {
		now, planned := draft.Files[file]
		then, shown := was.Files[file]
		if planned != shown || (now == nil) != (then == nil) || !bytes.Equal(now, then) {
			return changed(file)
		}
		before, err := content(base.Files, file)
		if err != nil {
			return err
		}
		is, err := content(tip.Files, file)
		if err != nil {
			return err
		}
		if (before == nil) != (is == nil) || !bytes.Equal(before, is) {
			return changed(file)
		}
	}
	return nil
}

// content is a file's; nil where there is none, or a folder.
func content(files fs.FS, name string) ([]byte, error) {
	if info, err := fs.Stat(files, name); err == nil && info.IsDir() {
		return nil, nil
	}
	text, err := fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if text == nil && err == nil {
		text = []byte{}
	}
	return text, err
}

// review judges the commit, and says what it is.
func (m *making) review(ctx context.Context, tip, next *workspace.Tip) error {
	m.out = v1.Edited{
		DryRun: m.edit.DryRun, Base: tip.ID, Message: m.draft.Message, Version: m.draft.Version, Warnings: slices.Clone(m.draft.Warnings),
	}
	if !m.job.Narrow {
		if err := m.judge(ctx, tip, next); err != nil {
			return err
		}
		if err := m.leaving(tip, next); err != nil {
			return err
		}
	}
	if !m.edit.DryRun {
		return nil
	}
	var err error
	if m.out.Files, m.out.LeftOut, err = diffs(tip, next, m.draft.Files); err != nil {
		return err
	}
	return errDryRun
}

// propose makes the commit as a branch of its own, and asks for that to be merged.
func (m *making) propose(ctx context.Context) (*v1.Edited, error) {
	unique := make([]byte, 4)
	_, _ = rand.Read(unique) // it never fails
	branch := "plural/edit/" + m.edit.Action + "-" + m.edit.Name + "-" + hex.EncodeToString(unique)
	out, err := m.commit(ctx, branch)
	if err != nil || out.Commit == "" {
		return out, err
	}
	subject, body, _ := strings.Cut(m.draft.Message, "\n")
	out.URL = m.committer.Open(ctx, PullRequest{
		Branch: branch, Title: subject, Body: strings.TrimSpace(body + "\n\nAsked for by " + m.by.Name + ", by way of the hub."),
	})
	if out.URL == "" {
		out.Warnings = append(out.Warnings, "no pull request could be opened for branch "+branch+", as the hub's log says: open it yourself")
	}
	return out, nil
}
