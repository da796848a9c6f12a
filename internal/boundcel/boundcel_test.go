package boundcel

import (
	"strings"
	"testing"
	"time"
)

// compiled is an expression over self and list.
func compiled(t *testing.T, text string) *Expression {
	t.Helper()
	env, err := Environment("self", "list")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Compile(env, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// unhurried is a new budget that no clock ends first, however slow the machine is.
func unhurried() *Budget {
	b := NewBudget()
	b.until = b.until.Add(time.Minute)
	return b
}

// Each was let have all of what one may cost as long as anything was left: two took twice the bound.
func TestExpressionsTogetherCostNoMoreThanOneMay(t *testing.T) {
	costly := compiled(t, "list.all(a, list.all(b, a + b >= 0))")
	some := func(n int) map[string]any {
		list := make([]any, n)
		for i := range list {
			list[i] = int64(i)
		}
		return map[string]any{"list": list}
	}
	b := unhurried()
	if _, err := costly.EvalWithin(b, some(220)); err != nil || b.left > maxCost*2/3 || b.left == 0 {
		t.Fatalf("of %d there are %d left, %v: this shows nothing", maxCost, b.left, err)
	}
	before := b.left
	if _, err := costly.EvalWithin(unhurried(), some(220)); err != nil {
		t.Errorf("alone: %v", err)
	}
	_, err := costly.EvalWithin(b, some(220))
	if err == nil || !strings.Contains(err.Error(), "before it") || b.left != 0 {
		t.Errorf("with %d left: %v, and %d left after", before, err, b.left)
	}
	if _, err := costly.EvalWithin(b, some(1)); err == nil {
		t.Error("an expression was evaluated with nothing left")
	}
}

// What is small stands beside others in nearly every set of rules: each planned its program anew for every object.
func TestASmallExpressionIsPlannedOnce(t *testing.T) {
	small := compiled(t, "self == 1")
	vars := map[string]any{"self": int64(1)}
	allocations := func(left uint64) float64 {
		return testing.AllocsPerRun(100, func() {
			b := NewBudget()
			b.left = left
			if _, err := small.EvalWithin(b, vars); err != nil {
				t.Error(err)
			}
		})
	}
	// What the library keeps in pools may be collected at any time: a single allocation says nothing.
	if first, second, planned := allocations(maxCost), allocations(nearlyAll), allocations(nearlyAll-1); second >= (first+planned)/2 {
		t.Errorf("%v allocations alone, %v after others, %v where it has to be planned", first, second, planned)
	}
}

func TestExpressionsAfterOthersCostAtMostATenthMore(t *testing.T) {
	costly := compiled(t, "list.all(a, list.all(b, a + b >= 0))")
	list := make([]any, 1000)
	for i := range list {
		list[i] = int64(i)
	}
	for _, left := range []uint64{maxCost - 1, nearlyAll, nearlyAll - 1} {
		b := unhurried()
		b.left = left
		if _, err := costly.EvalWithin(b, map[string]any{"list": list}); err == nil || !strings.Contains(err.Error(), "before it") ||
			b.left != 0 {
			t.Errorf("with %d left: %v, and %d left after", left, err, b.left)
		}
	}
}
