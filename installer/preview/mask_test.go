package preview_test

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/installer/preview"
)

func TestMaskHidesWhatAChartEncodedOrMayHaveHashed(t *testing.T) {
	const password = "correct-horse-battery"
	auth := base64.StdEncoding.EncodeToString([]byte("bot:" + password))
	docker := base64.StdEncoding.EncodeToString([]byte(`{"auths":{"ghcr.io":{"username":"bot","auth":"` + auth + `"}}}`))
	objects := func() []*unstructured.Unstructured {
		return []*unstructured.Unstructured{
			{Object: map[string]any{
				"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
				"metadata": map[string]any{"name": "pull", "annotations": map[string]any{
					"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "web",
				}},
				"data":       map[string]any{".dockerconfigjson": docker, "htpasswd": "Ym90OiQyYSQxMCRhYmM="},
				"stringData": "no map",
			}},
			{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web"},
				"data": map[string]any{"header": "Basic " + auth, "pull": docker, "plain": "Ym90OnB1YmxpYy1rbm93bGVkZ2U="},
			}},
		}
	}
	made := &preview.Rendition{Objects: objects(), Sealed: []string{password}}
	made.Mask()
	want := []map[string]any{
		{
			"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
			"metadata": map[string]any{"name": "pull", "annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": "***", "team": "web",
			}},
			"data": map[string]any{".dockerconfigjson": "***", "htpasswd": "***"}, "stringData": "***",
		},
		{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web"},
			"data": map[string]any{"header": "Basic ***", "pull": "***", "plain": "Ym90OnB1YmxpYy1rbm93bGVkZ2U="},
		},
	}
	for i := range want {
		if diff := cmp.Diff(want[i], made.Objects[i].Object); diff != "" {
			t.Error(diff)
		}
	}
	made = &preview.Rendition{Objects: objects()}
	if made.Mask(); cmp.Diff(objects(), made.Objects) != "" {
		t.Error("nothing was sealed, and something is masked")
	}
}
