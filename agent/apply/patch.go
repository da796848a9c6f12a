package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/reserved"
	"github.com/pluralsh/plural/agent/watchcache"
	"github.com/pluralsh/plural/internal/kubewatch"
)

// outcome is what became of one item.
type outcome struct {
	id     object.ID
	result ObjectResult
	// entry or hook is what the inventory has to know from now on; nil when it knows.
	entry  *inventory.Entry
	hook   *inventory.Hook
	hookID inventory.HookID
	// calm items are built on whatever their health.
	calm bool
}

// applyOne brings one object in, unless it is there already.
func (p *pass) applyOne(ctx context.Context, it item) outcome {
	o := outcome{id: it.id, calm: it.turn.IgnoreHealth}
	entry := p.entry(it.id)
	facts, there := p.seen.Get(it.id)
	switch {
	case it.turn.Pause, it.turn.Once && there && facts.Owner == p.req.Service:
		return p.leaveAlone(o, entry, facts, there)
	case p.upToDate(it, entry, facts, there):
		p.record.succeeded(it.id)
		o.result = unhealed(entry, facts, there)
		o.entry = settledAgain(entry)
		return o
	}
	if err := p.obstacle(ctx, it); err != nil {
		o.result = p.holdBack(it, err)
		return o
	}
	if why := p.waitsFor(ctx, it); why != "" {
		o.result = it.waiting("waits for " + why)
		p.wait(why)
		return o
	}
	defer p.claims.hold(it.id)()
	facts, there = p.seen.Get(it.id) // as whoever held the claim before may have left it
	if err := p.taken(ctx, it, facts); err != nil {
		o.result = p.holdBack(it, err)
		return o
	}
	if there && facts.Deleting {
		o.result = it.waiting("it is being deleted" + finalizing(facts) + "; it is made anew after that")
		p.wait(it.id.String() + " is being deleted")
		return o
	}
	if err, left := p.record.recent(it.id, it.digest); err != nil {
		p.again(left)
		o.result = failed(it.gvk, it.id, err)
		return o
	}
	if it.turn.Once && !there {
		if _, exists, err := p.inspect(ctx, it.id); err != nil {
			o.result = p.refuse(it, describe(it.id, err))
			return o
		} else if exists { // without our label
			return p.leaveAlone(o, entry, facts, there)
		}
	}
	live, created, taking, err := p.bring(ctx, it, there)
	if err != nil {
		return p.mend(ctx, it, entry, facts, describe(it.id, err))
	}
	p.record.succeeded(it.id)
	p.record.unleave(it.id)
	after := p.judged(it.res, it.id, live)
	p.seen.Note(it.id, after)
	o.result = it.result(actionOf(created, facts, there, after), after)
	if p.healing() && entry.Trace != "" {
		o.result.Healed = healed(o.result.Action, taking)
	}
	entry.UID, entry.Trace, entry.Digest, entry.Recreating = after.UID, after.Trace, it.digest, ""
	o.entry = &entry
	return o
}

// healed says what an apply did to an object that others had not left as it was.
func healed(action Action, taking string) string {
	switch action {
	case Created:
		return "it was deleted"
	case Configured:
		return cmp.Or(taking, "something of it was taken out")
	default:
		return ""
	}
}

// leaveAlone is what becomes of an object that its annotations say not to touch.
func (p *pass) leaveAlone(o outcome, entry inventory.Entry, facts watchcache.Facts, there bool) outcome {
	o.calm, o.result = true, kept(entry, "its annotations say to leave it alone")
	p.record.succeeded(o.id)
	p.record.leave(o.id, signature(facts, there), o.result.Message)
	return o
}

// upToDate says whether nothing has to be sent: the object is as it was left, and what was sent then is what would be sent
// now. Where all of the request was done before, that needs no look at the manifest, which a template may render differently
// each time; and where healing is off, none at the object.
func (p *pass) upToDate(it item, entry inventory.Entry, facts watchcache.Facts, there bool) bool {
	if p.healing() && !p.req.Heal {
		return true
	}
	return asLeft(entry, facts, there, p.req.Service) && (entry.Digest == it.digest || p.healing())
}

// settledAgain is an entry with no more word of its being made anew, which was not needed; nil when there was none.
func settledAgain(entry inventory.Entry) *inventory.Entry {
	if entry.Recreating == "" {
		return nil
	}
	entry.Recreating = ""
	return &entry
}

func (it *item) result(action Action, facts watchcache.Facts) ObjectResult {
	return ObjectResult{
		GVK: it.gvk, Namespace: it.id.Namespace, Name: it.id.Name, Action: action, UID: facts.UID, Health: facts.Health, Hook: it.turn.Hook,
	}
}

