package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/workspace/compose"
)

// due are a plan's steps about which something is done, or on purpose not done, in its order.
func due(p *plan.Plan) string {
	var b strings.Builder
	for _, s := range p.Steps {
		if s.Action != plan.Unchanged && s.Action != plan.Skipped {
			fmt.Fprintf(&b, "%s %s: %s\n", s.Action, s.ID, s.Reason)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Protect)) {
		fmt.Fprintf(&b, "protect %s: %t\n", name, p.Protect[name])
	}
	return b.String()
}

func TestWhatChangesBetweenTwoStatesIsWhatADeployWouldDo(t *testing.T) {
	const sum, other = "sum of web", "another sum of web"
	waits := func() []*compose.Composed {
		return []*compose.Composed{pack("web", nil, "infra", "app<infra!web/infra")}
	}
	tests := map[string]struct {
		before []*compose.Composed
		change func(before, after *plan.Side)
		want   string
	}{
		"nothing":                {diamond(), func(_, _ *plan.Side) {}, ""},
		"nothing, and some wait": {waits(), func(_, _ *plan.Side) {}, ""},
		"what a step reads": {
			diamond(), func(_, a *plan.Side) { step(a, "left", "chart").Digest = "x" },
			"run left/chart: what it reads changed\nrun top/app: after left/chart\n",
		},
		"what a waiting one reads": {waits(), func(_, a *plan.Side) { a.Sums["web"] = other }, "run web/app: what it reads changed\n"},
		"what it waits for is there": {
			waits(), func(_, a *plan.Side) { s := step(a, "web", "app"); s.Waiting, s.Digest = nil, "x" },
			"run web/app: what it reads changed\n",
		},
		"it waits from now on": {
			waits(), func(b, _ *plan.Side) { s := step(b, "web", "app"); s.Waiting, s.Digest = nil, "x" },
			"run web/app: the outputs of web/infra are not there\n",
		},
		"the tool": {diamond(), func(b, a *plan.Side) {
			b.Facts.Tools = map[plan.ID]string{"top/app": "terraform >=1.5"}
			a.Facts.Tools = map[plan.ID]string{"top/app": "tofu >=1.9"}
		}, "run top/app: terraform >=1.5 -> tofu >=1.9\n"},
		"the clusters": {diamond(), func(b, a *plan.Side) {
			b.Facts.Clusters = map[plan.ID][]string{"top/app": {"edge-1"}}
			a.Facts.Clusters = map[plan.ID][]string{"top/app": {"edge-1", "edge-2"}}
		}, "run top/app: it is for other clusters\n"},
		"the version": {diamond(), func(_, a *plan.Side) {
			a.Composed[0].Version = "1.1.0"
			step(a, "top", "app").Digest = "x"
		}, "run top/app: version 1.0.0 -> 1.1.0\n"},
		"one more":    {diamond()[1:], func(_, a *plan.Side) { a.Composed = diamond() }, "run top/app: new\n"},
		"one is gone": {diamond(), func(_, a *plan.Side) { a.Composed = a.Composed[1:] }, "remove top/app: no longer wanted\n"},
		"all are gone, the last ones first": {
			diamond(), func(_, a *plan.Side) { a.Composed = nil },
			"remove top/app: no longer wanted\nremove left/chart: no longer wanted\nremove right/chart: no longer wanted\n" +
				"remove base/cluster: no longer wanted\nremove base/network: no longer wanted\n",
		},
		"a protected one is gone": {diamond(), func(b, a *plan.Side) {
			b.Composed[0].Protected, a.Composed = true, a.Composed[1:]
		}, "keep top/app: protected\n"},
		"it is protected": {diamond(), func(_, a *plan.Side) { a.Composed[0].Protected = true }, "protect top: true\n"},
		"its condition holds no longer": {
			diamond(), func(_, a *plan.Side) { step(a, "top", "app").Skipped = true },
			"remove top/app: no longer wanted\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := plan.Side{Composed: test.before, Sums: map[string]string{"web": sum}}
			after := plan.Side{Sums: map[string]string{"web": sum}}
			for _, c := range test.before {
				copied := *c
				copied.Steps = slices.Clone(c.Steps)
				after.Composed = append(after.Composed, &copied)
			}
			test.change(&before, &after)
			got, err := plan.Between(before, after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, due(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func step(s *plan.Side, name, step string) *compose.Step {
	for _, c := range s.Composed {
		for i := range c.Steps {
			if c.Name == name && c.Steps[i].Name == step {
				return &c.Steps[i]
			}
		}
	}
	panic("no step " + name + "/" + step)
}
