package view_test

import (
	"context"
	"strings"
	"testing"
	"time"

	agentapi "github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/paging"
)

func TestUpgradesAreListedFilteredAndFollowed(t *testing.T) {
	list := []v1.Upgrade{
		{Installation: "a", Package: "a", Version: "1.0.0", State: v1.UpgradeCurrent},
		{Installation: "b", Package: "x", Version: "1.0.0", State: v1.UpgradeWaiting, Reasons: []v1.UpgradeReason{{Code: v1.ReasonWindow}}},
	}
	w := newWorld([]string{"c1"}, []string{"web"})
	v := w.view()
	v.Upgrades = func() []v1.Upgrade { return list }
	for filter, want := range map[string]string{
		"": "a b", "state:waiting": "b", "reason:window": "b", "package:x": "b", "a": "a", "state:current": "a",
	} {
		page, err := v.ListUpgrades(paging.Query{Filter: filter, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, u := range page.Items {
			names = append(names, u.Installation)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %s", filter, got)
		}
	}
	if _, ok := v.Upgrade("c"); ok {
		t.Error("an installation that is not there is found")
	}
	follower, err := v.Follow("", []v1.ChangeKind{v1.ChangedUpgrades}, func(v1.ChangeKind) string { return "state:waiting" })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	defer func() { cancel(); <-done }()
	select {
	case <-follower.Wait():
	case <-time.After(time.Minute):
		t.Fatal("nothing is told")
	}
	parts, _ := follower.Next()
	if len(parts) != 1 || parts[0].Kind != v1.ChangedUpgrades || !strings.Contains(string(parts[0].Data), `"installation":"b"`) || !strings.Contains(string(parts[0].Data), `"gone":["a"]`) {
		t.Errorf("told: %s", parts)
	}
}

func TestAServiceStandsOnEachClusterThatItIsMeantFor(t *testing.T) {
	w := newWorld([]string{"a", "b", "c"}, []string{"web"})
	w.says("a", 0, &agentapi.ServiceReport{Service: "web", Key: "k2", AppliedKey: "k2", Phase: agentapi.Phase_HEALTHY})
	w.says("b", 0, &agentapi.ServiceReport{Service: "web", Key: "k2", QuarantinedKey: "k2", Phase: agentapi.Phase_FAILED, Message: "smoke"})
	got := w.view().Stands("web")
	want := []view.ServiceState{
		{Cluster: "a", Phase: v1.Healthy},
		{Cluster: "b", Phase: v1.Failed, Quarantined: true, Message: "smoke"},
		{Cluster: "c", Phase: v1.Pending, Message: "its agent has not reported yet"},
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("%+v", got)
		}
	}
	if len(w.view().Stands("nothing")) > 0 {
		t.Error("a service that is not there stands somewhere")
	}
}
