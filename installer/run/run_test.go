package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func nothing(context.Context, *Progress) error { return nil }

// states is what became of the tasks, by their names.
func states(r *Report) map[string]State {
	m := map[string]State{}
	for _, t := range r.Tasks {
		m[t.ID] = t.State
	}
	return m
}

// Both sides of the diamond wait for each other: it ends only when they run at the same time.
func TestTheSidesOfADiamondRunAtOnce(t *testing.T) {
	left, right := make(chan struct{}), make(chan struct{})
	meet := func(mine, other chan struct{}) func(context.Context, *Progress) error {
		return func(ctx context.Context, _ *Progress) error {
			close(mine)
			select {
			case <-other:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	report, err := Run(t.Context(), []Task{
		{ID: "bottom", Needs: []string{"left", "right", "left"}, Do: nothing},
		{ID: "left", Needs: []string{"top"}, Do: meet(left, right)},
		{ID: "right", Needs: []string{"top"}, Do: meet(right, left)},
		{ID: "top", Do: nothing},
	}, Options{Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]State{"top": Done, "left": Done, "right": Done, "bottom": Done}, states(report)); diff != "" {
		t.Error(diff)
	}
	for _, o := range report.Tasks {
		if o.Begin.IsZero() || o.End.Before(o.Begin) {
			t.Errorf("%s has the times %v and %v", o.ID, o.Begin, o.End)
		}
	}
}

func TestWhatHasTheLongestWayBehindItGoesFirst(t *testing.T) {
	var order []string
	note := func(id string) Task {
		return Task{ID: id, Do: func(context.Context, *Progress) error { order = append(order, id); return nil }}
	}
	short, long, then, last := note("short"), note("long"), note("then"), note("last")
	then.Needs, last.Needs = []string{"long"}, []string{"then"}
	if _, err := Run(t.Context(), []Task{short, last, then, long}, Options{Parallel: 1}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"long", "then", "short", "last"}, order); diff != "" {
		t.Error(diff)
	}
}

func TestAFailureKeepsOnlyThoseFromStartingThatNeedIt(t *testing.T) {
	broken := errors.New("no such chart")
	report, err := Run(t.Context(), []Task{
		{ID: "a", Do: func(context.Context, *Progress) error { return broken }},
		{ID: "b", Needs: []string{"a", "c"}, Do: nothing},
		{ID: "c", Do: nothing},
		{ID: "d", Needs: []string{"b"}, Do: nothing},
		{ID: "e", Needs: []string{"c"}, Do: nothing},
	}, Options{})
	var incomplete *IncompleteError
	if !errors.As(err, &incomplete) || !errors.Is(err, broken) || incomplete.Report != report {
		t.Fatalf("the error is %v", err)
	}
	if want := "a: no such chart; 2 of 5 were not reached because of that"; err.Error() != want {
		t.Errorf("it says %q", err)
	}
	want := map[string]State{"a": Failed, "b": NotReached, "c": Done, "d": NotReached, "e": Done}
	if diff := cmp.Diff(want, states(report)); diff != "" {
		t.Error(diff)
	}
	if report.Stopped || !slices.Equal(report.Tasks[1].Waited, []string{"a"}) || !slices.Equal(report.Tasks[3].Waited, []string{"b"}) {
		t.Errorf("the report is %+v", report)
	}
}

func TestBeingAskedToStopFinishesWhatRunsAndStartsNothing(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	report, err := Run(t.Context(), []Task{
		{ID: "a", Do: func(ctx context.Context, _ *Progress) error {
			close(stop)
			close(stopped)
			return ctx.Err()
		}},
		{ID: "b", Needs: []string{"a"}, Do: nothing},
		{ID: "c", Do: func(context.Context, *Progress) error { <-stopped; return nil }},
		{ID: "d", Needs: []string{"c"}, Do: nothing},
	}, Options{Stop: stop})
	var incomplete *IncompleteError
	if !errors.As(err, &incomplete) || err.Error() != "2 of 4 were not reached before the run was stopped" {
		t.Fatalf("the error is %v", err)
	}
	want := map[string]State{"a": Done, "b": NotReached, "c": Done, "d": NotReached}
	if diff := cmp.Diff(want, states(report)); diff != "" || !report.Stopped {
		t.Errorf("stopped: %v\n%s", report.Stopped, diff)
	}
}

func TestTheEndOfTheContextReachesTasksAndIsWaitedFor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := false
	report, err := Run(ctx, []Task{
		{ID: "a", Do: func(ctx context.Context, _ *Progress) error {
			cancel()
			<-ctx.Done()
			ended = true
			return context.Cause(ctx)
		}},
		{ID: "b", Needs: []string{"a"}, Do: nothing},
	}, Options{})
	if !ended || !errors.Is(err, context.Canceled) || report.Tasks[0].State != Failed || report.Tasks[1].State != NotReached {
		t.Errorf("%+v, %v", report, err)
	}
	report, err = Run(ctx, []Task{{ID: "a", Do: func(context.Context, *Progress) error { t.Error("it started"); return nil }}},
		Options{})
	if err == nil || !report.Stopped {
		t.Errorf("a run whose context has ended: %+v, %v", report, err)
	}
}

func TestTasksThatMakeNoOrderAreRefusedBeforeAnythingStarts(t *testing.T) {
	do := func(context.Context, *Progress) error { t.Error("it started"); return nil }
	for want, tasks := range map[string][]Task{
		"tasks need each other: b -> c -> b": {
			{ID: "z", Do: do},
			{ID: "a", Needs: []string{"b"}, Do: do},
			{ID: "b", Needs: []string{"c", "z"}, Do: do},
			{ID: "c", Needs: []string{"b"}, Do: do},
		},
		"tasks need each other: a -> a":        {{ID: "a", Needs: []string{"a"}, Do: do}},
		`task "a" needs "x", which is no task`: {{ID: "a", Needs: []string{"x"}, Do: do}},
		`there are two tasks "a"`:              {{ID: "a", Do: do}, {ID: "a", Do: do}},
	} {
		report, err := Run(t.Context(), tasks, Options{})
		var graph *GraphError
		if report != nil || !errors.As(err, &graph) || err.Error() != want {
			t.Errorf("%+v, %v", report, err)
		}
	}
}

// heard is a reporter that keeps what it hears.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) add(words ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, strings.Join(words, " "))
}

