package converge

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
)

func TestWhatStaysIllEndsTheWaitAndWhatIsUnderWayOrMayHealDoesNot(t *testing.T) {
	row := func(service string, phase v1.Phase, message string) v1.Deployment {
		return v1.Deployment{Service: service, Cluster: "mgmt", Phase: phase, Message: message}
	}
	rows := []v1.Deployment{
		row("a", v1.Failed, "no such image"), row("b", v1.Degraded, "1 of 2 ready"), row("c", v1.Progressing, ""), row("d", v1.Pending, ""),
		row("e", v1.Stale, "its cluster is silent"), row("f", v1.Held, "source charts cannot be fetched"), row("g", v1.Progressing, "cannot be pulled"),
	}
	rows[6].Problems = []v1.Problem{{Object: "Deployment g", Reason: v1.ReasonWarning}}
	const failing = 10 * time.Second
	now := time.Now()
	w := &Wait{Failing: failing, since: map[string]time.Time{}}
	status := &v1.Status{Unhealthy: rows}
	if list := w.lasting(status, now); len(list) != 0 {
		t.Errorf("at once: %v", list)
	}
	if list := w.lasting(&v1.Status{Unhealthy: rows[:1]}, now.Add(failing-time.Second)); len(list) != 0 {
		t.Errorf("before its time: %v", list)
	}
	var told []string
	for _, p := range w.lasting(status, now.Add(failing)) { // b and f were well in between
		told = append(told, Say(p))
	}
	if diff := cmp.Diff([]string{"a on mgmt is failed: no such image"}, told); diff != "" {
		t.Error(diff)
	}
	told = nil
	for _, p := range w.lasting(status, now.Add(2*failing)) {
		told = append(told, Say(p))
	}
	want := []string{
		"a on mgmt is failed: no such image", "b on mgmt is degraded: 1 of 2 ready", "f on mgmt is held: source charts cannot be fetched",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	if list := w.lasting(status, now.Add(7*failing)); len(list) != 4 || Say(list[3]) != "g on mgmt is progressing: cannot be pulled" {
		t.Errorf("what its cluster warns of for six times as long: %v", list)
	}
	status.Sources = []v1.Source{{Name: "charts"}} // nobody has tried yet
	if list := w.lasting(status, now.Add(7*failing)); len(list) != 3 {
		t.Errorf("while a source is fetched for the first time: %v", list)
	}
}

func TestAWaitForSomeClustersEndsWithThemAndNamesTheOthersThatAreNotWell(t *testing.T) {
	of := func(name string, phase v1.Phase, message string) v1.Cluster {
		return v1.Cluster{Name: name, Phase: phase, Message: message, Services: 2, Ready: 2}
	}
	commit := v1.Commit{ID: "0123456789abcdef"}
	s := &v1.Status{
		Head: commit, Commit: commit, Clusters: v1.Counts{v1.Healthy: 1, v1.Pending: 2}, Deployments: v1.Counts{v1.Healthy: 3, v1.Pending: 3},
		Unhealthy: []v1.Deployment{{Service: "web", Cluster: "edge-4", Phase: v1.Failed, Message: "no such image"}},
	}
	w := &Wait{Head: commit.ID, Clusters: 2, Own: []string{"mgmt", "edge-1"}, begun: time.Now().Add(-time.Minute), since: map[string]time.Time{}}
	clusters := []v1.Cluster{of("mgmt", v1.Healthy, ""), of("edge-1", v1.Pending, "its agent has not reported yet"), of("edge-4", v1.Failed, "")}
	detail, ended, err := w.Look(s, clusters)
	const want = "4 of 4 deployments healthy; waiting for cluster edge-1 is pending: its agent has not reported yet"
	if detail != want || ended || err != nil { // what failed elsewhere ends it neither well nor ill
		t.Errorf("at first: %q, %v, %v", detail, ended, err)
	}
	clusters[1].Phase = v1.Healthy
	if detail, ended, err = w.Look(s, clusters); detail != "2 clusters, at 0123456" || !ended || err != nil {
		t.Errorf("with its own well: %q, %v, %v", detail, ended, err)
	}
	others := []v1.Problem{{Cluster: "edge-4", Message: "cluster edge-4 is failed: web: no such image", Fix: "plural cluster get edge-4"}}
	if diff := cmp.Diff(others, w.Elsewhere(s)); diff != "" {
		t.Error(diff)
	}
	if _, ended, _ = w.Look(s, clusters[1:]); ended {
		t.Error("it ended before one of its own was served")
	}
}

func TestAWaitNeverNamesFewerClustersThanNone(t *testing.T) {
	commit := v1.Commit{ID: "0123456789abcdef"}
	s := &v1.Status{Head: commit, Commit: commit, Clusters: v1.Counts{v1.Healthy: 4, v1.Stale: 1}}
	w := &Wait{Head: commit.ID, Clusters: 3, begun: time.Now().Add(-time.Minute), since: map[string]time.Time{}}
	if detail, _, _ := w.Look(s, nil); !strings.HasSuffix(detail, "; waiting for 1 cluster to be healthy") {
		t.Error(detail)
	}
	s.Clusters = v1.Counts{v1.Healthy: 2, v1.Pending: 1}
	if detail, _, _ := w.Look(s, nil); !strings.HasSuffix(detail, "; waiting for 1 cluster to report") {
		t.Error(detail)
	}
}
