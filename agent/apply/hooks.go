package apply

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
	"github.com/pluralsh/plural/agent/watchcache"
)

// A hook is created, not applied, so that it runs once: the inventory names it before it is made, its annotation says for
// which render, and its end is written down before it may be deleted (hookdelete.go). Whatever a kill leaves of that, the next
// pass finds out how far it came.
//
// Whoever may write into the namespace can make an object with a hook's name, label and annotation before the hook, or in its
// place. So only the object counts whose uid is written down; and where a kill came between the making and the writing, the one
// that carries the proof that was written down before, which nobody else could know.

// runHook takes a hook one step further.
func (p *pass) runHook(ctx context.Context, it item) outcome {
	o := outcome{id: it.id, hookID: inventory.HookID{ID: it.id, Stage: it.turn.Stage}}
	known, planned := p.hook(o.hookID), true
	if known.Run != p.revision() {
		known, planned = inventory.Hook{Run: p.revision()}, false
	}
	if err := p.obstacle(ctx, it); err != nil {
		o.result = p.holdBack(it, err)
		return o
	}
	facts, there := p.seen.Get(it.id)
	if last, seen := p.record.last(it.id); seen && !there && planned && known.State == "" && p.made(it, known, last) {
		known.UID, known.State = last.UID, inventory.HookCreated // it came that far before the pass was stopped
	}
	switch {
	case known.State == inventory.HookSucceeded, known.State == inventory.HookFailed:
		return p.ended(it, o, known, facts)
	case there && planned && p.made(it, known, facts):
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

// made says whether a live object is the hook as this run made it. Of one that is planned and carries no proof, since an older
// agent planned it, its label and its run are all that is known.
func (p *pass) made(it item, known inventory.Hook, facts watchcache.Facts) bool {
	if known.State != "" {
		return facts.UID == known.UID
	}
	return facts.Proof == known.Message && facts.Run == it.run && facts.Owner == p.req.Service
}

// create makes a hook that is not there. The inventory knows of it first.
func (p *pass) create(ctx context.Context, it item, o outcome, known inventory.Hook) outcome {
	if err, left := p.record.recent(it.id, it.digest); err != nil {
		p.again(left)
		o.result = failed(it.gvk, it.id, err)
		return o
	}
	known.Message = cmp.Or(known.Message, rand.Text())
	body, err := proven(it, known.Message)
	if err != nil {
		o.result = failed(it.gvk, it.id, &Error{Reason: Unexpected, Object: it.id, Message: err.Error(), cause: err})
		return o
	}
	if err := p.journalHook(ctx, o.hookID, known); err != nil {
		o.result = p.unrecorded(it, err)
		return o
	}
	live, err := p.wire.create(ctx, p.target(it), body)
	p.contact.note(err)
	if apierrors.IsAlreadyExists(err) {
		// Either an answer was lost, or somebody else has it: the watch shows which, when it carries our label.
		if live, err = p.wire.get(ctx, p.target(it)); err == nil {
			if facts := p.judged(it.res, it.id, live); !p.made(it, known, facts) {
				return p.replace(ctx, it, o, facts)
			}
		}
	}
	if err != nil {
		o.result = p.refuse(it, describe(it.id, err))
		return o
	}
	p.record.succeeded(it.id)
	facts := p.judged(it.res, it.id, live)
	p.seen.Note(it.id, facts)
	known.UID, known.State = facts.UID, inventory.HookCreated
	o = p.running(ctx, it, o, known, facts)
	if o.result.Action == Unchanged {
		o.result.Action = Created
	}
	return o
}

// proven is a hook's body with the proof in it.
func proven(it item, proof string) ([]byte, error) {
	var obj unstructured.Unstructured
	if err := obj.UnmarshalJSON(it.body); err != nil {
		return nil, fmt.Errorf("read hook: %w", err)
	}
	annotations := obj.GetAnnotations()
	annotations[object.ProofAnnotation] = proof // it has that of its run
	obj.SetAnnotations(annotations)
	return encode(&obj)
}

// running looks whether a hook has ended. Which object it is stands in the inventory at once.
func (p *pass) running(ctx context.Context, it item, o outcome, known inventory.Hook, facts watchcache.Facts) outcome {
	facts.Health = p.lastWord(it, facts)
	known.UID, known.State, known.Message = facts.UID, inventory.HookCreated, facts.Health.Message
	o.hook, o.result = &known, it.result(Unchanged, facts)
	switch {
	case facts.Health.Phase == health.Healthy:
		known.State = inventory.HookSucceeded
	case facts.Health.Phase == health.Degraded:
		known.State = inventory.HookFailed
	case p.hook(o.hookID).UID == known.UID:
		return o
	}
	if err := p.journalHook(ctx, o.hookID, known); err != nil {
		o.result = p.unrecorded(it, err)
		return o
	}
	if known.State == inventory.HookCreated {
		return o
	}
	return p.ended(it, o, known, facts)
}

// lastWord is how a hook does. Of one that somebody deletes, what it did before that is what counts; of one of Helm's that does
// not run, that it is there.
func (p *pass) lastWord(it item, facts watchcache.Facts) health.Status {
	switch {
	case it.turn.Family == order.Helm && !it.id.RunsToCompletion():
		return health.Status{Phase: health.Healthy}
	case !facts.Deleting:
		return facts.Health
	}
	last, seen := p.record.last(it.id)
	if seen && last.UID == facts.UID && (last.Health.Phase == health.Healthy || last.Health.Phase == health.Degraded) {
		return last.Health
	}
	return health.Status{Phase: health.Progressing, Message: "it is being deleted while it runs" + finalizing(facts)}
}

// ended says how a hook ended.
func (p *pass) ended(it item, o outcome, known inventory.Hook, facts watchcache.Facts) outcome {
	o.hook, o.result = &known, it.result(Unchanged, facts)
	if known.State == inventory.HookFailed {
		o.result = failed(it.gvk, it.id, hookFailed(it, known.Message))
		o.result.Hook, o.result.UID = true, facts.UID
	} else {
		o.result.Health = health.Status{Phase: health.Healthy}
	}
	return o
}

func hookFailed(it item, message string) *Error {
	out := &Error{Reason: HookFailed, Object: it.id, Message: cmp.Or(message, "it did not end well"), Fix: "a new revision runs it again"}
	switch {
	case mayRunAgain(it):
		out.Fix = "delete it to have it run again"
	case it.turn.Stage > order.SyncFail:
		out.Fix = "ask for the service again, mend the hook, and remove the service again"
	}
	return out
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
		o.result = p.unrecorded(it, err)
		return o
	}
	return p.ended(it, o, known, last)
}

// replace deletes what stands in a hook's place, so that it can be made, where it carries the service's label and the hook's
// delete policy allows it: what an earlier revision's hook has left, or an object that somebody gave the label.
func (p *pass) replace(ctx context.Context, it item, o outcome, old watchcache.Facts) outcome {
	if err, left := p.record.recent(it.id, it.digest); err != nil {
		p.again(left)
		o.result = failed(it.gvk, it.id, err)
		return o
	}
	if err := p.irreplaceable(it, old); err != nil {
		o.result = p.refuse(it, err)
		return o
	}
	if !old.Deleting {
		if err := p.dispose(ctx, p.target(it), old); err != nil {
			o.result = p.refuse(it, describe(it.id, err))
			return o
		}
	}
	which := "of the revision before"
	if old.Run != "" && !p.left(it.id, old) {
		which = "that is there, and that no hook of this service made,"
		p.note("%s was there before the hook, with its label and not made by it: it is deleted, as the hook's delete policy says", it.id)
	}
	o.result = it.waiting("waits until the one " + which + " is gone" + finalizing(old))
	p.wait(it.id.String() + " " + which + " has to go")
	pause := heldBack // the watch tells sooner
	if _, there := p.seen.Get(it.id); !there {
		pause = time.Millisecond
	}
	p.again(pause)
	return o
}

// irreplaceable says why what is there must not be deleted for a hook to run.
func (p *pass) irreplaceable(it item, old watchcache.Facts) *Error {
	refusal := &Error{Reason: Conflict, Object: it.id, Fix: "give the hook another name"}
	switch {
	case old.Owner == "":
		refusal.Message = "it is there already, and belongs to no service"
	case old.Owner != p.req.Service:
		refusal.Message = fmt.Sprintf("it belongs to service %q", old.Owner)
	case it.id.Protected() && !old.Allowed:
		refusal.Message = fmt.Sprintf("it is there already, and a %s is deleted only with the annotation %s=allow on it", it.id.Kind, object.PruneAnnotation)
	case !it.turn.BeforeCreation && !it.turn.Succeeded && !it.turn.Failed:
		refusal.Message = "it is there already, and its annotations say that it is never deleted"
		refusal.Fix = "give the hook a generateName instead of its name, or another hook-delete-policy"
	default:
		return nil
	}
	return refusal
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

// forgetHooks drops what is known of hooks of other revisions that are gone.
func (p *pass) forgetHooks() {
	known := make(map[object.ID]bool, len(p.inv.Hooks))
	for id, hook := range p.inv.Hooks {
		if _, there := p.seen.Get(id.ID); !there && hook.Run != p.revision() {
			delete(p.inv.Hooks, id)
			continue
		}
		known[id.ID] = true
	}
	p.record.forgetEnded(known)
}

// forgetEnded drops what was seen of all hooks but these.
func (r *record) forgetEnded(known map[object.ID]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.ended, func(id object.ID, _ watchcache.Facts) bool { return !known[id] })
}

// last is what a hook was seen as before it went.
func (r *record) last(id object.ID) (watchcache.Facts, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	facts, ok := r.ended[id]
	return facts, ok
}

// forgetRun drops what was seen of one hook.
func (r *record) forgetRun(id object.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ended, id)
}

// remember keeps the newest of a hook. That it is being deleted says nothing of how it ended.
func (r *record) remember(id object.ID, facts watchcache.Facts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if facts.Deleting && r.ended[id].UID == facts.UID {
		return
	}
	if r.ended == nil {
		r.ended = make(map[object.ID]watchcache.Facts)
	}
	r.ended[id] = facts
}
