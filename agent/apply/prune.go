package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
	"github.com/pluralsh/plural/agent/reserved"
	"github.com/pluralsh/plural/agent/watchcache"
	"github.com/pluralsh/plural/internal/budget"
)

// verdict is what may be done to an object that is in the inventory and not wanted any more.
type verdict int

const (
	// unclear objects could not be looked at, or not be deleted; their result has the error.
	unclear verdict = iota
	// gone objects are not there any more.
	gone
	// transferred objects carry another service's label.
	transferred
	// released objects stay for good, and are nobody's from now on.
	released
	// moving objects are about to be taken over by another service.
	moving
	// spared objects are there and must not be deleted by us.
	spared
	// leaving objects were deleted before, and wait for their finalizers.
	leaving
	// doomed objects may be deleted.
	doomed
)

// judgement is one object's verdict, and what will be reported of it. A gone object is only reported when this very
// pass deleted it.
type judgement struct {
	entry   inventory.Entry
	res     kinds.Resource
	seen    watchcache.Facts
	there   bool
	shown   string // its signature, as the watches have it
	verdict verdict
	result  ObjectResult
}

// DeferredPrune is what a pass waits for whose request defers deletions, when there is nothing else left to do.
const DeferredPrune = "other services' renders, before anything is deleted"

// prune deletes what the render no longer holds, and drops from the inventory what is really gone. It reports whether
// nothing is left to be done.
func (p *pass) prune(ctx context.Context, limit budget.Budget, empty bool) (done bool) {
	entries := p.unrendered()
	if len(entries) == 0 {
		return true
	}
	for _, e := range entries {
		e.Left = true
		p.inv.Entries[e.ID] = e
	}
	switch {
	case !p.result.Complete():
		p.keepAll(entries, "deletions wait until every object is applied")
		return false
	case p.result.Waiting != "":
		p.keepAll(entries, "deletions wait until every step is taken")
		return false
	case !p.req.Prune:
		p.keepAll(entries, "pruning is off for this service")
		return true
	case p.req.DeferPrune:
		p.keepAll(entries, "deletions wait until it is known what other services want")
		p.result.Waiting = DeferredPrune
		return false
	}
	judgements := p.judgeAll(ctx, entries)
	p.hold(judgements, limit, empty)
	judgements = p.deleteInTurn(ctx, judgements)
	return p.conclude(ctx, judgements)
}

// conclude takes what the judgements came to into the inventory and the result.
func (p *pass) conclude(ctx context.Context, judgements []judgement) (done bool) {
	done = true
	for _, j := range judgements {
		if j.verdict == released {
			p.release(ctx, &j)
		}
		switch j.verdict {
		case gone, transferred, released:
			p.forget(j.entry.ID)
		case spared:
			p.record.leave(j.entry.ID, j.shown, j.result.Message)
		default:
			done = false
		}
		if j.result.Action != "" {
			p.result.Objects = append(p.result.Objects, j.result)
		}
	}
	return done
}

func (p *pass) forget(id object.ID) {
	delete(p.inv.Entries, id)
	p.record.unleave(id)
	p.record.succeeded(id)
}

func (p *pass) keepAll(entries []inventory.Entry, message string) {
	for _, e := range entries {
		p.result.Objects = append(p.result.Objects, kept(e, message))
		facts, there := p.seen.Get(e.ID)
		p.record.leave(e.ID, signature(facts, there), message)
	}
}

