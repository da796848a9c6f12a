package hubsvc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/walktest"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealed"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// bomb pushes a folder of twelve levels beside what is there, each with the next one ten times: a file under 10^12 paths.
func (o *origin) bomb(file string) string {
	o.t.Helper()
	tree := walktest.Tree(o.t, o.work, file)
	root := walktest.Feed(o.t, o.work, o.git(o.work, "ls-tree", "HEAD")+"\n040000 tree "+tree+"\tbomb\n", "mktree")
	id := o.git(o.work, "commit-tree", root, "-p", "HEAD", "-m", "a folder many times")
	o.git(o.work, "push", "-q", "-f", "origin", id+":main")
	return id
}

func TestPushOfAFileUnderMorePathsThanAnybodyCanWalkIsRefusedAndHealsWhenTakenBack(t *testing.T) {
	s, o := newSafe(t), newOrigin(t)
	p := plans(t, o, t.TempDir())
	good := o.push(s.fleet(nil))
	p.serves(good)
	problems := p.refuses(o.bomb("x.secret.yaml"))
	if first := problems[0]; !strings.HasPrefix(first.File, "bomb/") || !strings.Contains(first.Message, "files and folders") || first.Fix == "" {
		t.Errorf("problems are %+v", problems)
	}
	if served := p.plan().desired.Served.ID; served != good {
		t.Errorf("%s is served", served)
	}
	o.git(o.work, "push", "-q", "-f", "origin", good+":main") // taken back, and the planner goes on without a restart
	p.serves(good)
	p.serves(o.push(map[string]string{"README.md": "more"}))
	p.serves(o.bomb("README.md")) // no pattern of the policy matches it, wherever it lies
}

func TestCommitThatIsNotJudgedInTimeIsRefusedWithTheReason(t *testing.T) {
	s, o := newSafe(t), newOrigin(t)
	o.push(s.fleet(nil))
	snap, err := snapshot.Open(o.work, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	p := plans(t, newOrigin(t), t.TempDir())
	j := validator{repos: p.repos, upstreams: p.upstreams, resolver: resolve.New(), sealed: sealed.New(), timeout: time.Nanosecond}
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
	o := newOrigin(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.push(twoServices(nil)))
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
	var p pace
	start := time.Now()
	for _, step := range []struct {
		do   func()
		at   time.Duration
		want string
	}{
		{func() {}, 0, "has not begun"},
		{func() { p.begin(start) }, 3 * time.Second, "has been at it for 3s"},
		{func() {}, stuckAfter + time.Second, "is stuck: it has been at one turn for 9m1s"},
		{func() { p.end(start.Add(time.Hour)) }, time.Hour + 5*time.Second, "last ended a turn 5s ago"},
		{func() { p.begin(start.Add(2 * time.Hour)) }, 2*time.Hour + time.Second, "has been at it for 1s"},
	} {
		step.do()
		if got := p.say(start.Add(step.at)); !strings.Contains(got, "planner "+step.want) {
			t.Errorf("says %q, want %q", got, step.want)
		}
	}
}

func TestReadyzTellsWhenThePlannerLastEnded(t *testing.T) {
	o := newOrigin(t)
	o.push(twoServices(nil))
	hub := start(t, options(t, o))
	hub.ready()
	until(t, "the planner rests", func() bool {
		code, body := hub.do(http.MethodGet, "/readyz", "", nil)
		return code == http.StatusOK && strings.Contains(string(body), "planner last ended a turn")
	})
	_, metrics := hub.do(http.MethodGet, "/metrics", hub.token, nil)
	if !strings.Contains(string(metrics), "plural_hub_planner_busy_seconds ") {
		t.Error("no figure of the planner")
	}
}

func TestReplicaWithAStuckPlannerStaysReadyAndSaysSo(t *testing.T) {
	o := newOrigin(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.push(twoServices(nil)))
	p.stop()
	p.pace.begin(time.Now().Add(-time.Hour))
	p.pace.end(time.Now().Add(-2 * time.Hour))
	answer := httptest.NewRecorder()
	(&hub{planner: p.planner, left: make(chan struct{})}).ready(answer, nil)
	if text := answer.Body.String(); answer.Code != http.StatusOK || !strings.Contains(text, "planner is stuck: it has been at one turn for 1h0m0s") {
		t.Errorf("readyz: %d, %s", answer.Code, text)
	}
	if said := answer.Header().Get(v1.PlannerHeader); said != v1.PlannerStuck {
		t.Errorf("programs are told that the planner is %q", said)
	}
}
