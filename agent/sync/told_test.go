package sync

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/api"
)

func TestWhatPeopleAreToldOfAService(t *testing.T) {
	report := func(phase api.Phase, applied, message string, tests ...*api.TestReport) *api.ServiceReport {
		return &api.ServiceReport{Service: "web", Key: "k2", AppliedKey: applied, Phase: phase, Message: message, Tests: tests}
	}
	smoke := func(o api.TestReport_Outcome) *api.TestReport {
		return &api.TestReport{Name: "smoke", Key: "k2", Outcome: o, Message: "500"}
	}
	quarantined := report(api.Phase_FAILED, "k1", "in quarantine")
	quarantined.QuarantinedKey = "k2"
	tests := map[string]struct {
		was, is *api.ServiceReport
		want    []string
	}{
		"a restart finds all well":      {nil, report(api.Phase_HEALTHY, "k2", ""), nil},
		"a restart finds a failure":     {nil, report(api.Phase_FAILED, "k1", "no"), []string{"Failed k2 no"}},
		"a new deployment":              {report(api.Phase_HEALTHY, "k1", ""), report(api.Phase_PROGRESSING, "k2", "waits"), []string{"Applied k2 "}},
		"the first deployment":          {report(api.Phase_PENDING, "", ""), report(api.Phase_HEALTHY, "k2", ""), []string{"Applied k2 "}},
		"progress alone":                {report(api.Phase_PROGRESSING, "k2", "1 of 3"), report(api.Phase_HEALTHY, "k2", ""), nil},
		"a failure":                     {report(api.Phase_HEALTHY, "k2", ""), report(api.Phase_FAILED, "k2", "no"), []string{"Failed k2 no"}},
		"another failure":               {report(api.Phase_FAILED, "k2", "no"), report(api.Phase_FAILED, "k2", "never"), []string{"Failed k2 never"}},
		"the same failure":              {report(api.Phase_FAILED, "k2", "no"), report(api.Phase_FAILED, "k2", "no"), nil},
		"trouble":                       {report(api.Phase_HEALTHY, "k2", ""), report(api.Phase_DEGRADED, "k2", "crash"), []string{"Degraded k2 crash"}},
		"no more trouble":               {report(api.Phase_DEGRADED, "k2", "crash"), report(api.Phase_HEALTHY, "k2", ""), []string{"Recovered k2 "}},
		"something waits":               {report(api.Phase_HEALTHY, "k2", ""), report(api.Phase_HELD, "k2", "12 of 20"), []string{"Held k2 12 of 20"}},
		"a person suspends":             {report(api.Phase_HEALTHY, "k2", ""), report(api.Phase_HELD, "k2", suspendedMessage), []string{"Suspended k2 "}},
		"a person lets it go on":        {report(api.Phase_HELD, "k2", suspendedMessage), report(api.Phase_HEALTHY, "k2", ""), nil},
		"a test fails":                  {report(api.Phase_PROGRESSING, "k2", "", smoke(api.TestReport_RUNNING)), report(api.Phase_DEGRADED, "k2", "x", smoke(api.TestReport_FAILED)), []string{"TestFailed k2 test smoke failed: 500", "Degraded k2 x"}},
		"a test had failed":             {report(api.Phase_DEGRADED, "k2", "x", smoke(api.TestReport_FAILED)), report(api.Phase_DEGRADED, "k2", "x", smoke(api.TestReport_FAILED)), nil},
		"a test that gates failed":      {report(api.Phase_FAILED, "k1", "in quarantine"), quarantined, []string{"Quarantined k2 in quarantine"}},
		"what nothing asks for goes":    {report(api.Phase_HEALTHY, "k2", ""), report(api.Phase_REMOVING, "k2", ""), nil},
		"the same report":               {quarantined, quarantined, nil},
		"well, with other words for it": {report(api.Phase_HEALTHY, "k2", "a"), report(api.Phase_HEALTHY, "k2", "b"), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := New(Options{Event: func(e Event) {
				if e.Service != "web" || e.Time.IsZero() || e.Warning != (e.Reason != Applied && e.Reason != Recovered && e.Reason != Suspended) {
					t.Errorf("%+v", e)
				}
				got = append(got, e.Reason+" "+e.Key+" "+e.Message)
			}})
			s.tell(test.was, test.is)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
