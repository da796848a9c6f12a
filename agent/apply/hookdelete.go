package apply

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
	"github.com/pluralsh/plural/agent/watchcache"
)

// Delete policies are carried out when what a hook may be needed for has ended: with Helm and in our own words its stage, with
// Argo CD the whole sync. They go by what the inventory says, so that a pass after a kill deletes what is left to delete.

// hookStates tell how hooks of this run have ended.
func (p *pass) hookStates(hooks []item) []inventory.HookState {
	states := make([]inventory.HookState, len(hooks))
	for i, it := range hooks {
		if known := p.hook(inventory.HookID{ID: it.id, Stage: it.turn.Stage}); known.Run == p.revision() {
			states[i] = known.State
		}
	}
	return states
}

// endStage deletes what the policies of a stage's hooks name, once all of them have succeeded: the last one first; or once one
// has failed: that one, then, when none runs any more, those that succeeded before it. The hooks are in the order in which they
// run. It is done unless something could not be deleted yet.
func (p *pass) endStage(ctx context.Context, hooks []item) (done bool) {
	states := p.hookStates(hooks)
	done = true
	if slices.Contains(states, inventory.HookFailed) {
		done = p.deleteHooks(ctx, hooks, func(i int) bool {
			return hooks[i].turn.Family != order.Argo && states[i] == inventory.HookFailed && hooks[i].turn.Failed
		})
		if slices.Contains(states, inventory.HookCreated) {
			return done
		}
	} else {
		for _, state := range states {
			if state != inventory.HookSucceeded {
				return done
			}
		}
		hooks = slices.Clone(hooks)
		slices.Reverse(hooks)
		slices.Reverse(states)
	}
	return p.deleteHooks(ctx, hooks, func(i int) bool {
		return hooks[i].turn.Family != order.Argo && states[i] == inventory.HookSucceeded && hooks[i].turn.Succeeded
	}) && done
}

// endSync deletes what the policies of Argo CD's hooks name, however each of them ended: HookSucceeded when the sync has
// succeeded, HookFailed when it has failed and none of them runs any more.
func (p *pass) endSync(ctx context.Context, hooks []item, failed bool) {
	states := p.hookStates(hooks)
	if failed && slices.Contains(states, inventory.HookCreated) {
		return
	}
	p.deleteHooks(ctx, hooks, func(i int) bool {
		ended := states[i] == inventory.HookSucceeded || states[i] == inventory.HookFailed
		named := !failed && hooks[i].turn.Succeeded || failed && hooks[i].turn.Failed
		return hooks[i].turn.Family == order.Argo && ended && named
	})
}

// deleteHooks deletes the chosen hooks as far as they are there, are of this run, and may be deleted. What cannot be done now is
// done by a later pass, and the sync is not done before that; what is refused is noted.
func (p *pass) deleteHooks(ctx context.Context, hooks []item, chosen func(i int) bool) (done bool) {
	done = true
	for i, it := range hooks {
		facts, there := p.seen.Get(it.id)
		allowed := !it.id.Protected() || facts.Allowed
		made := p.hook(inventory.HookID{ID: it.id, Stage: it.turn.Stage}).UID == facts.UID
		if !chosen(i) || !there || facts.Deleting || !made || facts.Owner != p.req.Service || !allowed {
			continue
		}
		problem, left := p.record.recent(it.id, "")
		if problem == nil {
			err := p.dispose(ctx, p.target(it), facts)
			if err == nil {
				p.record.succeeded(it.id)
				continue
			}
			if problem = describe(it.id, err); !problem.Reason.lasting() {
				left = p.record.failed(it.id, "", problem)
			}
		}
		p.note("%s is done and cannot be deleted: %v", it.id, problem)
		if !problem.Reason.lasting() {
			p.wait(it.id.String() + " is done and still to be deleted")
			p.again(left)
			done = false
		}
	}
	return done
}

// left says whether an object is what a hook of this name made, of whichever run or stage.
func (p *pass) left(id object.ID, facts watchcache.Facts) bool {
	p.journaling.RLock()
	defer p.journaling.RUnlock()
	for known, hook := range p.inv.Hooks {
		if known.ID != id {
			continue
		}
		if hook.UID == facts.UID || hook.UID == "" && hook.State == "" && hook.Message == facts.Proof {
			return true
		}
	}
	return false
}

// dispose deletes an object that was seen, whatever else changes of it meanwhile.
func (p *pass) dispose(ctx context.Context, t target, facts watchcache.Facts) error {
	left, err := p.delete(ctx, t, facts.UID, "")
	if apierrors.IsConflict(err) {
		return nil // it is another one by now
	}
	if err != nil && p.refusedToDelete(err) {
		return err
	}
	if left == nil {
		p.seen.Gone(t.id, facts.UID)
	}
	return nil
}

// mayRunAgain says whether a hook that failed runs once more when somebody has deleted it: there is no next revision of a
// removal.
func mayRunAgain(it item) bool {
	return (it.turn.Stage == order.PreDelete || it.turn.Stage == order.PostDelete) && !it.turn.Failed
}

// runAgain forgets that hooks of a removal have ended which are gone, when one that failed is among them: it needs those again
// that were deleted when it had failed.
func (p *pass) runAgain(hooks []item) {
	states := p.hookStates(hooks)
	var gone []item
	failed := false
	for i, it := range hooks {
		if _, there := p.seen.Get(it.id); there || states[i] != inventory.HookSucceeded && states[i] != inventory.HookFailed {
			continue
		}
		gone = append(gone, it)
		failed = failed || states[i] == inventory.HookFailed && mayRunAgain(it)
	}
	if !failed {
		return
	}
	p.journaling.Lock()
	defer p.journaling.Unlock()
	for _, it := range gone {
		delete(p.inv.Hooks, inventory.HookID{ID: it.id, Stage: it.turn.Stage})
		p.record.forgetRun(it.id)
	}
}
