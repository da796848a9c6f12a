package model

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
)

var start = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

func still() time.Time { return start }

// filters are of every sort.
var filters = []string{
	"", " ", "a", "!a", "web", "-w", "cluster:a*", "cluster:a,b service:w*", "!cluster:c health:degraded,failed", "phase~e", "env:prod",
	"!env:prod w", "env:", "tag.env:dev", "-l env=prod,tier!=x", "@a*", "!@b", "-f wb", "^w|b$", "/a/", "!/^a$/", "namespace:front", "source:.", "!source:up",
	"version:1*", "suspended:true", "message~image", "!message~image a",
	"a b c", "b !b",
}

func drawRow(t *rapid.T) v1.Deployment {
	d := v1.Deployment{
		Cluster: rapid.SampledFrom([]string{"a", "ab", "b", "c"}).Draw(t, "cluster"),
		Service: rapid.SampledFrom([]string{"web", "b", "db", "api"}).Draw(t, "service"),
		Phase:   rapid.SampledFrom(v1.Phases()).Draw(t, "phase"),
		Version: rapid.SampledFrom([]string{"", "1.0", "2.0"}).Draw(t, "version"),
		Message: rapid.SampledFrom([]string{"", "no image"}).Draw(t, "message"),
		Ready:   rapid.IntRange(0, 3).Draw(t, "ready"), Objects: rapid.IntRange(0, 3).Draw(t, "objects"),
	}
	d.Suspended = d.Ready == 2
	return d
}

func drawCluster(t *rapid.T) v1.Cluster {
	c := v1.Cluster{
		Name:  rapid.SampledFrom([]string{"a", "ab", "b", "c"}).Draw(t, "cluster"),
		Phase: rapid.SampledFrom([]v1.Phase{v1.Healthy, v1.Stale}).Draw(t, "phase"),
		Tags:  map[string]string{"env": rapid.SampledFrom([]string{"prod", "dev"}).Draw(t, "env")},
	}
	reported := start.Add(-time.Minute * time.Duration(rapid.IntRange(0, 5).Draw(t, "age")))
	c.LastReport = &reported
	return c
}

func drawBatch(t *rapid.T) (b Batch) {
	for range rapid.IntRange(0, 6).Draw(t, "rows") {
		d := drawRow(t)
		if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
			b.Deployments.Gone = append(b.Deployments.Gone, d.Cluster+"/"+d.Service)
		} else {
			b.Deployments.Items = append(b.Deployments.Items, d)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "clusters") {
		b.Clusters.Items = append(b.Clusters.Items, drawCluster(t))
	}
	if rapid.IntRange(0, 4).Draw(t, "services") == 0 {
		b.Services.Items = append(b.Services.Items, v1.Service{
			Name: rapid.SampledFrom([]string{"web", "db"}).Draw(t, "service"), Source: rapid.SampledFrom([]string{".", "up"}).Draw(t, "source"), Namespace: "front",
		})
	}
	m := Mark{Kind: v1.ChangedDeployments}
	switch rapid.IntRange(0, 8).Draw(t, "mark") {
	case 0:
		m.Begin = true
	case 1:
		m.End = true
	case 2:
		m.End, m.Cut = true, true
	default:
		return b
	}
	b.Marks = append(b.Marks, m)
	return b
}

// look is what a view is asked to show.
type look struct {
	column, text string
	down, faults bool
}

// want is what a view shows, worked out from all rows at once.
func (l look) want(t *rapid.T, f *Fleet) []string {
	var rows []*Deployment
	for slot, mark := range f.Deployments.marks {
		if mark != 0 {
			rows = append(rows, f.Deployments.at(int32(slot)))
		}
	}
	picks, err := filter.Parse(l.text, f.Deployments.Schema())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(rows, func(a, b *Deployment) int {
		c := 0
		if l.column != "" {
			c = f.Deployments.table.columns[l.column].compare(a, b)
		}
		if l.down {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Service, b.Service))
	})
	ids := []string{}
	for _, d := range rows {
		if picks.Match(d) && (!l.faults || d.Phase != v1.Healthy) {
			ids = append(ids, d.ID())
		}
	}
	return ids
}

