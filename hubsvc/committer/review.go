package committer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/revert"
	"github.com/pluralsh/plural/workspace/treediff"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// Bounds of what an answer holds of a commit: files by name, and the bytes of those that are compared and of their diffs, of one and of
// all together. Of problems and of names in a sentence it has the first.
const (
	maxFiles    = 200
	maxFile     = 512 << 10
	maxCompared = 4 << 20
	maxDiffs    = 256 << 10
	maxProblems = 50
	maxNames    = 10
)

// diffs are what a commit changes of files, and how many files are left out.
func diffs(tip, next *workspace.Tip, files map[string][]byte) (list []v1.FileDiff, leftOut int, err error) {
	room, compared := maxDiffs, 0
	for _, file := range slices.Sorted(maps.Keys(files)) {
		before, err := content(tip.Files, file)
		if err != nil {
			return nil, 0, err
		}
		after, err := content(next.Files, file)
		if err != nil {
			return nil, 0, err
		}
		if string(before) == string(after) && (before == nil) == (after == nil) {
			continue
		}
		if len(list) == maxFiles {
			leftOut++
			continue
		}
		d := v1.FileDiff{File: file, Hidden: hidden(before, after)}
		if d.Hidden == "" {
			if compared += len(before) + len(after); compared <= maxCompared {
				d.Diff = unified(file, before, after)
			}
			if compared > maxCompared || len(d.Diff) > room {
				d.Diff, d.Hidden = "", tooLong
			}
		}
		room -= len(d.Diff)
		list = append(list, d)
	}
	return list, leftOut, nil
}

const tooLong = "it is too long to be shown here"

// hidden says why a change of a file is not shown; empty when it is.
func hidden(before, after []byte) string {
	for _, text := range [][]byte{before, after} {
		switch {
		case seal.IsSealed(text):
			return "it is sealed"
		case len(text) > maxFile:
			return tooLong
		case !utf8.Valid(text) || strings.ContainsRune(string(text), 0):
			return "it is no text"
		}
	}
	return ""
}

// unified is a diff as git shows it. A file that is made or goes is /dev/null on the other side.
func unified(file string, before, after []byte) string {
	old, now := "a/"+file, "b/"+file
	if before == nil {
		old = "/dev/null"
	}
	if after == nil {
		now = "/dev/null"
	}
	return udiff.Unified(old, now, string(before), string(after))
}

// judge refuses a commit that the hub would refuse. What is wrong at the tip already is no fault of it, and is warned of.
func (m *making) judge(ctx context.Context, tip, next *workspace.Tip) error {
	if m.committer.Judge == nil {
		return nil
	}
	will, err := next.Snapshot()
	if err != nil {
		return err
	}
	problems := m.committer.Judge(ctx, will)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(problems) > 0 {
		was, err := tip.Snapshot()
		if err != nil {
			return err
		}
		added := added(problems, m.committer.Judge(ctx, was))
		if len(added) > 0 {
			return wrongWith("the hub would refuse the commit", added)
		}
		m.out.Warnings = append(m.out.Warnings,
			"the hub refuses what is there already, and will refuse this too until that is mended: "+sentence(&problems[0]))
	}
	if m.job.Unread != nil {
		m.out.Warnings = append(m.out.Warnings, m.job.Unread(will)...)
	}
	return nil
}

// added are those of problems that were not there before. The lines of a file move when it is changed.
func added(problems, before []v1.Problem) []v1.Problem {
	words := func(p v1.Problem) string {
		return strings.Join([]string{p.File, p.Service, p.Cluster, p.Message}, "\n")
	}
	known := map[string]bool{}
	for _, p := range before {
		known[words(p)] = true
	}
	return slices.DeleteFunc(slices.Clone(problems), func(p v1.Problem) bool { return known[words(p)] })
}

