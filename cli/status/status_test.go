package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// fleet answers as a hub does. It converges with the look after `looks`.
type fleet struct {
	answers func(converged bool) map[string]any
	looks   int32
	asked   atomic.Int32
	queries chan string
}

func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	if path == "stream" { // it says all the time that something changed
		for r.Context().Err() == nil {
			fmt.Fprint(w, "event: summary\ndata: {}\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
		return
	}
	if f.queries != nil {
		f.queries <- path + "?" + r.URL.Query().Encode()
	}
	if path == "status" || path == "deployments" {
		f.asked.Add(1)
	}
	_ = json.NewEncoder(w).Encode(f.answers(f.asked.Load() > f.looks)[path])
}

func answers(converged bool) map[string]any {
	head, phase := v1.Commit{ID: "bbbbbbbbbb"}, v1.Degraded
	if converged {
		phase = v1.Healthy
	}
	counts := v1.Counts{phase: 1, v1.Healthy: 1203}
	if converged {
		counts = v1.Counts{v1.Healthy: 1204}
	}
	web := v1.Deployment{Service: "web", Cluster: "edge-2", Phase: phase, Objects: 3, Ready: 1, Version: "1.2.3"}
	status := v1.Status{
		Workspace: "demo", Commit: head, Head: head, Clusters: counts, Services: v1.Counts{phase: 1}, Deployments: counts,
	}
	if !converged {
		web.Message = "image \x1b[31mnot found"
		status.Unhealthy = []v1.Deployment{web}
	}
	return map[string]any{
		"status": status, "summary": v1.Summary{Commit: head, Head: head},
		"clusters": v1.List[v1.Cluster]{Items: []v1.Cluster{
			{Name: "edge-2", Phase: phase, Services: 2, Ready: 1}, {Name: "edge-1", Phase: v1.Healthy, Services: 2, Ready: 2},
		}, Total: 1204},
		"deployments": v1.List[v1.Deployment]{Items: []v1.Deployment{web}, Total: 1, Counts: v1.Counts{phase: 1}},
	}
}

// ran is what a run of the command left.
func ran(t *testing.T, ctx context.Context, f *fleet, args ...string) (out, errOut string, err error) {
	t.Helper()
	server := httptest.NewServer(f)
	defer server.Close()
	var o, e bytes.Buffer
	factory := &cmdutil.Factory{
		Globals: cmdutil.Globals{Hub: server.URL}, IO: &ui.Streams{Out: &o, ErrOut: &e}, Now: now,
		Getenv: func(name string) string { return map[string]string{"PLURAL_CONFIG_DIR": "/nowhere"}[name] },
	}
	if i := slices.Index(args, "-o"); i >= 0 {
		factory.Output = args[i+1]
		args = slices.Delete(args, i, i+2)
	}
	cmd := NewCmdStatus(factory)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

func TestScreenBeginsWithTheFleetInFiguresAndHasItsWorstClusters(t *testing.T) {
	f := &fleet{answers: answers, looks: 9, queries: make(chan string, 9)}
	got, said, err := ran(t, t.Context(), f)
	want := `demo  bbbbbbb
1,204 clusters: 1,203 healthy, 1 degraded   1 service: 1 degraded

CLUSTER  PHASE     SERVICES  KUBERNETES  REPORT
edge-1   healthy   2/2       -           never
edge-2   degraded  1/2       -           never
and 1,202 clusters more, none of them worse: plural cluster list

SERVICE  CLUSTER  PHASE     OBJECTS  REASON
web      edge-2   degraded  1/3      image \x1b[31mnot found
`
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if said != "next  plural why web says what to mend; plural service rollback web takes its last change back\n" {
		t.Errorf("beside it: %q", said)
	}
	<-f.queries
	if got := <-f.queries; got != "clusters?limit=50&sort=-health" {
		t.Error(got)
	}
}

func TestNamesAndFiltersGiveServicesClusterByCluster(t *testing.T) {
	f := &fleet{answers: answers, looks: 9, queries: make(chan string, 9)}
	got, _, err := ran(t, t.Context(), f, "web", "-l", "env=prod", "-o", "wide")
	if want := "SERVICE\tCLUSTER\tPHASE\tOBJECTS\tREASON\tVERSION\nweb\tedge-2\tdegraded\t1/3\timage \\x1b[31mnot found\t1.2.3\n"; got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got := <-f.queries; got != "deployments?filter=service%3A%22web%22+tag.env%3A%22prod%22&limit=500" {
		t.Error(got)
	}
	got, _, err = ran(t, t.Context(), &fleet{answers: answers}, "--filter", "x", "-o", "name")
	if got != "edge-2/web\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	var told *ui.Err
	for _, args := range [][]string{{"--exit-code"}, {"web", "--exit-code"}} {
		_, _, err := ran(t, t.Context(), &fleet{answers: answers, looks: 9}, args...)
		if !errors.As(err, &told) || told.Code != ui.ExitDiffers {
			t.Errorf("%v: %v", args, err)
		}
		if _, _, err := ran(t, t.Context(), &fleet{answers: answers}, args...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestWaitEndsWhenEverythingRuns(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--wait -o name":              "workspace/demo\n",
		"web --wait -o name":          "edge-2/web\n",
		"web --wait --watch":          "SERVICE\tCLUSTER\tPHASE\tOBJECTS\tREASON\nweb\tedge-2\tdegraded\t1/3\timage \\x1b[31mnot found\nweb\tedge-2\thealthy\t1/3\t-\n",
		"--exit-code --watch -o name": "workspace/demo\nworkspace/demo\n",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			got, said, err := ran(t, t.Context(), &fleet{answers: answers, looks: 1}, strings.Fields(args)...)
			if got != want || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if !strings.Contains(args, "watch") && said != "waiting for web on edge-2 is degraded: image \\x1b[31mnot found\n" {
				t.Errorf("%q", said)
			}
		})
	}
}

func TestWaitThatIsOverSaysWhatItWasFor(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--wait", "web --wait", "web --watch --wait"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, _, err := ran(t, ctx, &fleet{answers: answers, looks: 1 << 30}, strings.Fields(args)...)
		cancel()
		var told *ui.Err
		if !errors.As(err, &told) || told.Code != ui.ExitPending || len(told.Problems) != 1 ||
			!strings.Contains(told.Problems[0].Message, "web on edge-2") {
			t.Errorf("%s: %#v", args, err)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
}

func TestAWaitWithoutATimeoutEndsByItself(t *testing.T) {
	server := httptest.NewServer(&fleet{answers: answers})
	defer server.Close()
	f := &cmdutil.Factory{
		Globals: cmdutil.Globals{Hub: server.URL}, IO: &ui.Streams{Out: io.Discard, ErrOut: io.Discard}, Now: time.Now,
		Getenv: func(string) string { return "" },
	}
	for timeout, bounded := range map[time.Duration]bool{0: true, time.Hour: false} { // the program bounds that itself
		f.Timeout = timeout
		err := wait(t.Context(), options{f: f}, func(ctx context.Context, _ *client.Client, _ *ui.Printer) (*snapshot, error) {
			if until, is := ctx.Deadline(); is != bounded || is && time.Until(until) > limit {
				t.Errorf("with --timeout %v it looks until %v (%v)", timeout, until, is)
			}
			return &snapshot{converged: true}, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsOldIsWaitedForThoughItIsHealthy(t *testing.T) {
	old := func(bool) map[string]any {
		all := answers(true)
		all["summary"] = v1.Summary{Commit: v1.Commit{ID: "a"}, Head: v1.Commit{ID: "cccccccc"}}
		return all
	}
	var told *ui.Err
	_, _, err := ran(t, t.Context(), &fleet{answers: old}, "web", "--exit-code")
	if !errors.As(err, &told) || told.Code != ui.ExitDiffers {
		t.Errorf("%v", err)
	}
}

func TestAFleetWhoseSourcesCannotBeFetchedIsNotSaidToRun(t *testing.T) {
	at := func(ago time.Duration) *time.Time { when := now().Add(-ago); return &when }
	f := &fleet{answers: func(bool) map[string]any {
		all := answers(true)
		status := all["status"].(v1.Status)
		status.Sources = []v1.Source{
			{Name: ".", Commit: "bbbbbbbbbb", LastFetch: at(time.Second)},
			{
				Name: "podinfo", Commit: "aaaaaaaaaa", LastFetch: at(6 * time.Minute), Error: "fetch https://x: no\x00 route",
				FailingSince: at(5 * time.Minute), InARow: 58, NextAttempt: at(-30 * time.Second),
			},
			{Name: "rewound", Refs: []v1.SourceRef{{
				Ref: "main", Commit: "cccccccccc",
				Rewound: "was ddd, which is not among the ancestors of ccc",
			}}},
		}
		status.Notices = []v1.Notice{{Time: now().Add(-time.Minute), Message: "an agent\x1b is refused", Fix: "register it"}}
		all["status"] = status
		return all
	}}
	out, said, err := ran(t, t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if said != "next  plural source get podinfo\n" {
		t.Errorf("beside it: %q", said)
	}
	for _, want := range []string{
		"  podinfo: failing for 5m, 58 times in a row, next attempt in 30s; last fetched 6m ago, aaaaaaa is served\n    cause  fetch https://x: no",
		"  rewound main: ccccccc is served; it was ddd, which is not among the ancestors of ccc\n",
		"the hub noticed\n  an agent\\x1b is refused, 60s ago\n    fix    register it\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "everything runs") || strings.Contains(out, "\x00") {
		t.Errorf("it says:\n%s", out)
	}
}

func TestServicesThatRunNowhereAreNotSaidToRun(t *testing.T) {
	f := &fleet{answers: func(bool) map[string]any {
		all := answers(true)
		status := all["status"].(v1.Status)
		status.Services, status.Nowhere, status.NowhereNames = v1.Counts{v1.Healthy: 5}, 2, []string{"x1", "x2"}
		all["status"] = status
		return all
	}}
	out, said, err := ran(t, t.Context(), f)
	if err != nil || said != "next  plural service get x1\n" {
		t.Errorf("beside it: %q, %v", said, err)
	}
	for _, want := range []string{"5 services: 3 healthy, 2 nowhere\n", "\neverything runs, but x1 and 1 more run nowhere: no cluster fits\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
}
