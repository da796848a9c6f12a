package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// world is a fleet of clusters and services, with what agents say of it.
type world struct {
	desired view.Desired
	reports map[string]*api.Report
}

func newWorld(clusters, services []string) *world {
	w := &world{reports: map[string]*api.Report{}}
	w.desired.Served = v1.Commit{ID: "c1"}
	w.desired.Head = w.desired.Served
	w.desired.Deployments = map[string][]*resolve.Deployment{}
	for _, name := range clusters {
		c := fleet.Cluster{Metadata: fleet.Metadata{Name: name}}
		c.Spec.Agent.Auth = "ed25519:key"
		w.desired.Fleet.Clusters = append(w.desired.Fleet.Clusters, c)
		for _, service := range services {
			w.desired.Deployments[name] = append(w.desired.Deployments[name], &resolve.Deployment{
				Service: service, Cluster: name, Key: "k2", Renderer: "raw", Namespace: "default", Commit: "s1",
			})
		}
	}
	for _, name := range services {
		s := fleet.Service{Metadata: fleet.Metadata{Name: name}}
		s.Spec.Source.Path = "apps/" + name
		w.desired.Fleet.Services = append(w.desired.Fleet.Services, s)
	}
	return w
}

func (w *world) view() *view.View {
	return view.New(view.Options{
		Desired: func() *view.Desired { return &w.desired },
		Report:  func(c string) (*api.Report, bool) { r, ok := w.reports[c]; return r, ok },
		Received: func(c string) (int64, bool) {
			r, ok := w.reports[c]
			return r.GetReceivedUnixMs(), ok
		},
		Sources:    func() []v1.Source { return []v1.Source{{Name: "."}} },
		Now:        func() time.Time { return now },
		StaleAfter: time.Minute, Version: "v1",
	})
}

