package watchcache_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
)

func TestAHookThatIsDeletedStaysWhatItCameTo(t *testing.T) {
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{
			"name": "once", "namespace": "web", "deletionTimestamp": "2026-01-01T00:00:00Z",
			"annotations": map[string]any{object.RunAnnotation: "k1/pre-sync"},
		},
		"status": map[string]any{"succeeded": int64(1), "conditions": []any{map[string]any{"type": "Complete", "status": "True"}}},
	}}
	if got := watchcache.Of(job, nil); got.Health.Phase != health.Healthy || !got.Deleting {
		t.Errorf("it is %+v, want done", got)
	}
}

func TestAPodThatIsAHookIsDoneWhenItHasEnded(t *testing.T) {
	ready := []any{map[string]any{"type": "Ready", "status": "True"}}
	for _, tt := range []struct {
		name, run, phase string
		want             health.Phase
	}{
		{"a hook that runs", "k1/pre-sync", "Running", health.Progressing},
		{"a hook that has ended well", "k1/pre-sync", "Succeeded", health.Healthy},
		{"a hook that has failed", "k1/pre-sync", "Failed", health.Degraded},
		{"a pod that is no hook", "", "Running", health.Healthy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Pod",
				"metadata": map[string]any{"name": "once", "namespace": "web"},
				"status":   map[string]any{"phase": tt.phase, "conditions": ready},
			}}
			if tt.run != "" {
				pod.SetAnnotations(map[string]string{object.RunAnnotation: tt.run})
			}
			if got := watchcache.Of(pod, nil).Health.Phase; got != tt.want {
				t.Errorf("it is %s, want %s", got, tt.want)
			}
		})
	}
}
