package sync

import (
	"testing"
	"time"
)

func TestOfAServiceThatKeepsDriftingOneEventAMinuteIsTold(t *testing.T) {
	var told []string
	var times []time.Time
	s := New(Options{Event: func(e Event) {
		told = append(told, e.Message)
		times = append(times, e.Time)
	}})
	svc := &service{name: "web"}
	state := &loopState{services: map[string]*service{"web": svc}}
	start := time.Now()
	for second := range 100 {
		now := start.Add(time.Duration(second) * time.Second)
		svc.drift.add(result{healed: []string{"a", "b"}, healings: 2})
		svc.drift.add(result{})
		s.tellDrift(state, now)
	}
	if len(told) != 2 || told[0] != "a; b" || told[1] != "a; b; and 118 times more" {
		t.Fatalf("told %q", told)
	}
	if apart := times[1].Sub(times[0]); apart < driftPause { // else the hub would take them for one
		t.Errorf("told %s apart", apart)
	}
}
