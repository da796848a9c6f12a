package sync

import (
	"context"
	"errors"
	"fmt"
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
	counts  []count // of the reports told
}

func (h *times) Poll(context.Context, string) (*api.Poll, string, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.polled = append(h.polled, time.Since(h.began))
	p, err := h.answer(len(h.polled))
	return p, "etag", "", err
}

func (h *times) Bundle(context.Context, string) ([]byte, error) { return nil, errors.New("none") }

func (h *times) Report(_ context.Context, r *api.Report) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = append(h.counts, count{r.GetBoot(), r.GetSequence()})
	h.told = append(h.told, time.Since(h.began))
	return h.receive(len(h.told))
}

type forgetful struct{ Store }

func (forgetful) SavePoll(string, string, *api.Poll) error { return nil }

func (forgetful) Poll() (*api.Poll, string, string, error) { return nil, "", "", nil }

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

func TestNewKeysOfServiceAccountsAreNews(t *testing.T) {
	h := &times{receive: func(int) error { return nil }}
	reporting(t, h, func(s *Syncer) {
		for _, issuer := range []*api.TokenIssuer{nil, {Issuer: "https://kubernetes.default.svc"}, nil} {
			r := healthy("web")
			r.TokenIssuer = issuer
			s.reports <- r
			<-time.After(time.Second)
		}
	})
	if len(h.told) != 3 {
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

// asks is a refusal by a hub that asks to be left alone for some time.
type asks time.Duration

func (asks) Error() string               { return "hub answered 429" }
func (a asks) RetryAfter() time.Duration { return time.Duration(a) }

func TestAHubThatAsksToBeLeftAloneIs(t *testing.T) {
	for name, test := range map[string]struct{ asked, least, most time.Duration }{
		"less than the agent waits anyway": {time.Millisecond, 900 * time.Millisecond, 1100 * time.Millisecond},
		"more":                             {20 * time.Second, 20 * time.Second, 20*time.Second + gather},
		"for ever":                         {1000 * time.Hour, longestPause, longestPause + gather},
	} {
		t.Run(name, func(t *testing.T) {
			h := &times{receive: func(n int) error {
				if n == 1 {
					return fmt.Errorf("report to hub: %w", asks(test.asked))
				}
				return nil
			}}
			reporting(t, h, func(s *Syncer) {
				s.beats <- time.Hour
				for i := range 3600 { // six minutes full of news
					s.reports <- healthy(string(rune('a' + i%2)))
					<-time.After(100 * time.Millisecond)
				}
			})
			if pause := h.told[1] - h.told[0]; pause < test.least || pause > test.most {
				t.Errorf("the next report comes %v after the refusal", pause)
			}
		})
	}
}

// conflict is a refusal by a hub that cannot follow the numbers of the reports.
type conflict struct{}

func (conflict) Error() string  { return "hub answered 409" }
func (conflict) Conflict() bool { return true }

func TestAnAgentWhoseNumbersAreRefusedCountsAnewByItself(t *testing.T) {
	h := &times{receive: func(n int) error {
		if n == 2 {
			return fmt.Errorf("report to hub: %w", conflict{})
		}
		return nil
	}}
	reporting(t, h, func(s *Syncer) {
		s.beats <- 10 * time.Second
		s.reports <- healthy("web")
		<-time.After(25 * time.Second)
	})
	if len(h.counts) < 4 || h.told[2]-h.told[1] > 2*retryReport {
		t.Fatalf("reports at %v", h.told)
	}
	before, after := h.counts[0].boot, h.counts[2].boot
	if want := []count{{before, 1}, {before, 2}, {after, 1}, {after, 2}}; before == after || !slices.Equal(h.counts[:4], want) {
		t.Errorf("%v, want %v", h.counts, want)
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
	s := New(Options{Log: slog.New(slog.DiscardHandler)})
	again := &api.Deployment{Service: "web", Key: "new"}
	svc := &service{name: "web", desired: again, good: &api.Deployment{Service: "web", Key: "old"}, cancel: func() {}}
	state := &loopState{services: map[string]*service{"web": svc}, barrier: make(barrier), running: 1}
	s.settle(state, result{service: "web", removed: true})
	if state.services["web"] != svc || svc.good != nil || svc.waits() {
		t.Errorf("service = %+v", state.services["web"])
	}
}

// All that a restart left of a service that was held may be what its tests have found.
func TestARemovalSaysWhereNobodyKnowsWhatTestsLeft(t *testing.T) {
	var words strings.Builder
	s := New(Options{Log: slog.New(slog.NewTextHandler(&words, nil))})
	svc := &service{name: "web", cancel: func() {}}
	svc.memory.Tests = map[string]*api.TestReport{"smoke": {}}
	state := &loopState{services: map[string]*service{"web": svc}, barrier: make(barrier), running: 1}
	s.settle(state, result{service: "web", removed: true})
	if !strings.Contains(words.String(), "what tests left is not deleted") {
		t.Errorf("log = %q", words.String())
	}
}

// A chart may refuse to render for what the cluster cannot do, in the moment in which the cluster learns it.
func TestWhatFailedForAnOlderClusterIsTriedAgainSoon(t *testing.T) {
	for can, soon := range map[string]bool{"before": true, "now": false} {
		s := New(Options{Log: slog.New(slog.DiscardHandler)})
		d := &api.Deployment{Service: "web", Key: "k"}
		svc := &service{name: "web", desired: d, cancel: func() {}}
		state := &loopState{services: map[string]*service{"web": svc}, barrier: make(barrier), running: 1, can: capabilities{digest: "now"}}
		failed := renderFailure{"it needs example.com/v1", time.Now().Add(brokenPause)}
		s.settle(state, result{service: "web", desired: d, can: can, phase: api.Phase_FAILED, message: failed.message, broken: failed})
		if got := time.Until(svc.due) < lastPause; got != soon || svc.status.GetMessage() != failed.message {
			t.Errorf("a render for the cluster of %s is tried again in %v", can, time.Until(svc.due))
		}
	}
}

func TestAnInterruptedPassSaysNothing(t *testing.T) {
	d := &api.Deployment{Service: "web", Key: "new"}
	before := &api.ServiceReport{Service: "web", Phase: api.Phase_HEALTHY}
	svc := &service{name: "web", desired: d, status: before}
	svc.take(result{service: "web", desired: d, interrupted: true, phase: api.Phase_FAILED, message: "context canceled"})
	if svc.status != before || svc.failures != 0 {
		t.Errorf("service = %+v", svc)
	}
}

func TestAReportAlwaysFits(t *testing.T) {
	few := []*api.TestReport{{Name: "smoke", Message: "no answer", Log: strings.Repeat("l", maxLog)}}
	var many []*api.TestReport
	for range 30 {
		many = append(many, &api.TestReport{Name: "smoke", Message: strings.Repeat("m", maxMessage), Log: strings.Repeat("l", maxLog)})
	}
	for name, c := range map[string]struct {
		service  *api.ServiceReport
		services int
		kept     func(*api.ServiceReport) bool
	}{
		"logs go first": {
			&api.ServiceReport{Message: strings.Repeat("x", 100), Notes: []string{"a note"}, Problems: []*api.ObjectReport{{Kind: "Pod"}}, Tests: few}, 500,
			func(s *api.ServiceReport) bool {
				return len(s.GetProblems()) == 1 && len(s.GetNotes()) == 1 && s.GetTests()[0].GetMessage() == "no answer" && s.GetTests()[0].GetLog() == ""
			},
		},
		"then what is long": {
			&api.ServiceReport{
				Message: strings.Repeat("x", maxMessage), Tests: few, Held: &api.Held{Token: "t", Count: 50, Names: []string{strings.Repeat("n", maxMessage)}},
				Problems: slices.Repeat([]*api.ObjectReport{{Kind: "Pod", Message: strings.Repeat("y", maxMessage)}}, maxProblems),
			}, 500,
			func(s *api.ServiceReport) bool {
				return len(s.GetMessage()) < 200 && s.GetHeld().GetToken() == "t" && s.GetHeld().GetCount() == 50 && len(s.GetTests()) == 1
			},
		},
		"then tests": {&api.ServiceReport{Tests: many}, 1000, func(s *api.ServiceReport) bool { return len(s.GetTests()) == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			r := &api.Report{Services: slices.Repeat([]*api.ServiceReport{c.service}, c.services)}
			before := proto.CloneOf(c.service)
			short := fitting(r)
			if size := proto.Size(short); size > api.MaxReportBytes || len(short.GetServices()) != c.services {
				t.Errorf("%d services in %d bytes", len(short.GetServices()), size)
			}
			if s := short.GetServices()[0]; !c.kept(s) {
				t.Errorf("what is left is %.300v", s)
			}
			if !proto.Equal(before, c.service) {
				t.Error("the loop's own status was changed")
			}
		})
	}
}

func TestWhatChangesAllTheTimeIsLookedAtEverLessOften(t *testing.T) {
	var s leakyBucket
	now := time.Unix(0, 0)
	if first := s.pause(now); first != firstStir {
		t.Errorf("the first pause is %v", first)
	}
	passes := 0
	for start := now; now.Sub(start) < time.Minute; passes++ { // it changes again after each look
		pause := s.pause(now)
		if pause > lastStir {
			t.Fatalf("a pause of %v", pause)
		}
		now = now.Add(pause + time.Millisecond)
	}
	if passes > 250 {
		t.Errorf("%d looks in a minute", passes)
	}
	if pause := s.pause(now.Add(time.Minute)); pause != firstStir {
		t.Errorf("after a minute of calm the pause is %v", pause)
	}
}

func TestDeletionsWaitForTheRendersOfOthersAndNotForEver(t *testing.T) {
	now := time.Unix(0, 0)
	waits := func(b barrier, name string, at time.Time) bool { return b.wall().ends(name).After(at) }
	b := make(barrier)
	if waits(b, "a", now) {
		t.Error("there is nothing to wait for")
	}
	b.add("a", now)
	b.add("b", now)
	if !waits(b, "a", now) || !waits(b, "b", now) || !waits(b, "c", now) {
		t.Error("nobody waits")
	}
	b.passed("b")
	if waits(b, "a", now) || !waits(b, "c", now) {
		t.Error("a waits for itself, or c for nobody")
	}
	b.add("d", now.Add(time.Second)) // one more does not make anybody wait longer for a
	if !waits(b, "d", now.Add(longestBarrier-1)) || waits(b, "d", now.Add(longestBarrier)) {
		t.Error("d waits for a too short, or too long")
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
	if overBudget("50%", len(gone), all, "edge-1") == "" || overBudget("nonsense", 1, 100, "edge-1") == "" || overBudget("", 1, 2, "edge-1") != "" {
		t.Error("the budget is not kept")
	}
	if slices.Contains(gone, "c") {
		t.Error("c counts as a removal")
	}
}

// A service that was asked for when the cluster was looked at, and is not any more, was not found there: it may be there by now, and
// counts for the budget.
func TestAListingFromBeforeTheNewestPollDecidesNoRemoval(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler)})
	before := listing{}
	state := &loopState{services: map[string]*service{"web": {name: "web"}}, listing: true, removals: time.Now()}
	s.decideRemovals(state, before)
	if state.services["web"].removable {
		t.Error("a listing from before the newest poll lets a service go")
	}
	if state.listing || state.removals.IsZero() {
		t.Error("the cluster is not looked at again")
	}
	state.removals = time.Time{}
	s.decideRemovals(state, before)
	if !state.services["web"].removable {
		t.Error("a listing from after it does not")
	}
}
