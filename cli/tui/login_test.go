package tui

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestConsoleGoesOnWhenThePersonLogsInInAnotherTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept atomic.Value
		kept.Store("t0ken")
		h := newHub(t, fleet())
		s := open(t, set{hub: h, now: clock(), token: func() (string, error) { return kept.Load().(string), nil }})
		s.shows("live", "edge-us-05")

		h.take("another")
		s.pass(30 * time.Second)
		s.shows("logged out, seen 30s ago", "edge-us-05", "the token is not known")

		kept.Store("another")
		s.pass(20 * time.Second)
		s.shows("live", "edge-us-05")
	})
}
