package converge

import (
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
