package planner

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/test/support/walktest"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealcheck"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// bomb pushes a folder of twelve levels beside what is there, each with the next one ten times: a file under 10^12 paths.
func bomb(t *testing.T, o *fleetrepo.Origin, file string) string {
	t.Helper()
	tree := walktest.Tree(t, o.Work, file)
	root := walktest.Feed(t, o.Work, o.Git(o.Work, "ls-tree", "HEAD")+"\n040000 tree "+tree+"\tbomb\n", "mktree")
	id := o.Git(o.Work, "commit-tree", root, "-p", "HEAD", "-m", "a folder many times")
	o.Git(o.Work, "push", "-q", "-f", "origin", id+":main")
	return id
}

func TestPushOfAFileUnderMorePathsThanAnybodyCanWalkIsRefusedAndHealsWhenTakenBack(t *testing.T) {
	s, o := fleetrepo.NewSafe(t), fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	good := o.Push(s.Fleet(nil))
	p.serves(good)
	problems := p.refuses(bomb(t, o, "x.secret.yaml"))
	if first := problems[0]; !strings.HasPrefix(first.File, "bomb/") || !strings.Contains(first.Message, "files and folders") || first.Fix == "" {
		t.Errorf("problems are %+v", problems)
	}
	if served := p.Plan().Desired.Served.ID; served != good {
		t.Errorf("%s is served", served)
	}
	o.Git(o.Work, "push", "-q", "-f", "origin", good+":main") // taken back, and the planner goes on without a restart
	p.serves(good)
	p.serves(o.Push(map[string]string{"README.md": "more"}))
	p.serves(bomb(t, o, "README.md")) // no pattern of the policy matches it, wherever it lies
}

func TestCommitThatIsNotJudgedInTimeIsRefusedWithTheReason(t *testing.T) {
	s, o := fleetrepo.NewSafe(t), fleetrepo.New(t)
	o.Push(s.Fleet(nil))
	snap, err := snapshot.Open(o.Work, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	p := plans(t, fleetrepo.New(t), t.TempDir())
	j := validator{repos: p.Mirrors, sources: p.Sources, resolver: resolve.New(), sealed: sealcheck.New(), timeout: time.Nanosecond}
	next, problems := j.examine(t.Context(), snap, nil)
	if next != nil || len(problems) != 2 {
		t.Fatalf("candidate %v, problems %+v", next, problems)
	}
	for _, p := range problems {
		if !strings.Contains(p.Message, "not judged after 1ns") || p.Fix == "" {
			t.Errorf("problem is %+v", p)
		}
	}
	j.timeout = planTimeout
	if next, problems := j.examine(t.Context(), snap, nil); next == nil || len(problems) > 0 {
		t.Errorf("in good time: candidate %v, problems %+v", next, problems)
	}
}

func TestPlanEndsWithItsContext(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(fleetrepo.TwoServices(nil)))
	p.stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.draft(ctx, p.good, &p.taken.Edition); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("error is %v", err)
	}
	if _, err := p.draft(t.Context(), p.good, &p.taken.Edition); err != nil {
		t.Errorf("the next attempt is spoilt: %v", err)
	}
}

func TestPaceSaysHowLongThePlannerHasBeenAtIt(t *testing.T) {
	var p Pace
	start := time.Now()
	for _, step := range []struct {
		do   func()
		at   time.Duration
		want string
	}{
		{func() {}, 0, "has not begun"},
		{func() { p.Begin(start) }, 3 * time.Second, "has been at it for 3s"},
		{func() {}, stuckAfter + time.Second, "is stuck: it has been at one turn for 9m1s"},
		{func() { p.End(start.Add(time.Hour)) }, time.Hour + 5*time.Second, "last ended a turn 5s ago"},
		{func() { p.Begin(start.Add(2 * time.Hour)) }, 2*time.Hour + time.Second, "has been at it for 1s"},
	} {
		step.do()
		if got := p.Say(start.Add(step.at)); !strings.Contains(got, "planner "+step.want) {
			t.Errorf("says %q, want %q", got, step.want)
		}
	}
}
