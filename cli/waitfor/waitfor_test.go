package waitfor_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
)

const (
	ours  = "1111111111111111111111111111111111111111"
	newer = "2222222222222222222222222222222222222222"
)

// hub answers each question with the answers that are set for it, one after the other; the last stays, and nil is none.
type hub map[string][]any

func answer[T any](h hub, question string) (*T, error) {
	list := h[question]
	if len(list) > 1 {
		h[question] = list[1:]
	}
	if len(list) == 0 || list[0] == nil {
		return nil, &client.Error{Status: http.StatusNotFound, Message: "no such thing"}
	}
	if err, ok := list[0].(error); ok {
		return nil, err
	}
	found := list[0].(T)
	return &found, nil
}

func (h hub) Status(context.Context) (*v1.Status, error) { return answer[v1.Status](h, "status") }

func (h hub) Service(_ context.Context, name string) (*v1.Service, error) {
	return answer[v1.Service](h, "services/"+name)
}

func (h hub) Cluster(_ context.Context, name string) (*v1.ClusterDetail, error) {
	return answer[v1.ClusterDetail](h, "clusters/"+name)
}

func (h hub) Revision(_ context.Context, commit string) (*v1.Revision, error) {
	return answer[v1.Revision](h, "history/"+commit)
}

func (hub) Sync(context.Context, string) error { return nil }

func status(served, head string, refused ...v1.Problem) v1.Status {
	return v1.Status{Commit: v1.Commit{ID: served}, Head: v1.Commit{ID: head}, Refused: refused}
}

func web(rows ...v1.Deployment) v1.Service {
	s := v1.Service{Name: "web", Deployments: rows}
	for i := range rows {
		rows[i].Service, rows[i].Key = "web", "new"
	}
	return s
}

func on(cluster string, phase v1.Phase) v1.Deployment {
	return v1.Deployment{Cluster: cluster, Phase: phase, AppliedKey: "new"}
}

// wait waits at a hub that answers so, on a clock that nobody waits for.
func wait(t *testing.T, answers hub, about waitfor.About) (told string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := &cmdutil.Factory{IO: &ui.Streams{Out: &bytes.Buffer{}, ErrOut: &out}, Now: time.Now, Getenv: func(string) string { return "" }}
		err = waitfor.Commit(t.Context(), f, answers, ours, about)
		told = out.String()
	})
	return told, err
}

func TestACommitIsObservedWhenTheHubServesItAndAllIsWell(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers hub
		about   waitfor.About
		says    []string
	}{
		{
			"only served",
			hub{"status": {status("old", "old"), status("old", ours), status(ours, ours)}},
			waitfor.About{},
			[]string{"the hub serves 1111111"},
		},
		{
			"somebody pushed on top of it",
			hub{
				"status":          {status("old", "old"), status("old", newer), status(newer, newer)},
				"history/" + ours: {v1.Revision{Result: v1.ResultWaiting}, v1.Revision{Result: v1.ResultSuperseded}},
			},
			waitfor.About{},
			[]string{"the hub serves 1111111"},
		},
		{
			"somebody pushed on top of it before the first look",
			hub{"status": {status(newer, newer)}, "history/" + ours: {v1.Revision{Result: v1.ResultSuperseded}}},
			waitfor.About{},
			[]string{"the hub serves 1111111"},
		},
		{
			"a service that gets well",
			hub{"status": {status(ours, ours)}, "services/web": {
				web(on("a", v1.Progressing), on("b", v1.Pending)), web(on("a", v1.Healthy), on("b", v1.Failed)), web(on("a", v1.Healthy), on("b", v1.Healthy)),
			}},
			waitfor.About{Services: []string{"web"}},
			[]string{"web 0/2 of 2 deployments well; under way: a, b", "web 1/2 of 2 deployments well; under way: b", "web 2/2 of 2 deployments well"},
		},
		{
			"a hub that is away for a while",
			hub{"status": {status("old", "old"), &client.Unreachable{Hub: "x", Err: errors.New("refused")}, status(ours, ours)}},
			waitfor.About{},
			[]string{"the hub cannot be reached; waiting for it", "the hub serves 1111111"},
		},
		{
			"a silent cluster",
			hub{"status": {status(ours, ours)}, "services/web": {web(on("a", v1.Healthy), on("b", v1.Stale))}},
			waitfor.About{Services: []string{"web"}},
			[]string{"web 1/2 of 2 deployments well, 1 silent"},
		},
		{
			"a service that goes",
			hub{"status": {status(ours, ours)}, "services/web": {web(on("a", v1.Removing)), nil}},
			waitfor.About{Services: []string{"web"}, Gone: true},
			[]string{"web is still on 1 cluster", "web is gone"},
		},
		{
			"a cluster without an agent",
			hub{"status": {status(ours, ours)}, "clusters/edge-1": {v1.ClusterDetail{Cluster: v1.Cluster{Phase: v1.Unregistered}}}},
			waitfor.About{Clusters: []string{"edge-1"}},
			[]string{"cluster edge-1 is in the fleet, and has no agent yet"},
		},
		{
			"a cluster that goes",
			hub{"status": {status(ours, ours)}, "clusters/edge-1": {v1.ClusterDetail{}, nil}},
			waitfor.About{Clusters: []string{"edge-1"}, Gone: true},
			[]string{"cluster edge-1 is still in the fleet", "cluster edge-1 is gone"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told, err := wait(t, tt.answers, tt.about)
			if err != nil {
				t.Fatalf("%v\n%s", err, told)
			}
			rest := told
			for _, want := range tt.says {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("no %q in:\n%s", want, told)
				}
				rest = after
			}
		})
	}
}

