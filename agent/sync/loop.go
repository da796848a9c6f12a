package sync

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

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
	can       capabilities
	issuer    *api.TokenIssuer
	barrier   barrier
	// running are the passes under way; retrying those among them whose service failed the last time, fresh those that may
	// have to render.
	running, retrying, fresh int
	trials                   int // tests under way
	// removals is when services that nothing asks for are to be looked for in the cluster; zero for not at all.
	removals time.Time
	listing  bool // somebody is looking
	// acknowledged are the removals that a person has agreed to, held those that wait for it.
	acknowledged []string
	held         *api.Held
	// verify is when to look at the bundles on disk again.
	verify    time.Time
	verifying bool // somebody is looking
	// news says that what would be reported may have changed; next is when it may be told.
	news bool
	next time.Time
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
			state.news = true
		case l := <-s.listings:
			s.decideRemovals(state, l)
			state.news = true
		case <-s.verified:
			state.verifying, state.verify = false, time.Now().Add(jitter(s.Verify))
		case r := <-s.results:
			s.settle(state, r)
			state.news = true
		case o := <-s.tried:
			s.conclude(state, o)
			state.news = true
		case <-s.Engine.Changed():
			state.changed(s.Engine.Take(), time.Now())
		case can := <-s.NewCapabilities:
			state.canDo(newCapable(can))
			state.news = true
		case state.issuer = <-s.Issuers:
			state.news = true
		case <-s.hurries:
			s.hurry(state)
		case q := <-s.questions:
			state.answer(q)
		case <-timer.C:
		}
		if ctx.Err() != nil {
			s.drain(state)
			return nil
		}
		now := time.Now()
		state.release(now)
		state.lift(now)
		s.findRemovals(ctx, state)
		s.verify(ctx, state)
		s.try(ctx, state)
		s.launch(ctx, state)
		s.tellDrift(state, now)
		s.publish(state, now)
		timer.Reset(state.sleep(s.Passes))
	}
}

// remember starts from the disk. Without a poll there, what was good last is what is wanted.
func (s *Syncer) remember(last news) *loopState {
	state := &loopState{services: make(map[string]*service), barrier: make(barrier), can: newCapable(s.Capabilities)}
	state.verify = time.Now().Add(jitter(s.Verify))
	s.unlock(state, nil)
	good, err := s.Store.Good()
	if err != nil {
		s.Log.Error("some last good deployments are unreadable", "error", err)
	}
	memories, err := s.Store.Memories()
	if err != nil {
		s.Log.Error("what is known of some services is unreadable", "error", err)
	}
	for name, d := range good {
		state.services[name] = &service{name: name, desired: d, good: d, applied: d, due: time.Now()}
	}
	if len(good) > 0 {
		s.heard(slices.Collect(maps.Values(good)))
	}
	for name, m := range memories {
		svc := state.services[name]
		if svc == nil {
			svc = &service{name: name, idle: true}
			state.services[name] = svc
		}
		svc.memory = m
	}
	for _, svc := range state.services {
		if tests := len(svc.good.GetTests()) + len(svc.memory.Tests); svc.good != nil && tests > 0 && len(svc.memory.Tried) == 0 {
			svc.memory.Tried = addReach(nil, svc.good) // an older agent wrote down no places
		}
	}
	if last.poll != nil {
		s.adopt(state, last)
	}
	for name, svc := range state.services {
		if svc.desired == nil && svc.good == nil && len(svc.memory.Tried) == 0 {
			s.forget(name)
			delete(state.services, name)
			s.masked.Delete(name)
		}
	}
	return state
}

// forget drops what the store keeps of a service.
func (s *Syncer) forget(service string) {
	if err := s.Store.Forget(service); err != nil {
		s.Log.Error("service cannot be forgotten", "service", service, "error", err)
	}
}

