package simcmd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pluralsh/plural/agent/sim"
	"github.com/pluralsh/plural/cli/simcmd/stage"
	"github.com/pluralsh/plural/cli/ui"
)

// scenario is something that happens to a fleet at work.
type scenario func(ctx context.Context, s *scene) (last, error)

func (play scenario) with(s *scene) func(context.Context) (last, error) {
	return func(ctx context.Context) (last, error) { return play(ctx, s) }
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"steady": steady, "commit": commit, "touch-all": touchAll, "storm": storm, "restart": restart,
		"partition": partition, "slow": slow, "changes": changes,
	}
}

func scenarioNames() []string { return slices.Sorted(maps.Keys(scenarios())) }

// steady is a fleet in which nothing happens.
func steady(ctx context.Context, s *scene) (last, error) { return last{}, pause(ctx, s.lasts) }

// changes is a fleet in which services fall ill and recover all the time.
func changes(ctx context.Context, s *scene) (last, error) {
	changing, stop := context.WithTimeout(ctx, s.lasts)
	defer stop()
	s.swarm.Change(changing, s.changes)
	return last{}, ctx.Err()
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// commit changes a service that runs on every cluster, and waits until the last agent has it.
func commit(ctx context.Context, s *scene) (last, error) {
	return s.update(ctx, s.fleet.Names()[:1], s.swarm.Size())
}

// touchAll changes every service in one commit, and waits until the last agent has all of them.
func touchAll(ctx context.Context, s *scene) (last, error) {
	return s.update(ctx, s.fleet.Names(), s.swarm.Size())
}

// update commits and hints, and waits for so many agents. Their time counts from the hint.
func (s *scene) update(ctx context.Context, services []string, agents int) (last, error) {
	if err := s.repo.Commit(ctx, services...); err != nil {
		return last{}, err
	}
	round := s.swarm.Begin(sim.Updated, agents)
	if err := s.hub.Hint(ctx); err != nil {
		return last{}, err
	}
	return s.wait(ctx, round, s.poll+patience), nil
}

// storm cuts every connection at once; all agents come back in the same moment.
func storm(ctx context.Context, s *scene) (last, error) {
	s.swarm.Cut()
	round := s.swarm.Begin(sim.Polled, s.swarm.Size())
	s.swarm.Wake()
	return s.wait(ctx, round, s.poll+patience), nil
}

// restart kills the hub and starts it again, and waits until every agent has asked the new one.
func restart(ctx context.Context, s *scene) (last, error) {
	process, ok := s.hub.(*stage.Hub)
	if !ok {
		return last{}, &ui.Err{Msg: "a hub that somebody else runs cannot be restarted", Fix: "leave --hub or the scenario restart out"}
	}
	round := s.swarm.Begin(sim.Polled, s.swarm.Size())
	if err := errors.Join(process.Kill(), process.Start(ctx, s.repo.Origin)); err != nil {
		return last{}, err
	}
	return s.wait(ctx, round, s.poll+patience), nil
}

// partition lets nothing pass between half of the agents and the hub for two polls' time. A commit comes meanwhile; it
// is waited for until the last agent has it after the partition has healed.
func partition(ctx context.Context, s *scene) (last, error) {
	half := s.swarm.Size() / 2
	s.swarm.Stall(half)
	defer s.swarm.Resume()
	missed := s.swarm.Begin(sim.Updated, s.swarm.Size())
	near, err := s.update(ctx, s.fleet.Names()[:1], s.swarm.Size()-half)
	if err != nil || near.missing > 0 {
		return near, err
	}
	if err := pause(ctx, 2*s.poll); err != nil {
		return last{}, err
	}
	healed := time.Now()
	s.swarm.Resume()
	end := s.wait(ctx, missed, s.poll+patience)
	end.after -= healed.Sub(missed.Since())
	return end, nil
}

const (
	// slowShare of the agents are behind a line of slowRate bytes a second.
	slowShare = 10
	slowRate  = 4 << 10
)

// slow puts a tenth of the agents behind narrow lines, changes every service, and waits until all others have it: nobody
// waits for the slow. They are given the time that they need before it ends.
func slow(ctx context.Context, s *scene) (last, error) {
	some := s.swarm.Size() / slowShare
	s.swarm.Slow(some, slowRate)
	s.swarm.Cut() // a line is as fast as it was when it was opened
	all := s.swarm.Begin(sim.Updated, s.swarm.Size())
	others, err := s.update(ctx, s.fleet.Names(), s.swarm.Size()-some)
	if err != nil || others.missing > 0 {
		return others, err
	}
	others.missing = s.wait(ctx, all, s.poll+patience).missing
	s.swarm.Slow(some, 0)
	s.swarm.Cut()
	return others, nil
}