func TestAWaitThatIsInVainSaysWhy(t *testing.T) {
	held := on("a", v1.Held)
	held.Held = &v1.Waiting{Token: "t", Count: 12}
	failed := on("b", v1.Failed)
	failed.Message = "no such image"
	for _, tt := range []struct {
		name    string
		answers hub
		about   waitfor.About
		code    ui.Code
		says    string
		problem string
	}{
		{"never served", hub{"status": {status("old", "old")}}, waitfor.About{}, ui.ExitPending, "does not serve it after 2m", ""},
		{
			"refused",
			hub{"status": {status("old", "old"), status("old", ours, v1.Problem{File: "a.yaml", Message: "unknown field"})}},
			waitfor.About{},
			ui.ExitFailed, "the commit 1111111 has an error", "unknown field",
		},
		{
			"refused with what was pushed on top of it",
			hub{
				"status":          {status("old", "old"), status("old", newer, v1.Problem{Message: "unknown field"})},
				"history/" + ours: {v1.Revision{Result: v1.ResultRefused}},
			},
			waitfor.About{},
			ui.ExitFailed, "the commit 2222222 has an error", "unknown field",
		},
		{
			"failed",
			hub{"status": {status(ours, ours)}, "services/web": {web(on("a", v1.Healthy), failed)}},
			waitfor.About{Services: []string{"web"}},
			ui.ExitFailed, "not everything is well with it", "failed: no such image",
		},
		{
			"held",
			hub{"status": {status(ours, ours)}, "services/web": {web(held)}},
			waitfor.About{Services: []string{"web"}},
			ui.ExitPending, "waits for a person", "12 deletions wait for a person: plural service ack web",
		},
		{
			"still under way",
			hub{"status": {status(ours, ours)}, "services/web": {web(on("a", v1.Progressing))}},
			waitfor.About{Services: []string{"web"}},
			ui.ExitPending, "still under way after 2m", "under way: a",
		},
		{
			"not there", hub{"status": {status(ours, ours)}}, waitfor.About{Services: []string{"web"}}, ui.ExitFailed, "there is no web in it", "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := wait(t, tt.answers, tt.about)
			var told *ui.Err
			if !errors.As(err, &told) || ui.CodeOf(err) != tt.code || !strings.Contains(told.Msg, tt.says) {
				t.Fatalf("%d: %v", ui.CodeOf(err), err)
			}
			if tt.problem != "" && (len(told.Problems) == 0 || !strings.Contains(told.Problems[0].Message, tt.problem)) {
				t.Errorf("%+v", told.Problems)
			}
		})
	}
}

func TestARefusedCommitNamesTheOneToTakeBack(t *testing.T) {
	before := &v1.Commit{ID: "5555555555555555555555555555555555555555", Subject: "Break web"}
	for _, tt := range []struct {
		since      *v1.Commit
		cause, fix string
	}{
		{before, `it came with 5555555 "Break web"`, "plural undo 5555555;"},
		{&v1.Commit{ID: ours}, "", "plural undo 1111111;"},
		{nil, "", "plural undo 1111111;"}, // a hub that does not say
	} {
		s := status("old", ours, v1.Problem{File: "a.yaml", Message: "unknown field", Since: tt.since})
		var told *ui.Err
		if !errors.As(waitfor.Refused(&s, ours), &told) || told.Cause != tt.cause || !strings.Contains(told.Fix, tt.fix) {
			t.Errorf("since %v: %+v", tt.since, told)
		}
	}
}

func TestAnInterruptEndsAWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &cmdutil.Factory{IO: &ui.Streams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}, Now: time.Now, Getenv: func(string) string { return "" }}
	err := waitfor.Until(ctx, f, func(context.Context) (bool, error) { cancel(); return false, nil }, func() error { return errors.New("pending") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsPendingGoesWithAPersonsTimeLimit(t *testing.T) {
	over := errors.New("--timeout is over")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, over)
	defer cancel()
	f := &cmdutil.Factory{IO: &ui.Streams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}, Now: time.Now, Globals: cmdutil.Globals{Timeout: time.Millisecond}}
	err := waitfor.Until(ctx, f, func(context.Context) (bool, error) { return false, nil }, func() error {
		return &ui.Err{Msg: "pending", Code: ui.ExitPending, Problems: []ui.Problem{{Message: "web"}}}
	})
	var told *ui.Err
	if !errors.As(err, &told) || !errors.Is(err, over) || len(told.Problems) != 1 {
		t.Errorf("%v", err)
	}
}

// sourced is a hub's status with a source that it cannot fetch.
func sourced(s v1.Status, name, fault string) v1.Status {
	s.Sources = []v1.Source{{Name: name, Error: fault}}
	return s
}

// People waited two minutes for what the hub knew at once.
func TestASourceThatCannotBeFetchedEndsAWaitWithinFiveSeconds(t *testing.T) {
	held := on("a", v1.Held)
	held.Message = "source charts has not been fetched"
	service := web(held)
	service.Source = "charts"
	for name, tt := range map[string]struct {
		answers hub
		says    string
	}{
		"the installation repo": {
			hub{"status": {sourced(status("old", "old"), ".", "connection refused")}},
			"cannot fetch the installation repo",
		},
		"a service's source": {
			hub{"status": {sourced(status(ours, ours), "charts", "connection refused")}, "services/web": {service}},
			"web waits for its source charts, which cannot be fetched",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			var took time.Duration
			synctest.Test(t, func(t *testing.T) {
				f := &cmdutil.Factory{IO: &ui.Streams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}, Now: time.Now, Getenv: func(string) string { return "" }}
				begun := time.Now()
				err = waitfor.Commit(t.Context(), f, tt.answers, ours, waitfor.About{Services: []string{"web"}})
				took = time.Since(begun)
			})
			var told *ui.Err
			if !errors.As(err, &told) || ui.CodeOf(err) != ui.ExitFailed || !strings.Contains(told.Msg, tt.says) ||
				told.Cause != "connection refused" {
				t.Errorf("%d: %v", ui.CodeOf(err), err)
			}
			if took > 5*time.Second {
				t.Errorf("after %s", took)
			}
		})
	}
}

func TestALongWaitNamesWhatItWaitsForAndWhy(t *testing.T) {
	under := on("a", v1.Progressing)
	under.Message = "1 of 2 pods are ready"
	resting := on("b", v1.Held)
	resting.Suspended = true
	long := make([]any, 0, 20) // of half a second each
	for range 19 {
		long = append(long, web(under, resting))
	}
	long = append(long, web(on("a", v1.Healthy), resting))
	told, err := wait(t, hub{"status": {status(ours, ours)}, "services/web": long}, waitfor.About{Services: []string{"web"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"waiting for web: 0/2 of 2 deployments well, 1 suspended; under way: a (progressing: 1 of 2 pods are ready)\n",
		"web 1/2 of 2 deployments well, 1 suspended\n",
	} {
		if strings.Count(told, want) != 1 {
			t.Errorf("no %q once in:\n%s", want, told)
		}
	}
	told, _ = wait(t, hub{"status": {status("0123456789", "0123456789")}}, waitfor.About{})
	if want := "waiting for the hub to serve 1111111: it serves 0123456\n"; !strings.Contains(told, want) {
		t.Errorf("no %q in:\n%s", want, told)
	}
	told, _ = wait(t, hub{"status": {status(ours, ours)}, "services/web": {web(on("a", v1.Progressing)), web(on("a", v1.Healthy))}},
		waitfor.About{Services: []string{"web"}})
	if strings.Contains(told, "waiting for") {
		t.Errorf("a short wait is explained:\n%s", told)
	}
}
