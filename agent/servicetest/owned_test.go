package servicetest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/servicetest"
)

// Two services may bring the same chart: what one's tests are made of is not the other's to take away. What `helm test` left is
// nobody's.
func TestATestOfAnotherServicesChartIsLeftAlone(t *testing.T) {
	w := start(t)
	const settings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {plural.sh/test: other}, annotations: {helm.sh/hook: test}}
`
	other := w.create("configmaps", settings)
	w.target.Hooks = []*unstructured.Unstructured{parse(t, settings), w.pod("one", "")}
	got := w.try(servicetest.Test{Name: "charts-own", Helm: &servicetest.Helm{}, Timeout: 5 * time.Second})
	if got.Passed || got.Tries != 1 || !strings.Contains(got.Message, "settings exists") {
		t.Errorf("result %+v", got)
	}
	if !slices.ContainsFunc(w.list("configmaps"), func(o unstructured.Unstructured) bool { return o.GetUID() == other.GetUID() }) {
		t.Error("what the other service's test needs is gone")
	}
}
