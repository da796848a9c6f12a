// Package run owns the carrying out of tasks that need each other.
package run

import (
	"context"
	"errors"
	"time"
)

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

// Progress is how a task tells what it is at.
type Progress struct{}

// Detail tells what the task is at now.
func (p *Progress) Detail(text string) {}

// Result is told when the task is done.
func (p *Progress) Result(text string) {}

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
	Began, End time.Time
}

// Report is what became of all tasks, in the order in which they were given.
type Report struct {
	Tasks []Outcome
	// Stopped says that the run was asked to stop, or its context ended.
	Stopped bool
}

// IncompleteError says that not all tasks were done.
type IncompleteError struct{ Report *Report }

func (e *IncompleteError) Error() string { return "not all tasks were done" }

// Run carries out tasks, each after what it needs and as many at once as may be, and returns when nothing runs any more. A
// failure keeps only those from starting that need the failed task. The error is an *IncompleteError when a task was not done.
func Run(context.Context, []Task, Options) (*Report, error) {
	return nil, errors.New("not written yet")
}
