package livequery

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/internal/kubewatch"
)

func TestAShownObjectThatGetsNoStatusBecomesHealthyInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := lone()
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.io/v1", "kind": "Thing", "metadata": map[string]any{
			"name": "a", "uid": "u", "resourceVersion": "1", "creationTimestamp": time.Now().UTC().Format(time.RFC3339),
		}}}
		table.Replace([]kubewatch.Item[seen]{{Name: "a", Version: "1", Value: table.reduce(obj)}}, "1")
		r := table.read(make(chan struct{}, 1), true)
		for _, want := range []string{"progressing", "healthy"} {
			changed, _, err := table.take(r)
			if err != nil || len(changed) != 1 || changed[0].GetHealth() != want {
				t.Fatalf("changed %v, %v; want %s", changed, err, want)
			}
			<-time.After(time.Minute)
			synctest.Wait()
		}
	})
}
