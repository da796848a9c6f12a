package servicetest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/agent/servicetest"
)

// simulated is a Job that the simulated nodes complete.
const simulated = `{template: {spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: none}]}}}`

// ours is a Job on the world's own node, which ends when the test says so.
func (w *world) ours() string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {labels: {plural.sh/service: web, color: red}}
spec: {template: {spec: {nodeName: %s, containers: [{name: main, image: none}, {name: side, image: none}]}}}
`, w.Namespace)
}

// endPods plays the kubelet of the world's node: it ends each Pod there that runs.
func (w *world) endPods(ctx context.Context, phase string, code int) {
	for ctx.Err() == nil {
		for _, pod := range w.list("pods") {
			now, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
			on, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
			if on == w.Namespace && (now == "" || now == "Pending") && pod.GetDeletionTimestamp() == nil {
				w.patchStatus("pods", pod.GetName(), fmt.Sprintf(`{"phase": %q, "containerStatuses": [{"name": "main", "image": "none", "imageID": "none", "ready": false,
					"restartCount": 0, "state": {"terminated": {"exitCode": %d}}}]}`, phase, code))
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ending plays the kubelet while fn runs.
func (w *world) ending(phase string, code int, fn func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.endPods(ctx, phase, code)
	}()
	fn()
	cancel()
	<-done
}

func TestAJobThatCompletesPassesAndIsDeleted(t *testing.T) {
	w := start(t)
	w.target.Service = "web"
	got := w.try(servicetest.Test{Name: "suite", Job: &servicetest.Job{Manifest: manifest(t, simulated)}})
	if !got.Passed || got.Tries != 1 || got.Message != "" {
		t.Errorf("result %+v", got)
	}
	eventually(t, "the Job is gone", func() bool { return len(w.list("jobs")) == 0 })
}

func TestAJobThatFailsSaysWhyAndStaysUntilTheNextRun(t *testing.T) {
	w := start(t)
	w.target.Service = "web"
	w.node(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, strings.Repeat("noise ", 2000)+"the end of "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]+"\n")
	}))
	suite := servicetest.Test{Name: "suite", Job: &servicetest.Job{Manifest: manifest(t, w.ours())}, Retries: 1}
	w.ending("Failed", 3, func() {
		got := w.try(suite)
		for _, want := range []string{"plural-test-web-suite-01234567 failed", "BackoffLimitExceeded", "container main: exit code 3"} {
			if got.Passed || got.Tries != 2 || !strings.Contains(got.Message, want) {
				t.Errorf("tries %d, message %q, want %q", got.Tries, got.Message, want)
			}
		}
		if len(got.Log) > 4096 || !strings.HasSuffix(got.Log, "the end of side\n") {
			t.Errorf("log %q", got.Log)
		}
	})
	jobs := w.list("jobs")
	if len(jobs) != 1 {
		t.Fatalf("%d Jobs", len(jobs))
	}
	left := jobs[0]
	if labels := left.GetLabels(); labels["plural.sh/test"] != "web" || labels["plural.sh/service"] != "" || labels["color"] != "red" {
		t.Errorf("labels %v", labels)
	}
	if backoff, _, _ := unstructured.NestedInt64(left.Object, "spec", "backoffLimit"); backoff != 0 {
		t.Errorf("backoffLimit %d", backoff)
	}
	if deadline, _, _ := unstructured.NestedInt64(left.Object, "spec", "activeDeadlineSeconds"); deadline != int64(patience.Seconds()) {
		t.Errorf("activeDeadlineSeconds %d", deadline)
	}
	w.ending("Succeeded", 0, func() {
		if got := w.try(suite); !got.Passed || !strings.Contains(got.Log, "==> side <==") {
			t.Errorf("result %+v", got)
		}
	})
}

// The end of a secret is no secret to whoever masks what is left of a log.
func TestWhatIsSecretIsMaskedBeforeALogIsCut(t *testing.T) {
	w := start(t)
	const secret = "correct-horse-battery-staple"
	w.node(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, strings.Repeat("noise ", 1000)+secret+strings.Repeat(".", 1960)) // each has a little more
	}))
	w.target.Mask = func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	w.ending("Succeeded", 0, func() {
		got := w.try(servicetest.Test{Name: "suite", Job: &servicetest.Job{Manifest: manifest(t, w.ours())}})
		if !got.Passed || !strings.Contains(got.Log, "***") || strings.Contains(got.Log, "staple") {
			t.Errorf("result %+v", got)
		}
	})
}

func TestALogThatIsCutWhereItIsReadShowsNoBeginningOfASecret(t *testing.T) {
	w := start(t)
	const secret = "correct-horse-battery-staple"
	w.node(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, strings.Repeat("noise ", 1<<20)[:1<<20-len("correct")]+secret)
	}))
	w.target.Mask = func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	w.ending("Succeeded", 0, func() {
		got := w.try(servicetest.Test{Name: "suite", Job: &servicetest.Job{Manifest: manifest(t, w.ours())}})
		if !got.Passed || !strings.Contains(got.Log, "noise") || strings.Contains(got.Log, "c") {
			t.Errorf("result %+v", got)
		}
	})
}

func TestAJobThatIsNotDoneInTimeIsStopped(t *testing.T) {
	w := start(t)
	w.node(nil)
	got := w.try(servicetest.Test{Name: "suite", Job: &servicetest.Job{Manifest: manifest(t, w.ours())}, Timeout: 2 * time.Second})
	if got.Passed || !strings.Contains(got.Message, "not done after 2s") || !strings.Contains(got.Log, "no log") {
		t.Errorf("result %+v", got)
	}
	eventually(t, "nothing runs", func() bool { return len(w.list("jobs")) == 0 && len(w.list("pods")) == 0 })
}

// interrupted begins a test and ends it as soon as its Job runs, which it names.
func (w *world) interrupted(suite servicetest.Test) types.UID {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	ended := make(chan servicetest.Result, 1)
	go func() { ended <- w.Runner.Run(ctx, w.target, suite) }()
	eventually(w.T, "the Job runs", func() bool { return len(w.list("pods")) == 1 })
	first := w.list("jobs")[0].GetUID()
	cancel()
	if got := <-ended; got.Passed {
		w.Errorf("a test that was interrupted has ended: %+v", got)
	}
	return first
}

func TestAJobThatRunsIsFoundAgainByTheNextRun(t *testing.T) {
	w := start(t)
	w.node(nil)
	suite := servicetest.Test{Name: "suite", Timeout: patience, Job: &servicetest.Job{Manifest: manifest(t, w.ours())}}
	first, ended := w.interrupted(suite), make(chan servicetest.Result, 1)
	go func() { ended <- w.Runner.Run(t.Context(), w.target, suite) }()
	w.ending("Succeeded", 0, func() {
		if got := <-ended; !got.Passed {
			t.Errorf("result %+v", got)
		}
	})
	for _, pod := range w.list("pods") {
		if owner := pod.GetOwnerReferences()[0].UID; owner != first {
			t.Errorf("a Pod of another Job, %s", owner)
		}
	}
}

func TestAJobOfAnotherTextOrKeyIsNotTakenForThisOne(t *testing.T) {
	w := start(t)
	w.node(nil)
	run := func(text string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan servicetest.Result, 1)
		before := len(w.list("jobs"))
		go func() {
			ended <- w.Runner.Run(ctx, w.target, servicetest.Test{Name: "suite", Timeout: patience, Job: &servicetest.Job{Manifest: manifest(t, text)}})
		}()
		eventually(t, "the Job is there", func() bool {
			jobs := w.list("jobs")
			return len(jobs) >= max(before, 1) && jobs[len(jobs)-1].GetLabels()["color"] != "" &&
				strings.Contains(text, "color: "+jobs[len(jobs)-1].GetLabels()["color"])
		})
		cancel()
		<-ended
	}
	run(w.ours())
	run(strings.Replace(w.ours(), "color: red", "color: blue", 1))
	if jobs := w.list("jobs"); len(jobs) != 1 || jobs[0].GetLabels()["color"] != "blue" {
		t.Errorf("Jobs %v", jobs)
	}
	w.target.Key = "f" + key
	run(strings.Replace(w.ours(), "color: red", "color: green", 1))
	if _, err := w.Sweep(t.Context(), w.target, w.target.Key); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Job of the older key is gone", func() bool { return len(w.list("jobs")) == 1 })
	if _, err := w.Sweep(t.Context(), w.target, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are gone", func() bool { return len(w.list("jobs")) == 0 && len(w.list("pods")) == 0 })
}

// Whoever may make Jobs in the namespace can put one in the place of a test's, with all that stands on it: a gate that never ran would
// pass.
func TestAJobThatSomebodyElseMadeIsNoTest(t *testing.T) {
	w := start(t)
	w.node(nil)
	suite := servicetest.Test{Name: "suite", Job: &servicetest.Job{Manifest: manifest(t, w.ours())}}
	w.ending("Failed", 3, func() { w.try(suite) })
	failed := w.list("jobs")[0]
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := w.in("jobs").Delete(t.Context(), failed.GetName(), background); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() bool { return !w.exists("jobs", failed.GetName()) })
	forged := parse(t, `
