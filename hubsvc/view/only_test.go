package view_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/view"
)

// told are the rows that the parts of a step speak of, by kind.
func told(t testing.TB, parts []v1.StreamEvent) map[v1.ChangeKind][]string {
	t.Helper()
	all := map[v1.ChangeKind][]string{}
	for _, part := range parts {
		var changes v1.Changes[struct{ Cluster, Service, Name string }]
		if err := json.Unmarshal(part.Data, &changes); err != nil {
			t.Fatal(err)
		}
		all[part.Kind] = append([]string{}, changes.Gone...)
		for _, item := range changes.Items {
			name := item.Name
			if item.Service != "" {
				name = item.Cluster + "/" + item.Service
			}
			all[part.Kind] = append(all[part.Kind], name)
		}
		slices.Sort(all[part.Kind])
	}
	return all
}

func TestAFollowerOfCertainRowsHearsOfThoseAlone(t *testing.T) {
	w := newWorld([]string{"a", "b"}, []string{"a", "db", "web"})
	v := w.view()
	f, err := v.Follow("", nil, func(v1.ChangeKind) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	f.Only([]string{"a/web", "b/nothing", "b", "db"})
	for _, cluster := range []string{"a", "b"} {
		w.says(cluster, 0, healthy("a"), healthy("db"), healthy("web"))
		v.Reported(cluster, false)
	}
	parts, _ := f.Next()
	got := told(t, parts)
	for kind, want := range map[v1.ChangeKind][]string{
		v1.ChangedDeployments: {"a/web"}, v1.ChangedClusters: {"b"}, v1.ChangedServices: {"db"},
	} {
		if !slices.Equal(got[kind], want) {
			t.Errorf("%s: %v, want %v", kind, got[kind], want)
		}
	}
	if _, ok := got[v1.ChangedSummary]; !ok {
		t.Error("without figures")
	}
	f.Only(nil)
	w.says("a", 0, healthy("a"))
	v.Reported("a", false)
	parts, _ = f.Next()
	if got := told(t, parts); len(got[v1.ChangedDeployments])+len(got[v1.ChangedClusters])+len(got[v1.ChangedServices]) > 0 || len(got[v1.ChangedSummary]) > 0 {
		t.Errorf("of no rows: %v", got)
	}
	f.Only([]string{"a/web"})
	w.desired.Deployments["a"] = w.desired.Deployments["a"][:2] // without web
	changed := w.desired
	v.Options.Desired = func() *view.Desired { return &changed }
	w.says("a", 0, healthy("a"), healthy("db"))
	v.Reported("a", false)
	parts, _ = f.Next()
	if got := told(t, parts)[v1.ChangedDeployments]; !slices.Equal(got, []string{"a/web"}) {
		t.Errorf("a row that goes: %v", got)
	}
}

// BenchmarkFollowersOfCertainRows is 50 followers of 100 rows each, of 100,000, of which 100 change: what a tenth of a second brings at
// 1,000 changes a second. All is the same for those who follow everything.
func BenchmarkFollowersOfCertainRows(b *testing.B) {
	const followers, rows, changes = 50, 100, 100
	for name, only := range map[string]bool{"only": true, "all": false} {
		b.Run(name, func(b *testing.B) {
			var clusters, services []string
			for i := range 2000 {
				clusters = append(clusters, fmt.Sprintf("c%04d", i))
			}
			for i := range 50 {
				services = append(services, fmt.Sprintf("s%02d", i))
			}
			w := newWorld(clusters, services)
			report := func(cluster string, phase api.Phase) {
				var said []*api.ServiceReport
				for i, service := range services {
					r := healthy(service)
					if i == 0 {
						r.Phase = phase
					}
					said = append(said, r)
				}
				w.says(cluster, 0, said...)
			}
			for _, cluster := range clusters {
				report(cluster, api.Phase_HEALTHY)
			}
			v := w.view()
			var all []*view.Follower
			for n := range followers {
				f, err := v.Follow("", nil, func(v1.ChangeKind) string { return "" })
				if err != nil {
					b.Fatal(err)
				}
				if only {
					var items []string
					for i := range rows {
						items = append(items, clusters[(n*rows+i)%len(clusters)]+"/s01")
					}
					f.Only(items)
				}
				all = append(all, f)
			}
			phases := []api.Phase{api.Phase_PROGRESSING, api.Phase_HEALTHY}
			turn := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				turn++
				for i := range changes {
					cluster := clusters[(turn*changes+i)%len(clusters)]
					report(cluster, phases[turn/(len(clusters)/changes)%2])
					v.Reported(cluster, false)
				}
				v.Summary() // takes them in
				b.StartTimer()
				for _, f := range all {
					f.Next()
				}
			}
		})
	}
}
