package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/observe"
)

// A hook is created, not applied, so that it runs once: the inventory names it before it is made, its annotation says for
// which render, and its end is written down before it may be deleted. Whatever a kill leaves of that, the next pass finds out
// how far it came.

// runHook takes a hook one step further.
func (p *pass) runHook(ctx context.Context, it item) outcome {
	o := outcome{id: it.id, hookID: inventory.HookID{ID: it.id, Stage: it.turn.Stage}}
	known := p.hook(o.hookID)
	if known.Run != p.revision() {
		known = inventory.Hook{Run: p.revision()}
	}
	facts, there := p.seen.Get(it.id)
	if err := p.obstacle(ctx, it); err != nil {
		o.result = p.holdBack(it, err)
		return o
	}
	switch {
	case known.State == inventory.HookSucceeded, known.State == inventory.HookFailed:
		return p.ended(ctx, it, o, known, facts, there)
	case there && facts.Run == it.run:
		return p.running(ctx, it, o, known, facts)
	case known.State == inventory.HookCreated:
		return p.vanished(ctx, it, o, known)
	case there:
		return p.replace(ctx, it, o, facts)
	}
	if why := p.waitsFor(ctx, it); why != "" {
		o.result = it.waiting("waits for " + why)
		return o
	}
	return p.create(ctx, it, o, known)
}

func (p *pass) hook(id inventory.HookID) inventory.Hook {
	p.journaling.RLock()
	defer p.journaling.RUnlock()
	return p.inv.Hooks[id]
}

// create makes a hook that is not there. The inventory knows of it first.
func (p *pass) create(ctx context.Context, it item, o outcome, known inventory.Hook) outcome {
	if err, left := p.record.recent(it.id, it.digest); err != nil {
		p.again(left)
		o.result = failed(it.gvk, it.id, err)
		return o
	}
	if err := p.journalHook(ctx, o.hookID, known); err != nil {
		o.result = p.refuse(it, describe(it.id, err))
		return o
	}
	live, err := p.wire.create(ctx, p.target(it), it.body)
	p.contact.note(err)
	if apierrors.IsAlreadyExists(err) {
		// Either an answer was lost, or somebody else has it: the watch shows which, when it carries our label.
		if live, err = p.wire.get(ctx, p.target(it)); err == nil && live.GetAnnotations()[object.RunAnnotation] != it.run {
			if owner := live.GetLabels()[object.ServiceLabel]; owner == p.req.Service {
				return p.replace(ctx, it, o, p.facts(it, live))
			}
			err = apierrors.NewAlreadyExists(it.res.GroupResource(), it.id.Name)
		}
	}
	if err != nil {
		o.result = p.refuse(it, describe(it.id, err))
		return o
	}
	p.record.succeeded(it.id)
	facts := p.facts(it, live)
	p.seen.Note(it.id, facts)
	known.UID, known.State = facts.UID, inventory.HookCreated
	o.hook, o.result = &known, it.result(Created, facts)
	if facts.Health.Phase == health.Healthy || facts.Health.Phase == health.Degraded {
		return p.running(ctx, it, o, known, facts)
	}
	return o
}

// running looks whether a hook has ended.
func (p *pass) running(ctx context.Context, it item, o outcome, known inventory.Hook, facts observe.Facts) outcome {
	known.UID, known.State, known.Message = facts.UID, inventory.HookCreated, facts.Health.Message
	o.hook, o.result = &known, it.result(Unchanged, facts)
	switch {
	case facts.Deleting:
		return p.vanishing(it, o, facts)
	case facts.Health.Phase == health.Healthy:
		known.State = inventory.HookSucceeded
	case facts.Health.Phase == health.Degraded:
		known.State = inventory.HookFailed
	default:
		return o
	}
	if err := p.journalHook(ctx, o.hookID, known); err != nil {
		o.result = p.refuse(it, describe(it.id, err))
		return o
	}
	return p.ended(ctx, it, o, known, facts, true)
}

// vanishing is a hook that somebody deletes while it runs: what it did last is what counts.
func (p *pass) vanishing(it item, o outcome, facts observe.Facts) outcome {
	o.result.Health = unsure(facts.Health, "it is being deleted while it runs"+finalizing(facts))
	return o
}