apiVersion: batch/v1
kind: Job
spec: {template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: main, image: none}]}}}
`)
	forged.SetName(failed.GetName())
	forged.SetLabels(failed.GetLabels())
	forged.SetAnnotations(failed.GetAnnotations())
	if _, err := w.in("jobs").Create(t.Context(), forged, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.ending("Failed", 3, func() {
		if got := w.try(suite); got.Passed || !strings.Contains(got.Message, "exit code 3") {
			t.Errorf("a test that never ran has ended: %+v", got)
		}
	})
}

// What another process made cannot be told from what somebody else did.
func TestAJobThatRanWhenTheAgentWasRestartedRunsAgain(t *testing.T) {
	w := start(t)
	w.node(nil)
	suite := servicetest.Test{Name: "suite", Timeout: patience, Job: &servicetest.Job{Manifest: manifest(t, w.ours())}}
	first, ended := w.interrupted(suite), make(chan servicetest.Result, 1)

	w.restart()
	go func() { ended <- w.Runner.Run(t.Context(), w.target, suite) }()
	eventually(t, "it is made anew", func() bool {
		jobs := w.list("jobs")
		return len(jobs) == 1 && jobs[0].GetUID() != first
	})
	w.ending("Succeeded", 0, func() {
		if got := <-ended; !got.Passed || got.Tries != 1 {
			t.Errorf("result %+v", got)
		}
	})
}

func TestAJobOfOthersIsLeftAlone(t *testing.T) {
	w := start(t)
	w.target.Service = "others" // no other test's: a sweep goes through all namespaces
	w.create("jobs", `
