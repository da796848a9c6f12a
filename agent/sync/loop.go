package sync

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/internal/budget"
)

// loopState is what the loop's goroutine alone reads and writes.
type loopState struct {
	services map[string]*service
	root     string // ETag of the poll that was taken in last
	polled   bool   // whether desired is known at all
	budget   string
	running  int
	// removals are due to be looked for in the cluster.
	removals time.Time
	report   uint64
	boot     string
}

// loop is the only place where state changes.
func (s *Syncer) loop(ctx context.Context) error {
	state := &loopState{services: make(map[string]*service), boot: strconv.FormatUint(rand.Uint64(), 36)}
	good, err := s.Store.Good()
	if err != nil {
		s.Log.Error("some last good deployments are unreadable", "error", err)
	}
	for name, d := range good {
		state.services[name] = &service{name: name, good: d}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.drain(state)
			return nil
		case n := <-s.polls:
			s.adopt(state, n)
		case r := <-s.results:
			s.settle(state, r)
		case <-timer.C:
		}
		s.findRemovals(ctx, state)
		s.launch(ctx, state)
		s.publish(state)
		timer.Reset(state.sleep(s.Passes))
	}
}

// drain waits for the passes that are under way; ctx has ended, so they end soon.
func (s *Syncer) drain(state *loopState) {
	for ; state.running > 0; state.running-- {
		<-s.results
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
	state.root, state.polled, state.budget = n.etag, true, n.poll.GetDeletionBudget()
	s.setBeat(time.Duration(n.poll.GetReportIntervalMs()) * time.Millisecond)
	state.removals = time.Now()
	s.Log.Info("new desired state", "services", len(desired), "root", n.etag)
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
	for _, svc := range state.services {
		keys[svc.desired.GetBundle()] = true
		keys[svc.good.GetBundle()] = true
	}
	if err := s.Store.KeepBundles(keys); err != nil {
		s.Log.Error("old bundles cannot be deleted", "error", err)
	}
}

// findRemovals learns which services the cluster has that nothing asks for any more.
func (s *Syncer) findRemovals(ctx context.Context, state *loopState) {
	if !state.polled || state.removals.IsZero() || time.Now().Before(state.removals) {
		return
	}
	asking, cancel := context.WithTimeout(ctx, retryRemovals)
	defer cancel()
	present, err := s.Engine.Services(asking)
	if err != nil {
		s.Log.Warn("services in the cluster cannot be listed", "error", err)
		state.removals = time.Now().Add(retryRemovals)
		return
	}
	state.removals = time.Time{}
	for _, name := range present {
		if state.services[name] == nil {
			state.services[name] = &service{name: name, due: time.Now()}
		}
	}
	gone, all := state.gone()
	within, err := budget.Parse(state.budget)
	held := err != nil || !within.Allows(len(gone), all)
	for _, svc := range gone {
		svc.hold(held, len(gone), all)
	}
}

const retryRemovals = 5 * time.Second

// gone are the services that nothing asks for, and how many there are in all.
func (state *loopState) gone() (gone []*service, all int) {
	for _, svc := range state.services {
		if svc.desired == nil {
			gone = append(gone, svc)
		}
	}
	return gone, len(state.services)
}

// launch starts the passes that are due, oldest first, as many as may run.
func (s *Syncer) launch(ctx context.Context, state *loopState) {
	if !state.polled {
		return
	}
	now := time.Now()
	var due []*service
	for _, svc := range state.services {
		if svc.cancel == nil && !svc.idle && !svc.due.After(now) {
			due = append(due, svc)
		}
	}
	slices.SortFunc(due, func(a, b *service) int { return a.due.Compare(b.due) })
	for _, svc := range due {
		if state.running >= s.Passes {
			return
		}
		s.start(ctx, state, svc)
	}
}

func (s *Syncer) start(ctx context.Context, state *loopState, svc *service) {
	work := svc.pass(state.blocker(svc))
	passing, cancel := context.WithCancel(ctx)
	svc.cancel = cancel
	state.running++
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
	state.running--
	svc := state.services[r.service]
	svc.cancel()
	svc.cancel = nil
	if r.removed {
		delete(state.services, r.service)
		s.Log.Info("service removed", "service", r.service)
		return
	}
	was := svc.status
	svc.take(r, s.Heal)
	if was.GetPhase() != svc.status.GetPhase() || was.GetKey() != svc.status.GetKey() {
		s.Log.Info("service is "+svc.status.GetPhase().String(), "service", r.service, "key", svc.status.GetKey(), "message", svc.status.GetMessage())
	}
	if svc.settled() {
		state.unblock(r.service)
	}
}

// unblock makes services due that waited for the named one.
func (state *loopState) unblock(name string) {
	for _, svc := range state.services {
		if svc.status.GetPhase() == api.Phase_PENDING && slices.Contains(svc.desired.GetDependsOn(), name) {
			svc.due = time.Now()
		}
	}
}

// publish leaves the newest state for the reporter, in place of an older one that it has not taken yet.
func (s *Syncer) publish(state *loopState) {
	report := &api.Report{
		AgentVersion: s.AgentVersion, KubernetesVersion: s.KubeVersion, Boot: state.boot, Root: state.root,
	}
	for _, name := range slices.Sorted(maps.Keys(state.services)) {
		if status := state.services[name].status; status != nil {
			report.Services = append(report.Services, status)
		}
	}
	state.report++
	report.Sequence = state.report
	select {
	case <-s.reports:
	default:
	}
	s.reports <- report
}

// sleep is how long nothing is due.
func (state *loopState) sleep(passes int) time.Duration {
	next := time.Now().Add(time.Minute)
	consider := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	consider(state.removals)
	if state.running < passes { // else a result wakes the loop
		for _, svc := range state.services {
			if svc.cancel == nil && !svc.idle {
				consider(svc.due)
			}
		}
	}
	return max(time.Until(next), 10*time.Millisecond)
}
