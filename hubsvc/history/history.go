// Package history owns the history of the installation repo, with what each commit did to services.
//
// It reads the repository itself, when somebody asks, since mirrors hold no history. It judges no commit.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/planner"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/internal/boundread"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/replace"
	"github.com/pluralsh/plural/workspace"
	commits "github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Bounds of what a hub tells of the past. The mirror holds no history, so what is told is read from the installation repo when
// somebody asks, and kept in memory until the branch moves.
const (
	// pastCommits is how far it goes back, pastFiles how many files of one commit are known by name. Once there are pastNames of all
	// commits together it goes no further: they stand in memory, and each question goes through them.
	pastCommits = 300
	pastFiles   = 20_000
	pastNames   = 100_000
	// shownFiles is how many an answer names.
	shownFiles = 20
	// pastTime bounds one reading. pastEvery is how long the repository is left alone that did not have what was looked for, or did not
	// answer. Of steps that come after what this hub has seen, pastAhead is how long they are told: it may be behind, or the branch was
	// moved back.
	pastTime  = time.Minute
	pastEvery = 2 * time.Second
	pastAhead = time.Minute
)

// Options are what a History works with.
type Options struct {
	// Dir is a folder for a clone, which is emptied.
	Dir string
	// Kept is the file in which refusals outlive this process; empty: nowhere.
	Kept string
	// Sources say where the installation repo lies, and what opens it.
	Sources *sources.Set
	Branch  string
	// Plan is the one in force.
	Plan func() *planner.Plan
	Log  *slog.Logger
}

// History is what is known of the installation repo's past.
type History struct {
	Options
	// reading is held by the one who reads it.
	reading *semaphore.Weighted

	mu     sync.Mutex // guards what follows
	steps  []commits.Revision
	looked time.Time // when the repository was asked last
	seen   string    // the newest commit that was known of then
	failed bool      // it did not answer then
	// refused are commits that were refused while they were the newest, the latest last; unsaved says that the file has others.
	refused []refusal
	unsaved bool
}

// refusal is a commit with why it was refused.
type refusal struct {
	Commit string     `json:"commit"`
	Reason v1.Problem `json:"reason"`
}

// maxRefusals bounds what is read of refusals that were kept, in bytes.
const maxRefusals = 16 << 20

// New makes a History that knows the refusals of the process before, as far as they can be read.
func New(o Options) *History {
	c := &History{Options: o, reading: semaphore.NewWeighted(1)}
	if o.Kept != "" {
		if text, err := boundread.File(os.DirFS(filepath.Dir(o.Kept)), filepath.Base(o.Kept), maxRefusals); err == nil {
			_ = json.Unmarshal(text, &c.refused)
		}
	}
	return c
}

// known are the steps, and whether there is no use in reading them again: they go up to head, or were read lately. None are known,
// and need not be read, where the repository has just not answered.
func (c *History) known(head string, now time.Time) (steps []commits.Revision, enough bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := now.Sub(c.looked)
	switch at := slices.IndexFunc(c.steps, func(r commits.Revision) bool { return r.ID == head }); {
	case at == 0:
		return c.steps, true
	case at > 0 && !c.failed:
		return c.steps, age < pastAhead
	}
	return c.steps, (c.failed || c.seen == head && len(c.steps) > 0) && age < pastEvery
}

// Judged takes in what a plan says of the newest commit: one that is refused, or one that is served after all. The error says that a
// hub that starts anew will not know; the next call tries again.
func (c *History) Judged(head, served string, refused []v1.Problem) error {
	text := c.change(head, served, refused)
	if text == nil || c.Kept == "" {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(c.Kept))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := replace.File(root, filepath.Base(c.Kept), text, 0o600); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsaved = false // plans come one after the other
	return nil
}

// change is what is to be kept of refusals after a plan; nil where that is kept already.
func (c *History) change(head, served string, refused []v1.Problem) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := slices.Clone(c.refused)
	c.refused = slices.DeleteFunc(c.refused, func(r refusal) bool { return r.Commit == head || r.Commit == served })
	if head != served && len(refused) > 0 {
		c.refused = append(c.refused, refusal{head, refused[0]})
		c.refused = c.refused[max(len(c.refused)-pastCommits, 0):]
	}
	same := func(a, b refusal) bool { return a.Commit == b.Commit && a.Reason.Equal(b.Reason) }
	if c.unsaved = c.unsaved || !slices.EqualFunc(before, c.refused, same); !c.unsaved {
		return nil
	}
	text, err := json.Marshal(c.refused)
	if err != nil {
		return nil
	}
	return text
}

