package sync

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pluralsh/plural/api"
)

// askingEachMinute runs the poller alone, on a clock of its own.
func askingEachMinute(t *testing.T, h *times, story func(s *Syncer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h.began = time.Now()
		s := New(Options{Hub: h, Store: forgetful{}, Log: slog.New(slog.DiscardHandler), PollInterval: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.poll(ctx, news{}) }()
		story(s)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAHintIsFollowedByAPollAtOnce(t *testing.T) {
	h := &times{answer: func(int) (*api.Poll, error) { return nil, nil }}
	askingEachMinute(t, h, func(s *Syncer) {
		<-time.After(10 * time.Second)
		for range 100 {
			s.Look()
		}
		<-time.After(time.Second)
	})
	if n := len(h.polled); n < 2 || n > 3 || h.polled[n-1] != 10*time.Second { // one more for hints that came during a poll
		t.Errorf("polls at %v", h.polled)
	}
}

func TestHintsDoNotHammerAHubThatIsAway(t *testing.T) {
	h := &times{answer: func(int) (*api.Poll, error) { return nil, errors.New("away") }}
	askingEachMinute(t, h, func(s *Syncer) {
		for range 600 {
			s.Look()
			<-time.After(100 * time.Millisecond)
		}
	})
	if most := int(time.Minute/firstRetry) + 1; len(h.polled) > most {
		t.Errorf("%d polls in a minute: %v", len(h.polled), h.polled)
	}
}

func TestAHurriedServiceForgetsThatItFailed(t *testing.T) {
	tests := map[string]struct {
		named []string
		due   []string
	}{
		"one":         {[]string{"web"}, []string{"web"}},
		"all":         {nil, []string{"db", "web"}},
		"a stranger":  {[]string{"nobody"}, nil},
		"one of many": {append(make([]string, 2*maxHurried), "web"), nil}, // what is asked beyond the bound is lost
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := New(Options{Log: slog.New(slog.DiscardHandler)})
			later := time.Now().Add(time.Hour)
			state := &loopState{services: map[string]*service{
				"web": {name: "web", due: later, failures: 7, broken: renderFailure{"no", later}},
				"db":  {name: "db", idle: true},
			}}
			s.Hurry(test.named)
			s.hurry(state)
			due := 0
			for _, want := range test.due {
				if svc := state.services[want]; svc.idle || svc.due.After(time.Now()) || svc.failures > 0 || svc.broken.now() {
					t.Errorf("%s is not due", want)
				}
			}
			for _, svc := range state.services {
				if !svc.idle && !svc.due.After(time.Now()) {
					due++
				}
			}
			if due != len(test.due) {
				t.Errorf("%d are due, want %d", due, len(test.due))
			}
		})
	}
}

func TestHurriesThatComeFasterThanTheLoopAreKeptWithinABound(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler)})
	for i := range 3 * maxHurried {
		s.Hurry([]string{strconv.Itoa(i)})
	}
	if len(s.hurried) != maxHurried || len(s.hurries) != 1 {
		t.Errorf("%d names, %d signals", len(s.hurried), len(s.hurries))
	}
	s.Hurry(nil)
	if len(s.hurried) != 0 || !s.all {
		t.Errorf("%d names beside all", len(s.hurried))
	}
}