func (h *heard) Start(step string)           { h.add("start", step) }
func (h *heard) Detail(step, text string)    { h.add("detail", step, text) }
func (h *heard) Done(step, text string)      { h.add("done", step, text) }
func (h *heard) Fail(step string, err error) { h.add("fail", step, err.Error()) }

func TestTheReporterHearsOfEachTask(t *testing.T) {
	h := &heard{}
	_, err := Run(t.Context(), []Task{
		{ID: "a", Do: func(_ context.Context, p *Progress) error {
			p.Detail("half")
			p.Result("3 objects")
			return nil
		}},
		{ID: "b", Needs: []string{"a"}, Do: func(context.Context, *Progress) error { return errors.New("broken") }},
		{ID: "c", Needs: []string{"b"}, Do: nothing},
	}, Options{Reporter: h})
	if err == nil {
		t.Error("no error")
	}
	if diff := cmp.Diff([]string{"start a", "detail a half", "done a 3 objects", "start b", "fail b broken"}, h.lines); diff != "" {
		t.Error(diff)
	}
}

func TestAnyGraphIsCarriedOutInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "tasks")
		slots := rapid.IntRange(1, 5).Draw(t, "slots")
		stopAt := rapid.IntRange(-1, n).Draw(t, "stop")
		stop := make(chan struct{})
		var mu sync.Mutex
		var running atomic.Int64
		started := 0
		done, failed := map[string]bool{}, map[string]bool{}
		var complaints []string
		tasks := make([]Task, n)
		for i := range tasks {
			task := &tasks[i]
			task.ID = fmt.Sprint(i)
			fails := rapid.IntRange(0, 9).Draw(t, "fails") == 0
			for j := range i {
				if rapid.IntRange(0, 4).Draw(t, "needs") == 0 {
					task.Needs = append(task.Needs, fmt.Sprint(j))
				}
			}
			task.Do = func(context.Context, *Progress) error {
				many := running.Add(1) > int64(slots)
				defer running.Add(-1)
				mu.Lock()
				defer mu.Unlock()
				if many {
					complaints = append(complaints, "too many at once")
				}
				if started == stopAt {
					close(stop)
				}
				started++
				for _, need := range task.Needs {
					if !done[need] {
						complaints = append(complaints, task.ID+" started before "+need)
					}
				}
				if fails {
					failed[task.ID] = true
					return errors.New("fails")
				}
				done[task.ID] = true
				return nil
			}
		}
		shuffled := rapid.Permutation(tasks).Draw(t, "order")
		report, err := Run(context.Background(), shuffled, Options{Parallel: slots, Stop: stop})
		for _, c := range complaints {
			t.Error(c)
		}
		if len(report.Tasks) != n {
			t.Fatalf("the report names %d of %d tasks", len(report.Tasks), n)
		}
		for i, o := range report.Tasks {
			task := shuffled[i]
			blocked := slices.ContainsFunc(task.Needs, func(need string) bool { return !done[need] })
			switch {
			case o.ID != task.ID:
				t.Fatalf("task %s is told in the place of %s", o.ID, task.ID)
			case o.State == Done && !done[o.ID], o.State == Failed && !failed[o.ID], o.State == NotReached && (done[o.ID] || failed[o.ID]):
				t.Fatalf("task %s is told to be %s", o.ID, o.State)
			case o.State == NotReached && !blocked && stopAt < 0:
				t.Fatalf("task %s could have run", o.ID)
			case o.State == NotReached && blocked != (len(o.Waited) > 0):
				t.Fatalf("task %s waited for %v", o.ID, o.Waited)
			}
		}
		if (err == nil) != (len(done) == n) {
			t.Fatalf("%d of %d are done, and the error is %v", len(done), n, err)
		}
	})
}
