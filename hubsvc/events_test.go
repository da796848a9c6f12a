package hubsvc

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/api/channel"
	"github.com/pluralsh/plural/hubsvc/notify"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/paging"
)

func TestAgentsDoNotSayWhatTheHubAloneCanKnow(t *testing.T) {
	h := &hub{Options: Options{Log: slog.New(slog.DiscardHandler)}, planner: &planner{upstreams: new(upstreams)}}
	h.view = view.New(view.Options{Desired: func() *view.Desired { return new(view.Desired) }, Now: time.Now})
	table := func() *notify.Table { return new(notify.Table) }
	h.reaching.notifier = notify.New(notify.Options{Table: table, Now: time.Now, Metrics: prometheus.NewRegistry()})
	for _, reason := range []string{
		"Silent", "Back", "Served", "Refused", "ReportsLimited", "EventsLimited", "AgentsCompete",
		"AgentUnproven", "AgentRefused", "UpgradeBegun", "UpgradeX",
	} {
		h.heard("a", &channel.Event{Reason: reason})
	}
	h.heard("a", &channel.Event{Reason: "Failed", Service: "web"})
	h.exceeded("a")
	list, err := h.view.Events(paging.Query{})
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
