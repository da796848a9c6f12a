package view_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// theatre is a world in which time passes and things change, seen by a view that is told of it.
type theatre struct {
	now     time.Time
	desired *view.Desired
	reports map[string]*api.Report
	sources []v1.Source
	view    *view.View
	told    []v1.Event
}

func (w *theatre) fresh() *view.View {
	return view.New(view.Options{
		Desired: func() *view.Desired { return w.desired },
		Report:  func(c string) (*api.Report, bool) { r, ok := w.reports[c]; return r, ok },
		Received: func(c string) (int64, bool) {
			r, ok := w.reports[c]
			return r.GetReceivedUnixMs(), ok
		},
		Sources: func() []v1.Source { return w.sources }, Now: func() time.Time { return w.now }, StaleAfter: time.Minute,
		Event: func(e v1.Event) { w.told = append(w.told, e) },
	})
}

func newTheatre(clusters, services int) *theatre {
	w := &theatre{now: now, reports: map[string]*api.Report{}}
	w.plan("c0", names("c", clusters), names("s", services), "k1")
	w.view = w.fresh()
	return w
}

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return out
}

// plan makes another desired state. Every second cluster is in production.
func (w *theatre) plan(commit string, clusters, services []string, key string) {
	d := &view.Desired{Served: v1.Commit{ID: commit}, Head: v1.Commit{ID: commit}, Deployments: map[string][]*resolve.Deployment{}}
	for _, name := range services {
		d.Fleet.Services = append(d.Fleet.Services, fleet.Service{Metadata: fleet.Metadata{Name: name}})
	}
	wanted := make([]*resolve.Deployment, 0, len(services))
	for _, s := range services {
		wanted = append(wanted, &resolve.Deployment{Service: s, Key: key, Namespace: "apps"})
	}
	for i, name := range clusters {
		c := fleet.Cluster{Metadata: fleet.Metadata{Name: name}}
		c.Spec.Agent.Auth, c.Spec.Tags = "ed25519:key", map[string]string{"env": []string{"prod", "dev"}[i%2]}
		d.Fleet.Clusters = append(d.Fleet.Clusters, c)
		d.Deployments[name] = wanted
	}
	w.desired = d
}

// says makes a cluster's agent report.
func (w *theatre) says(cluster string, services ...*api.ServiceReport) {
	w.reports[cluster] = &api.Report{ReceivedUnixMs: w.now.UnixMilli(), Services: services}
	w.view.Reported(cluster, false)
}

// again makes a cluster's agent repeat itself.
func (w *theatre) again(cluster string) {
	if r := w.reports[cluster]; r != nil {
		w.reports[cluster] = &api.Report{ReceivedUnixMs: w.now.UnixMilli(), Services: r.GetServices()}
		w.view.Reported(cluster, true)
	}
}

func at(key string, phase api.Phase, service string) *api.ServiceReport {
	return &api.ServiceReport{Service: service, Key: key, AppliedKey: key, Phase: phase, Message: strings.ToLower(phase.String())}
}

// whole reads a list to its end.
func whole[T any](t rapid.TB, get func(paging.Query) (*v1.List[T], error), q paging.Query) (items []T, first *v1.List[T]) {
	q.Limit = paging.MaxLimit
	for {
		page, err := get(q)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = page
		}
		items = append(items, page.Items...)
		if q.Continue = page.Next; page.Next == "" {
			return items, first
		}
	}
}

// reader is what somebody knows who listed once, and follows since.
type reader struct {
	follower    *view.Follower
	filter      string
	deployments map[string]v1.Deployment
	clusters    map[string]v1.Cluster
	services    map[string]v1.Service
	summary     *v1.Summary
	resets      int
}

