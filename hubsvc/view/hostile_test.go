package view_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/paging"
)

// A8: a service is shown with what each of its clusters says, and the word of one must not take those of the others away: JSON has
// no year 292278994.
func TestAClusterThatSaysNonsenseDoesNotHideTheOthers(t *testing.T) {
	for _, finished := range []int64{math.MaxInt64, math.MinInt64, 253_402_300_800_000} {
		w := newWorld([]string{"a", "b"}, []string{"web"})
		for cluster, at := range map[string]int64{"a": finished, "b": now.UnixMilli()} {
			report := healthy("web")
			report.Tests = []*api.TestReport{{Name: "smoke", Outcome: api.TestReport_PASSED, FinishedUnixMs: at, TookMs: finished}}
			w.says(cluster, 0, report)
		}
		service, _ := w.view().Service("web")
		text, err := json.Marshal(service)
		if err != nil || strings.Count(string(text), `"finished"`) != 1 {
			t.Errorf("%d: %v %s", finished, err, text)
		}
	}
}

// One agent that named other leftovers in each of its reports emptied the history of everybody's events, told sinks ten thousand
// things each time, and had whoever followed begin anew.
func TestAClusterThatNamesMuchDoesNotDrownTheOthers(t *testing.T) {
	w := newTheatre(2, 1)
	for _, phase := range []api.Phase{api.Phase_HEALTHY, api.Phase_FAILED} {
		w.says("c00000", at("k1", api.Phase_HEALTHY, "s00000"))
		w.says("c00001", at("k1", phase, "s00000"))
		w.view.Status()
	}
	f, err := w.view.Follow("", []v1.ChangeKind{v1.Happened}, func(v1.ChangeKind) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	before := len(w.told)
	for round := range 6 {
		var all []*api.ServiceReport
		for i := range 10_000 {
			phase := []api.Phase{api.Phase_HELD, api.Phase_FAILED}[round%2]
			all = append(all, &api.ServiceReport{Service: fmt.Sprintf("r%d-%d", round/2, i), Phase: phase})
		}
		w.says("c00000", all...)
		w.view.Status()
	}
	for _, filter := range []string{"reason:Failed cluster:c00001", "reason:Failed cluster:c00000", "reason:Removed"} {
		list, err := w.view.Events(paging.Query{Filter: filter})
		if err != nil || list.Total == 0 {
			t.Errorf("%s: %v, %d events", filter, err, list.Total)
		}
	}
	if told := len(w.told) - before; told > 20 {
		t.Errorf("%d events are told", told)
	}
	parts, _ := f.Next()
	for _, p := range parts {
		if p.Kind == v1.Reset {
			t.Error("who followed has to begin anew")
		}
	}
}

func TestAClusterHasItsShareOfTheEvents(t *testing.T) {
	w := newTheatre(2, 0)
	w.view.Status()
	note := func(cluster, reason string, from, to int) (news int) {
		for i := range to - from {
			if w.view.Note(v1.Event{Cluster: cluster, Service: fmt.Sprint("s", from+i), Reason: reason}) {
				news++
			}
		}
		return news
	}
	if got := note("c00000", "Failed", 0, 3000); got != 300 {
		t.Errorf("%d of 3000 events of one cluster are news", got)
	}
	if got := note("c00001", "Failed", 0, 10); got != 10 {
		t.Errorf("%d of 10 events of another are", got)
	}
	limited := func() int {
		list, err := w.view.Events(paging.Query{Filter: "reason:" + view.EventsLimited})
		if err != nil {
			t.Fatal(err)
		}
		return list.Total
	}
	if limited() != 1 {
		t.Errorf("it is said %d times that events are left out", limited())
	}
	if !w.view.Note(v1.Event{Cluster: "c00000", Reason: view.Silent}) {
		t.Error("a cluster that has had its share falls silent without a word")
	}
	w.now = w.now.Add(10 * time.Second)
	if got := note("c00000", "Failed", 3000, 3010); got != 1 || limited() != 1 {
		t.Errorf("after ten seconds %d more are news", got)
	}
}
