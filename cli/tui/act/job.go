package act

import (
	"context"
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// plan is what is to be done.
type plan struct {
	action   *Action
	targets  Targets
	commands [][]string
	// runner runs them.
	runner Runner
	// care is what is asked first.
	care Care
	// shown is what the dry runs of the first commands printed: what a person agreed to. None: nothing was shown.
	shown []string
	// notes are what a person should know before, instead is what would do the same for good, if anything.
	notes   []string
	instead *plan
}

func (p *plan) String() string { return p.action.Name + " " + p.targets.String() }

// job is a plan that is carried out.
type job struct {
	*plan
	// entries are those of the commands that have begun.
	entries []*Entry
	// stopped says that no more of it is to begin.
	stopped bool
	ctx     context.Context //nolint:containedctx // ends when the person does not want to wait for the command at work
	cancel  context.CancelFunc
}

// start carries a plan out, as soon as its turn comes.
func (d *Desk) start(p *plan) tea.Cmd {
	j := &job{plan: p}
	j.ctx, j.cancel = context.WithCancel(d.ctx)
	d.jobs = append(d.jobs, j)
	begin := d.next(j)
	if len(p.commands) > 1 {
		return tea.Batch(begin, pane.Ask(pane.Push{Pane: &progress{desk: d, job: j}}))
	}
	return begin
}

// commits says whether the job writes commits.
func (j *job) commits() bool { return j.action.Verb == verbEdit }

// progress says in a few words how far it is.
func (j *job) progress() string {
	switch {
	case j.stopped:
		return j.String() + ": stops"
	case len(j.entries) == 0:
		return j.String() + ": waits"
	case len(j.commands) == 1:
		return j.String()
	}
	return fmt.Sprintf("%s: %d of %d", j, len(j.entries), len(j.commands))
}

// ended says that a job's newest command has ended.
type ended struct {
	*job
	result Result
	commit string
}

// changed is the error of a command that is not run because its dry run shows something else than what was agreed to.
const changed = "error: it would do something else by now than what was shown\n  fix:   look at it again\n"

// next begins the next command of a job, if it is its turn.
func (d *Desk) next(j *job) tea.Cmd {
	if j.commits() && slices.IndexFunc(d.jobs, (*job).commits) != slices.Index(d.jobs, j) {
		return nil // it begins when the one before it has ended
	}
	at := len(j.entries)
	args := j.commands[at]
	e := &Entry{Began: d.world.Now(), Action: j.action.Name, Line: j.runner.Line(args)}
	j.entries = append(j.entries, e)
	d.log.add(e)
	return later(d, func() ended {
		before := d.head(j)
		if at < len(j.shown) && j.runner.Run(j.ctx, dry(args)).Out != j.shown[at] && j.ctx.Err() == nil {
			return ended{job: j, result: Result{Code: -1, Err: changed}}
		}
		out := ended{job: j, result: j.runner.Run(j.ctx, args)}
		if after := d.head(j); after != before {
			out.commit = after
		}
		return out
	})
}

// dry is a command that only shows what it would do.
func dry(args []string) []string { return append(slices.Clone(args), "--dry-run") }

// head is the commit of the person's clone, where a job may change it.
func (d *Desk) head(j *job) string {
	if !j.commits() || d.world.Repo == nil {
		return ""
	}
	commit, err := d.world.Repo.Head()
	if err != nil {
		return "" // the command says what is wrong with it
	}
	return commit
}

// ended writes down how a command ended, and goes on.
func (d *Desk) ended(m ended) tea.Cmd {
	e := m.entries[len(m.entries)-1]
	e.end(m.result, d.world.Now().Sub(e.Began), m.commit, m.ctx.Err() != nil)
	if len(m.entries) < len(m.commands) && !m.stopped {
		return d.next(m.job)
	}
	var hint tea.Cmd
	if slices.ContainsFunc(m.entries, func(e *Entry) bool { return e.Commit != "" }) {
		hint = d.hint()
	}
	return tea.Batch(d.finish(m.job), hint, told(m.bad() > 0, "%s", m.summary()), pane.Ask(pane.Ended{Text: m.summary()}))
}

// hinted says that the hub was told of a commit, or could not be.
type hinted struct {
	*Entry
	result Result
}

// hint tells the hub that there is a commit, as the commands do when they wait for it: else it looks by itself, later.
func (d *Desk) hint() tea.Cmd {
	if d.world.Hub == nil {
		return nil
	}
	args := []string{"source", "sync", ".", "--no-wait"}
	e := &Entry{Began: d.world.Now(), Action: "tell the hub", Line: d.runner.Line(args)}
	d.log.add(e)
	return later(d, func() hinted { return hinted{e, d.runner.Run(d.ctx, args)} })
}

// finish takes a job away, and begins the one that waited for it.
func (d *Desk) finish(j *job) tea.Cmd {
	j.cancel()
	d.jobs = slices.DeleteFunc(d.jobs, func(other *job) bool { return other == j })
	for _, waiting := range d.jobs {
		if waiting.commits() && len(waiting.entries) == 0 {
			return d.next(waiting)
		}
	}
	return nil
}

// stop has nothing of a job begin any more or, where that was said, what is at work end. It says false when that was said too.
func (d *Desk) stop(j *job) bool {
	switch {
	case len(j.entries) == 0:
		j.stopped = true
		j.cancel()
		d.jobs = slices.DeleteFunc(d.jobs, func(other *job) bool { return other == j })
	case !j.stopped && len(j.entries) < len(j.commands):
		j.stopped = true
	case j.ctx.Err() == nil:
		j.stopped = true
		j.cancel()
	default:
		return false
	}
	return true
}

// remains says what goes on although a person does not wait for it any more.
func (j *job) remains() string {
	switch {
	case len(j.entries) == 0:
		return j.String() + ": not begun, and nothing was changed"
	case j.ctx.Err() == nil:
		return j.String() + ": stops after this command; again ends that too"
	case j.commits():
		return j.String() + ": stopped; a commit that it has pushed stays, and agents go on with it: h shows it, z takes it back"
	case j.action.Asks:
		return j.String() + ": stopped; what the cluster or the hub was asked for already goes on there"
	}
	return j.String() + ": stopped"
}

// over says that nothing of it is at work, or will be.
func (j *job) over() bool {
	last := len(j.entries) - 1
	if last < 0 {
		return j.stopped
	}
	return j.entries[last].Ending != Running && (j.stopped || last == len(j.commands)-1)
}

// bad counts the commands that did not do what they should.
func (j *job) bad() int {
	n := 0
	for _, e := range j.entries {
		if e.Ending == Failed || e.Ending == Stopped {
			n++
		}
	}
	return n
}

// summary is what to tell of a job that is over.
func (j *job) summary() string {
	if len(j.commands) == 1 && len(j.entries) == 1 {
		return j.String() + ": " + j.entries[0].Told
	}
	bad, left := j.bad(), len(j.commands)-len(j.entries)
	text := fmt.Sprintf("%s: %d of %d done", j, len(j.entries)-bad, len(j.commands))
	if bad > 0 {
		text += fmt.Sprintf(", %d failed", bad)
	}
	if left > 0 {
		text += fmt.Sprintf(", %d not begun", left)
	}
	if bad > 0 {
		text += "; @ shows what they said"
	}
	return text
}
