package health_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pluralsh/plural/agent/health"
)

func TestAKindThatNobodyListedIsJudgedByWhatMostKindsHave(t *testing.T) {
	for _, tt := range []struct {
		name, object string
		want         health.Phase
	}{
		{"ready", `{status: {conditions: [{type: Ready, status: "True"}]}}`, health.Healthy},
		{"ready as a boolean", `{status: {conditions: [{type: Ready, status: true}]}}`, health.Healthy},
		{"not ready yet", `{status: {conditions: [{type: Ready, status: "False", reason: Creating}]}}`, health.Progressing},
		{"not ready, and why is a failure", `{status: {conditions: [{type: Ready, status: "False", reason: CreateFailed}]}}`, health.Degraded},
		{"ready is unknown", `{status: {conditions: [{type: Ready, status: Unknown, reason: CreateFailed}]}}`, health.Progressing},
		{"ready says more than available", `{status: {conditions: [{type: Available, status: "False"}, {type: Ready, status: "True"}]}}`, health.Healthy},
		{"all of a row count", `{status: {conditions: [{type: Synced, status: "True"}, {type: Accepted, status: "False"}]}}`, health.Progressing},
		{"degraded though it is available", `{status: {conditions: [{type: Available, status: "True"}, {type: Degraded, status: "True"}]}}`, health.Degraded},
		{"no failure", `{status: {conditions: [{type: Failed, status: "False"}, {type: Available, status: "True"}]}}`, health.Healthy},
		{"a failure of a part", `{status: {conditions: [{type: BackupFailed, status: "True"}]}}`, health.Degraded},
		{"reconciling though it is ready", `{status: {conditions: [{type: Ready, status: "True"}, {type: Reconciling, status: "True"}]}}`, health.Progressing},
		{"a part that is not ready", `{status: {conditions: [{type: PodsReady, status: "True"}, {type: RouteReady, status: "False"}]}}`, health.Progressing},
		{"under way", `{status: {conditions: [{type: Upgrading, status: "True"}]}}`, health.Progressing},
		{"conditions that say nothing, and a phase", `{status: {phase: Failed, conditions: [{type: Colour, status: Blue}]}}`, health.Degraded},
		{"a status of an older generation", `{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}}`, health.Progressing},
		{"a condition of an older generation", `{metadata: {generation: 2}, status: {conditions: [{type: Ready, status: "True", observedGeneration: 1}]}}`, health.Progressing},
		{"an old failure", `{metadata: {generation: 2}, status: {conditions: [{type: Stalled, status: "True", observedGeneration: 1}, {type: Ready, status: "False", observedGeneration: 1, reason: Failed}]}}`, health.Progressing},
		{"an old condition of a status that is new", `{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [{type: Ready, status: "True", observedGeneration: 1}]}}`, health.Healthy},
		{"a phase", `{status: {phase: Running}}`, health.Healthy},
		{"a phase in capitals", `{status: {phase: IN_PROGRESS}}`, health.Progressing},
		{"a state", `{status: {state: Errored}}`, health.Degraded},
		{"a state that nobody knows, and a failure", `{status: {state: UpdateFailed}}`, health.Degraded},
		{"a state that nobody knows", `{status: {state: Purple}}`, health.Healthy},
		{"health inside health", `{status: {health: {health: red}}}`, health.Degraded},
		{"a status inside the status", `{status: {status: Pending}}`, health.Progressing},
		{"a boolean", `{status: {ready: false}}`, health.Progressing},
		{"a generation and nothing else", `{metadata: {generation: 2}, status: {observedGeneration: 2}}`, health.Healthy},
		{"suspended", `{spec: {suspend: true}, status: {conditions: [{type: Ready, status: "False", reason: Failed}]}}`, health.Healthy},
		{"stopped by a person", `{status: {phase: Stopped}}`, health.Healthy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			obj := parse(t, "apiVersion: x.io/v1\nkind: Thing\n")
			for name, value := range parse(t, "{apiVersion: x.io/v1, kind: Thing, "+tt.object[1:]).Object {
				obj.Object[name] = value
			}
			if got := health.Of(obj); got.Phase != tt.want {
				t.Errorf("%s (%s), want %s", got.Phase, got.Message, tt.want)
			}
		})
	}
}

func TestAnObjectWithoutAStatusIsWaitedForAMoment(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name, kind string
		age        time.Duration
		want       health.Phase
	}{
		{"a new object", "x.io/v1, kind: Thing", 5 * time.Second, health.Progressing},
		{"an object from a clock that goes before", "x.io/v1, kind: Thing", -5 * time.Second, health.Progressing},
		{"an object from a clock that is wrong", "x.io/v1, kind: Thing", -time.Hour, health.Healthy},
		{"an object that is no longer new", "x.io/v1, kind: Thing", time.Hour, health.Healthy},
		{"a kind that has no status", "monitoring.coreos.com/v1, kind: PrometheusRule", 0, health.Healthy},
		{"a kind of Kubernetes", "rbac.authorization.k8s.io/v1, kind: Role", 0, health.Healthy},
		{"a kind whose controller always writes one", "cert-manager.io/v1, kind: Certificate", time.Minute, health.Progressing},
		{"a kind whose controller does not run here", "cert-manager.io/v1, kind: Certificate", time.Hour, health.Healthy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			created := now.Add(-tt.age).UTC().Format(time.RFC3339)
			got := health.Of(parse(t, fmt.Sprintf("{apiVersion: %s, metadata: {name: a, creationTimestamp: %q}}", tt.kind, created)))
			if got.Phase != tt.want {
				t.Errorf("%s (%s), want %s", got.Phase, got.Message, tt.want)
			}
			if waits := tt.want == health.Progressing; waits != (got.Until > now.Unix()) {
				t.Errorf("until %d, now %d", got.Until, now.Unix())
			}
			if got.Until != 0 && got.At(time.Unix(got.Until, 0)) != (health.Status{Phase: health.Healthy}) {
				t.Errorf("in the end: %v", got.At(time.Unix(got.Until, 0)))
			}
		})
	}
}
