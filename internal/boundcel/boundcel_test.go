package boundcel

import (
	"strings"
	"testing"
)

// Each was let have all of what one may cost as long as anything was left: two took twice the bound.
func TestExpressionsTogetherCostNoMoreThanOneMay(t *testing.T) {
	env, err := Environment("list")
	if err != nil {
		t.Fatal(err)
	}
	costly, err := Compile(env, "list.all(a, list.all(b, a + b >= 0))", nil)
	if err != nil {
		t.Fatal(err)
	}
	some := func(n int) map[string]any {
		list := make([]any, n)
		for i := range list {
			list[i] = int64(i)
		}
		return map[string]any{"list": list}
	}
	b := NewBudget()
	if _, err := costly.EvalWithin(b, some(220)); err != nil || b.left > maxCost*2/3 || b.left == 0 {
		t.Fatalf("of %d there are %d left, %v: this shows nothing", maxCost, b.left, err)
	}
	before := b.left
	if _, err := costly.EvalWithin(NewBudget(), some(220)); err != nil {
		t.Errorf("alone: %v", err)
	}
	_, err = costly.EvalWithin(b, some(220))
	if err == nil || !strings.Contains(err.Error(), "before it") || b.left != 0 {
		t.Errorf("with %d left: %v, and %d left after", before, err, b.left)
	}
	if _, err := costly.EvalWithin(b, some(1)); err == nil {
		t.Error("an expression was evaluated with nothing left")
	}
}
