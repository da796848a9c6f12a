package health_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/health"
)

func TestOfMapsLiveObjectsToPhases(t *testing.T) {
	tests := []struct {
		name, object string
		want         health.Phase
	}{
		{"an object with no status is healthy", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`, health.Healthy},
		{"a custom object with no status is healthy", `{apiVersion: x.io/v1, kind: Thing, metadata: {name: a, generation: 1}}`, health.Healthy},
		{"a new deployment is on its way", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, generation: 1}, spec: {replicas: 1}}`, health.Progressing},
		{"a deployment with an unseen change is on its way", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, generation: 2}
spec: {replicas: 1}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1}
`, health.Progressing},
		{"an available deployment is healthy", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, generation: 2}
spec: {replicas: 1, progressDeadlineSeconds: 600}
status:
  observedGeneration: 2
  replicas: 1
  updatedReplicas: 1
  readyReplicas: 1
  availableReplicas: 1
  conditions:
  - {type: Available, status: "True"}
  - {type: Progressing, status: "True", reason: NewReplicaSetAvailable}
`, health.Healthy},
		{"a deployment past its deadline is degraded", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, generation: 2}
spec: {replicas: 1, progressDeadlineSeconds: 600}
status: {observedGeneration: 2, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}
`, health.Degraded},
		{"a running job is on its way", `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, status: {startTime: x, active: 1}}`, health.Progressing},
		{"a suspended job waits for a person", `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {suspend: true}, status: {startTime: x}}`, health.Healthy},
		{"a complete job is healthy", `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, status: {succeeded: 1, conditions: [{type: Complete, status: "True"}]}}`, health.Healthy},
		{"a failed job is degraded", `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, status: {failed: 1, conditions: [{type: Failed, status: "True"}]}}`, health.Degraded},
		{"a kind called Job of another group is not a job", `{apiVersion: x.io/v1, kind: Job, metadata: {name: a}}`, health.Healthy},
		{"an object under deletion is on its way", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, deletionTimestamp: "2026-01-01T00:00:00Z"}}`, health.Progressing},
		{"a custom object that is not ready is on its way", `{apiVersion: x.io/v1, kind: Thing, metadata: {name: a}, status: {conditions: [{type: Ready, status: "False"}]}}`, health.Progressing},
		{"a stalled custom object is degraded", `{apiVersion: x.io/v1, kind: Thing, metadata: {name: a}, status: {conditions: [{type: Stalled, status: "True"}]}}`, health.Degraded},
		{"a status that makes no sense is unknown", `{apiVersion: x.io/v1, kind: Thing, metadata: {name: a}, status: {conditions: oops}}`, health.Unknown},
		{"an unestablished definition is on its way", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}}`, health.Progressing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := health.Of(parse(t, tt.object))
			if diff := cmp.Diff(tt.want, got.Phase); diff != "" {
				t.Errorf("phase (-want +got):\n%s\nmessage: %s", diff, got.Message)
			}
		})
	}
}

func FuzzOfNeverPanics(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"status":{"conditions":[{"type":"Complete"}]}}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","status":{"phase":"Running","containerStatuses":[7]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		obj := &unstructured.Unstructured{}
		if obj.UnmarshalJSON(data) != nil || obj.IsList() {
			return // no input that the property speaks of
		}
		if health.Of(obj).Phase == "" {
			t.Error("no phase")
		}
	})
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}