func clusters(t *testing.T, v *view.View) []v1.Cluster {
	t.Helper()
	page, err := v.Clusters(paging.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

func services(t *testing.T, v *view.View) []v1.Service {
	t.Helper()
	page, err := v.Services(paging.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

// says makes a cluster's agent report, some time ago.
func (w *world) says(cluster string, ago time.Duration, services ...*api.ServiceReport) {
	w.reports[cluster] = &api.Report{ReceivedUnixMs: now.Add(-ago).UnixMilli(), Services: services, AgentVersion: "v1"}
}

func healthy(service string) *api.ServiceReport {
	return &api.ServiceReport{Service: service, Key: "k2", AppliedKey: "k2", Phase: api.Phase_HEALTHY, Objects: 3, Ready: 3}
}

func TestRowJoinsDesiredWithReported(t *testing.T) {
	hold := &resolve.Problem{Service: "web", Source: "upstream", Position: fleet.Position{File: "services/web.yaml", Line: 5}, Message: "gone"}
	tests := map[string]struct {
		change func(*world)
		phase  v1.Phase
		ours   bool // the hub itself says why
	}{
		"healthy at the desired key": {func(w *world) { w.says("a", 0, healthy("web")) }, v1.Healthy, false},
		"healthy at another key": {func(w *world) {
			w.says("a", 0, &api.ServiceReport{Service: "web", Key: "k1", AppliedKey: "k1", Phase: api.Phase_HEALTHY})
		}, v1.Progressing, true},
		"healthy without having applied the key": {func(w *world) {
			w.says("a", 0, &api.ServiceReport{Service: "web", Key: "k2", AppliedKey: "k1", Phase: api.Phase_HEALTHY})
		}, v1.Progressing, true},
		"failed at another key": {func(w *world) {
			w.says("a", 0, &api.ServiceReport{Service: "web", Key: "k1", Phase: api.Phase_FAILED})
		}, v1.Progressing, true},
		"failed at the desired key": {func(w *world) {
			w.says("a", 0, &api.ServiceReport{Service: "web", Key: "k2", AppliedKey: "k1", Phase: api.Phase_FAILED})
		}, v1.Failed, false},
		"degraded": {func(w *world) {
			w.says("a", 0, &api.ServiceReport{Service: "web", Key: "k2", Phase: api.Phase_DEGRADED})
		}, v1.Degraded, false},
		"held by the agent":            {func(w *world) { w.says("a", 0, &api.ServiceReport{Service: "web", Key: "k2", Phase: api.Phase_HELD}) }, v1.Held, false},
		"a phase of the future":        {func(w *world) { w.says("a", 0, &api.ServiceReport{Service: "web", Key: "k2", Phase: 99}) }, v1.Pending, false},
		"never reported":               {func(*world) {}, v1.Pending, true},
		"not in the report":            {func(w *world) { w.says("a", 0) }, v1.Pending, true},
		"silent":                       {func(w *world) { w.says("a", 2*time.Minute, healthy("web")) }, v1.Stale, true},
		"reported in the hub's future": {func(w *world) { w.says("a", -time.Hour, healthy("web")) }, v1.Stale, true},
		"held by the hub": {func(w *world) {
			w.desired.Deployments["a"][0].Key, w.desired.Deployments["a"][0].Hold = "", hold
			w.says("a", 0, healthy("web"))
		}, v1.Held, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld([]string{"a"}, []string{"web"})
			test.change(w)
			v := w.view()
			detail, ok := v.Cluster("a")
			if !ok || len(detail.Deployments) != 1 {
				t.Fatalf("Cluster = %+v, %v", detail, ok)
			}
			row := detail.Deployments[0]
			if row.Phase != test.phase || (row.Message != "") != test.ours {
				t.Errorf("row = %+v, want %s, with a reason of the hub's own: %v", row, test.phase, test.ours)
			}
			service, _ := v.Service("web")
			if diff := cmp.Diff([]v1.Deployment{row}, service.Deployments); diff != "" {
				t.Errorf("the service shows another row:\n%s", diff)
			}
			status := v.Status()
			if want := (v1.Counts{test.phase: 1}); !cmp.Equal(want, status.Deployments) || !cmp.Equal(want, status.Services) || !cmp.Equal(want, status.Clusters) {
				t.Errorf("status = %+v, want one %s everywhere", status, test.phase)
			}
			if status.Converged() != (test.phase == v1.Healthy) {
				t.Errorf("Converged = %v", status.Converged())
			}
		})
	}
}

func TestProblemsNameTheirObject(t *testing.T) {
	w := newWorld([]string{"a"}, []string{"web"})
	w.says("a", 0, &api.ServiceReport{Service: "web", Key: "k2", AppliedKey: "k1", Phase: api.Phase_FAILED, Message: "why", Objects: 3, Ready: 1, Problems: []*api.ObjectReport{
		{Kind: "Deployment", Namespace: "default", Name: "web", Message: "no image"}, {Kind: "Namespace", Name: "x", Message: "denied"},
	}})
	detail, _ := w.view().Cluster("a")
	want := v1.Deployment{
		Service: "web", Cluster: "a", Phase: v1.Failed, Key: "k2", AppliedKey: "k1", Objects: 3, Ready: 1, Message: "why",
		Problems: []v1.Problem{{Object: "Deployment default/web", Message: "no image"}, {Object: "Namespace x", Message: "denied"}},
	}
	if diff := cmp.Diff(want, detail.Deployments[0]); diff != "" {
		t.Error(diff)
	}
}

// A8
func TestWhatNothingAsksForIsOnItsWayOutAndCountsForNothingElse(t *testing.T) {
	tests := map[api.Phase]v1.Phase{
		api.Phase_HEALTHY: v1.Removing, api.Phase_REMOVING: v1.Removing, api.Phase_DEGRADED: v1.Removing,
		api.Phase_HELD: v1.Held, api.Phase_FAILED: v1.Failed,
	}
	for said, want := range tests {
		t.Run(said.String(), func(t *testing.T) {
			w := newWorld([]string{"a", "b"}, []string{"web"})
			w.desired.Deployments["b"] = nil // web has left b
			w.says("a", 0, healthy("web"))
			w.says("b", 0, &api.ServiceReport{Service: "web", Key: "k2", AppliedKey: "k2", Phase: said}, healthy("unheard-of"))
			v := w.view()
			detail, _ := v.Cluster("b")
			if detail.Services != 0 || detail.Ready != 0 || len(detail.Deployments) != 2 {
				t.Errorf("cluster = %+v", detail)
			}
			service, _ := v.Service("web")
			if service.Clusters != 1 || service.Ready != 1 || service.Phase != want || len(service.Deployments) != 2 {
				t.Errorf("service = %+v", service)
			}
			if _, ok := v.Service("unheard-of"); ok || len(services(t, v)) != 1 {
				t.Error("an agent has made a service up")
			}
			if v.Status().Converged() {
				t.Error("converged while something is left over")
			}
		})
	}
}

func TestUnregisteredClusterSaysHowToRegister(t *testing.T) {
	w := newWorld([]string{"a"}, []string{"web"})
	w.desired.Fleet.Clusters[0].Spec.Agent.Auth = ""
	w.says("a", 0, healthy("web")) // before it was revoked
	got := clusters(t, w.view())
	if got[0].Phase != v1.Unregistered || got[0].Message == "" {
		t.Errorf("cluster = %+v", got[0])
	}
	if w.view().Status().Converged() {
		t.Error("converged without an agent")
	}
}

func TestClusterIsAsBadAsItsWorstService(t *testing.T) {
	w := newWorld([]string{"a"}, []string{"api", "db", "web"})
	w.says("a", 10*time.Second, healthy("api"), &api.ServiceReport{Service: "db", Key: "k2", Phase: api.Phase_DEGRADED}, &api.ServiceReport{Service: "web", Key: "k2", Phase: api.Phase_PROGRESSING})
	at := now.Add(-10 * time.Second)
	want := []v1.Cluster{{Name: "a", Phase: v1.Degraded, Services: 3, Ready: 1, LastReport: &at, AgentVersion: "v1"}}
	if diff := cmp.Diff(want, clusters(t, w.view())); diff != "" {
		t.Error(diff)
	}
}

func TestServiceNamesTheWorstOfItsClustersTheSameEachTime(t *testing.T) {
	w := newWorld([]string{"a", "b", "c", "d"}, []string{"web"})
	w.says("a", 0, healthy("web"))
	for _, cluster := range []string{"b", "c", "d"} {
		w.says(cluster, 0, &api.ServiceReport{Service: "web", Key: "k2", Phase: api.Phase_FAILED, Message: "no room on " + cluster})
	}
	for range 20 {
		got := services(t, w.view())[0]
		want := v1.Service{
			Name: "web", Phase: v1.Failed, Source: ".", Path: "apps/web", Renderer: "raw", Namespace: "default",
			Clusters: 4, Ready: 1, Commit: "s1", Message: "no room on b",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestUnhealthyComesWorstFirstAndIsBounded(t *testing.T) {
	var clusters []string
	for i := range 60 {
		clusters = append(clusters, fmt.Sprintf("c%02d", i))
	}
	w := newWorld(clusters, []string{"web"})
	w.says("c00", 0, healthy("web"))
	w.says("c57", 0, &api.ServiceReport{Service: "web", Key: "k2", Phase: api.Phase_FAILED})
	w.says("c58", 0, &api.ServiceReport{Service: "web", Key: "k2", Phase: api.Phase_DEGRADED})
	w.says("c59", 0, &api.ServiceReport{Service: "web", Key: "k2", Phase: api.Phase_PROGRESSING})
	status := w.view().Status()
	if len(status.Unhealthy) != 50 {
		t.Fatalf("%d rows", len(status.Unhealthy))
	}
	var order []string
	for _, row := range status.Unhealthy[:4] {
		order = append(order, row.Cluster)
	}
	if diff := cmp.Diff([]string{"c57", "c58", "c01", "c02"}, order); diff != "" {
		t.Error(diff)
	}
	want := v1.Counts{v1.Healthy: 1, v1.Failed: 1, v1.Degraded: 1, v1.Progressing: 1, v1.Pending: 56}
	if diff := cmp.Diff(want, status.Deployments); diff != "" || status.Deployments.Total() != 60 {
		t.Error(diff)
	}
}

func TestStatusIsNotConvergedWhileTheNewestCommitIsNotServed(t *testing.T) {
	tests := map[string]func(*world){
		"no fleet yet":   func(w *world) { w.desired = view.Desired{} },
		"head refused":   func(w *world) { w.desired.Head.ID, w.desired.Refused = "c2", []v1.Problem{{Message: "bad"}} },
		"head not taken": func(w *world) { w.desired.Head.ID = "c2" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld([]string{"a"}, []string{"web"})
			w.says("a", 0, healthy("web"))
			if !w.view().Status().Converged() {
				t.Fatal("not converged to begin with")
			}
			change(w)
			if w.view().Status().Converged() {
				t.Error("converged")
			}
		})
	}
}

func TestHeldListsEachCauseOnce(t *testing.T) {
	w := newWorld([]string{"a", "b"}, []string{"api", "web"})
	gone := &resolve.Problem{Service: "web", Source: "upstream", Position: fleet.Position{File: "services/web.yaml", Line: 5}, Message: "gone", Fix: "put it back"}
	for _, cluster := range []string{"a", "b"} {
		w.desired.Deployments[cluster][1].Hold = gone
	}
	w.desired.Deployments["b"][0].Hold = &resolve.Problem{Service: "api", Cluster: "b", Message: "no parameter"}
	want := []v1.Problem{
		{Service: "web", File: "services/web.yaml", Line: 5, Message: "gone", Fix: "put it back"},
		{Service: "api", Cluster: "b", Message: "no parameter"},
	}
	if diff := cmp.Diff(want, w.view().Status().Held); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	v := newWorld([]string{"a"}, []string{"web"}).view()
	if _, ok := v.Cluster("b"); ok {
		t.Error("cluster b")
	}
	if _, ok := v.Service("db"); ok {
		t.Error("service db")
	}
}

// BenchmarkStatus is a thousand clusters with fifty services each.
func BenchmarkStatus(b *testing.B) {
	var clusters, services []string
	for i := range 1000 {
		clusters = append(clusters, fmt.Sprintf("c%03d", i))
	}
	for i := range 50 {
		services = append(services, fmt.Sprintf("s%02d", i))
	}
	w := newWorld(clusters, services)
	for _, cluster := range clusters {
		var said []*api.ServiceReport
		for _, service := range services {
			said = append(said, healthy(service))
		}
		w.says(cluster, 0, said...)
	}
	v := w.view()
	b.ReportAllocs()
	for b.Loop() {
		if !v.Status().Converged() {
			b.Fatal("not converged")
		}
	}
}

func TestRowShowsWhatWaitsForAPersonAndWhatWasTested(t *testing.T) {
	w := newWorld([]string{"a", "b"}, []string{"web"})
	for _, cluster := range []string{"a", "b"} {
		w.desired.Deployments[cluster][0].Version = "1.15.0"
		w.says(cluster, 0, &api.ServiceReport{
			Service: "web", Key: "k2", AppliedKey: "k1", AppliedVersion: "1.14.2", Phase: api.Phase_HELD,
			Held: &api.Held{Token: budget.Token([]string{"ConfigMap web/a"}), Count: 1, Names: []string{"ConfigMap web/a"}, Message: "1 of 1"},
			Tests: []*api.TestReport{
				{Name: "smoke", Outcome: api.TestReport_FAILED, Key: "k1", Message: "500", Log: "stack", Tries: 2, TookMs: 1500, FinishedUnixMs: now.UnixMilli()},
				{Name: "suite", Outcome: api.TestReport_PASSED, Log: "all well"},
			},
			Notes:    []string{"took spec.replicas from kubectl"},
			Problems: []*api.ObjectReport{{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "web", Reason: "Conflict", Message: "helm owns it"}},
		})
	}
	w.reports["a"].Held = &api.Held{Token: "0d11aa3f2a9c", Count: 2, Names: []string{"db", "web"}}
	service, _ := w.view().Service("web")
	want := v1.Deployment{
		Service: "web", Cluster: "a", Phase: v1.Held, Key: "k2", AppliedKey: "k1", Version: "1.15.0", AppliedVersion: "1.14.2",
		Held: &v1.Waiting{Token: budget.Token([]string{"ConfigMap web/a"}), Count: 1, Names: []string{"ConfigMap web/a"}, Message: "1 of 1"},
		Tests: []v1.Test{
			{Name: "smoke", Outcome: v1.TestFailed, Key: "k1", Message: "500", Log: "stack", Tries: 2, Took: 1.5, Finished: &now},
			{Name: "suite", Outcome: v1.TestPassed},
		},
		Notes:    []string{"took spec.replicas from kubectl"},
		Problems: []v1.Problem{{Object: "Deployment web/web", Group: "apps", Reason: "Conflict", Message: "helm owns it"}},
	}
	if diff := cmp.Diff(want, service.Deployments[0]); diff != "" {
		t.Error(diff)
	}
	if held := service.Deployments[1].Held; held == nil || held.Count != 1 || held.Names != nil {
		t.Errorf("names of one token are told twice: %+v", held)
	}
	detail, _ := w.view().Cluster("a")
	if detail.Held == nil || detail.Held.Token != "0d11aa3f2a9c" || len(detail.Held.Names) != 2 {
		t.Errorf("removals = %+v", detail.Held)
	}
	if other, _ := w.view().Cluster("b"); other.Held != nil {
		t.Errorf("b holds %+v", other.Held)
	}
}

func TestQuarantinedKeyHasFailed(t *testing.T) {
	w := newWorld([]string{"a"}, []string{"web"})
	w.says("a", 0, &api.ServiceReport{Service: "web", Key: "k1", AppliedKey: "k1", QuarantinedKey: "k2", Phase: api.Phase_HEALTHY})
	service, _ := w.view().Service("web")
	if row := service.Deployments[0]; row.Phase != v1.Failed || row.Message == "" || row.QuarantinedKey != "k2" {
		t.Errorf("%+v", row)
	}
}

func TestAnswerAboutManyClustersShowsFewLogs(t *testing.T) {
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprintf("c%02d", i))
	}
	w := newWorld(names, []string{"web"})
	for _, name := range names {
		w.says(name, 0, &api.ServiceReport{Service: "web", Key: "k2", Tests: []*api.TestReport{{Name: "smoke", Outcome: api.TestReport_FAILED, Log: "stack"}}})
	}
	service, _ := w.view().Service("web")
	logs := 0
	for _, d := range service.Deployments {
		if d.Tests[0].Log != "" {
			logs++
		}
	}
	if logs == 0 || logs > 20 {
		t.Errorf("%d logs", logs)
	}
}

func waits(names ...string) *api.Held {
	return &api.Held{Token: budget.Token(names), Count: uint32(len(names)), Names: names}
}

// A token is agreed to for all clusters: the agent of one had people agree, by what it showed of its own, to what another held back.
func TestATokenStandsForWhatIsShown(t *testing.T) {
	volume, old := "PersistentVolumeClaim shop/db-0", "ConfigMap shop/old"
	many := make([]string, 60)
	for i := range many {
		many[i] = fmt.Sprint("ConfigMap shop/", i)
	}
	for what, test := range map[string]struct {
		held *api.Held
		want bool
	}{
		"what is shown":  {waits(old, volume), true},
		"something else": {&api.Held{Token: budget.Token([]string{volume}), Count: 1, Names: []string{old}}, false},
		"what is masked": {&api.Held{
			Token: budget.Token([]string{old}), Count: 1,
			Names: []string{"ConfigMap shop/[masked]"},
		}, false},
		"what is too long to show":    {waits(strings.Repeat("x", 9000)), false},
		"more than is shown":          {&api.Held{Token: budget.Token([]string{volume, old}), Count: 2, Names: []string{old}}, false},
		"nothing":                     {&api.Held{Token: budget.Token([]string{volume})}, false},
		"more than there is room for": {&api.Held{Token: budget.Token(many), Count: 60, Names: many[:50]}, false},
	} {
		w := newWorld([]string{"dev"}, []string{"web"})
		w.says("dev", 0, &api.ServiceReport{Service: "web", Phase: api.Phase_HELD, Held: test.held})
		waiting := w.view().Waiting("web")
		if got := waiting[test.held.GetToken()]; got != test.want || waiting[test.held.GetToken()+"@dev"] == test.want {
			t.Errorf("a token for %s can be agreed to: %v", what, waiting)
		}
	}
}

// The agent of one cluster had people see its own names for what another held back: an answer had the names of a token once.
func TestNamesThatTheirTokenDoesNotStandForAreShownForEachCluster(t *testing.T) {
	w := newWorld([]string{"dev", "prod"}, []string{"web"})
	volumes := waits("PersistentVolumeClaim shop/db-0", "PersistentVolumeClaim shop/db-1")
	volumes.Names = []string{"PersistentVolumeClaim shop/db-0"}
	w.says("dev", 0, &api.ServiceReport{
		Service: "web", Phase: api.Phase_HELD,
		Held: &api.Held{Token: volumes.GetToken(), Count: 1, Names: []string{"ConfigMap shop/old"}},
	})
	w.says("prod", 0, &api.ServiceReport{Service: "web", Phase: api.Phase_HELD, Held: volumes})
	service, _ := w.view().Service("web")
	got := map[string]*v1.Waiting{}
	for _, d := range service.Deployments {
		got[d.Cluster] = d.Held
	}
	want := map[string]*v1.Waiting{
		"dev":  {Token: volumes.GetToken(), Unchecked: true, Count: 1, Names: []string{"ConfigMap shop/old"}},
		"prod": {Token: volumes.GetToken(), Unchecked: true, Count: 2, Names: volumes.GetNames()},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An agreement is about all clusters: what one answer has no room for waits as well.
func TestEveryTokenThatWaitsIsKnownHoweverManyClustersThereAre(t *testing.T) {
	names := make([]string, 600)
	for i := range names {
		names[i] = fmt.Sprintf("c%03d", i)
	}
	w := newWorld(names, []string{"web"})
	for _, name := range names {
		w.says(name, 0, &api.ServiceReport{
			Service: "web", Phase: api.Phase_HELD, Message: strings.Repeat("much to say ", 30), Held: waits(name),
		})
	}
	v := w.view()
	if service, _ := v.Service("web"); service.LeftOut == 0 {
		t.Fatal("one answer has room for all: this shows nothing")
	}
	if waiting := v.Waiting("web"); len(waiting) != len(names) || !waiting[waits("c599").GetToken()] {
		t.Errorf("%d of %d tokens", len(waiting), len(names))
	}
	if waiting := v.Waiting("nobody"); len(waiting) != 0 {
		t.Errorf("of no service: %v", waiting)
	}
}

func TestAServiceThatAsksForClustersAndFitsNoneRunsNowhere(t *testing.T) {
	w := newWorld([]string{"edge-1"}, []string{"web"})
	for name, asks := range map[string]fleet.Selector{
		"x1": {MatchLabels: map[string]string{"env": "none"}}, "x2": {}, // which asks for none, on purpose
	} {
		s := fleet.Service{Metadata: fleet.Metadata{Name: name}}
		s.Spec.Clusters = asks
		w.desired.Fleet.Services = append(w.desired.Fleet.Services, s)
	}
	w.desired.Fleet.Services[0].Spec.Clusters.Names = []string{"edge-1"}
	w.says("edge-1", time.Second, healthy("web"))
	s := w.view().Status()
	if s.Nowhere != 1 || !slices.Equal(s.NowhereNames, []string{"x1"}) || s.Services[v1.Healthy] != 3 || !s.Converged() {
		t.Errorf("%+v", s)
	}
	w.desired.Fleet.Clusters, w.desired.Deployments = nil, nil
	if s := w.view().Status(); s.Nowhere != 0 {
		t.Errorf("in a fleet without clusters: %+v", s)
	}
}

func TestAServiceIsToldFromOneWhoseClusterDoesNotAnswerItsAgent(t *testing.T) {
	w := newWorld([]string{"edge-1"}, []string{"db", "web"})
	failed := func(service, kind string) *api.ServiceReport {
		return &api.ServiceReport{
			Service: service, Key: "k2", Phase: api.Phase_FAILED, Problems: []*api.ObjectReport{{Kind: kind, Reason: "Unavailable", Message: "away"}},
		}
	}
	w.says("edge-1", time.Second, failed("db", ""), failed("web", "Secret"))
	for _, d := range w.view().Status().Unhealthy {
		if own := d.Service == "db"; d.Unreached != own || own && d.Problems[0].Object != "" {
			t.Errorf("%+v", d)
		}
	}
	w.says("edge-1", time.Hour, failed("db", ""))
	if d := w.view().Status().Unhealthy[0]; d.Phase != v1.Stale || d.Unreached {
		t.Errorf("of a silent cluster: %+v", d)
	}
}
