package sync

import (
	"time"

	"github.com/pluralsh/plural/api"
)

// Event is something that became of a service, for people.
type Event struct {
	Service string
	// Reason is one of the constants below.
	Reason string
	// Warning is set for what somebody should look at.
	Warning bool
	Message string
	// Key is the deployment that it is about.
	Key  string
	Time time.Time
}

// Reasons of events.
const (
	Applied     = "Applied"     // a deployment was applied completely, for the first time
	Failed      = "Failed"      // it cannot be fetched, rendered or applied
	Degraded    = "Degraded"    // it is applied, and something of it is not well
	Recovered   = "Recovered"   // it is well again
	Held        = "Held"        // something waits for a person
	TestFailed  = "TestFailed"  // a test failed
	Quarantined = "Quarantined" // a test that gates failed, and what ran before runs again
	Healed      = "Healed"      // others had changed objects of it, which are as they were applied again
	Removed     = "Removed"     // nothing of it is left
	Suspended   = "Suspended"   // a person has asked for it to be left alone
)

// tell tells what became of a service between two reports of it; was is nil for the first that this process makes.
func (s *Syncer) tell(was, is *api.ServiceReport) {
	if s.Event == nil || was == is {
		return
	}
	say := func(reason, message, key string, warning bool) {
		s.Event(Event{is.GetService(), reason, warning, message, key, time.Now()})
	}
	if key := is.GetAppliedKey(); was != nil && key != "" && key != was.GetAppliedKey() {
		say(Applied, "", key, false)
	}
	known := outcomes(was)
	for _, t := range is.GetTests() {
		if t.GetOutcome() == api.TestReport_FAILED && (was == nil || known[t.GetName()] != api.TestReport_FAILED) {
			say(TestFailed, failure(t), t.GetKey(), true)
		}
	}
	if key := is.GetQuarantinedKey(); key != "" && key != was.GetQuarantinedKey() {
		say(Quarantined, is.GetMessage(), key, true)
	}
	if is.GetPhase() == was.GetPhase() && (is.GetPhase() == api.Phase_HEALTHY || is.GetMessage() == was.GetMessage()) {
		return
	}
	switch is.GetPhase() {
	case api.Phase_FAILED:
		say(Failed, is.GetMessage(), is.GetKey(), true)
	case api.Phase_DEGRADED:
		say(Degraded, is.GetMessage(), is.GetKey(), true)
	case api.Phase_HELD:
		if leftAlone(is) {
			say(Suspended, "", is.GetKey(), false)
		} else {
			say(Held, is.GetMessage(), is.GetKey(), true)
		}
	case api.Phase_HEALTHY:
		if ill(was.GetPhase()) && !leftAlone(was) {
			say(Recovered, "", is.GetKey(), false)
		}
	case api.Phase_PENDING, api.Phase_PROGRESSING, api.Phase_REMOVING, api.Phase_PHASE_UNSPECIFIED:
	}
}

func ill(p api.Phase) bool {
	return p == api.Phase_FAILED || p == api.Phase_DEGRADED || p == api.Phase_HELD
}

func outcomes(r *api.ServiceReport) map[string]api.TestReport_Outcome {
	known := make(map[string]api.TestReport_Outcome, len(r.GetTests()))
	for _, t := range r.GetTests() {
		known[t.GetName()] = t.GetOutcome()
	}
	return known
}
