package sync

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

// times is a hub that notes when it was asked; its answers are made by functions.
type times struct {
	mu      sync.Mutex // guards all below
	began   time.Time
	polled  []time.Duration
	told    []time.Duration
	answer  func(n int) (*api.Poll, error)
	receive func(n int) error
}

func (h *times) Poll(context.Context, string) (*api.Poll, string, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.polled = append(h.polled, time.Since(h.began))
	p, err := h.answer(len(h.polled))
	return p, "etag", "", err
}

func (h *times) Bundle(context.Context, string) ([]byte, error) { return nil, errors.New("none") }

func (h *times) Report(context.Context, *api.Report) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, time.Since(h.began))
	return h.receive(len(h.told))
}

type forgetful struct{ Store }

func (forgetful) SavePoll(string, string, *api.Poll) error { return nil }

func healthy(service string) *api.Report {
	return &api.Report{Root: "r", Services: []*api.ServiceReport{{Service: service, Phase: api.Phase_HEALTHY}}}
}

// reporting runs the reporter alone, on a clock of its own.
func reporting(t *testing.T, h *times, story func(s *Syncer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h.began = time.Now()
		s := New(Options{Hub: h, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.report(ctx) }()
		story(s)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestABurstOfNewsIsOneReport(t *testing.T) {
	h := &times{receive: func(int) error { return nil }}
	reporting(t, h, func(s *Syncer) {
		for i := range 20 {
			s.reports <- healthy(string(rune('a' + i)))
			<-time.After(2 * time.Millisecond)
		}
		<-time.After(10 * time.Second)
	})
	if len(h.told) != 1 || h.told[0] != gather {
		t.Errorf("reports at %v", h.told)
	}
}

func TestWithoutNewsThereIsOneReportEachBeat(t *testing.T) {
	h := &times{receive: func(int) error { return nil }}
	reporting(t, h, func(s *Syncer) {
		s.beats <- 10 * time.Second
		for range 600 { // the same, again and again
			s.reports <- healthy("web")
			<-time.After(100 * time.Millisecond)
		}
	})
	if n := len(h.told); n < 6 || n > 7 {
		t.Errorf("%d reports in a minute: %v", n, h.told)
	}
}

func TestAHubThatIsAwayIsAskedEverLessOften(t *testing.T) {
	h := &times{receive: func(n int) error {
		if n <= 6 {
			return errors.New("away")
		}
		return nil
	}}
	reporting(t, h, func(s *Syncer) {
		for i := range 3000 { // five minutes full of news
			s.reports <- healthy(string(rune('a' + i%2)))
			<-time.After(100 * time.Millisecond)
		}
	})
	failed := h.told[:7]
	for i := 2; i < len(failed); i++ {
		if pause := failed[i] - failed[i-1]; pause < time.Second {
			t.Errorf("pause %d is %v", i, pause)
		}
	}
	if last := failed[6] - failed[5]; last < 25*time.Second || last > 35*time.Second {
		t.Errorf("after five failures the pause is %v", last)
	}
	if len(h.told) < 100 {
		t.Errorf("%d reports: news does not flow again", len(h.told))
	}
}

func TestTheHubSetsThePaceOfPolls(t *testing.T) {
	h := &times{answer: func(n int) (*api.Poll, error) {
		switch {
		case n == 1:
			return &api.Poll{IntervalMs: 10_000}, nil
		case n == 8:
			return &api.Poll{IntervalMs: 1}, nil // less than anybody may ask for
		case n > 20:
			return nil, errors.New("away")
		}
		return nil, nil
	}}
	synctest.Test(t, func(t *testing.T) {
		h.began = time.Now()
		s := New(Options{Hub: h, Store: forgetful{}, Log: slog.New(slog.DiscardHandler), PollInterval: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.poll(ctx, news{}) }()
		for range 2 {
			<-s.polls
		}
		<-time.After(10 * time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if pause := h.polled[7] - h.polled[6]; pause < 8*time.Second || pause > 12*time.Second {
		t.Errorf("a pause of %v, for an interval of 10s", pause)
	}
	if pause := h.polled[15] - h.polled[14]; pause < 80*time.Millisecond || pause > 120*time.Millisecond {
		t.Errorf("a pause of %v, for the shortest interval of %v", pause, minPoll)
	}
	last := len(h.polled) - 1
	if pause := h.polled[last] - h.polled[last-1]; pause < 45*time.Second {
		t.Errorf("a pause of %v after %d failures", pause, last-20)
	}
}

// A removal that ends in the moment in which the service is asked for again must not make the agent forget it.
func TestAServiceThatIsAskedForAgainSurvivesTheEndOfItsRemoval(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler), Heal: time.Hour})
	again := &api.Deployment{Service: "web", Key: "new"}
	svc := &service{name: "web", desired: again, good: &api.Deployment{Service: "web", Key: "old"}, cancel: func() {}}
	state := &loopState{services: map[string]*service{"web": svc}, running: 1}
	s.settle(state, result{service: "web", removed: true})
	if state.services["web"] != svc || svc.good != nil || svc.waits() {
		t.Errorf("service = %+v", state.services["web"])
	}
}

func TestAnInterruptedPassSaysNothing(t *testing.T) {
	d := &api.Deployment{Service: "web", Key: "new"}
	before := &api.ServiceReport{Service: "web", Phase: api.Phase_HEALTHY}
	svc := &service{name: "web", desired: d, status: before}
	svc.take(result{service: "web", desired: d, interrupted: true, phase: api.Phase_FAILED, message: "context canceled"}, time.Hour)
	if svc.status != before || svc.failures != 0 {
		t.Errorf("service = %+v", svc)
	}
}

func TestAReportAlwaysFits(t *testing.T) {
	r := &api.Report{}
	for range 500 {
		s := &api.ServiceReport{Service: "web", Message: strings.Repeat("x", maxMessage)}
		for range maxProblems {
			s.Problems = append(s.Problems, &api.ObjectReport{Kind: "Pod", Message: strings.Repeat("y", maxMessage)})
		}
		r.Services = append(r.Services, s)
	}
	short := fitting(r)
	if size := proto.Size(short); size > api.MaxReportBytes || len(short.GetServices()) != 500 {
		t.Errorf("%d services in %d bytes", len(short.GetServices()), size)
	}
	if len(r.GetServices()[0].GetProblems()) != maxProblems {
		t.Error("the loop's own status was changed")
	}
}

func TestMessagesAreTextThatAReportCarries(t *testing.T) {
	for _, message := range []string{"\xff\xfe", strings.Repeat("é", maxMessage), strings.Repeat("a", maxMessage-1) + "é"} {
		got := clip(message, maxMessage)
		if !utf8.ValidString(got) || len(got) > maxMessage+len("…") {
			t.Errorf("clip(%.20q...) = %.20q... of %d bytes", message, got, len(got))
		}
		if _, err := proto.Marshal(&api.ServiceReport{Message: got}); err != nil {
			t.Error(err)
		}
	}
}

func TestMoreServicesAllowNoMoreRemovals(t *testing.T) {
	state := &loopState{services: map[string]*service{}}
	for _, name := range []string{"a", "b", "c"} {
		state.services[name] = &service{name: name}
	}
	for _, name := range []string{"d", "e", "f"} {
		state.services[name] = &service{name: name, desired: &api.Deployment{Service: name}}
	}
	gone, all := state.gone([]string{"a", "b"})
	if len(gone) != 2 || all != 2 {
		t.Errorf("%d of %d are gone", len(gone), all)
	}
	if !state.services["c"].removable {
		t.Error("c, which never came, is not simply forgotten")
	}
	if overBudget("50%", len(gone), all) == "" || overBudget("nonsense", 1, 100) == "" || overBudget("", 1, 2) != "" {
		t.Error("the budget is not kept")
	}
	if slices.Contains(gone, state.services["c"]) {
		t.Error("c counts as a removal")
	}
}
