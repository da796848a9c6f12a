package watchcache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/internal/kubewatch"
)

func TestAnObjectOfWhichNobodySaysMoreBecomesHealthyInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, k, told := newBench()
		waits := facts("1", "10", "web", "x")
		waits.Health = health.Status{Phase: health.Progressing, Message: "no status yet", Until: time.Now().Add(30 * time.Second).Unix()}
		other := waits
		other.UID, other.Health.Until = "2", waits.Health.Until+10
		k.Replace([]kubewatch.Item[Facts]{item("a", waits), item("b", other)}, "10")
		*told = nil

		<-time.After(20 * time.Second)
		answered := facts("2", "11", "web", "x")
		answered.Health = health.Status{Phase: health.Degraded, Message: "refused"}
		k.Put(item("b", answered))
		if f, _ := o.Get(id("a")); f.Health != waits.Health {
			t.Errorf("before its time: %v", f.Health)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		a, _ := o.Get(id("a"))
		b, _ := o.Get(id("b"))
		want := []health.Status{{Phase: health.Healthy}, answered.Health}
		if diff := cmp.Diff(want, []health.Status{a.Health, b.Health}); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"web b", "web a"}, *told); diff != "" {
			t.Errorf("told: %s", diff)
		}
	})
}