func newReader(t rapid.TB, v *view.View, picks string) *reader {
	r := &reader{filter: picks}
	var err error
	r.follower, err = v.Follow(r.list(t, v), nil, func(kind v1.ChangeKind) string {
		if kind == v1.ChangedDeployments {
			return picks
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// list reads everything, and gives the token of before.
func (r *reader) list(t rapid.TB, v *view.View) string {
	r.deployments, r.clusters, r.services = map[string]v1.Deployment{}, map[string]v1.Cluster{}, map[string]v1.Service{}
	deployments, first := whole(t, v.Deployments, paging.Query{Filter: r.filter})
	for _, d := range deployments {
		r.deployments[d.Cluster+"/"+d.Service] = d
	}
	clusters, _ := whole(t, v.Clusters, paging.Query{})
	for _, c := range clusters {
		r.clusters[c.Name] = c
	}
	services, _ := whole(t, v.Services, paging.Query{})
	for _, s := range services {
		r.services[s.Name] = s
	}
	r.summary = v.Summary()
	return first.Since
}

// follow takes in all there is.
func (r *reader) follow(t rapid.TB, v *view.View) {
	for {
		parts, _ := r.follower.Next()
		if len(parts) == 0 {
			return
		}
		for _, part := range parts {
			if len(part.Data) >= 100_000 {
				t.Fatalf("an event of %d bytes", len(part.Data))
			}
			switch part.Kind {
			case v1.ChangedDeployments:
				take(t, part.Data, r.deployments, func(d v1.Deployment) string { return d.Cluster + "/" + d.Service })
			case v1.ChangedClusters:
				take(t, part.Data, r.clusters, func(c v1.Cluster) string { return c.Name })
			case v1.ChangedServices:
				take(t, part.Data, r.services, func(s v1.Service) string { return s.Name })
			case v1.ChangedSummary:
				r.summary = new(v1.Summary)
				if err := json.Unmarshal(part.Data, r.summary); err != nil {
					t.Fatal(err)
				}
			case v1.Reset:
				r.resets++
				r.list(t, v)
			}
		}
	}
}

func take[T any](t rapid.TB, data []byte, into map[string]T, name func(T) string) {
	var changes v1.Changes[T]
	if err := json.Unmarshal(data, &changes); err != nil {
		t.Fatal(err)
	}
	for _, item := range changes.Items {
		into[name(item)] = item
	}
	for _, gone := range changes.Gone {
		delete(into, gone)
	}
}

// compare holds what a reader knows against what a new view, which was told nothing, sees.
func (w *theatre) compare(t rapid.TB, r *reader) {
	t.Helper()
	other := &reader{filter: r.filter}
	other.list(t, w.fresh())
	ageless := gocmp.FilterPath(func(p gocmp.Path) bool {
		return p.Last().String() == ".LastReport"
	}, gocmp.Ignore())
	silent := gocmp.Transformer("silent", func(c v1.Cluster) map[string]any { // how long is a matter of when it was asked
		return map[string]any{"name": c.Name, "phase": c.Phase, "ready": c.Ready, "services": c.Services, "tags": c.Tags}
	})
	for what, diff := range map[string]string{
		"deployments": gocmp.Diff(other.deployments, r.deployments), "clusters": gocmp.Diff(other.clusters, r.clusters, ageless, silent),
		"services": gocmp.Diff(other.services, r.services), "summary": gocmp.Diff(other.summary, r.summary),
	} {
		if diff != "" {
			t.Fatalf("%s (-new +told):\n%s", what, diff)
		}
	}
}

func TestWhoFollowsKnowsWhatWhoListsSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newTheatre(4, 3)
		clusters, services, key := names("c", 4), names("s", 3), "k1"
		readers := []*reader{newReader(t, w.view, ""), newReader(t, w.view, "env:prod !health:healthy"), newReader(t, w.view, "s00001")}
		anyCluster := rapid.SampledFrom(clusters)
		anyPhase := rapid.SampledFrom([]api.Phase{api.Phase_HEALTHY, api.Phase_FAILED, api.Phase_PROGRESSING, api.Phase_HELD})
		for n := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1, 2:
				var said []*api.ServiceReport
				for _, s := range append(slices.Clone(services), "left") {
					if rapid.Bool().Draw(t, "there") {
						said = append(said, at(rapid.SampledFrom([]string{key, "k0"}).Draw(t, "key"), anyPhase.Draw(t, "phase"), s))
					}
				}
				w.says(anyCluster.Draw(t, "cluster"), said...)
			case 3:
				w.again(anyCluster.Draw(t, "cluster"))
			case 4:
				w.now = w.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 40 * time.Second, 2 * time.Minute}).Draw(t, "passes"))
			case 5:
				left := anyCluster.Draw(t, "cluster")
				delete(w.reports, left)
				w.view.Reported(left, false)
			case 6:
				clusters = rapid.SliceOfNDistinct(anyCluster, 1, 4, rapid.ID).Draw(t, "clusters")
				services = rapid.SliceOfNDistinct(rapid.SampledFrom(names("s", 3)), 0, 3, rapid.ID).Draw(t, "services")
				slices.Sort(clusters)
				slices.Sort(services)
				key = fmt.Sprintf("k%d", rapid.IntRange(1, 3).Draw(t, "key"))
				w.plan(fmt.Sprintf("c%d", n), clusters, services, key)
				w.view.Planned()
			}
			for _, r := range readers {
				if rapid.Bool().Draw(t, "reads") {
					r.follow(t, w.view)
					w.compare(t, r)
				}
			}
		}
		for _, r := range readers {
			r.follow(t, w.view)
			w.compare(t, r)
			if r.resets > 0 {
				t.Fatal("a reset, of so few changes")
			}
		}
	})
}

