package hubsvc

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/planner"
	"github.com/pluralsh/plural/hubsvc/revision"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/hubsvc/status"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

func TestReadyzTellsWhenThePlannerLastEnded(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	hub := start(t, options(t, o))
	hub.ready()
	fleetrepo.Until(t, "the planner rests", func() bool {
		code, body := hub.do(http.MethodGet, "/readyz", "", nil)
		return code == http.StatusOK && strings.Contains(string(body), "planner last ended a turn")
	})
	_, metrics := hub.do(http.MethodGet, "/metrics", hub.token, nil)
	if !strings.Contains(string(metrics), "plural_hub_planner_busy_seconds ") {
		t.Error("no figure of the planner")
	}
}

func TestReplicaWithAStuckPlannerStaysReadyAndSaysSo(t *testing.T) {
	o, dir, log := fleetrepo.New(t), t.TempDir(), slog.New(slog.DiscardHandler)
	const interval = 20 * time.Millisecond
	mirrors, err := gitpoller.NewSet(gitpoller.SetOptions{Dir: filepath.Join(dir, "mirrors"), Interval: interval, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	p := planner.New(planner.Options{
		Branch: "main", Mirrors: mirrors, Log: log,
		Sources:   sources.New(sources.Options{Repo: o.URL(), Interval: interval, AllowFile: true}),
		Revisions: revision.Open(revision.Options{File: filepath.Join(dir, "edition.json"), Log: log}),
		Publishes: func() bool { return true }, Changed: func(_, _ *planner.Plan) {},
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group errgroup.Group
	group.Go(func() error { return mirrors.Run(ctx) })
	group.Go(func() error { return p.Run(ctx) })
	commit := o.Push(fleetrepo.TwoServices(nil))
	fleetrepo.Until(t, "the commit is served", func() bool { return p.Plan().Desired.Served.ID == commit })
	cancel()
	_ = group.Wait() // of what was cancelled
	p.Pace.Begin(time.Now().Add(-time.Hour))
	p.Pace.End(time.Now().Add(-2 * time.Hour))
	answer := httptest.NewRecorder()
	(&status.Status{Options: status.Options{Planner: p, Leaving: make(chan struct{})}}).Ready(answer, nil)
	if text := answer.Body.String(); answer.Code != http.StatusOK || !strings.Contains(text, "planner is stuck: it has been at one turn for 1h0m0s") {
		t.Errorf("readyz: %d, %s", answer.Code, text)
	}
	if said := answer.Header().Get(v1.PlannerHeader); said != v1.PlannerStuck {
		t.Errorf("programs are told that the planner is %q", said)
	}
}
