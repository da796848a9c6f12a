package sync_test

import (
	"strings"
	"testing"

	"github.com/pluralsh/plural/api"
)

func TestAHookThatHangsIsReportedWithWhatItsEventsSay(t *testing.T) {
	w := newWorld(t)
	d := w.service("web", map[string]string{
		"cm.yaml": manifest("web", "one"),
		"job.yaml": `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: pre-install}}
spec: {template: {spec: {serviceAccountName: nobody, restartPolicy: Never, containers: [{name: main, image: none}]}}}
`,
	})
	w.hub.asks("", d)
	w.start()
	const reason = `serviceaccount "nobody" not found`
	w.eventually("the report says why the hook hangs", func() bool {
		s := w.hub.status("web")
		return strings.Contains(s.GetMessage(), reason) && len(s.GetProblems()) > 0 && strings.Contains(s.GetProblems()[0].GetMessage(), reason)
	})
	if s := w.becomes(d, api.Phase_PROGRESSING); strings.Count(s.GetMessage(), reason) != 1 {
		t.Errorf("it is told %q", s.GetMessage())
	}
}

func TestWhatCannotStartIsReportedWithWhatItsEventsSay(t *testing.T) {
	w := newWorld(t)
	d := w.service("web", map[string]string{"web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {serviceAccountName: nobody, containers: [{name: main, image: none}]}}
`})
	w.hub.asks("", d)
	w.start()
	w.eventually("the report says why the Deployment does not start", func() bool { // passes that apply nothing come between
		s := w.hub.status("web")
		return len(s.GetProblems()) > 0 && strings.Contains(s.GetProblems()[0].GetMessage(), `FailedCreate: `)
	})
}