func TestReaderThatWasAwayTooLongListsAgain(t *testing.T) {
	w := newTheatre(700, 50)
	r := newReader(t, w.view, "env:dev s00007")
	var said []*api.ServiceReport
	for _, s := range names("s", 50) {
		said = append(said, at("k1", api.Phase_HEALTHY, s))
	}
	for _, cluster := range names("c", 700) {
		w.says(cluster, said...)
	}
	r.follow(t, w.view)
	if r.resets != 1 {
		t.Errorf("%d resets, want 1", r.resets)
	}
	w.compare(t, r)
}

func TestTokenOfAnotherReplicaIsTooOld(t *testing.T) {
	w, other := newTheatre(2, 2), newTheatre(2, 2)
	page, err := other.view.Services(paging.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, since := range []string{page.Since, "x", "-1", "AAAA-18446744073709551615", strings.Repeat("9", 1000)} {
		f, err := w.view.Follow(since, nil, func(v1.ChangeKind) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-f.Wait():
		default:
			t.Errorf("%.20s: it is not told at once", since)
		}
		parts, token := f.Next()
		if len(parts) != 1 || parts[0].Kind != v1.Reset || token == since {
			t.Errorf("%.20s: %+v, %s", since, parts, token)
		}
		if parts, _ := f.Next(); len(parts) != 0 {
			t.Errorf("%.20s: it does not go on from now: %+v", since, parts)
		}
	}
}

func TestFollowerIsSentTheKindsThatItAskedFor(t *testing.T) {
	w := newTheatre(2, 2)
	f, err := w.view.Follow("", []v1.ChangeKind{v1.ChangedSummary, v1.Happened}, func(v1.ChangeKind) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	w.says("c00000", at("k1", api.Phase_FAILED, "s00000"))
	w.view.Note(v1.Event{Cluster: "c00001", Reason: "Applied"})
	var kinds []string
	parts, _ := f.Next()
	for _, p := range parts {
		kinds = append(kinds, string(p.Kind))
	}
	if diff := gocmp.Diff([]string{"events", "summary"}, kinds); diff != "" {
		t.Error(diff)
	}
	if _, err := w.view.Follow("", nil, func(v1.ChangeKind) string { return "colour:red" }); !errors.As(err, new(*filter.Error)) {
		t.Errorf("a key that services do not have: %v", err)
	}
}

// Under one token that the hub cannot check, an agent may show other names than before.
func TestFollowerHearsOfOtherNamesUnderTheSameToken(t *testing.T) {
	w := newTheatre(1, 1)
	says := func(name string) {
		held := &api.Held{Token: "0d11aa3f2a9c", Count: 60, Names: []string{name}}
		web := at("k1", api.Phase_HELD, "s00000")
		web.Held = held
		w.reports["c00000"] = &api.Report{ReceivedUnixMs: w.now.UnixMilli(), Services: []*api.ServiceReport{web}, Held: held}
		w.view.Reported("c00000", false)
	}
	says("ConfigMap shop/old")
	f, err := w.view.Follow("", []v1.ChangeKind{v1.ChangedDeployments, v1.ChangedClusters}, func(v1.ChangeKind) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	heard := func() (kinds []v1.ChangeKind, data string) {
		parts, _ := f.Next()
		for _, p := range parts {
			kinds, data = append(kinds, p.Kind), data+string(p.Data)
		}
		return kinds, data
	}
	says("PersistentVolumeClaim shop/db-0")
	kinds, data := heard()
	want := []v1.ChangeKind{v1.ChangedDeployments, v1.ChangedClusters}
	if diff := gocmp.Diff(want, kinds); diff != "" || !strings.Contains(data, "shop/db-0") {
		t.Errorf("%s\n%s", diff, data)
	}
	says("PersistentVolumeClaim shop/db-0")
	if kinds, data := heard(); len(kinds) != 0 {
		t.Errorf("the same again is heard of as %s", data)
	}
}

func TestSilenceIsNoticedWithoutAnyReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTheatre(1, 1)
		w.now = time.Now()
		w.says("c00000", at("k1", api.Phase_HEALTHY, "s00000"))
		o := w.view.Options
		o.Now = time.Now
		w.view = view.New(o)
		ctx, done := t.Context(), make(chan error, 1)
		go func() { done <- w.view.Run(ctx) }()
		synctest.Wait()
		f, err := w.view.Follow("", []v1.ChangeKind{v1.ChangedDeployments}, func(v1.ChangeKind) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-f.Wait()
		if passed := time.Since(began); passed < time.Minute || passed > time.Minute+3*time.Second {
			t.Errorf("noticed after %s", passed)
		}
		if parts, _ := f.Next(); len(parts) != 1 || !strings.Contains(string(parts[0].Data), `"stale"`) {
			t.Errorf("%s", parts)
		}
		w.reports["c00000"].ReceivedUnixMs = time.Now().UnixMilli()
		w.view.Reported("c00000", true)
		<-f.Wait()
		if parts, _ := f.Next(); len(parts) != 1 || !strings.Contains(string(parts[0].Data), `"healthy"`) {
			t.Errorf("it is back, and shown as %s", parts)
		}
	})
}

func TestWhetherAClusterIsConnectedIsShownAndFollowed(t *testing.T) {
	w := newTheatre(2, 1)
	connected := map[string]bool{}
	o := w.view.Options
	o.Connected = func(cluster string) bool { return connected[cluster] }
	w.view = view.New(o)
	shown := func() (all []string) {
		for _, c := range clusters(t, w.view) {
			if c.Connected == nil {
				t.Fatalf("%s: nothing is said", c.Name)
			}
			all = append(all, fmt.Sprint(c.Name, " ", *c.Connected))
		}
		return all
	}
	if diff := gocmp.Diff([]string{"c00000 false", "c00001 false"}, shown()); diff != "" {
		t.Error(diff)
	}
	f, err := w.view.Follow("", []v1.ChangeKind{v1.ChangedClusters}, func(v1.ChangeKind) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	connected["c00001"] = true
	w.view.Reported("c00001", false)
	if diff := gocmp.Diff([]string{"c00000 false", "c00001 true"}, shown()); diff != "" {
		t.Error(diff)
	}
	if parts, _ := f.Next(); len(parts) != 1 || !strings.Contains(string(parts[0].Data), `"connected":true`) || strings.Contains(string(parts[0].Data), "c00000") {
		t.Errorf("followed: %s", parts)
	}
	w.view.Reported("c00001", false) // the same again
	shown()
	if parts, _ := f.Next(); len(parts) != 0 {
		t.Errorf("followed: %s", parts)
	}
}

func TestEventsTellWhatBecameOfServicesAndClusters(t *testing.T) {
	w := newTheatre(1, 1)
	w.says("c00000", at("k1", api.Phase_HEALTHY, "s00000")) // its first word is no news
	w.view.Summary()
	steps := []func(){
		func() { w.says("c00000", at("k1", api.Phase_DEGRADED, "s00000")) },
		func() { w.says("c00000", at("k1", api.Phase_HEALTHY, "s00000")) },
		func() { w.now = w.now.Add(2 * time.Minute) },
		func() { w.again("c00000") },
		func() { w.plan("c1", names("c", 1), nil, "k1") },
		func() { w.says("c00000") },
		func() {
			refused := *w.desired
			refused.Head, refused.Refused = v1.Commit{ID: "c2"}, []v1.Problem{{Message: "bad"}}
			w.desired = &refused
		},
	}
	for _, step := range steps {
		step()
		w.view.Summary()
	}
	w.view.Note(v1.Event{Cluster: "c00000", Service: "s00000", Reason: "Applied", Message: strings.Repeat("ä", 5000)})
	page, err := w.view.Events(paging.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range page.Items {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s/%s %v", e.Reason, e.Cluster, e.Service, e.Warning)))
		if len(e.Message) > 600 {
			t.Errorf("a message of %d bytes", len(e.Message))
		}
	}
	want := []string{
		"Applied c00000/s00000 false", "Refused / true", "Removed c00000/s00000 false", "Served / false", "Back c00000/ false",
		"Silent c00000/ true", "Recovered c00000/s00000 false", "Degraded c00000/s00000 true",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(w.told) != len(want)-1 {
		t.Errorf("%d events of its own were told on, want %d", len(w.told), len(want)-1)
	}
	if page, err = w.view.Events(paging.Query{Filter: "warning:true c00000", Limit: 1}); err != nil || page.Total != 2 || page.Next == "" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestEventThatIsToldTwiceIsKeptOnce(t *testing.T) {
	w := newTheatre(1, 1)
	e := v1.Event{Cluster: "c00000", Service: "s00000", Reason: "Failed", Key: "k1"}
	for range 3 {
		w.view.Note(e)
	}
	w.now = w.now.Add(time.Minute)
	w.view.Note(e)
	if page, err := w.view.Events(paging.Query{}); err != nil || page.Total != 2 {
		t.Errorf("%+v, %v", page, err)
	}
}

// U15
func TestEveryAnswerStaysBelowHundredKilobytes(t *testing.T) {
	w := newTheatre(1000, 2)
	long := strings.Repeat(`"<&>`, 2000)
	for i, cluster := range names("c", 1000) {
		phase := api.Phase_DEGRADED
		if i%7 == 0 {
			phase = api.Phase_HEALTHY
		}
		said := at("k1", phase, "s00000")
		said.Message, said.Notes = long, []string{long}
		said.Problems = []*api.ObjectReport{{Kind: "Pod", Name: "a", Message: long}, {Kind: "Pod", Name: "b", Message: long}}
		said.Tests = []*api.TestReport{{Name: "t", Outcome: api.TestReport_FAILED, Log: long}}
		said.Held = &api.Held{Token: cluster, Count: 9, Names: []string{long}, Message: long}
		w.says(cluster, said)
	}
	for i := range 1000 {
		w.sources = append(w.sources, v1.Source{Name: fmt.Sprint(i), URL: long[:200]})
	}
	service, _ := w.view.Service("s00000")
	if service.LeftOut == 0 || service.LeftOut+len(service.Deployments) != 1000 {
		t.Errorf("%d rows, %d left out", len(service.Deployments), service.LeftOut)
	}
	if slices.ContainsFunc(service.Deployments, func(d v1.Deployment) bool { return d.Phase == v1.Healthy }) {
		t.Error("a healthy row keeps a bad one out")
	}
	if !slices.IsSortedFunc(service.Deployments, func(a, b v1.Deployment) int { return cmp.Compare(a.Cluster, b.Cluster) }) {
		t.Error("the rows left are in another order")
	}
	cluster, _ := w.view.Cluster("c00001")
	deployments, err := w.view.Deployments(paging.Query{Limit: paging.MaxLimit})
	if err != nil || deployments.Next == "" || deployments.Total != 2000 {
		t.Errorf("%+v, %v", deployments, err)
	}
	clusters, err := w.view.Clusters(paging.Query{Limit: paging.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	sources, err := w.view.ListSources(paging.Query{Limit: paging.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for what, answer := range map[string]any{
		"status": w.view.Status(), "service": service, "cluster": cluster, "deployments": deployments, "clusters": clusters, "sources": sources,
	} {
		raw, err := json.Marshal(answer)
		if err != nil || len(raw) >= 100_000 {
			t.Errorf("%s: %d bytes, %v", what, len(raw), err)
		}
	}
}

func TestListsPickSortAndCount(t *testing.T) {
	w := newTheatre(4, 2)
	w.says("c00000", at("k1", api.Phase_HEALTHY, "s00000"), at("k1", api.Phase_FAILED, "s00001"))
	w.says("c00001", at("k1", api.Phase_DEGRADED, "s00000"), at("k1", api.Phase_HEALTHY, "s00001"))
	deployments := func(picks, sort string) []string {
		page, err := w.view.Deployments(paging.Query{Filter: picks, Sort: sort})
		if err != nil {
			t.Fatalf("%s, %s: %v", picks, sort, err)
		}
		out := []string{}
		for _, d := range page.Items {
			out = append(out, d.Cluster[5:]+d.Service[5:]+string(d.Phase[0]))
		}
		if page.Counts.Total() != page.Total || page.Total != len(out) {
			t.Errorf("%s: %v of %d", picks, page.Counts, page.Total)
		}
		return out
	}
	for _, test := range []struct {
		picks, sort string
		want        []string
	}{
		{"", "", []string{"00h", "01f", "10d", "11h", "20p", "21p", "30p", "31p"}},
		{"env:prod", "", []string{"00h", "01f", "20p", "21p"}},
		{"health:degraded,failed", "", []string{"01f", "10d"}},
		{"!health:pending", "-health,service", []string{"01f", "10d", "00h", "11h"}},
		{"c00001", "-service", []string{"11h", "10d"}},
		{"message~degr", "", []string{"10d"}},
		{"namespace:apps cluster:*3 service:s00001", "", []string{"31p"}},
		{"suspended:true", "", []string{}},
	} {
		if diff := gocmp.Diff(test.want, deployments(test.picks, test.sort)); diff != "" {
			t.Errorf("%q, %q: %s", test.picks, test.sort, diff)
		}
	}
	page, err := w.view.Clusters(paging.Query{Filter: "env:dev", Sort: "-health"})
	if err != nil || len(page.Items) != 2 || page.Items[0].Phase != v1.Degraded || !maps.Equal(page.Counts, v1.Counts{v1.Degraded: 1, v1.Pending: 1}) {
		t.Errorf("%+v, %v", page, err)
	}
	services, err := w.view.Services(paging.Query{Filter: "health:failed"})
	if err != nil || len(services.Items) != 1 || services.Items[0].Message != "failed" {
		t.Errorf("%+v, %v", services, err)
	}
}

func TestSuspendedServiceIsHeldWhereItIsNotAsDesired(t *testing.T) {
	w := newTheatre(3, 1)
	w.says("c00000", at("k1", api.Phase_HEALTHY, "s00000"))
	w.says("c00001", at("k0", api.Phase_HEALTHY, "s00000"))
	for _, d := range w.desired.Deployments["c00000"] {
		d.Suspended = true
	}
	w.desired.Fleet.Services[0].Spec.Suspend = true
	var phases []v1.Phase
	service, _ := w.view.Service("s00000")
	for _, d := range service.Deployments {
		phases = append(phases, d.Phase)
		if !d.Suspended {
			t.Errorf("%+v", d)
		}
	}
	if diff := gocmp.Diff([]v1.Phase{v1.Healthy, v1.Held, v1.Pending}, phases); diff != "" || !service.Suspended {
		t.Error(diff)
	}
}

// It kept fleets from ever counting as well, and people from seeing what else was wrong.
func TestWhatIsSuspendedIsNotWaitedForAndMakesNothingWorse(t *testing.T) {
	w := newTheatre(2, 1)
	w.desired.Served, w.desired.Head = v1.Commit{ID: "c1"}, v1.Commit{ID: "c1"}
	w.says("c00000", at("k1", api.Phase_HEALTHY, "s00000"))
	w.says("c00001", at("k1", api.Phase_HELD, "s00000")) // as the agent says where it leaves a service alone
	if s := w.view.Status(); s.Converged() || s.Suspended != 0 || len(s.Unhealthy) != 1 {
		t.Errorf("held for another reason: %+v", s)
	}
	w = newTheatre(2, 1)
	w.desired.Served, w.desired.Head = v1.Commit{ID: "c1"}, v1.Commit{ID: "c1"}
	for _, d := range w.desired.Deployments["c00001"] {
		d.Suspended = true
	}
	w.says("c00000", at("k1", api.Phase_HEALTHY, "s00000"))
	w.says("c00001", at("k1", api.Phase_HELD, "s00000"))
	s := w.view.Status()
	if !s.Converged() || s.Suspended != 1 || len(s.Unhealthy) != 0 || !maps.Equal(s.Clusters, v1.Counts{v1.Healthy: 2}) ||
		!maps.Equal(s.Deployments, v1.Counts{v1.Healthy: 1, v1.Held: 1}) {
		t.Errorf("suspended: %+v", s)
	}
}
