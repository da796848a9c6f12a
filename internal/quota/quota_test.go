package quota

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pluralsh/plural/internal/principal"
)

func TestARequestWaitsForAPlaceAndNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, ana := Requests(), principal.Person{Name: "ana"}
		var first func()
		for range maxRequests {
			done, ok := q.Take(t.Context(), ana)
			if !ok {
				t.Fatal("there is no place")
			}
			first = done
		}
		time.AfterFunc(time.Second, func() { first(); first() })
		begin := time.Now()
		if _, ok := q.Take(t.Context(), ana); !ok || time.Since(begin) != time.Second {
			t.Errorf("a place after a second: %v, after %v", ok, time.Since(begin))
		}
		begin = time.Now()
		if _, ok := q.Take(t.Context(), ana); ok || time.Since(begin) != patience {
			t.Errorf("one more: %v, after %v", ok, time.Since(begin))
		}
		if _, ok := q.Take(t.Context(), principal.Person{Name: "bob"}); !ok {
			t.Error("somebody else has no place")
		}
	})
}

func TestFewWaitAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, ana := newQuota(1, 10, time.Minute), principal.Person{Name: "ana"}
		for range waiting {
			go q.Take(t.Context(), ana)
		}
		synctest.Wait()
		begin := time.Now()
		if _, ok := q.Take(t.Context(), ana); ok || time.Since(begin) != 0 {
			t.Errorf("%v, after %v", ok, time.Since(begin))
		}
	})
}

func TestAllHaveSoManyTogether(t *testing.T) {
	q := newQuota(2, 3, 0)
	var last func()
	for i, want := range []bool{true, true, true, false} {
		done, ok := q.Take(t.Context(), principal.Person{Name: string(rune('a' + i/2))})
		if ok != want {
			t.Fatalf("%d: %v", i, ok)
		}
		if ok {
			last = done
		}
	}
	last()
	if _, ok := q.Take(t.Context(), principal.Person{Name: "z"}); !ok || len(q.people) != 2 {
		t.Errorf("what was given back: %v, of %d people", ok, len(q.people))
	}
}

func TestTheOperatorSharesNoPlaceWithAUserOfThatName(t *testing.T) {
	q := newQuota(1, 10, 0)
	if _, ok := q.Take(t.Context(), principal.Person{Name: "operator"}); !ok {
		t.Fatal("there is no place")
	}
	if _, ok := q.Take(t.Context(), principal.Person{Name: "operator", Operator: true}); !ok {
		t.Error("a user took the operator's place")
	}
}