// refuse notes an object's failure, and when it is tried again.
func (p *pass) refuse(it item, err *Error) ObjectResult {
	p.again(p.record.failed(it.id, it.digest, err))
	return failed(it.gvk, it.id, err)
}

// unrecorded reports an object that was left alone since the inventory could not be written. That another engine wrote it
// is no failure of the object: the pass ends for it, and the next one need not wait.
func (p *pass) unrecorded(it item, err error) ObjectResult {
	if errors.Is(err, ErrContended) {
		return failed(it.gvk, it.id, describe(it.id, err))
	}
	return p.refuse(it, describe(it.id, err))
}

// heldBack is when to look again at what keeps objects from being tried, at first. Most of it is told by a watch sooner.
const heldBack = 5 * time.Second

// holdBack reports an object that was not tried: as soon as it may be, it is.
func (p *pass) holdBack(it item, err *Error) ObjectResult {
	p.again(p.record.heldBack(it.id))
	return failed(it.gvk, it.id, err)
}

// again may be called from any goroutine.
func (p *pass) again(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.again(d)
}

// wait says what the pass waits for, unless that is known. It may be called from any goroutine.
func (p *pass) wait(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Waiting = cmp.Or(p.result.Waiting, why)
}

// actionOf tells what an apply did. Applying what is there already leaves the resourceVersion alone; when it moved all the
// same, a controller may have written a status meanwhile, which is not our change.
func actionOf(created bool, before watchcache.Facts, there bool, after watchcache.Facts) Action {
	switch {
	case created:
		return Created
	case !there || before.UID != after.UID:
		return Configured
	case before.ResourceVersion == after.ResourceVersion,
		before.Generation != 0 && before.Generation == after.Generation && before.Trace == after.Trace:
		return Unchanged
	default:
		return Configured
	}
}

// judged are the facts of a live object, as far as its kind is looked at.
func (p *pass) judged(res kinds.Resource, id object.ID, live *unstructured.Unstructured) watchcache.Facts {
	if !res.Status && !p.rules.ruled(id.GroupKind()) {
		return watchcache.OfMetadata(live)
	}
	return watchcache.Of(live, p.rules.judge(p.req.Service))
}

// obstacle returns why an object is not even tried.
func (p *pass) obstacle(ctx context.Context, it item) *Error {
	if err := p.contact.lost(ctx); err != nil {
		return &Error{Reason: Unavailable, Object: it.id, Message: fmt.Sprintf("not tried: %v", err), cause: err}
	}
	for _, barrier := range []object.ID{{Kind: "Namespace", Name: it.id.Namespace}, it.definition} {
		if cause := p.blocked[barrier]; cause != nil {
			return &Error{Reason: Blocked, Object: it.id, Message: "it waits for " + cause.Error(), cause: cause}
		}
	}
	if err := p.unfollowed[it.id.GroupKind()]; err != nil {
		return unwatched(it.id, err)
	}
	return nil
}

// unwatched is an object of a kind that cannot be watched.
func unwatched(id object.ID, err error) *Error {
	out := &Error{Reason: Unavailable, Object: id, Message: fmt.Sprintf("its kind cannot be watched: %v", err), cause: err}
	var refused *kubewatch.Error
	if errors.As(err, &refused) {
		out.Fix = refused.Fix()
		if refused.Refused() {
			out.Reason = Forbidden
		}
	}
	return out
}

// taken says whether another service has the object and does not give it up. The labels of all services are watched, so one
// that is not seen is nobody's.
func (p *pass) taken(ctx context.Context, it item, facts watchcache.Facts) *Error {
	owner := facts.Owner
	if owner == "" || owner == p.req.Service {
		return nil
	}
	if !reserved.Delete(owner, it.id) {
		p.note("%s was taken over from service %s, which may not have it", it.id, owner)
		return nil
	}
	if p.claims.known(owner) && !p.claims.by(owner, it.id) {
		p.note("%s was taken over from service %s, which no longer renders it", it.id, owner)
		return nil
	}
	if !p.claims.known(owner) && !p.present(ctx, owner) {
		p.note("%s was taken over from service %s, which is not there any more", it.id, owner)
		return nil
	}
	if !p.blind { // which only asks
		p.claims.await(p.req.Service, it.id)
	}
	return &Error{
		Reason: Conflict, Object: it.id,
		Message: fmt.Sprintf("it belongs to service %q", owner),
		Fix:     fmt.Sprintf("remove it from service %q or from service %q", owner, p.req.Service),
	}
}

// present says whether there is a service of that name, here or, by the inventory in the cluster, at somebody else's.
func (e *Engine) present(ctx context.Context, service string) bool {
	e.mu.Lock()
	here := e.services[service] != nil
	e.mu.Unlock()
	if here {
		return true
	}
	inv, err := e.inventory.Load(ctx, service)
	return err != nil || inv.Stored()
}

