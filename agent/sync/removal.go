package sync

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/internal/budget"
)

// retryRemovals bounds a look at the cluster, and is the wait after one that failed.
const retryRemovals = 5 * time.Second

// listing is what a look at the cluster found: the services that have something there.
type listing struct {
	services []string
	err      error
}

// findRemovals looks, beside the loop, for services in the cluster that nothing asks for any more. No removal begins
// before that is known, and within the budget.
func (s *Syncer) findRemovals(ctx context.Context, state *loopState) {
	if state.listing || state.removals.IsZero() || time.Now().Before(state.removals) {
		return
	}
	state.listing, state.removals = true, time.Time{}
	go func() { // awaited by the loop: every look sends one listing
		asking, cancel := context.WithTimeout(ctx, retryRemovals)
		defer cancel()
		services, err := s.Engine.Services(asking)
		s.listings <- listing{services, err}
	}()
}

// decideRemovals allows all removals or none. A listing that is older than the newest poll decides nothing.
func (s *Syncer) decideRemovals(state *loopState, l listing) {
	state.listing = false
	if !state.removals.IsZero() {
		return
	}
	if l.err != nil {
		s.Log.Warn("services in the cluster cannot be listed", "error", l.err)
		state.removals = time.Now().Add(retryRemovals)
		return
	}
	gone, all := state.gone(l.services)
	state.held = state.hold(gone, all)
	for _, svc := range gone {
		svc.decide(state.held.GetMessage())
	}
}

// gone are the services that the cluster has and nothing asks for, and how many it has in all. A service that is still
// to come is none of them: adding some allows no more to be removed.
func (state *loopState) gone(present []string) (gone []*service, all int) {
	here := make(map[string]bool, len(present))
	for _, name := range present {
		here[name] = true
		if state.services[name] == nil {
			state.services[name] = &service{name: name, idle: true}
		}
	}
	for name, svc := range state.services {
		if here[name] || svc.good != nil {
			all++
		}
		switch {
		case svc.desired != nil:
		case here[name] || svc.good != nil:
			gone = append(gone, svc)
		default:
			svc.decide("") // it never came
		}
	}
	return gone, all
}

// hold is what waits for a person, when so many removals do: nil when they may happen, or somebody agreed to exactly these.
func (state *loopState) hold(gone []*service, all int) *api.Held {
	why := overBudget(state.budget, len(gone), all)
	if why == "" {
		return nil
	}
	names := make([]string, len(gone))
	for i, svc := range gone {
		names[i] = svc.name
	}
	slices.Sort(names)
	token := budget.Token(names)
	if slices.Contains(state.acknowledged, token) {
		return nil
	}
	return &api.Held{Token: token, Count: uint32(len(names)), Names: shown(names, maxHeld), Message: why}
}

// overBudget says why so many removals wait, or nothing.
func overBudget(written string, gone, all int) string {
	limit, err := budget.Parse(written)
	if err != nil {
		return fmt.Sprintf("its removal waits: %v", err)
	}
	if limit.Allows(gone, all) {
		return ""
	}
	return fmt.Sprintf("its removal waits: %d of the %d services on this cluster are asked for no more, and the deletion "+
		"budget of %s allows %d: put them back, agree with plural service ack, or raise spec.deletionBudget in plural.yaml",
		gone, all, limit, limit.Allowed(all))
}