// refusals are the reasons of commits that were refused.
func (c *History) refusals() map[string]*v1.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[string]*v1.Problem{}
	for _, r := range c.refused {
		by[r.Commit] = &r.Reason
	}
	return by
}

// keep takes in what was read; nil: the repository did not answer.
func (c *History) keep(steps []commits.Revision, head string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked, c.seen, c.failed = now, head, steps == nil
	if steps != nil {
		c.steps = steps
	}
}

// past are the steps of the installation repo's history, the newest first. What was known before is told when the repository does
// not answer.
func (c *History) past(ctx context.Context) ([]commits.Revision, error) {
	head := c.Plan().Desired.Head.ID
	if steps, enough := c.known(head, time.Now()); enough {
		return recalled(steps)
	}
	reading, cancel := context.WithTimeout(ctx, pastTime)
	defer cancel()
	if err := c.reading.Acquire(reading, 1); err != nil {
		return nil, errNoPast
	}
	defer c.reading.Release(1)
	known, enough := c.known(head, time.Now()) // somebody else may have read it meanwhile
	if enough {
		return recalled(known)
	}
	steps, err := c.read(reading)
	if ctx.Err() != nil { // whoever asked has gone, which says nothing of the repository
		return nil, errNoPast
	}
	if err != nil {
		c.Log.Warn("the installation repo's history cannot be read", "error", err)
		steps = nil
	}
	c.keep(steps, head, time.Now())
	if steps == nil {
		steps = known
	}
	return recalled(steps)
}

func recalled(steps []commits.Revision) ([]commits.Revision, error) {
	if steps == nil {
		return nil, errNoPast
	}
	return steps, nil
}

// errNoPast speaks of no address and no path: the log does.
var errNoPast = &api.Refused{
	Status: http.StatusServiceUnavailable, Message: "the hub could not read the installation repo's history; its log says why", Fix: "git log, in a clone",
}

// read reads it where it lies.
func (c *History) read(ctx context.Context) (steps []commits.Revision, err error) {
	dir := c.Dir
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil { // a hub that was killed has left its own behind
		return nil, fmt.Errorf("make room for a clone: %w", err)
	}
	address, credentials := c.Sources.Address()
	remote := &workspace.Remote{URL: address, Branch: c.Branch, Credentials: credentials, Dir: dir}
	err = remote.Look(ctx, pastCommits, func(tip *workspace.Tip) error {
		steps, err = stepsBefore(ctx, commits.Of(tip.Objects()), tip.ID, pastNames)
		return err
	})
	return steps, err
}

// stepsBefore are the steps up to a commit, as far back as there are objects, until they have so many names of files together.
func stepsBefore(ctx context.Context, log *commits.Log, tip string, names int) ([]commits.Revision, error) {
	steps := []commits.Revision{}
	for tip != "" && names > 0 && len(steps) < pastCommits {
		page, err := log.Read(ctx, commits.Query{From: tip, Limit: 1, Files: pastFiles})
		if err != nil {
			return nil, err
		}
		steps, tip = append(steps, page.Items...), page.Next
		for i := range page.Items {
			names -= len(page.Items[i].Files)
		}
	}
	return steps, nil
}

// step is one commit of a history, as somebody asks for it.
type step struct {
	v1.Revision
	// number counts from the newest.
	number int64
	// all are its files, of which the answer has the first.
	all []string
}

// List are the commits that made a service what it is or, where none is named, the fleet.
func (c *History) List(ctx context.Context, service string, q paging.Query) (*v1.List[v1.Revision], error) {
	plan := c.Plan()
	scope := commits.Fleet(&plan.Desired.Fleet, nil)
	if service != "" {
		scope = scopeOf(plan, service)
	}
	picks, err := filter.Parse(q.Filter, stepSchema())
	if err != nil {
		return nil, err
	}
	p, err := stepTable().Start(q)
	if err != nil {
		return nil, err
	}
	past, err := c.past(ctx)
	if err != nil {
		return nil, err
	}
	steps := stepsOf(plan, past, scope, c.refusals())
	made := func(s step) bool { return len(s.all) > 0 } // others may be of any service, also of one that never was
	if _, known := plan.Desired.Fleet.Service(service); service != "" && !known && !slices.ContainsFunc(steps, made) {
		return nil, &api.Refused{Status: http.StatusNotFound, Message: "no service " + strconv.Quote(service), Fix: "plural service list"}
	}
	out := &v1.List[v1.Revision]{}
	for _, s := range steps {
		if picks.Match(s) {
			out.Total++
			p.Add(s)
		}
	}
	kept, next := p.Items(func(s step) int { return sizeOf(s.Revision) })
	out.Items, out.Next = make([]v1.Revision, len(kept)), next
	for i := range kept {
		out.Items[i] = kept[i].Revision
	}
	return out, nil
}

