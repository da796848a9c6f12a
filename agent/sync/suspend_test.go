package sync_test

import (
	"testing"
	"time"

	"github.com/pluralsh/plural/api"
)

func suspended(d *api.Deployment) { d.Sync.Suspended = true }

func TestASuspendedServiceIsLeftAloneUntilItGoesOn(t *testing.T) {
	w := newWorld(t)
	first := w.service("web", map[string]string{"a.yaml": manifest("web", "one"), "b.yaml": manifest("extra", "one")})
	w.hub.asks("", first)
	stop := w.start()
	w.becomes(first, api.Phase_HEALTHY)

	second := w.configMap("web", "two", suspended, tested("smoke"))
	w.hub.asks("", second)
	s := w.becomes(second, api.Phase_HELD)
	if s.GetAppliedKey() != first.GetKey() || s.GetObjects() != 2 || s.GetReady() != 2 || s.GetMessage() == "" {
		t.Errorf("status = %v", s)
	}
	w.delete("extra")
	w.untouched()
	stop()
	w.start() // what was asked is on the disk
	w.becomes(second, api.Phase_HELD)
	w.untouched()

	goesOn := w.configMap("web", "two", tested("smoke"))
	w.hub.asks("", goesOn)
	w.becomes(goesOn, api.Phase_HEALTHY)
	if w.live("web") != "two" || w.live("extra") != "" || w.tester.times(goesOn.GetKey(), "smoke") != 1 {
		t.Errorf("live: %q, %q", w.live("web"), w.live("extra"))
	}
}

// untouched gives the agent time to do what it must not.
func (w *world) untouched() {
	w.Helper()
	another := w.configMap("other", "here"+time.Now().Format("150405.000000000"))
	w.hub.set(func() {
		w.hub.polls++
		w.hub.poll.Deployments = append(w.hub.poll.Deployments[:1:1], another)
	})
	w.becomes(another, api.Phase_HEALTHY)
	if w.live("web") != "one" || w.live("extra") != "" {
		w.Errorf("live: %q, %q", w.live("web"), w.live("extra"))
	}
}

func TestASuspendedServiceThatNothingAsksForGoes(t *testing.T) {
	w := newWorld(t)
	web := w.configMap("web", "one")
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	paused := w.configMap("web", "one", suspended)
	w.hub.asks("", paused)
	w.becomes(paused, api.Phase_HELD)
	w.hub.asks("100%")
	w.eventually("the service goes", func() bool { return w.live("web") == "" && w.hub.status("web") == nil })
}