func unsure(last health.Status, message string) health.Status {
	if last.Phase == health.Healthy || last.Phase == health.Degraded {
		return last
	}
	return health.Status{Phase: health.Progressing, Message: message}
}

// ended says how a hook ended, and deletes it where its policy says so.
func (p *pass) ended(ctx context.Context, it item, o outcome, known inventory.Hook, facts observe.Facts, there bool) outcome {
	o.hook, o.result = &known, it.result(Unchanged, facts)
	if known.State == inventory.HookFailed {
		o.result = failed(it.gvk, it.id, hookFailed(it.id, known.Message))
		o.result.Hook = true
	} else {
		o.result.Health = health.Status{Phase: health.Healthy}
	}
	doomed := known.State == inventory.HookSucceeded && it.turn.Succeeded || known.State == inventory.HookFailed && it.turn.Failed
	if there && doomed && facts.Run == it.run && !facts.Deleting {
		if err := p.dispose(ctx, p.target(it), facts); err != nil {
			p.note("%s is done and cannot be deleted: %v", it.id, describe(it.id, err))
		}
	}
	return o
}

func hookFailed(id object.ID, message string) *Error {
	if message == "" {
		message = "it did not end well"
	}
	return &Error{Reason: HookFailed, Object: id, Message: message, Fix: "a new revision runs it again"}
}

// vanished is a hook that was made and is gone: as it was seen last, it had ended, or else nobody knows.
func (p *pass) vanished(ctx context.Context, it item, o outcome, known inventory.Hook) outcome {
	last, seen := p.record.last(it.id)
	switch {
	case seen && last.UID == known.UID && last.Health.Phase == health.Healthy:
		known.State = inventory.HookSucceeded
	default:
		known.State, known.Message = inventory.HookFailed, "it was deleted before it was seen to end"
	}
	if err := p.journalHook(ctx, o.hookID, known); err != nil {
		o.result = p.refuse(it, describe(it.id, err))
		return o
	}
	return p.ended(ctx, it, o, known, last, false)
}

// replace deletes what an earlier revision's hook has left, so that this one's can be made.
func (p *pass) replace(ctx context.Context, it item, o outcome, old observe.Facts) outcome {
	if old.Owner != p.req.Service {
		o.result = p.refuse(it, &Error{
			Reason: Conflict, Object: it.id, Message: fmt.Sprintf("it belongs to service %q", old.Owner), Fix: "give the hook another name",
		})
		return o
	}
	if !old.Deleting {
		if err := p.dispose(ctx, p.target(it), old); err != nil {
			o.result = p.refuse(it, describe(it.id, err))
			return o
		}
	}
	o.result = it.waiting("waits until the one of the revision before is gone" + finalizing(old))
	p.wait(it.id.String() + " of the revision before has to go")
	p.again(firstRetry)
	return o
}

// dispose deletes an object that was seen, whatever else changes of it meanwhile.
func (p *pass) dispose(ctx context.Context, t target, facts observe.Facts) error {
	left, err := p.wire.delete(ctx, t, facts.UID, "")
	p.contact.note(err)
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

// journalHook writes to the inventory at once how far a hook came.
func (p *pass) journalHook(ctx context.Context, id inventory.HookID, hook inventory.Hook) error {
	p.journaling.Lock()
	defer p.journaling.Unlock()
	if p.inv.Hooks[id] == hook {
		return nil
	}
	p.inv.Hooks[id] = hook
	return p.save(ctx)
}

// forgetHooks drops what is known of hooks that ended and are gone, or belong to no stage that could be entered again.
func (p *pass) forgetHooks() {
	for id, hook := range p.inv.Hooks {
		if _, there := p.seen.Get(id.ID); !there && hook.Run != p.revision() {
			delete(p.inv.Hooks, id)
		}
	}
}

// last is what a hook was seen as before it went.
func (r *record) last(id object.ID) (observe.Facts, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	facts, ok := r.ended[id]
	return facts, ok
}

// remember keeps the newest of a hook.
func (r *record) remember(id object.ID, facts observe.Facts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = make(map[object.ID]observe.Facts)
	}
	r.ended[id] = facts
}