func shown(v *View[Deployment]) []string {
	ids := []string{}
	for i := range v.Len() {
		ids = append(ids, v.ID(i))
	}
	return ids
}

func TestViewShowsWhatAllRowsSortedAndFilteredWouldShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := New(still)
		columns := append(f.Deployments.Columns(), "")
		var views []*View[Deployment]
		var looks []look
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				views, looks = append(views, f.Deployments.View()), append(looks, look{})
			case 1:
				for i, v := range views {
					l := &looks[i]
					l.column, l.down = rapid.SampledFrom(columns).Draw(t, "column"), rapid.Bool().Draw(t, "down")
					l.text, l.faults = rapid.SampledFrom(filters).Draw(t, "filter"), rapid.Bool().Draw(t, "faults")
					if err := v.Sort(l.column, l.down); err != nil {
						t.Fatal(err)
					}
					if err := v.Filter(l.text); err != nil {
						t.Fatal(err)
					}
					v.Faults(l.faults)
				}
			default:
				f.Apply(drawBatch(t))
			}
			for i, v := range views {
				if rapid.IntRange(0, 2).Draw(t, "looks") > 0 {
					continue // nobody looks at it for a while
				}
				if diff := gocmp.Diff(looks[i].want(t, f), shown(v)); diff != "" {
					t.Fatalf("%+v (-want +got):\n%s", looks[i], diff)
				}
				for j := range v.Len() {
					if at := v.Find(v.ID(j)); at != j {
						t.Fatalf("%s is found at %d, and stands at %d", v.ID(j), at, j)
					}
				}
			}
		}
	})
}

func TestRowSharesWhatItsClusterAndServiceHave(t *testing.T) {
	f := New(still)
	row := v1.Deployment{Cluster: "a", Service: "web", Phase: v1.Degraded, Held: &v1.Waiting{Token: "t", Count: 3}}
	f.Apply(Batch{Deployments: v1.Changes[v1.Deployment]{Items: []v1.Deployment{row}}})
	f.Apply(Batch{
		Clusters: v1.Changes[v1.Cluster]{Items: []v1.Cluster{{Name: "a", Tags: map[string]string{"env": "prod"}}, {Name: "b", Tags: map[string]string{"env": "prod"}}}},
		Services: v1.Changes[v1.Service]{Items: []v1.Service{{Name: "web", Namespace: "front", Source: "."}}},
	})
	d := f.Deployments.Get("a/web")
	if d == nil || d.Tags["env"] != "prod" || d.Namespace != "front" || d.Source != "." || d.Held != 3 || d.Token != "t" {
		t.Fatalf("got %+v", d)
	}
	if got := f.Deployments.Get("a/db"); got != nil {
		t.Errorf("got %+v", got)
	}
	generation := f.Deployments.Generation()
	f.Apply(Batch{Deployments: v1.Changes[v1.Deployment]{Items: []v1.Deployment{row}}})
	if f.Deployments.Generation() != generation {
		t.Error("a row that is as before counts as a change")
	}
}

func TestListingDropsWhatItDidNotBringAtItsEnd(t *testing.T) {
	f := New(still)
	list := func(m Mark, names ...string) Batch {
		b := Batch{Marks: []Mark{m}}
		b.Marks[0].Kind = v1.ChangedClusters
		for _, name := range names {
			b.Clusters.Items = append(b.Clusters.Items, v1.Cluster{Name: name})
		}
		return b
	}
	v := f.Clusters.View()
	names := func() string {
		var all []string
		for i := range v.Len() {
			all = append(all, v.At(i).Name)
		}
		return strings.Join(all, " ")
	}
	for _, step := range []struct {
		batch Batch
		want  string
		whole bool
		total int
	}{
		{list(Mark{Begin: true, Total: 3}, "a"), "a", false, 3},
		{list(Mark{End: true, Total: 3}, "b", "c"), "a b c", true, 3},
		{list(Mark{Begin: true, Total: 2}, "c"), "a b c", false, 3},
		{list(Mark{End: true, Total: 2}, "d"), "c d", true, 2},
		{list(Mark{Begin: true}, "d"), "c d", false, 2},
		{list(Mark{End: true, Cut: true, Total: 9}), "c d", false, 9},
	} {
		f.Apply(step.batch)
		if got, _ := names(), 0; got != step.want || f.Clusters.Whole() != step.whole || f.Clusters.Total() != step.total {
			t.Errorf("%+v: %q, whole %v, %d in all", step.batch.Marks, got, f.Clusters.Whole(), f.Clusters.Total())
		}
	}
}

