package apply

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzConflicts has an API server print names of fields and managers as nobody expects them: there is always a manager to name.
func FuzzConflicts(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"name":"a","image":"one"}]}}`), `.spec.containers[name="a"].image`, "kubectl")
	f.Add([]byte(`{"a":{"b":1}}`), `[`, `"`)
	f.Fuzz(func(t *testing.T, text []byte, field, manager string) {
		var manifest map[string]any
		if kjson.Unmarshal(text, &manifest) != nil {
			return
		}
		c := conflictOf(metav1.StatusCause{Field: field, Message: `conflict with "` + manager + `" using v1`}, manifest)
		if c.manager == "" {
			t.Errorf("no manager in %q", manager)
		}
	})
}