// sizeOf is the length of an item's JSON.
func sizeOf(r v1.Revision) int {
	text, err := json.Marshal(r)
	if err != nil {
		return paging.MaxBytes
	}
	return len(text)
}

// Revision is one commit of the history, by its id or the beginning of it.
func (c *History) Revision(ctx context.Context, id string) (*v1.Revision, error) {
	past, err := c.past(ctx)
	if err != nil {
		return nil, err
	}
	const least = 7
	for _, s := range stepsOf(c.Plan(), past, commits.Scope{}, c.refusals()) {
		if len(id) >= least && strings.HasPrefix(s.ID, id) {
			return &s.Revision, nil
		}
	}
	return nil, &api.Refused{
		Status: http.StatusNotFound, Message: fmt.Sprintf("no commit %.40q among the newest %d", id, pastCommits), Fix: "git log, in a clone",
	}
}

// scopeOf is what a service is made of, as it is served.
func scopeOf(p *planner.Plan, name string) commits.Scope {
	f := &p.Desired.Fleet
	s, ok := f.Service(name)
	if !ok {
		return commits.Service(nil, name, nil)
	}
	paths := commits.Reads(f, s, nil)
	for i := range f.Clusters {
		if !s.Spec.Clusters.Matches(&f.Clusters[i]) {
			continue
		}
		list := p.Desired.Deployments[f.Clusters[i].Metadata.Name]
		at := slices.IndexFunc(list, func(d *resolve.Deployment) bool { return d.Service == name })
		if at >= 0 && list[at].OwnRepository {
			paths = append(append(paths, list[at].Inputs...), list[at].Links...)
		}
		break
	}
	return commits.Paths(paths...)
}

// stepsOf are those of a history that changed something in the scope, with what became of them. refusals are known by commit.
func stepsOf(p *planner.Plan, past []commits.Revision, scope commits.Scope, refusals map[string]*v1.Problem) []step {
	served := slices.IndexFunc(past, func(r commits.Revision) bool { return r.ID == p.Desired.Served.ID })
	undone := commits.Undone(past)
	var list []step
	current := false
	for i := range past {
		r := &past[i]
		files := within(r.Files, scope)
		incomplete, unnamed := r.Incomplete, r.LeftOut
		if scope != (commits.Scope{}) { // what is not known by name may be in the scope
			incomplete, unnamed = r.Incomplete || r.LeftOut > 0, 0
		}
		if len(files) == 0 && unnamed == 0 && !incomplete {
			continue
		}
		at := r.Time
		s := step{number: int64(i), all: files, Revision: v1.Revision{
			Commit: v1.Commit{ID: r.ID, Subject: r.Subject, Author: r.Author, Time: &at}, Email: r.Email,
			Files: files[:min(len(files), shownFiles)], LeftOut: max(len(files)-shownFiles, 0) + unnamed, Incomplete: incomplete,
			Merge: r.Merge, Reverts: r.Reverts, RevertedBy: undone[r.ID], Refusal: refusals[r.ID],
		}}
		switch {
		case served < 0:
		case i >= served && !current:
			s.Result, current = v1.ResultCurrent, true
		case i > served:
			s.Result = v1.ResultSuperseded
		case len(p.Desired.Refused) > 0:
			s.Result = v1.ResultRefused
		default:
			s.Result = v1.ResultWaiting
		}
		list = append(list, s)
	}
	return list
}

func within(files []string, scope commits.Scope) []string {
	var list []string
	for _, file := range files {
		if scope.Holds(file) {
			list = append(list, file)
		}
	}
	return list
}

func stepTable() paging.Table[step] {
	return paging.Table[step]{
		Columns: map[string]paging.Column[step]{"newest": {Number: func(s step) int64 { return s.number }}}, ID: []string{"newest"},
	}
}

func stepSchema() filter.Schema[step] {
	subject := func(s step) string { return s.Subject }
	return filter.Schema[step]{
		Fields: map[string]filter.Field[step]{
			"commit": {Get: func(s step) string { return s.ID }}, "author": {Get: func(s step) string { return s.Author }}, "subject": {Get: subject},
			"file":   {Get: func(s step) string { return strings.Join(s.all, "\n") }},
			"result": {Get: func(s step) string { return string(s.Outcome()) }, Words: v1.Result("").Words()},
		},
		Names: []func(step) string{subject},
	}
}