// unrendered returns what is in the inventory but not in the render, in the order in which it goes.
func (p *pass) unrendered() []inventory.Entry {
	entries := slices.DeleteFunc(p.inv.Sorted(), func(e inventory.Entry) bool { return p.rendered[e.ID] })
	slices.Reverse(entries)
	slices.SortStableFunc(entries, func(a, b inventory.Entry) int {
		return cmp.Or(
			compareBool(a.Turn.PruneLast, b.Turn.PruneLast),
			cmp.Compare(b.Turn.Stage, a.Turn.Stage),
			cmp.Compare(b.Turn.Wave, a.Turn.Wave),
			cmp.Compare(order.Rank(b.ID), order.Rank(a.ID)),
		)
	})
	return entries
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// hold spares what may not be deleted unasked: more than the budget allows, everything at once, or anything by an inventory
// that was guessed.
func (p *pass) hold(judgements []judgement, limit budget.Budget, empty bool) {
	var names []string
	for _, j := range judgements {
		if j.verdict == doomed {
			names = append(names, j.entry.String())
		}
	}
	why := ""
	switch total := p.inv.Total(len(names)); {
	case len(names) == 0:
		return
	case empty:
		why = fmt.Sprintf("the render is empty, and %d objects are in the cluster", len(names))
	case p.inv.Rebuilt:
		why = fmt.Sprintf("the inventory was lost, and %d objects that carry the service's label are not rendered", len(names))
	case !limit.Allows(len(names), total):
		why = fmt.Sprintf("the deletion budget of %s allows %d of %d objects", limit, limit.Allowed(total), total)
	default:
		return
	}
	slices.Sort(names)
	token := budget.Token(names)
	if p.agreed(token, names) {
		return
	}
	p.result.Held = &Held{
		Token: token, Names: names,
		Message: fmt.Sprintf("%d deletions wait: %s: plural service ack %s", len(names), why, p.req.Service),
	}
	for i := range judgements {
		if judgements[i].verdict == doomed {
			judgements[i].keep(unclear, "its deletion waits to be acknowledged")
		}
	}
}

// agreed says whether a person let these objects go. It takes several passes where some go after others, and each of them sees
// fewer than the token was for.
func (p *pass) agreed(token string, names []string) bool {
	was := &p.record.agreed
	if slices.Contains(p.req.Acknowledged, token) {
		*was = agreement{token, make(map[string]bool, len(names))}
		for _, name := range names {
			was.names[name] = true
		}
		return true
	}
	return slices.Contains(p.req.Acknowledged, was.token) &&
		!slices.ContainsFunc(names, func(name string) bool { return !was.names[name] })
}

// judgeAll looks at every object anew.
func (p *pass) judgeAll(ctx context.Context, entries []inventory.Entry) []judgement {
	judgements := make([]judgement, len(entries))
	p.each(len(entries), func(i int) { judgements[i] = p.judge(ctx, entries[i], false) })
	return judgements
}

// judge goes by what the watches show of an object. What they do not show may be there without its label; that, and one that
// is changing at this moment, is asked for.
func (p *pass) judge(ctx context.Context, e inventory.Entry, ask bool) judgement {
	j := judgement{entry: e}
	var served bool
	if j.res, served = p.catalog.Find(gvkOf(e)); !served {
		if p.catalog.Silent(e.Group) {
			j.fail(Unavailable, fmt.Sprintf("whoever serves the API group %q does not answer", e.Group), nil)
			return j
		}
		j.verdict = gone // no kind, no objects
		return j
	}
	if err := p.contact.lost(ctx); err != nil {
		j.fail(Unavailable, fmt.Sprintf("not looked at: %v", err), err)
		return j
	}
	j.seen, j.there = p.seen.Get(e.ID)
	j.shown = signature(j.seen, j.there)
	if !j.there || ask {
		var err error
		if j.seen, j.there, err = p.inspect(ctx, e.ID); err != nil {
			j.result = failed(gvkOf(e), e.ID, describe(e.ID, err))
			return j
		}
	}
	if !j.there {
		j.verdict = gone
		return j
	}
	p.decide(&j)
	return j
}

// decide goes by what the live object says of itself.
func (p *pass) decide(j *judgement) {
	e, seen := j.entry, j.seen
	switch heir := p.claims.other(p.req.Service, e.ID); {
	case p.hooks[e.ID] && seen.Run != "":
		j.verdict = gone // what is there is a hook by now
	case !reserved.Delete(p.req.Service, e.ID):
		j.keep(spared, "not deleted: it is the agent's own")
	case seen.Owner == "":
		j.keep(spared, "not deleted: its label "+object.ServiceLabel+" was taken off: delete it by hand, or put the label back")
	case seen.Owner != p.req.Service:
		j.keep(transferred, fmt.Sprintf("not deleted: it belongs to service %q now", seen.Owner))
	case e.UID != "" && e.UID != seen.UID && e.Recreating == "":
		j.keep(spared, "not deleted: it is not the object that was applied, somebody created it anew: delete it by hand")
	case e.UID == "" && seen.Trace == "":
		j.keep(spared, "not deleted: it was never applied by "+object.Manager+": delete it by hand")
	case seen.Deleting:
		j.leave(seen)
	case e.Turn.NoPrune && !seen.Allowed:
		j.keep(released, "not deleted: its annotations say that it stays")
	case heir != "":
		j.keep(moving, fmt.Sprintf("not deleted: service %q takes it over", heir))
		p.wait(fmt.Sprintf("%s moves to service %s", e.ID, heir))
		p.claims.await(p.req.Service, e.ID)
	case e.ID.Protected() && !seen.Allowed:
		j.keep(spared, fmt.Sprintf("a %s is deleted only with the annotation %s=allow on it", e.Kind, object.PruneAnnotation))
	default:
		j.verdict = doomed
	}
}

func (j *judgement) keep(v verdict, message string) {
	j.verdict, j.result = v, kept(j.entry, message)
}

func (j *judgement) leave(seen watchcache.Facts) {
	j.verdict, j.result = leaving, deleted(j.entry)
	if seen.Finalizers != "" {
		j.result.Message = "waits for finalizers " + seen.Finalizers
	}
}

func (j *judgement) fail(reason Reason, message string, cause error) {
	j.verdict = unclear
	j.result = failed(gvkOf(j.entry), j.entry.ID, &Error{Reason: reason, Object: j.entry.ID, Message: message, cause: cause})
}

func deleted(e inventory.Entry) ObjectResult {
	return ObjectResult{GVK: gvkOf(e), Namespace: e.Namespace, Name: e.Name, Action: Deleted}
}

// deleteInTurn deletes turn by turn, and begins no turn while something of the one before is still there: whoever has to take
// finalizers off may be the next to go. The judgements must be in the order in which their objects go.
func (p *pass) deleteInTurn(ctx context.Context, judgements []judgement) []judgement {
	for start := 0; start < len(judgements); {
		end := start + 1
		for end < len(judgements) && sameTurn(judgements[start].entry, judgements[end].entry) {
			end++
		}
		run := judgements[start:end]
		p.each(len(run), func(i int) {
			if run[i].verdict == doomed {
				p.deleteOne(ctx, &run[i])
			}
		})
		if blocker := p.stillThere(run); blocker != "" {
			for i := range judgements[end:] {
				if j := &judgements[end+i]; j.verdict == doomed {
					j.keep(unclear, "it goes after "+blocker)
				}
			}
			break
		}
		start = end
	}
	return judgements
}

func sameTurn(a, b inventory.Entry) bool {
	return a.Turn.PruneLast == b.Turn.PruneLast && a.Turn.Stage == b.Turn.Stage && a.Turn.Wave == b.Turn.Wave &&
		order.Rank(a.ID) == order.Rank(b.ID)
}

// stillThere names an object of a turn that is on its way out, or could not be deleted.
func (p *pass) stillThere(run []judgement) string {
	for i := range run {
		switch j := &run[i]; {
		case j.verdict == leaving:
			p.wait(j.entry.String() + " is being deleted" + finalizing(j.seen))
			return j.entry.String()
		case j.verdict == unclear && j.result.Err != nil:
			return j.entry.String()
		}
	}
	return ""
}

// deleteTries is how often an object that changes at this very moment is judged anew before it is left to the next pass.
const deleteTries = 5

// deleteOne deletes an object exactly as it was judged: after anybody's change the API server refuses, and the object
// is judged again.
func (p *pass) deleteOne(ctx context.Context, j *judgement) {
	if err, left := p.record.recent(j.entry.ID, ""); err != nil {
		p.again(left)
		j.verdict, j.result = unclear, failed(gvkOf(j.entry), j.entry.ID, err)
		return
	}
	left, err := p.delete(ctx, p.doomedTarget(*j), j.seen.UID, j.seen.ResourceVersion)
	for try := 1; apierrors.IsConflict(err) && try < deleteTries; try++ {
		if *j = p.judge(ctx, j.entry, true); j.verdict != doomed {
			return
		}
		left, err = p.delete(ctx, p.doomedTarget(*j), j.seen.UID, j.seen.ResourceVersion)
	}
	switch {
	case err != nil && p.refusedToDelete(err):
		p.stuck(j, err)
	case left == nil:
		p.record.succeeded(j.entry.ID)
		p.seen.Gone(j.entry.ID, j.seen.UID)
		j.verdict, j.result = gone, deleted(j.entry)
	default:
		p.record.succeeded(j.entry.ID)
		j.seen.Deleting = true
		j.leave(watchcache.OfMetadata(left))
	}
}

// delete asks for an object to go, and returns what is left of it while it waits for its finalizers.
func (p *pass) delete(ctx context.Context, t target, uid, version string) (left *unstructured.Unstructured, err error) {
	err = p.asAccount(ctx, t, func(t target) error {
		left, err = p.wire.delete(ctx, t, uid, version)
		return err
	})
	return left, err
}

// stuck notes that the API server does not let go of an object, and when that is tried again.
func (p *pass) stuck(j *judgement, err error) {
	problem := describe(j.entry.ID, err)
	p.again(p.record.failed(j.entry.ID, "", problem))
	j.verdict, j.result = unclear, failed(gvkOf(j.entry), j.entry.ID, problem)
}

// refusedToDelete tells a delete that failed from one of an object that is not there. A kind that is not served as it was
// has objects all the same.
func (p *pass) refusedToDelete(err error) bool {
	if isUnserved(err) {
		p.kinds.Forget()
		return true
	}
	return !apierrors.IsNotFound(err)
}

func (p *pass) doomedTarget(j judgement) target {
	return target{id: j.entry.ID, res: j.res, account: p.req.Account}
}

// release takes the label off an object that is nobody's from now on, exactly as it was judged.
func (p *pass) release(ctx context.Context, j *judgement) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"labels":{%q:null}}}`,
		j.seen.UID, j.seen.ResourceVersion, object.ServiceLabel)
	err := p.asAccount(ctx, p.doomedTarget(*j), func(t target) error { return p.wire.merge(ctx, t, patch) })
	if err != nil && p.refusedToDelete(err) {
		p.stuck(j, err)
	}
}