apiVersion: batch/v1
kind: Job
metadata: {name: plural-test-others-suite-01234567, labels: {plural.sh/test: others}}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}}
`)
	got := w.try(servicetest.Test{Name: "suite", Job: &servicetest.Job{Manifest: manifest(t, simulated)}, Retries: 3})
	if got.Passed || got.Tries != 1 || !strings.Contains(got.Message, "no test of service \"others\" made it") {
		t.Errorf("result %+v", got)
	}
	if _, err := w.Sweep(t.Context(), w.target, ""); err != nil {
		t.Fatal(err)
	}
	if !w.exists("jobs", "plural-test-others-suite-01234567") {
		t.Error("the Job is gone")
	}
}

func TestAJobThatCannotBeOneIsNotTriedAgain(t *testing.T) {
	w := start(t)
	w.target.Namespaces = []string{w.Namespace}
	for name, test := range map[string]struct{ text, want string }{
		"another kind":       {`{apiVersion: v1, kind: Pod, spec: {}}`, "a Pod, not a Job"},
		"nothing":            {`{}`, "has no spec"},
		"a spec that is not": {`{spec: 3}`, "has no spec"},
		"no containers":      {`{template: {spec: {}}}`, "containers: Required value"},
		"a field of another": {`{template: {spec: {containers: 7}}}`, "create Job.batch"},
		"another namespace":  {`{metadata: {namespace: kube-system}, spec: ` + simulated + `}`, "not one of the service's allowed namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.try(servicetest.Test{Name: "suite", Job: &servicetest.Job{Manifest: manifest(t, test.text)}, Retries: 3})
			if got.Passed || got.Tries != 1 || !strings.Contains(got.Message, test.want) {
				t.Errorf("result %+v, want %q", got, test.want)
			}
		})
	}
	if got := w.try(servicetest.Test{Name: "empty", Retries: 3}); got.Passed || got.Tries != 1 {
		t.Errorf("result %+v", got)
	}
}

func TestATestMayDoWhatItsAccountMay(t *testing.T) {
	w := start(t)
	w.target.Account = w.Namespace + "/default"
	suite := servicetest.Test{Name: "suite", Job: &servicetest.Job{Manifest: manifest(t, simulated)}}
	got := w.try(suite)
	if got.Passed || !strings.Contains(got.Message, `User "system:serviceaccount:`+w.Namespace+`:default" cannot create resource "jobs"`) {
		t.Errorf("result %+v", got)
	}
	w.create("roles", `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tests}
rules:
- {apiGroups: [batch], resources: [jobs], verbs: [create, get, watch, delete]}
- {apiGroups: [""], resources: [pods, pods/log], verbs: [get, list]}
`)
	w.create("rolebindings", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tests}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tests}
subjects: [{kind: ServiceAccount, name: default}]
`)
	suite.Retries = 5 // the authorizer hears of new roles a little later
	if got := w.try(suite); !got.Passed {
		t.Errorf("result %+v", got)
	}
	w.target.Account = "default"
	if got := w.try(suite); got.Passed || got.Tries != 1 || !strings.Contains(got.Message, "NAMESPACE/NAME") {
		t.Errorf("result %+v", got)
	}
}
