package sync

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/api"
)

// service is one service's state. The loop's goroutine owns it.
type service struct {
	name string
	// desired is what the hub says; nil when it says nothing of this service.
	desired *api.Deployment
	// last is what it said before that, and was no hold; nil when this process never heard of it.
	last *api.Deployment
	// good is what is gone back to: it was applied completely, and passed the tests that gate it. Nil when nothing did.
	good *api.Deployment
	// applied was applied completely last, whether it was tested or not.
	applied *api.Deployment
	// memory is what the store remembers; its maps are replaced, never changed.
	memory store.Memory
	// cache is the newest render, so that healing costs none.
	cache rendered
	// broken is why the newest deployment cannot be rendered; it is not tried again before that is over.
	broken renderFailure
	// found is what the last pass found; nil before the first. status is that with what the tests found: it is replaced, never
	// changed, because reports share it.
	found, status *api.ServiceReport
	// told is the status that people were told of last.
	told *api.ServiceReport
	// drift is what they are still to be told of what was put back.
	drift drift
	// trial is the test under way, or nil.
	trial *trial
	// names are those of the outcomes of named's tests: they cost something, and are asked for often.
	names []string
	named *api.Deployment

	// due is when the next pass is to begin; idle services wait for news.
	due  time.Time
	idle bool
	// woken is for when it was woken during the pass under way, which began without knowing why; zero for not at all.
	woken time.Time
	// failures counts passes that failed, one after the other.
	failures int
	// stir says how often the service's objects changed lately, stirred that they changed during the pass under way.
	stir    leakyBucket
	stirred bool
	// blocked is what the newest deployment waits for, as the last pass was told.
	blocked string
	// deferred says that deletions of the last pass wait for other services' renders.
	deferred bool
	// swept says that what tests left is gone since the service is asked for no more, sweepNotes what was noted on the way.
	swept      bool
	sweepNotes []string
	// noted are the notes of sweeps that were logged for the newest deployment.
	noted sync.Map
	// removable services are asked for no more, and the deletion budget lets them go.
	removable bool

	cancel  context.CancelFunc // of the pass under way, or nil
	retries bool               // whether that pass began after a failure
	fresh   bool               // whether that pass may have to render
}

// renderFailure is a deployment that cannot be rendered, and until when it is taken to stay so. The zero value is over.
type renderFailure struct {
	message string
	until   time.Time
}

func (b renderFailure) now() bool { return time.Now().Before(b.until) }

// want sets the newest deployment, and says whether it is another. A pass of an older one is stopped: the newest revision
// never waits for it.
func (svc *service) want(d *api.Deployment) bool {
	if d != nil && svc.desired != nil && proto.Equal(d, svc.desired) || d == nil && svc.desired == nil {
		return false
	}
	if svc.desired != nil && svc.desired.GetHold() == "" {
		svc.last = svc.desired
	}
	svc.desired, svc.removable, svc.swept, svc.broken, svc.stirred = d, false, false, renderFailure{}, false
	svc.sweepNotes = nil
	svc.noted.Clear()
	svc.wake(time.Now())
	svc.failures = 0
	if svc.cancel != nil {
		svc.cancel()
	}
	svc.retest()
	return true
}

// wake makes the service due at some time, unless it is sooner. The end of a pass under way does not undo that.
func (svc *service) wake(at time.Time) {
	if svc.cancel != nil {
		svc.woken = sooner(at, svc.woken)
	}
	if svc.idle || svc.due.After(at) {
		svc.due, svc.idle = at, false
	}
}

// rest is over at some time, or with the next news when that is zero.
func (svc *service) rest(until time.Time) {
	svc.due, svc.idle = until, until.IsZero()
}

// decide lets a service that nothing asks for go, or says why it stays.
func (svc *service) decide(held string) {
	svc.removable = held == ""
	svc.wake(time.Now())
	if held != "" {
		svc.found = svc.report(api.Phase_HELD, held)
		svc.status = svc.found
	}
}

// retry makes a service that failed due: what kept it from working may be gone.
func (svc *service) retry() {
	if svc.failures > 0 {
		svc.failures, svc.broken = 0, renderFailure{}
		svc.wake(time.Now())
	}
}

// changed notes that objects of the service changed.
func (svc *service) changed(now time.Time) {
	if svc.cancel != nil {
		svc.stirred = true
		return
	}
	svc.wake(now.Add(svc.stir.pause(now)))
}

// waits says whether time alone makes no pass due.
func (svc *service) waits() bool {
	return svc.cancel != nil || svc.idle || svc.desired == nil && (!svc.removable || svc.trial != nil) || svc.suspended()
}

// current says whether the newest deployment was applied completely.
func (svc *service) current() bool {
	return svc.desired != nil && svc.applied != nil && svc.applied.GetKey() == svc.desired.GetKey() && !svc.quarantined()
}

