package health_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/health"
)

func TestAnExpressionReadsALiveObject(t *testing.T) {
	self := parse(t, `
apiVersion: x.io/v1
kind: Thing
metadata: {name: a, generation: 2, labels: {app.kubernetes.io/name: web}}
spec: {replicas: 3, ratio: 0.5}
status: {readyReplicas: 3, phase: Running, when: "2026-01-01T00:00:00Z", conditions: [{type: Ready, status: "True"}]}
`).Object
	for _, text := range []string{
		`self.status.readyReplicas >= self.spec.replicas`,
		`self.status.readyReplicas > 2.5 && self.spec.ratio < 1`,
		`self.metadata.labels["app.kubernetes.io/name"] == "web"`,
		`!has(self.status.failed) && self.?status.failed.orValue(0) == 0`,
		`self.status.phase in ["Running", "Done"]`,
		`self.status.phase.lowerAscii().matches("^r.n+ing$")`,
		`self.status.conditions.filter(c, c.type == "Ready")[0].status == "True"`,
		`self.status.conditions.all(c, c.status == "True")`,
		`timestamp(self.status.when) < timestamp("2026-01-02T00:00:00Z")`,
		`self.metadata.name + " has " + string(self.spec.replicas) == "a has 3"`,
		`self.status.missing == 1 || self.spec.replicas == 3`,
		`[self.spec.replicas, 4].sum() == 7 && [].sum() == 0`,
		`self.status.conditions.map(c, self.spec.replicas).sum() == 3`,
	} {
		if is, err := compile(t, text).Bool(map[string]any{"self": self}); !is {
			t.Errorf("%s: %v, %v", text, is, err)
		}
	}
}

func TestAnExpressionThatCannotBeEvaluatedIsAnError(t *testing.T) {
	vars := map[string]any{"self": map[string]any{"n": int64(1), "list": []any{}}}
	for text, want := range map[string]string{
		`self.status.phase == "x"`: "no such key: status",
		`self["status"] == 1`:      "no such key: status",
		`self.list[0] == 1`:        "index out of bounds",
		`self.n`:                   "gives a value of type int, not true or false",
		`1 / (self.n - 1) == 1`:    "division by zero",
		`[self.n, "2"].sum() == 3`: "something else than whole numbers",
		`self.n.sum() == 1`:        "no such overload",
	} {
		_, err := compile(t, text).Bool(vars)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		var gone *health.MissingError
		if errors.As(err, &gone) != strings.HasPrefix(want, "no such key") {
			t.Errorf("%s: %T", text, err)
		}
	}
}

func TestAnExpressionThatCostsTooMuchIsStopped(t *testing.T) {
	list := make([]any, 500)
	for i := range list {
		list[i] = map[string]any{"name": strings.Repeat("a", 1000) + fmt.Sprint(i)}
	}
	vars := map[string]any{"self": map[string]any{"items": list, "text": strings.Repeat("a", 1<<20)}}
	for _, text := range []string{
		`self.items.all(a, self.items.all(b, self.items.all(c, a.name != "" && b.name != "" && c.name != "")))`,
		`["x"]` + strings.Repeat(".map(x, x + x)", 60) + `.size() == 1`,
		`[["x"]]` + strings.Repeat(".map(x, x + x)", 60) + `.size() == 1`,
		`([["x"]]` + strings.Repeat(".map(x, [x, x])", 40) + `) == ([["x"]]` + strings.Repeat(".map(x, [x, x])", 40) + `)`,
		`([["x"]]` + strings.Repeat(".map(x, {1: x, 2: x})", 40) + `) in [self.items]`,
		`self.items.map(a, self.items.map(b, self)) == self.items.map(a, self.items.map(b, self))`,
		`self.items.map(a, self.text + self.text).size() == 1`,
		`self.text.matches("(a|b)*c$")`,
		`self.items.all(a, self.text.substring(0, 60000).matches("(a|b)*c$") == false)`,
		`"a".matches("(a{30}b{30}){30}")`,
		`"a".matches("((a{100}){100}){100}")`,
		`"a".matches(self.text)`,
		`self.items.all(a, self.text.replace("a", "bb") != "")`,
		`self.items.all(a, self.text.split("").size() > 0)`,
		`self.items.all(a, (self.text + self.text + self.text) != "")`,
	} {
		if is, err := compile(t, text).Bool(vars); err == nil {
			t.Errorf("%.60s: %v", text, is)
		}
	}
}

func TestAnExpressionThatIsTooLargeIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"long":           strings.Repeat(" ", health.MaxText) + "true",
		"deep":           strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000),
		"nested":         strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + " == []",
		"not terminated": `"`,
		"empty":          "",
	} {
		if _, err := health.Compile(text, "self"); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzAnExpressionEnds(f *testing.F) {
	for _, text := range []string{
		`self.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`,
		`self.?status.x.orValue("").matches("^a+$")`,
		`self.items.map(x, x.name).join(",").size() > 1`,
		`timestamp(self.when) + duration("1h") > timestamp("2026-01-01T00:00:00Z")`,
	} {
		f.Add(text)
	}
	items := make([]any, 100)
	for i := range items {
		items[i] = map[string]any{"name": fmt.Sprint(i)}
	}
	vars := map[string]any{"self": map[string]any{
		"items": items, "when": "2026-01-01T00:00:00Z", "n": int64(1), "f": 1.5, "none": nil,
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}}
	f.Fuzz(func(t *testing.T, text string) {
		expression, err := health.Compile(text, "self")
		if err != nil {
			return // no input that the property speaks of
		}
		_, _ = expression.Bool(vars)
	})
}

func compile(t *testing.T, text string) *health.Expression {
	t.Helper()
	expression, err := health.Compile(text, "self")
	if err != nil {
		t.Fatal(err)
	}
	return expression
}
