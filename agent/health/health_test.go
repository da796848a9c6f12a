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
		{"a suspended job that never started waits for a person", `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {suspend: true}}`, health.Healthy},
		{"a paused deployment waits for a person", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 1, paused: true}, status: {conditions: [{type: Progressing, status: Unknown, reason: DeploymentPaused}]}}`, health.Healthy},
		{"a claim that waits for its first consumer holds nobody up", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, status: {phase: Pending}}`, health.Healthy},
		{"a bound claim is healthy", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, status: {phase: Bound}}`, health.Healthy},
		{"a claim that lost its volume is degraded", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, status: {phase: Lost}}`, health.Degraded},
		{"a claim that nobody has looked at is on its way", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}}`, health.Progressing},
		{"a pod that failed is degraded", `{apiVersion: v1, kind: Pod, metadata: {name: a}, status: {phase: Failed}}`, health.Degraded},
		{"a pod that is done is healthy", `{apiVersion: v1, kind: Pod, metadata: {name: a}, status: {phase: Succeeded}}`, health.Healthy},
		{"a daemon set whose pods a person replaces is healthy", `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, generation: 2}, spec: {updateStrategy: {type: OnDelete}}, status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberAvailable: 2, numberReady: 2}}`, health.Healthy},
		{"a daemon set that replaces its pods is on its way", `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, generation: 2}, spec: {updateStrategy: {type: RollingUpdate}}, status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberAvailable: 2, numberReady: 2}}`, health.Progressing},
		{"an ingress without an address holds nobody up", `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, status: {loadBalancer: {}}}`, health.Healthy},
		{"an autoscaler without metrics holds nobody up", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, status: {conditions: [{type: ScalingActive, status: "False", reason: FailedGetResourceMetric}]}}`, health.Healthy},
		{"a cron job is healthy between its runs", `{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, status: {}}`, health.Healthy},
		{"a load balancer without a cluster address is on its way", `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer}}`, health.Progressing},
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
	f.Add([]byte(`{"apiVersion":"argoproj.io/v1","kind":"Rollout","status":{"observedGeneration":"9","conditions":[{"type":7,"status":true}]}}`))
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