// healthy says whether the newest deployment is applied, and its objects are as they should be.
func (svc *service) healthy() bool {
	return svc.current() && svc.found.GetPhase() == api.Phase_HEALTHY && svc.found.GetKey() == svc.desired.GetKey()
}

// settled says whether what dependants wait for is there: the newest deployment, healthy, with every test passed that gates it.
func (svc *service) settled() bool { return svc.healthy() && svc.gatesPassed() }

// quarantined says whether the newest deployment failed a test that gates it.
func (svc *service) quarantined() bool {
	return svc.desired != nil && svc.memory.Quarantined != "" && svc.memory.Quarantined == svc.desired.GetKey()
}

// take keeps a pass's result, and decides when the next one is due.
func (svc *service) take(r result) {
	woken := svc.woken
	svc.good, svc.cache, svc.woken = r.good, r.cache, time.Time{}
	if r.applied != nil {
		svc.applied = r.applied
	}
	if r.asks != nil {
		svc.memory.Capabilities = r.asks
	}
	if r.interrupted || r.desired != svc.desired {
		return // it tells nothing of the newest deployment, whose own pass is due already
	}
	known := svc.broken == r.broken
	svc.broken, svc.blocked, svc.deferred = r.broken, r.blocked, r.deferred
	svc.swept, svc.sweepNotes = r.swept, r.sweepNotes
	svc.found = svc.report(r.phase, r.message)
	svc.found.Objects, svc.found.Ready, svc.found.Problems = r.objects, r.ready, r.problems
	svc.found.Held, svc.found.Notes = r.held, r.notes
	switch {
	case !r.failed && r.phase != api.Phase_FAILED:
		svc.failures = 0
	case r.failed || !known || r.broken.message == "":
		svc.failures++
	}
	svc.rest(svc.next(r))
	if !woken.IsZero() {
		svc.wake(woken)
	}
	if svc.stirred {
		svc.stirred = false
		now := time.Now()
		svc.wake(now.Add(svc.stir.pause(now)))
	}
}

func (svc *service) report(phase api.Phase, message string) *api.ServiceReport {
	r := &api.ServiceReport{
		Service: svc.name, Key: svc.desired.GetKey(), AppliedKey: svc.applied.GetKey(), AppliedVersion: svc.applied.GetVersion(),
		Phase: phase, Message: clip(message, maxMessage),
	}
	if svc.quarantined() {
		r.QuarantinedKey = svc.memory.Quarantined
	}
	return r
}

const (
	firstPause = 500 * time.Millisecond
	lastPause  = time.Minute
	// brokenPause is how long a render that can only fail again is not tried.
	brokenPause = 10 * time.Minute
)

// next is when a pass is due by time alone: when the engine asked for it, or a failure's backoff ends; zero is never.
func (svc *service) next(r result) time.Time {
	at, patience := after(r.retry), time.Now().Add(jitter(backoff(svc.failures+1, lastPause)))
	if svc.broken.message != "" {
		if svc.broken.until.IsZero() {
			svc.broken.until = patience
		}
		at = sooner(svc.broken.until, at)
	}
	if r.failed {
		at = sooner(patience, at)
	}
	return at
}

// after is the time that lies so far ahead; zero for no time at all.
func after(d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// sooner is the earlier of two times, of which the second may be none.
func sooner(a, b time.Time) time.Time {
	if b.IsZero() {
		return a
	}
	return earlier(a, b)
}

func backoff(n int, most time.Duration) time.Duration {
	return min(firstPause<<min(n-1, 10), most)
}

func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// leakyBucket is a leaky bucket of changes: a service that changes now and then is looked at at once, one that changes all the time
// ever less often.
type leakyBucket struct {
	level float64
	last  time.Time
}

const (
	// firstStir is how long changes are gathered, lastStir the longest.
	firstStir = 20 * time.Millisecond
	lastStir  = time.Second
	// calm is how many changes are forgotten a second; each stirSteps above that double the pause.
	calm      = 2
	stirSteps = 8
)

// pause is how long to gather what else changes.
func (s *leakyBucket) pause(now time.Time) time.Duration {
	s.level = max(0, s.level-calm*now.Sub(s.last).Seconds()) + 1
	s.last = now
	return min(firstStir<<min(int(s.level/stirSteps), 10), lastStir)
}

// remember is what the store is to keep: only what the newest and the last good deployment need.
func (svc *service) remember() store.Memory {
	m := svc.memory
	m.Capabilities = maps.Clone(m.Capabilities)
	maps.DeleteFunc(m.Capabilities, func(key string, _ bool) bool { return key != svc.desired.GetKey() && key != svc.good.GetKey() })
	return m
}
