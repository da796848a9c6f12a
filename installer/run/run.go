// Package run owns the run of tasks in the order of their dependencies.
//
// It refuses to know what a task does, how long it may take, and whether it is worth trying again.
//
// One loop holds all that changes. It starts what has all that it needs, as many at once as may be, the ones with the longest
// way behind them first; it hears of each end; and it goes on until nothing runs and nothing can be started. A failure keeps
// only those from starting that need the failed task. Being asked to stop keeps all from starting, and the end of the context
// is the tasks' own to heed.
package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// parallel is how many tasks run at once unless somebody says otherwise.
const parallel = 8

// Task is one thing to do.
type Task struct {
	ID string
	// Needs are the tasks that must have been done before.
	Needs []string
	// Do does it. It returns soon after ctx ends.
	Do func(ctx context.Context, t *Progress) error
}

// Reporter hears of tasks, which may overlap.
type Reporter interface {
	Start(step string)
	Detail(step, text string)
	Done(step, text string)
	Fail(step string, err error)
}

// silent is the reporter of those who want none.
type silent struct{}

func (silent) Start(string)          {}
func (silent) Detail(string, string) {}
func (silent) Done(string, string)   {}
func (silent) Fail(string, error)    {}

// Progress is how a task tells what it is at. It is safe for concurrent use, as far as the reporter is; Result is for the task
// itself.
type Progress struct {
	id       string
	reporter Reporter
	result   string
}

// Detail tells what the task is at now.
func (p *Progress) Detail(text string) { p.reporter.Detail(p.id, text) }

// Result is told when the task is done.
func (p *Progress) Result(text string) { p.result = text }

// Options say how tasks are carried out.
type Options struct {
	// Parallel bounds how many run at once; 0 means 8.
	Parallel int
	// Reporter hears of them; nil is nobody.
	Reporter Reporter
	// Stop, once it is closed, starts nothing more. What runs is waited for.
	Stop <-chan struct{}
}

// State is how far a task came.
type State string

// The states that a run leaves tasks in.
const (
	Done       State = "done"
	Failed     State = "failed"
	NotReached State = "not reached"
)

// Outcome is what became of one task.
type Outcome struct {
	ID    string
	State State
	// Err is why it failed.
	Err error
	// Waited are the needs that were not done, of a task that was not reached; none when the run was stopped before.
	Waited     []string
	Begin, End time.Time
}

// Report is what became of all tasks, in the order in which they were given.
type Report struct {
	Tasks []Outcome
	// Stopped says that the run was asked to stop, or its context ended, before all was done.
	Stopped bool
}

// In are the tasks that were left in a state.
func (r *Report) In(s State) []Outcome {
	var found []Outcome
	for _, t := range r.Tasks {
		if t.State == s {
			found = append(found, t)
		}
	}
	return found
}

// IncompleteError says that not all tasks were done. The errors of those that failed are found by errors.Is and errors.As.
type IncompleteError struct{ Report *Report }

// Error counts, and tells each failure.
func (e *IncompleteError) Error() string {
	failed, left := e.Report.In(Failed), e.Report.In(NotReached)
	parts := make([]string, 0, len(failed)+1)
	for _, t := range failed {
		parts = append(parts, fmt.Sprintf("%s: %v", t.ID, t.Err))
	}
	if len(left) > 0 {
		why := "because of that"
		if e.Report.Stopped {
			why = "before the run was stopped"
		}
		parts = append(parts, fmt.Sprintf("%d of %d were not reached %s", len(left), len(e.Report.Tasks), why))
	}
	return strings.Join(parts, "; ")
}

// Unwrap are the errors of the tasks that failed.
func (e *IncompleteError) Unwrap() []error {
	var errs []error
	for _, t := range e.Report.In(Failed) {
		errs = append(errs, t.Err)
	}
	return errs
}

// GraphError says that the tasks cannot be brought into an order.
type GraphError struct {
	// Cycle are tasks of which each needs the next, the first one again at the end; none when it is something else.
	Cycle []string
	text  string
}

func (e *GraphError) Error() string {
	if len(e.Cycle) > 0 {
		return "tasks need each other: " + strings.Join(e.Cycle, " -> ")
	}
	return e.text
}

// Run carries out tasks, each after what it needs and as many at once as may be, and returns when nothing runs any more. The
// error is an *IncompleteError when a task was not done, and a *GraphError, with no report and nothing done, when the tasks
// make no order.
func Run(ctx context.Context, tasks []Task, o Options) (*Report, error) {
	g, err := newGraph(tasks)
	if err != nil {
		return nil, err
	}
	l := &loop{
		graph: g, reporter: o.Reporter, slots: o.Parallel, ends: make(chan end, len(tasks)),
		report: &Report{Tasks: make([]Outcome, len(tasks))},
	}
	if l.reporter == nil {
		l.reporter = silent{}
	}
	if l.slots <= 0 {
		l.slots = parallel
	}
	for i, t := range tasks {
		l.report.Tasks[i] = Outcome{ID: t.ID, State: NotReached}
	}
	l.run(ctx, o.Stop)
	for i := range l.report.Tasks {
		if l.report.Tasks[i].State != Done {
			return l.report, &IncompleteError{l.report}
		}
	}
	return l.report, nil
}

