package sync

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
)

// service is one service's state. The loop's goroutine owns it.
type service struct {
	name string
	// desired is what the hub says; nil when it says nothing of this service.
	desired *api.Deployment
	// good was applied completely last; nil when nothing was.
	good *api.Deployment
	// cache is the newest render, so that healing costs none.
	cache rendered
	// status is replaced, never changed: reports share it. Nil before the first pass.
	status   *api.ServiceReport
	due      time.Time
	failures int
	settling int // passes since the last change, while not healthy
	// removable services are asked for no more, and the deletion budget lets them go.
	removable bool
	// idle services wait for news: nothing is to be done by time alone.
	idle    bool
	cancel  context.CancelFunc // of the pass under way, or nil
	retries bool               // whether that pass began after a failure
}

// rendered is a deployment's objects, by its key. It lives in memory only: the objects may hold what was sealed.
type rendered struct {
	key     string
	objects []*unstructured.Unstructured
	// own are the values that were sealed in it. secrets are those that no message may repeat: these, and older ones that may
	// still be live.
	own, secrets []string
}

// want sets the newest deployment. A pass of an older one is stopped: the newest revision never waits for it.
func (svc *service) want(d *api.Deployment) {
	if d != nil && svc.desired != nil && proto.Equal(d, svc.desired) {
		return
	}
	svc.desired, svc.removable = d, false
	svc.due, svc.failures, svc.settling, svc.idle = time.Now(), 0, 0, false
	if svc.cancel != nil {
		svc.cancel()
	}
}

// decide lets a service that nothing asks for go, or says why it stays.
func (svc *service) decide(held string) {
	svc.removable, svc.due = held == "", time.Now()
	if held != "" {
		svc.status = svc.report(api.Phase_HELD, held)
	}
}

// retry makes a service that failed due: what kept it from working may be gone.
func (svc *service) retry() {
	if svc.failures > 0 {
		svc.due, svc.failures = time.Now(), 0
	}
}

// waits says whether time alone makes no pass due.
func (svc *service) waits() bool {
	return svc.cancel != nil || svc.idle || svc.desired == nil && !svc.removable
}

// settled says whether what dependants wait for is there: the newest deployment, applied and healthy.
func (svc *service) settled() bool {
	return svc.desired != nil && svc.status.GetPhase() == api.Phase_HEALTHY && svc.status.GetAppliedKey() == svc.desired.GetKey()
}

// pass is what the next pass has to do.
func (svc *service) pass(keys unseal.Keys, blocker string) work {
	return work{service: svc.name, desired: svc.desired, good: svc.good, cache: svc.cache, keys: keys, blocker: blocker}
}

// take keeps a pass's result, and decides when the next one is due.
func (svc *service) take(r result, heal time.Duration) {
	svc.good, svc.cache = r.good, r.cache
	if r.interrupted || r.desired != svc.desired {
		return // it tells nothing of the newest deployment, whose own pass is due already
	}
	svc.status = svc.report(r.phase, r.message)
	svc.status.Objects, svc.status.Ready, svc.status.Problems = r.objects, r.ready, r.problems
	svc.due, svc.idle = time.Now().Add(svc.pause(r, heal)), svc.rests(r)
}

func (svc *service) report(phase api.Phase, message string) *api.ServiceReport {
	return &api.ServiceReport{
		Service: svc.name, Key: svc.desired.GetKey(), AppliedKey: svc.good.GetKey(), Phase: phase, Message: clip(message, maxMessage),
	}
}

// rests says whether the service is done until there is news: it does not want to be healed.
func (svc *service) rests(r result) bool {
	return r.phase == api.Phase_HEALTHY && !svc.desired.GetSync().GetSelfHeal()
}

const (
	firstPause = 500 * time.Millisecond
	lastPause  = time.Minute
)

// pause is how long to wait after a pass: a healthy service until it is healed, one under way shortly, a failing one
// ever longer.
func (svc *service) pause(r result, heal time.Duration) time.Duration {
	switch r.phase {
	case api.Phase_HEALTHY:
		svc.failures, svc.settling = 0, 0
		return jitter(heal)
	case api.Phase_PROGRESSING, api.Phase_REMOVING, api.Phase_PENDING:
		svc.failures = 0
		svc.settling++
		return jitter(backoff(svc.settling, max(heal, firstPause)))
	default:
		svc.failures++
		return jitter(backoff(svc.failures+1, lastPause))
	}
}

func backoff(n int, most time.Duration) time.Duration {
	return min(firstPause<<min(n-1, 10), most)
}

func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}
