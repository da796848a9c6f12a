package sync

import "github.com/pluralsh/plural/api"

// A suspended service is left as it is: no pass is made over it, and no test tried, until the hub says that it goes on. Only when
// nothing asks for it any more it is removed like every other.

// suspended says whether a person has asked for the newest deployment to be left alone.
func (svc *service) suspended() bool { return svc.desired.GetSync().GetSuspended() }

// suspend reports that the service is left alone, beside what the last pass found. A pass under way was stopped already.
func (svc *service) suspend() {
	before := svc.found
	svc.found = svc.report(api.Phase_HELD, suspendedMessage)
	svc.found.Objects, svc.found.Ready, svc.found.Problems = before.GetObjects(), before.GetReady(), before.GetProblems()
	svc.deferred, svc.blocked = false, ""
	if svc.trial != nil {
		svc.trial.cancel()
	}
	svc.compose()
}

// leftAlone says whether a report is of a suspended service.
func leftAlone(r *api.ServiceReport) bool {
	return r.GetPhase() == api.Phase_HELD && r.GetMessage() == suspendedMessage
}

const suspendedMessage = "suspended: nothing is applied, healed or deleted until it is resumed"
