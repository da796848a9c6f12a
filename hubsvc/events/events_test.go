package events

import (
	"encoding/json"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/notify"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/paging"
)

func TestAgentsDoNotSayWhatTheHubAloneCanKnow(t *testing.T) {
	shown := view.New(view.Options{Desired: func() *view.Desired { return new(view.Desired) }, Now: time.Now})
	h := New(Options{
		Note: shown.Note, Tell: func(notify.Event) {}, Speaks: func() bool { return true }, Known: func(string) bool { return true },
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	for _, reason := range []string{
		"Silent", "Back", "Served", "Refused", "ReportsLimited", "EventsLimited", "AgentsCompete",
		"AgentUnproven", "AgentRefused", "UpgradeBegun", "UpgradeX",
	} {
		h.Heard("a", &tunnelapi.Event{Reason: reason})
	}
	h.Heard("a", &tunnelapi.Event{Reason: "Failed", Service: "web"})
	h.Exceeded("a")
	list, err := shown.Events(paging.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Items {
		got = append(got, e.Reason)
	}
	if len(got) != 2 || got[0] != "ReportsLimited" || got[1] != "Failed" {
		t.Errorf("events are %v", got)
	}
}

// Whatever time an agent says, what happened stands where it was heard of, and can be shown: JSON has no year 292278994.
func TestAnAgentDoesNotDecideWhenSomethingHappened(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for said, want := range map[int64]time.Time{
		now.Add(-time.Minute).UnixMilli(): now.Add(-time.Minute), now.Add(-7 * time.Hour).UnixMilli(): now.Add(-7 * time.Hour),
		now.Add(time.Hour).UnixMilli(): now, now.AddDate(-10, 0, 0).UnixMilli(): now, now.AddDate(10, 0, 0).UnixMilli(): now,
		0: now, -1: now, math.MaxInt64: now, math.MinInt64: now,
	} {
		got := eventOf("edge", &tunnelapi.Event{Service: "web", Reason: "Failed", UnixMs: said}, now)
		if !got.Time.Equal(want) || got.Cluster != "edge" || got.Service != "web" {
			t.Errorf("%d: %v", said, got)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%d cannot be shown: %v", said, err)
		}
	}
}