// drain waits for what is under way; ctx has ended, so it ends soon.
func (s *Syncer) drain(state *loopState) {
	for ; state.running > 0; state.running-- {
		<-s.results
	}
	for ; state.trials > 0; state.trials-- {
		<-s.tried
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
	now := time.Now()
	desired := make(map[string]*api.Deployment, len(n.poll.GetDeployments()))
	for _, d := range n.poll.GetDeployments() {
		desired[d.GetService()] = d
		if state.services[d.GetService()] == nil {
			state.services[d.GetService()] = &service{name: d.GetService()}
		}
	}
	for name, svc := range state.services {
		switch another := svc.want(desired[name]); {
		case svc.suspended():
			state.barrier.passed(name)
			if another || svc.status == nil {
				svc.suspend()
			}
		case svc.desired == nil:
			state.barrier.passed(name)
		case another:
			state.barrier.add(name, now)
		}
	}
	s.heard(n.poll.GetDeployments())
	if !sameEnvelopes(state.envelopes, n.poll.GetEnvelopes()) {
		s.unlock(state, n.poll.GetEnvelopes())
	}
	s.setRules(state, n.poll)
	if state.root != n.etag {
		s.Log.Info("new desired state", "services", len(desired), "root", n.etag)
	}
	state.root, state.budget, state.acknowledged = n.etag, n.poll.GetDeletionBudget(), n.poll.GetAcknowledged()
	s.setBeat(time.Duration(n.poll.GetReportIntervalMs()) * time.Millisecond)
	state.removals = now
	s.collect(state)
}

// setRules says how objects are judged before any is looked at: what is judged twice is listed twice.
func (s *Syncer) setRules(state *loopState, p *api.Poll) {
	if err := s.Engine.SetRules("", healthRules(p.GetHealth())); err != nil {
		s.Log.Error("the fleet's health rules cannot be used; those before stay", "error", err)
	}
	for name, svc := range state.services {
		if rules := rulesOf(svc.desired, svc.good); len(rules) > 0 {
			_ = s.Engine.SetRules(name, rules) // its pass says what is wrong with them
		}
	}
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

// changed notes that objects of services changed.
func (state *loopState) changed(names []string, now time.Time) {
	for _, name := range names {
		if svc := state.services[name]; svc != nil {
			svc.changed(now)
		}
	}
}

// canDo takes in what the cluster can do now. Only renders that depend on it are made again.
func (state *loopState) canDo(can capabilities) {
	if can.digest == state.can.digest {
		return
	}
	state.can = can
	for _, svc := range state.services {
		if svc.desired != nil && depends(svc.desired, svc.memory.Capabilities) || svc.good != nil && depends(svc.good, svc.memory.Capabilities) {
			svc.broken, svc.stirred = renderFailure{}, true // a pass under way knows nothing of it
			svc.wake(time.Now())
		}
	}
}

// launch starts the passes that are due, as many as may run.
func (s *Syncer) launch(ctx context.Context, state *loopState) {
	for now := time.Now(); ; {
		svc := state.first(now, s.Passes)
		if svc == nil {
			return
		}
		s.start(ctx, state, svc)
	}
}

// first is the service whose pass is to start before all others, or nil: what has been due for longest, and of all that is due
// what did not fail before.
func (state *loopState) first(now time.Time, passes int) *service {
	if state.running >= passes {
		return nil
	}
	var first *service
	for _, svc := range state.services {
		if svc.waits() || svc.due.After(now) || !state.room(svc, passes) {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(min(svc.failures, 1), min(first.failures, 1)), svc.due.Compare(first.due)) < 0 {
			first = svc
		}
	}
	return first
}

// room says whether a pass may start now. Services that failed take half of the places at most, and those that may have to be
// rendered never the last one: however long each of them takes, what has drifted is healed.
func (state *loopState) room(svc *service, passes int) bool {
	switch {
	case state.running >= passes:
		return false
	case svc.failures > 0 && state.retrying >= max(passes/2, 1):
		return false
	default:
		return svc.current() || state.fresh < max(passes-1, 1)
	}
}

func (s *Syncer) start(ctx context.Context, state *loopState, svc *service) {
	work := svc.work(state)
	work.blocked = state.blocker(svc)
	if work.blocked == "" && svc.begin() {
		s.save(svc)
	}
	passing, cancel := context.WithCancel(ctx)
	svc.cancel, svc.retries, svc.fresh = cancel, svc.failures > 0, !svc.current()
	state.count(svc, +1)
	go func() { // awaited by the loop: every pass sends one result
		s.results <- s.run(passing, work)
	}()
}

// begin notes that something of the newest deployment may be applied from now on, and says whether that must be remembered.
func (svc *service) begin() bool {
	d := svc.desired
	if svc.current() || d.GetHold() != "" || svc.quarantined() || len(dependencies(d)) == 0 || svc.memory.Begun == d.GetKey() {
		return false
	}
	svc.memory.Begun = d.GetKey()
	return true
}

// work is what the next pass has to do.
func (svc *service) work(state *loopState) work {
	w := work{
		service: svc.name, desired: svc.desired, good: svc.good, cache: svc.cache, asks: svc.memory.Capabilities, keys: state.keys,
		can: state.can, broken: svc.broken, gated: svc.gated(), deferPrune: state.barrier.wall().ends(svc.name).After(time.Now()),
		last: svc.last, reaches: svc.memory.Tried, swept: svc.swept, sweepNotes: svc.sweepNotes, noted: &svc.noted,
	}
	if svc.quarantined() {
		w.barred = svc.memory.Reason
	}
	return w
}

func (state *loopState) count(svc *service, by int) {
	state.running += by
	if svc.retries {
		state.retrying += by
	}
	if svc.fresh {
		state.fresh += by
	}
}

// settle takes a pass's result in.
func (s *Syncer) settle(state *loopState, r result) {
	svc := state.services[r.service]
	svc.cancel()
	svc.cancel = nil
	state.count(svc, -1)
	if r.removed && svc.desired == nil { // else it is asked for again, and begins anew
		delete(state.services, r.service)
		s.masked.Delete(r.service)
		if len(svc.memory.Tests) > 0 && len(svc.memory.Tried) == 0 {
			s.Log.Warn("what tests left is not deleted: nobody remembers where the service might go, and as whom", "service", r.service)
		}
		s.Log.Info("service removed", "service", r.service)
		if s.Event != nil {
			s.Event(Event{Service: r.service, Reason: Removed, Time: time.Now()})
		}
		return
	}
	if r.removed {
		svc.applied, svc.memory.Begun, svc.memory.Tried = nil, "", nil
	}
	if r.can != state.can.digest {
		r.broken.until = time.Time{} // it may render for what the cluster can do now
	}
	was, learnt := svc.status, !maps.Equal(svc.memory.Capabilities, r.asks)
	svc.take(r)
	svc.drift.add(r)
	svc.compose()
	if learnt {
		s.save(svc)
	}
	if !r.interrupted && r.desired == svc.desired {
		state.barrier.passed(r.service)
	}
	if was.GetPhase() != svc.status.GetPhase() || was.GetKey() != svc.status.GetKey() {
		s.Log.Info("service changed phase", "service", r.service, "phase", svc.status.GetPhase().String(),
			"key", svc.status.GetKey(), "message", svc.status.GetMessage())
	}
}

// publishing is how long news is gathered before the reporter gets it: with a thousand services a report is worth some work.
const publishing = 50 * time.Millisecond

// publish leaves the newest state for the reporter, in place of an older one that it has not taken yet.
func (s *Syncer) publish(state *loopState, now time.Time) {
	if !state.news || now.Before(state.next) {
		return
	}
	state.news, state.next = false, now.Add(publishing)
	report := &api.Report{AgentVersion: s.AgentVersion, KubernetesVersion: state.can.KubeVersion, Root: state.root, TokenIssuer: state.issuer}
	if state.held != nil {
		report.Held = proto.CloneOf(state.held)
	}
	for _, name := range slices.Sorted(maps.Keys(state.services)) {
		svc := state.services[name]
		if svc.status == nil {
			continue
		}
		report.Services = append(report.Services, svc.status)
		s.tell(svc.told, svc.status)
		svc.told = svc.status
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
	if state.news {
		next = state.next
	}
	if !state.listing && !state.removals.IsZero() {
		next = earlier(next, state.removals)
	}
	if !state.verifying {
		next = earlier(next, state.verify)
	}
	wall := state.barrier.wall()
	for _, svc := range state.services {
		if svc.drift.count > 0 {
			next = earlier(next, svc.drift.due())
		}
		if svc.deferred && svc.cancel == nil {
			next = earlier(next, wall.ends(svc.name))
		}
		if !svc.waits() && state.room(svc, passes) {
			next = earlier(next, svc.due)
		}
	}
	return max(time.Until(next), 10*time.Millisecond)
}
