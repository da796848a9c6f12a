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

// decideRemovals lets go what somebody agreed to by name, and allows all other removals or none. A listing that is older than
// the newest poll decides nothing.
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
	open := budget.Unagreed(state.acknowledged, gone)
	state.held = s.hold(state, open, all-len(gone)+len(open)) // what is agreed to counts on neither side
	for _, name := range gone {
		held := ""
		if slices.Contains(open, name) {
			held = state.held.GetMessage()
		}
		state.services[name].decide(held)
	}
}

// gone are the services that the cluster has and nothing asks for, sorted, and how many it has in all. A service that is still
// to come is none of them: adding some allows no more to be removed.
func (state *loopState) gone(present []string) (gone []string, all int) {
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
			gone = append(gone, name)
		default:
			svc.decide("") // it never came
		}
	}
	slices.Sort(gone)
	return gone, all
}

// hold is what waits for a person, when so many removals do: nil when they may happen, or somebody agreed to exactly these.
func (s *Syncer) hold(state *loopState, names []string, all int) *api.Held {
	why := overBudget(state.budget, len(names), all, s.Cluster.Name)
	if why == "" || budget.Agreed(state.acknowledged, names) {
		return nil
	}
	return &api.Held{Token: budget.Token(names), Count: uint32(len(names)), Names: shown(names, maxHeld), Message: why}
}

// overBudget says why so many removals wait, or nothing.
func overBudget(written string, gone, all int, cluster string) string {
	limit, err := budget.Parse(written)
	if err != nil {
		return fmt.Sprintf("its removal waits: %v", err)
	}
	if limit.Allows(gone, all) {
		return ""
	}
	return fmt.Sprintf("its removal waits: %d of the %d services on this cluster are asked for no more, and the deletion "+
		"budget of %s allows %d: put them back, agree with plural service ack --cluster-removals %s, or raise "+
		"spec.deletionBudget in plural.yaml", gone, all, limit, limit.Allowed(all), cluster)
}