// bring applies an object, and resolves what it is in conflict with. Taking says what it took from whom.
func (p *pass) bring(ctx context.Context, it item, there bool) (live *unstructured.Unstructured, created bool, taking string, err error) {
	body, err := p.prepared(ctx, it, there)
	if err != nil {
		return nil, false, "", err
	}
	live, created, err = p.send(ctx, it, body, false)
	if !isFieldConflict(err) {
		if err == nil && created && len(p.ignored(it)) > 0 {
			live, created, err = p.letGo(ctx, it, live)
		}
		return live, created, "", err
	}
	body, taking, err = p.resolve(it, body, err)
	if err != nil {
		return nil, false, "", err
	}
	live, created, err = p.send(ctx, it, body, taking != "")
	return live, created, taking, err
}

// send applies one object. An apply is the same however often it arrives, so a request that got no answer is sent again
// while the API server answers others.
func (p *pass) send(ctx context.Context, it item, body []byte, force bool) (live *unstructured.Unstructured, created bool, err error) {
	patience := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 4}
	_ = wait.ExponentialBackoffWithContext(ctx, patience, func(ctx context.Context) (bool, error) {
		live, created, err = p.wire.apply(ctx, p.target(it), body, applying{manager: object.Manager, force: force})
		p.contact.note(err)
		return err == nil || answered(err) || p.contact.lost(ctx) != nil, nil
	}) // err says more than running out of tries
	if live == nil && err == nil {
		err = context.Cause(ctx) // it ended before the first try
	}
	return live, created, err
}

func (p *pass) target(it item) target {
	return target{
		id: it.id, res: it.res, account: p.req.Account, whole: p.rules.ruled(it.id.GroupKind()), again: p.record.hasFailed(it.id),
	}
}

// mend deals with an object that was refused: one whose change is not possible in place is made anew where that is allowed.
func (p *pass) mend(ctx context.Context, it item, entry inventory.Entry, facts watchcache.Facts, err *Error) outcome {
	o := outcome{id: it.id}
	if err.Reason != Immutable || facts.UID == "" || facts.Owner != p.req.Service || it.id.Protected() ||
		!it.turn.Recreate && !p.req.recreates(it.id) {
		o.result = p.refuse(it, err)
		return o
	}
	entry.Recreating = facts.UID
	if failure := p.journal(ctx, entry); failure != nil {
		o.result = p.unrecorded(it, failure)
		return o
	}
	left, failure := p.wire.delete(ctx, p.target(it), facts.UID, facts.ResourceVersion)
	p.contact.note(failure)
	if failure != nil && p.refusedToDelete(failure) {
		o.result = p.refuse(it, describe(it.id, failure))
		return o
	}
	p.note("%s is made anew: %s", it.id, err.Message)
	if left == nil {
		p.seen.Gone(it.id, facts.UID)
	}
	p.again(time.Millisecond)
	o.result = it.waiting("it was deleted, to be made anew")
	o.result.Action = Recreated
	p.wait(it.id.String() + " is being made anew")
	return o
}

// journal writes to the inventory at once that an object is about to be deleted and made anew.
func (p *pass) journal(ctx context.Context, entry inventory.Entry) error {
	p.journaling.Lock()
	defer p.journaling.Unlock()
	p.inv.Entries[entry.ID] = entry
	return p.save(ctx)
}

// entry is what the inventory says of an object. It may be called from any goroutine.
func (p *pass) entry(id object.ID) inventory.Entry {
	p.journaling.RLock()
	defer p.journaling.RUnlock()
	return p.inv.Entries[id]
}

func finalizing(facts watchcache.Facts) string {
	if facts.Finalizers == "" {
		return ""
	}
	return ", and waits for its finalizers " + facts.Finalizers
}

// inspect looks at one object that the watches do not show; exists is false when the API server says that there is none. A
// server that does not serve the kind at all has not said that: then the catalog is out of date, and an error is returned.
func (p *pass) inspect(ctx context.Context, id object.ID) (seen watchcache.Facts, exists bool, err error) {
	res, ok := p.catalog.Find(id.GroupKind().WithVersion(""))
	if !ok {
		return watchcache.Facts{}, false, fmt.Errorf("the cluster does not serve %s", id.GroupKind())
	}
	live, err := p.wire.get(ctx, target{id: id, res: res, whole: p.rules.ruled(id.GroupKind())})
	p.contact.note(err)
	switch {
	case isUnserved(err):
		p.kinds.Forget()
		return watchcache.Facts{}, false, err
	case apierrors.IsNotFound(err):
		return watchcache.Facts{}, false, nil
	case err != nil:
		return watchcache.Facts{}, false, err
	default:
		return p.judged(res, id, live), true, nil
	}
}

// isUnserved tells a 404 for the whole kind, which has no proper status in its body, from one for the object.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
