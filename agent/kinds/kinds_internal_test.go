package kinds

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/internal/kubewatch"
)

func TestAMissingKindIsLookedForAgainAfterAWhile(t *testing.T) {
	k := New(nil)
	one, two := schema.GroupVersionKind{Kind: "One"}, schema.GroupVersionKind{Kind: "Two"}
	k.asked[one] = time.Now()
	k.asked[two] = time.Now().Add(-askAgain)
	if !k.lookedFor([]schema.GroupVersionKind{one}) {
		t.Error("what was looked for a moment ago is looked for again")
	}
	if k.lookedFor([]schema.GroupVersionKind{one, two}) {
		t.Error("what was looked for long ago is not looked for again")
	}
	if len(k.asked) != 1 {
		t.Error("what is long ago is remembered")
	}
}

func TestABellRingsForWhatIsNew(t *testing.T) {
	rung := make(chan struct{}, 1)
	b := &changeNotifier{rung: rung, versions: map[string]string{}}
	rang := func() bool {
		select {
		case <-rung:
			return true
		default:
			return false
		}
	}
	item := func(version string) kubewatch.Item[struct{}] {
		return kubewatch.Item[struct{}]{Name: "things.x.io", Version: version}
	}
	list := func(items ...kubewatch.Item[struct{}]) func() { return func() { b.Replace(items, "") } }
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"the first list, which is empty", list(), true},
		{"the same list", list(), false},
		{"a definition", func() { b.Put(item("1")) }, true},
		{"a list that holds it", list(item("1")), false},
		{"a list that holds it changed", list(item("2")), true},
		{"its deletion", func() { b.Delete(item("3")) }, true},
		{"a list without it", list(), false},
	} {
		step.do()
		if got := rang(); got != step.want {
			t.Errorf("%s rings: %t", step.what, got)
		}
	}
}
