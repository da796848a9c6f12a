package health_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/health"
)

// A tenant chooses the text, a service's author the rule, and the agent judges all objects of the cluster.
func TestAVerdictTakesAMomentWhateverIsMatched(t *testing.T) {
	for name, c := range map[string]struct{ text, pattern string }{
		"a pattern that counts":  {strings.Repeat("a", 64<<10), "(a?){120}"},
		"alternatives":           {strings.Repeat("ab", 32<<10), "((a|b)?){60}"},
		"just below the largest": {strings.Repeat("a", 8<<10), "(a?){60}"},
	} {
		t.Run(name, func(t *testing.T) {
			var matches []string
			for _, last := range strings.Split("bcdefghijklmnopqrstuvwxyz", "") {
				matches = append(matches, `self.data.t.matches("`+c.pattern+last+`")`)
			}
			expression := strings.Join(matches, " || ")
			judge, err := health.NewJudge([]health.Rule{{
				Kind: "ConfigMap", Degraded: expression, Healthy: expression, Progressing: expression,
				Message: "string(" + expression + ")",
			}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			status := judge.Of(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"t": c.text},
			}})
			if took := time.Since(begun); took > 20*time.Second { // of which an idle machine needs a hundredth
				t.Errorf("it takes %v", took)
			}
			if status.Phase != health.Unknown {
				t.Errorf("%+v", status)
			}
		})
	}
}

func TestExpressionsOfOneRuleShareWhatTheyMayTake(t *testing.T) {
	costly := `self.data.t.matches("(a?){60}b")`
	expression := strings.Repeat(costly+" || ", 2) + costly
	rule := health.Rule{Kind: "ConfigMap", Degraded: expression}
	verdict := func() health.Status {
		t.Helper()
		judge, err := health.NewJudge([]health.Rule{rule}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return judge.Of(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"},
			"data": map[string]any{"t": strings.Repeat("a", 8<<10)},
		}})
	}
	if got := verdict(); got.Phase != health.Progressing {
		t.Fatalf("one alone: %+v", got)
	}
	rule.Healthy, rule.Progressing = expression, expression
	if got := verdict(); got.Phase != health.Unknown || !strings.Contains(got.Message, "before it") {
		t.Errorf("three: %+v", got)
	}
}