// loop is a run under way. Only the goroutine of run touches it.
type loop struct {
	*graph
	reporter Reporter
	slots    int
	running  int
	stopped  bool
	ready    []int
	ends     chan end
	report   *Report
}

// end is that of one task.
type end struct {
	task int
	err  error
}

func (l *loop) run(ctx context.Context, stop <-chan struct{}) {
	for i := range l.tasks {
		if l.missing[i] == 0 {
			l.ready = append(l.ready, i)
		}
	}
	over := ctx.Done()
	for {
		select { // what is asked for already counts before anything starts
		case <-stop:
			l.stopped = true
		case <-over:
			l.stopped = true
		default:
		}
		for !l.stopped && l.running < l.slots && len(l.ready) > 0 {
			l.start(ctx, l.next())
		}
		if l.running == 0 {
			break
		}
		select {
		case e := <-l.ends:
			l.end(e)
		case <-stop:
			stop, l.stopped = nil, true
		case <-over:
			over, l.stopped = nil, true
		}
	}
	l.conclude()
}

// next takes the ready task with the longest way behind it, the first in the order given among equals.
func (l *loop) next() int {
	at := 0
	for i, task := range l.ready {
		if c := cmp.Compare(l.way[task], l.way[l.ready[at]]); c > 0 || c == 0 && task < l.ready[at] {
			at = i
		}
	}
	task := l.ready[at]
	l.ready = slices.Delete(l.ready, at, at+1)
	return task
}

func (l *loop) start(ctx context.Context, task int) {
	t, outcome := l.tasks[task], &l.report.Tasks[task]
	outcome.Begin = time.Now()
	l.running++
	l.reporter.Start(t.ID)
	go func() { // run waits for its end
		p := &Progress{id: t.ID, reporter: l.reporter}
		err := t.Do(ctx, p)
		if err != nil {
			l.reporter.Fail(t.ID, err)
		} else {
			l.reporter.Done(t.ID, p.result)
		}
		l.ends <- end{task, err}
	}()
}

func (l *loop) end(e end) {
	outcome := &l.report.Tasks[e.task]
	outcome.End = time.Now()
	l.running--
	if e.err != nil {
		outcome.State, outcome.Err = Failed, e.err
		return
	}
	outcome.State = Done
	for _, next := range l.needed[e.task] {
		if l.missing[next]--; l.missing[next] == 0 {
			l.ready = append(l.ready, next)
		}
	}
}

// conclude says of those that were not reached what they waited for.
func (l *loop) conclude() {
	for i := range l.report.Tasks {
		outcome := &l.report.Tasks[i]
		if outcome.State == Done {
			continue
		}
		l.report.Stopped = l.stopped
		if outcome.State == Failed {
			continue
		}
		for _, need := range l.tasks[i].Needs {
			if l.report.Tasks[l.index[need]].State != Done {
				outcome.Waited = append(outcome.Waited, need)
			}
		}
	}
}

// graph is tasks by their number.
type graph struct {
	tasks []Task
	index map[string]int
	// needed are the tasks that need this one, missing how many of its own needs are not done.
	needed  [][]int
	missing []int
	// way is how many tasks follow each other from this one on, at most.
	way []int
}

func newGraph(tasks []Task) (*graph, error) {
	n := len(tasks)
	g := &graph{
		tasks: slices.Clone(tasks), index: make(map[string]int, n),
		needed: make([][]int, n), missing: make([]int, n), way: make([]int, n),
	}
	for i, t := range tasks {
		if _, twice := g.index[t.ID]; twice {
			return nil, &GraphError{text: fmt.Sprintf("there are two tasks %q", t.ID)}
		}
		g.index[t.ID] = i
	}
	for i, t := range tasks {
		g.tasks[i].Needs = slices.Compact(slices.Sorted(slices.Values(t.Needs)))
		for _, need := range g.tasks[i].Needs {
			at, ok := g.index[need]
			if !ok {
				return nil, &GraphError{text: fmt.Sprintf("task %q needs %q, which is no task", t.ID, need)}
			}
			g.needed[at] = append(g.needed[at], i)
			g.missing[i]++
		}
	}
	return g, g.measure()
}

// measure finds each task's way, or a cycle.
func (g *graph) measure() error {
	left := slices.Clone(g.missing)
	var order []int
	for i, n := range left {
		if n == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, next := range g.needed[order[at]] {
			if left[next]--; left[next] == 0 {
				order = append(order, next)
			}
		}
	}
	if len(order) < len(g.tasks) {
		return &GraphError{Cycle: g.cycle(left)}
	}
	for _, task := range slices.Backward(order) {
		for _, next := range g.needed[task] {
			g.way[task] = max(g.way[task], g.way[next]+1)
		}
	}
	return nil
}

// cycle is one among the tasks that no order reaches: each of them needs another one of them.
func (g *graph) cycle(left []int) []string {
	at := slices.IndexFunc(left, func(n int) bool { return n > 0 })
	var path []string
	for {
		id := g.tasks[at].ID
		if start := slices.Index(path, id); start >= 0 {
			return append(path[start:], id)
		}
		path = append(path, id)
		for _, need := range g.tasks[at].Needs {
			if left[g.index[need]] > 0 {
				at = g.index[need]
				break
			}
		}
	}
}