func TestWrongColumnAndFilterLeaveAViewAsItIs(t *testing.T) {
	f := New(still)
	f.Apply(Batch{Deployments: v1.Changes[v1.Deployment]{Items: []v1.Deployment{{Cluster: "a", Service: "web", Phase: v1.Healthy}}}})
	v := f.Deployments.View()
	if err := v.Sort("colour", false); err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("got %v", err)
	}
	if err := v.Filter("health:degrded"); err == nil {
		t.Error("a wrong filter is taken")
	}
	if v.Len() != 1 || v.Filtered() != "" {
		t.Errorf("%d rows, filter %q", v.Len(), v.Filtered())
	}
}

func TestNewestThousandEventsAreKeptAndEachOnce(t *testing.T) {
	f := New(still)
	event := func(i int) v1.Event {
		return v1.Event{Time: start.Add(time.Duration(i) * time.Second), Reason: "Applied", Cluster: "a"}
	}
	for i := range maxEvents + 50 {
		f.Apply(Batch{Events: []v1.Event{event(i), event(max(0, i-1))}})
	}
	v := f.Events.View()
	if v.Len() != maxEvents || !v.At(0).Time.Equal(event(maxEvents+49).Time) || !v.At(maxEvents-1).Time.Equal(event(50).Time) {
		t.Errorf("%d events, from %s to %s", v.Len(), v.At(0).Time, v.At(v.Len()-1).Time)
	}
}

func TestRowsAreAsOldAsWhatIsShownOrTheLastReportOfASilentCluster(t *testing.T) {
	now := start
	f := New(func() time.Time { return now })
	minutes := func(n int) *time.Time { at := start.Add(time.Duration(-n) * time.Minute); return &at }
	f.Apply(Batch{
		Clusters:    v1.Changes[v1.Cluster]{Items: []v1.Cluster{{Name: "a", LastReport: minutes(1)}, {Name: "b", Phase: v1.Stale, LastReport: minutes(7)}}},
		Deployments: v1.Changes[v1.Deployment]{Items: []v1.Deployment{{Cluster: "a", Service: "web"}, {Cluster: "b", Service: "web"}}},
	})
	for _, step := range []struct {
		state  State
		pass   time.Duration
		a, b   time.Duration
		asOf   time.Time
		reason string
	}{
		{State{Link: Connecting}, 0, -1, 7 * time.Minute, time.Time{}, "nothing was seen"},
		{State{Link: Live}, 0, 0, 7 * time.Minute, start, "live"},
		{State{Link: Live}, time.Hour, 0, 67 * time.Minute, start.Add(time.Hour), "live for an hour"},
		{State{Link: Broken, Since: start.Add(time.Hour)}, time.Minute, time.Minute, 68 * time.Minute, start.Add(time.Hour), "away for a minute"},
		{State{Link: Offline, AsOf: start}, 0, 61 * time.Minute, 68 * time.Minute, start, "offline"},
	} {
		now = now.Add(step.pass)
		f.Apply(Batch{State: &step.state})
		a, b := f.Age(f.Deployments.Get("a/web")), f.Age(f.Deployments.Get("b/web"))
		if a != step.a || b != step.b || !f.AsOf().Equal(step.asOf) {
			t.Errorf("%s: %s, %s, as of %s", step.reason, a, b, f.AsOf())
		}
		if c := f.ClusterAge(f.Clusters.Get("b")); c != b {
			t.Errorf("%s: the cluster is %s old, its row %s", step.reason, c, b)
		}
	}
}

func TestManyRowsShareOneText(t *testing.T) {
	f := large(t)
	if got := len(f.grid.words.sets); got != 120 {
		t.Errorf("%d sets of tags for 3 x 40 different ones", got)
	}
	if got := f.Deployments.Len(); got != benchClusters*benchServices || !f.Deployments.Whole() {
		t.Errorf("%d rows", got)
	}
}
