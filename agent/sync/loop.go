package sync

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
)

// loopState is what the loop's goroutine alone reads and writes.
type loopState struct {
	services map[string]*service
	root     string // ETag of the poll that was taken in last
	budget   string
	// keys open what is sealed for this cluster; envelopes are what they were made of.
	keys      unseal.Keys
	envelopes []*api.Envelope
	running   int // passes under way
	retrying  int // those among them whose service failed the last time
	// removals is when services that nothing asks for are to be looked for in the cluster; zero for not at all.
	removals time.Time
	listing  bool // somebody is looking
	// verify is when to look at the bundles on disk again.
	verify    time.Time
	verifying bool // somebody is looking
	sequence  uint64
	boot      string
}

// loop is the only place where state changes.
func (s *Syncer) loop(ctx context.Context, last news) error {
	state := s.remember(last)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case n := <-s.polls:
			s.adopt(state, n)
		case l := <-s.listings:
			s.decideRemovals(state, l)
		case <-s.verified:
			state.verifying, state.verify = false, time.Now().Add(jitter(s.Verify))
		case r := <-s.results:
			s.settle(state, r)
		case <-timer.C:
		}
		if ctx.Err() != nil {
			s.drain(state)
			return nil
		}
		s.findRemovals(ctx, state)
		s.verify(ctx, state)
		s.launch(ctx, state)
		s.publish(state)
		timer.Reset(state.sleep(s.Passes))
	}
}

// remember starts from the disk. Without a poll there, what was good last is what is wanted.
func (s *Syncer) remember(last news) *loopState {
	state := &loopState{services: make(map[string]*service), boot: strconv.FormatUint(rand.Uint64(), 36)}
	state.verify = time.Now().Add(jitter(s.Verify))
	s.unlock(state, nil)
	good, err := s.Store.Good()
	if err != nil {
		s.Log.Error("some last good deployments are unreadable", "error", err)
	}
	for name, d := range good {
		state.services[name] = &service{name: name, desired: d, good: d, due: time.Now()}
	}
	if last.poll != nil {
		s.adopt(state, last)
	}
	return state
}

// drain waits for what is under way; ctx has ended, so it ends soon.
func (s *Syncer) drain(state *loopState) {
	for ; state.running > 0; state.running-- {
		<-s.results
	}
	if state.listing {
		<-s.listings
	}
	if state.verifying {
		<-s.verified
	}
}

// adopt makes a poll the desired state.
func (s *Syncer) adopt(state *loopState, n news) {
	desired := make(map[string]*api.Deployment, len(n.poll.GetDeployments()))
	for _, d := range n.poll.GetDeployments() {
		desired[d.GetService()] = d
		if state.services[d.GetService()] == nil {
			state.services[d.GetService()] = &service{name: d.GetService()}
		}
	}
	for name, svc := range state.services {
		svc.want(desired[name])
	}
	if !sameEnvelopes(state.envelopes, n.poll.GetEnvelopes()) {
		s.unlock(state, n.poll.GetEnvelopes())
	}
	if state.root != n.etag {
		s.Log.Info("new desired state", "services", len(desired), "root", n.etag)
	}
	state.root, state.budget = n.etag, n.poll.GetDeletionBudget()
	s.setBeat(time.Duration(n.poll.GetReportIntervalMs()) * time.Millisecond)
	state.removals = time.Now()
	s.collect(state)
}

// setBeat leaves the hub's wish for the reporter, in place of an older one.
func (s *Syncer) setBeat(beat time.Duration) {
	if beat <= 0 {
		return
	}
	select {
	case <-s.beats:
	default:
	}
	s.beats <- beat
}

// collect drops the bundles that neither a desired nor a last good deployment names.
func (s *Syncer) collect(state *loopState) {
	keys := make(map[string]bool)
	for key := range state.kept() {
		keys[key] = true
	}
	if err := s.Store.KeepBundles(keys); err != nil {
		s.Log.Error("old bundles cannot be deleted", "error", err)
	}
}