// leaving warns of services that leave clusters, and wants that confirmed.
func (m *making) leaving(tip, next *workspace.Tip) error {
	before, err := fleet.Load(tip.Files)
	if err != nil { // nothing of it is in force
		return nil
	}
	after, err := fleet.Load(next.Files)
	if err != nil {
		return nil // it was so before, or would have been refused
	}
	var gone []string
	for i := range before.Services {
		s := &before.Services[i]
		leaves, runs := fleet.Leaving(before, after, s.Metadata.Name)
		if len(leaves) == 0 {
			continue
		}
		where := few(leaves)
		if runs == 0 {
			where = "all its clusters, " + where
		}
		fate := "what it has there is deleted"
		if before.Orphans(s) {
			fate = "what it has there stays, as nobody's"
		}
		gone = append(gone, fmt.Sprintf("service %s leaves %s: %s", s.Metadata.Name, where, fate))
	}
	if len(gone) == 0 {
		return nil
	}
	if rest := len(gone) - maxNames; rest > 0 {
		gone = append(gone[:maxNames], fmt.Sprintf("so do %d other services", rest))
	}
	m.out.Warnings, m.out.Confirm = append(m.out.Warnings, gone...), m.job.Confirm
	if !m.edit.DryRun && m.edit.Confirm != m.job.Confirm {
		return &api.Refused{
			Status: http.StatusConflict, Message: "this is not confirmed: " + strings.Join(gone, "; "),
			Fix: fmt.Sprintf("send \"confirm\": %q with it", m.job.Confirm),
		}
	}
	return nil
}

// few names some of a list.
func few(names []string) string {
	if rest := len(names) - maxNames; rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), rest)
	}
	return strings.Join(names, ", ")
}

// wrongWith refuses an edit for what is wrong with it.
func wrongWith(what string, problems []v1.Problem) error {
	refused := &api.Refused{
		Status: http.StatusUnprocessableEntity, Message: what + ": " + sentence(&problems[0]), Fix: problems[0].Fix,
		Problems: problems[:min(len(problems), maxProblems)],
	}
	if rest := len(problems) - 1; rest > 0 {
		refused.Message += fmt.Sprintf(", and %d more", rest)
	}
	return refused
}

func sentence(p *v1.Problem) string {
	switch {
	case p.File == "":
		return p.Message
	case p.Line == 0:
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// mistakes are those of a fleet, as the hub tells them.
func mistakes(list fleet.Errors) []v1.Problem {
	problems := make([]v1.Problem, len(list))
	for i, e := range list {
		problems[i] = v1.Problem{File: e.File, Line: e.Line, Message: e.Message, Fix: e.Fix}
	}
	return problems
}

// explained is an error that people can do something about; nil where it is none.
func explained(err error) error {
	refused, invalid, broken := new(api.Refused), new(yamledit.InvalidError), fleet.Errors(nil)
	unfit, forbidden, stuck := new(yamledit.Error), new(workspace.Error), new(revert.ConflictError)
	var fixed interface {
		error
		Fix() string
	}
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &invalid):
		return wrongWith("the change would be a mistake", mistakes(invalid.Mistakes))
	case errors.As(err, &broken) && len(broken) > 0:
		return wrongWith("the installation repo has mistakes, or would have", mistakes(broken))
	case errors.As(err, &unfit):
		return &api.Refused{Status: http.StatusConflict, Message: unfit.Message, Fix: unfit.Fix}
	case errors.As(err, &forbidden):
		return &api.Refused{Status: http.StatusConflict, Message: forbidden.Message, Fix: forbidden.Fix}
	case errors.As(err, &stuck):
		return conflicts(stuck)
	case errors.As(err, new(*treediff.TooManyError)):
		return &api.Refused{
			Status: http.StatusUnprocessableEntity, Message: "too much changes for it to be taken back here", Fix: "git revert, in a clone",
		}
	case errors.As(err, &fixed):
		return &api.Refused{Status: http.StatusConflict, Message: strings.Join(strings.Fields(fixed.Error()), " "), Fix: fixed.Fix()}
	}
	return nil
}

// conflicts say which later commits keep a commit from being taken back.
func conflicts(stuck *revert.ConflictError) error {
	var problems []v1.Problem
	for _, c := range stuck.Conflicts {
		problems = append(problems, v1.Problem{File: c.Path, Message: c.Reason})
		for _, r := range c.Since {
			problems = append(problems, v1.Problem{
				File: c.Path, Message: fmt.Sprintf("changed by %.7s %q, %s", r.ID, r.Subject, r.Author),
				Since: &v1.Commit{ID: r.ID, Subject: r.Subject, Author: r.Author, Time: &r.Time},
			})
		}
	}
	return &api.Refused{
		Status: http.StatusConflict, Message: stuck.Error() + ": later commits stand in the way",
		Fix:      fmt.Sprintf("undo the later commits first; git revert %.7s, in a clone, shows both sides", stuck.Commit),
		Problems: problems[:min(len(problems), maxProblems)],
	}
}
