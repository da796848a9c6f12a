package servicetest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/servicetest"
)

// pod is a chart's test on the world's own node.
func (w *world) pod(name, annotations string) *unstructured.Unstructured {
	return parse(w.T, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {helm.sh/hook: test%s}}
spec: {nodeName: %s, restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: main, image: none}]}
`, name, annotations, w.Namespace))
}

func TestTestsOfAChartRunByWeightWithWhatTheyNeed(t *testing.T) {
	w := start(t)
	w.node(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "ran "+strings.Split(r.URL.Path, "/")[3]+"\n")
	}))
	w.target.Hooks = []*unstructured.Unstructured{
		w.pod("third", `, helm.sh/hook-weight: "5", helm.sh/hook-delete-policy: hook-succeeded`),
		w.pod("second", `, helm.sh/hook-weight: "-1"`),
		parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: first, annotations: {helm.sh/hook: "test", helm.sh/hook-weight: "-1"}}, data: {color: red}}`),
		parse(t, `{apiVersion: v1, kind: Pod, metadata: {name: never, annotations: {helm.sh/hook: post-install}}}`),
	}
	w.ending("Succeeded", 0, func() {
		if got := w.try(servicetest.Test{Name: "charts-own", Helm: &servicetest.Helm{}}); !got.Passed || !strings.Contains(got.Log, "ran second\n") ||
			strings.Index(got.Log, "ran second") > strings.Index(got.Log, "ran third") {
			t.Errorf("result %+v", got)
		}
	})
	if !w.exists("configmaps", "first") || w.exists("pods", "never") {
		t.Error("what the tests need is not there, or what is no test is")
	}
	pods := w.list("pods")
	if len(pods) != 1 || pods[0].GetName() != "second" {
		t.Errorf("Pods %v", pods)
	}
	if _, err := w.Sweep(t.Context(), w.target, ""); err != nil {
		t.Fatal(err)
	}
	if len(w.list("pods")) != 0 || w.exists("configmaps", "first") {
		t.Error("something is left")
	}
}

func TestTheFirstTestOfAChartThatFailsEndsThem(t *testing.T) {
	w := start(t)
	w.node(nil)
	w.target.Hooks = []*unstructured.Unstructured{
		w.pod("one", `, helm.sh/hook-weight: "1", helm.sh/hook-delete-policy: "before-hook-creation,hook-failed"`),
		w.pod("two", `, helm.sh/hook-weight: "2"`),
	}
	w.ending("Failed", 4, func() {
		got := w.try(servicetest.Test{Name: "charts-own", Helm: &servicetest.Helm{}})
		if got.Passed || !strings.Contains(got.Message, "Pod "+w.Namespace+"/one failed") || !strings.Contains(got.Message, "exit code 4") {
			t.Errorf("result %+v", got)
		}
	})
	if pods := w.list("pods"); len(pods) != 0 {
		t.Errorf("Pods %v", pods)
	}
}

func TestOneTestOfAChartRunsAloneAndAnewEachTime(t *testing.T) {
	w := start(t)
	w.target.Hooks = []*unstructured.Unstructured{
		parse(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: one, annotations: {helm.sh/hook: test}}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}}}`),
		w.pod("two", ""),
	}
	one := servicetest.Test{Name: "charts-own", Helm: &servicetest.Helm{Hooks: []string{"one"}}}
	// helm itself left one from its last run.
	w.create("jobs", `{apiVersion: batch/v1, kind: Job, metadata: {name: one, annotations: {helm.sh/hook: test}}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}}}`)
	seen := map[string]bool{string(w.list("jobs")[0].GetUID()): true}
	for range 2 {
		if got := w.try(one); !got.Passed {
			t.Errorf("result %+v", got)
		}
		uid := string(w.list("jobs")[0].GetUID())
		if seen[uid] {
			t.Error("a Job that had run ran again")
		}
		seen[uid] = true
	}
	if w.exists("pods", "two") {
		t.Error("the other test ran")
	}
	one.Helm.Hooks = []string{"three"}
	if got := w.try(one); got.Passed || got.Tries != 1 || !strings.Contains(got.Message, `no test "three"`) {
		t.Errorf("result %+v", got)
	}
	w.target.Hooks = nil
	if got := w.try(servicetest.Test{Helm: &servicetest.Helm{}}); got.Passed || !strings.Contains(got.Message, "has no tests") {
		t.Errorf("result %+v", got)
	}
}

func TestATestOfAChartThatRunsIsFoundAgainAndOneOfOthersIsNot(t *testing.T) {
	w := start(t)
	w.node(nil)
	w.target.Hooks = []*unstructured.Unstructured{w.pod("one", "")}
	test := servicetest.Test{Name: "charts-own", Helm: &servicetest.Helm{}, Timeout: patience}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan servicetest.Result, 1)
	go func() { ended <- w.Runner.Run(ctx, w.target, test) }()
	eventually(t, "the Pod is there", func() bool { return len(w.list("pods")) == 1 })
	cancel()
	<-ended
	// The next run waits for this Pod, as it says when its time is over; had it wanted another, it would wait for this one to go.
	test.Timeout = time.Second
	if got := w.try(test); got.Passed || got.Message != "Pod "+w.Namespace+"/one: not done after 1s" || w.exists("pods", "one") && len(w.list("pods")) != 0 {
		t.Errorf("result %+v", got)
	}

	w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}`)
	w.target.Hooks = append([]*unstructured.Unstructured{}, parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, annotations: {helm.sh/hook: test}}}`))
	w.target.Hooks = append(w.target.Hooks, w.pod("two", ""))
	test.Retries = 3
	if got := w.try(test); got.Passed || got.Tries != 1 || !strings.Contains(got.Message, "ConfigMap "+w.Namespace+"/settings exists") {
		t.Errorf("result %+v", got)
	}
}

// A chart's tests are made past the engine, and may touch as little of the agent's as what it applies.
func TestATestOfAChartCannotTakeOverTheAgent(t *testing.T) {
	w := start(t)
	binding := parse(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: people, annotations: {helm.sh/hook: test}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "plural:operators"}]
`)
	beside := w.pod("test", "")
	beside.SetNamespace("plural-system")
	for _, hook := range []*unstructured.Unstructured{binding, beside} {
		w.target.Hooks = []*unstructured.Unstructured{hook, w.pod("last", `, helm.sh/hook-weight: "9"`)}
		if got := w.try(servicetest.Test{Name: "charts-own", Helm: &servicetest.Helm{}, Timeout: 5 * time.Second}); got.Passed || !strings.Contains(got.Message, "agent") {
			t.Errorf("%s: %+v", hook.GetKind(), got)
		}
	}
	if w.exists("rolebindings", "people") {
		t.Error("the test says what people may do")
	}
}