// launch starts the passes that are due, oldest first, as many as may run.
func (s *Syncer) launch(ctx context.Context, state *loopState) {
	now := time.Now()
	var due []*service
	for _, svc := range state.services {
		if !svc.waits() && !svc.due.After(now) {
			due = append(due, svc)
		}
	}
	slices.SortFunc(due, func(a, b *service) int { return a.due.Compare(b.due) })
	for _, svc := range due {
		if state.room(svc, s.Passes) {
			s.start(ctx, state, svc)
		}
	}
}

// room says whether a pass may start now. Services that failed never take the last place: however long each of them
// takes to fail again, the others go on.
func (state *loopState) room(svc *service, passes int) bool {
	if svc.failures > 0 && state.retrying >= max(passes-1, 1) {
		return false
	}
	return state.running < passes
}

func (s *Syncer) start(ctx context.Context, state *loopState, svc *service) {
	work := svc.pass(state.keys, state.blocker(svc))
	passing, cancel := context.WithCancel(ctx)
	svc.cancel, svc.retries = cancel, svc.failures > 0
	state.running++
	if svc.retries {
		state.retrying++
	}
	go func() { // awaited by the loop: every pass sends one result
		s.results <- s.run(passing, work)
	}()
}

// blocker names the dependency that the service's newest deployment has to wait for, or nothing.
func (state *loopState) blocker(svc *service) string {
	if svc.desired == nil || svc.good.GetKey() == svc.desired.GetKey() {
		return ""
	}
	for _, name := range svc.desired.GetDependsOn() {
		if dep := state.services[name]; dep == nil || !dep.settled() {
			return name
		}
	}
	return ""
}

// settle takes a pass's result in.
func (s *Syncer) settle(state *loopState, r result) {
	svc := state.services[r.service]
	svc.cancel()
	svc.cancel = nil
	state.running--
	if svc.retries {
		state.retrying--
	}
	if r.removed && svc.desired == nil { // else it is asked for again, and begins anew
		delete(state.services, r.service)
		s.Log.Info("service removed", "service", r.service)
		return
	}
	was := svc.status
	svc.take(r, s.Heal)
	if was.GetPhase() != svc.status.GetPhase() || was.GetKey() != svc.status.GetKey() {
		s.Log.Info("service changed phase", "service", r.service, "phase", svc.status.GetPhase().String(),
			"key", svc.status.GetKey(), "message", svc.status.GetMessage())
	}
	state.unblock(svc)
}

// unblock makes due what waited for the service, and the service itself when it waits for nothing any more.
func (state *loopState) unblock(svc *service) {
	if svc.status.GetPhase() == api.Phase_PENDING && state.blocker(svc) == "" {
		svc.due = time.Now()
	}
	if !svc.settled() {
		return
	}
	for _, other := range state.services {
		if other.status.GetPhase() == api.Phase_PENDING && slices.Contains(other.desired.GetDependsOn(), svc.name) {
			other.due = time.Now()
		}
	}
}

// publish leaves the newest state for the reporter, in place of an older one that it has not taken yet.
func (s *Syncer) publish(state *loopState) {
	state.sequence++
	report := &api.Report{
		AgentVersion: s.AgentVersion, KubernetesVersion: s.KubeVersion,
		Boot: state.boot, Sequence: state.sequence, Root: state.root,
	}
	for _, name := range slices.Sorted(maps.Keys(state.services)) {
		if status := state.services[name].status; status != nil {
			report.Services = append(report.Services, status)
		}
	}
	select {
	case <-s.reports:
	default:
	}
	s.reports <- report
}

// sleep is how long nothing is due.
func (state *loopState) sleep(passes int) time.Duration {
	next := time.Now().Add(time.Minute)
	if !state.listing && !state.removals.IsZero() && state.removals.Before(next) {
		next = state.removals
	}
	if !state.verifying && state.verify.Before(next) {
		next = state.verify
	}
	for _, svc := range state.services {
		if !svc.waits() && state.room(svc, passes) && svc.due.Before(next) {
			next = svc.due
		}
	}
	return max(time.Until(next), 10*time.Millisecond)
}
