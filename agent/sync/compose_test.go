package sync

import (
	"testing"

	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/api"
)

// A hub that hears "healthy" of a version once takes it for good and never takes it back, so it must not hear that while an agent
// is on its way back from it.
func TestWhatFailedItsGateIsNeverReportedHealthyBeforeItIsGoneBackFrom(t *testing.T) {
	d := &api.Deployment{Service: "web", Key: "new", Tests: []*api.Test{{Name: "smoke", Gate: true}}}
	svc := &service{name: "web", desired: d, applied: d}
	svc.found = svc.report(api.Phase_HEALTHY, "")
	svc.compose()
	if got := svc.status.GetPhase(); got != api.Phase_PROGRESSING {
		t.Errorf("before its test it is %s", got)
	}
	failed := &api.TestReport{Name: "smoke", Key: "new", Outcome: api.TestReport_FAILED}
	svc.memory = store.Memory{
		Tests: map[string]*api.TestReport{svc.outcomes()[0]: failed}, Quarantined: "new", Reason: "in quarantine: test smoke failed",
	}
	svc.compose()
	if s := svc.status; s.GetPhase() != api.Phase_FAILED || s.GetQuarantinedKey() != "new" || s.GetMessage() != svc.memory.Reason {
		t.Errorf("after its test it is %v", s)
	}
	svc.found = svc.report(api.Phase_PROGRESSING, "goes back")
	svc.compose()
	if s := svc.status; s.GetMessage() != "goes back" || s.GetQuarantinedKey() != "new" {
		t.Errorf("what the pass that goes back found is not told: %v", s)
	}
}
