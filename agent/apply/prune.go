package apply

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	entry   entry
	res     resource
	seen    observed
	verdict verdict
	result  ObjectResult
}

// prune deletes what the render no longer holds, and drops from the inventory what is really gone. Held is set when
// deletions wait for a person.
func (p *pass) prune(ctx context.Context, allowed bool, limit budget.Budget) (results []ObjectResult, held string) {
	entries := p.unrendered()
	if !allowed {
		for _, e := range entries {
			results = append(results, kept(e, "pruning is off for this service"))
		}
		return results, ""
	}
	judgements := p.judgeAll(ctx, entries)
	count := countDoomed(judgements)
	if total := p.inv.total(count); !limit.Allows(count, total) {
		held = fmt.Sprintf("%d deletions wait: the budget of %s allows %d of %d objects: "+
			"set spec.sync.deletionBudget in services/%s.yaml", count, limit, limit.Allowed(total), total, p.service)
		spareDoomed(judgements)
	}
	judgements = p.deleteDoomed(ctx, judgements)
	for _, j := range judgements {
		if j.verdict == gone || j.verdict == transferred {
			delete(p.inv.entries, j.entry.id())
		}
	}
	return report(judgements), held
}

// postponed reports what the render no longer holds, while deletions wait for the rest to succeed.
func (p *pass) postponed() []ObjectResult {
	var results []ObjectResult
	for _, e := range p.unrendered() {
		results = append(results, kept(e, "deletions wait until every object is applied"))
	}
	return results
}

// unrendered returns what is in the inventory but not in the render, in reverse apply order.
func (p *pass) unrendered() []entry {
	entries := slices.DeleteFunc(p.inv.sorted(p.order), func(e entry) bool { return p.rendered[e.id()] })
	slices.Reverse(entries)
	return entries
}

// removeAll deletes everything that may be deleted. Only what still has to go stays in the inventory.
func (p *pass) removeAll(ctx context.Context) []ObjectResult {
	judgements := p.deleteDoomed(ctx, p.judgeAll(ctx, p.unrendered()))
	for _, j := range judgements {
		if j.verdict != leaving && j.verdict != unclear {
			delete(p.inv.entries, j.entry.id())
		}
	}
	return report(judgements)
}

func countDoomed(judgements []judgement) int {
	count := 0
	for _, j := range judgements {
		if j.verdict == doomed {
			count++
		}
	}
	return count
}

func spareDoomed(judgements []judgement) {
	for i := range judgements {
		if judgements[i].verdict == doomed {
			judgements[i].spare("its deletion waits: it is over the budget")
		}
	}
}

func report(judgements []judgement) []ObjectResult {
	var results []ObjectResult
	for _, j := range judgements {
		if j.result.Action != "" {
			results = append(results, j.result)
		}
	}
	return results
}

// judgeAll looks at every object anew: what was seen when the pass began may be minutes old.
func (p *pass) judgeAll(ctx context.Context, entries []entry) []judgement {
	judgements := make([]judgement, len(entries))
	p.each(len(entries), func(i int) { judgements[i] = p.judge(ctx, entries[i]) })
	return judgements
}

func (p *pass) judge(ctx context.Context, e entry) judgement {
	j := judgement{entry: e}
	var served, exists bool
	if j.res, served = p.catalog.find(e.gvk()); !served {
		if p.catalog.silent[e.Group] {
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
	var err error
	j.seen, exists, err = p.inspect(ctx, e.id(), j.res)
	switch {
	case err != nil:
		j.result = failed(e.gvk(), e.id(), describe(e.id(), err))
	case !exists:
		j.verdict = gone
	default:
		p.decide(&j)
	}
	return j
}

// decide goes by what the live object says of itself.
func (p *pass) decide(j *judgement) {
	e, seen := j.entry, j.seen
	switch {
	case seen.owner == "":
		j.spare("not deleted: its label " + ServiceLabel + " was taken off: delete it by hand, or put the label back")
	case seen.owner != p.service:
		j.spare(fmt.Sprintf("not deleted: it belongs to service %q now", seen.owner))
		j.verdict = transferred
	case e.UID != "" && e.UID != seen.uid:
		j.spare("not deleted: it is not the object that was applied, somebody created it anew: delete it by hand")
	case e.UID == "" && seen.trace == "":
		j.spare("not deleted: it was never applied by " + Manager + ": delete it by hand")
	case seen.deleting:
		j.leave(seen)
	case protected(e.id()) && !seen.pruneAllowed:
		j.spare(fmt.Sprintf("a %s is deleted only with the annotation %s=allow on it", e.Kind, PruneAnnotation))
	default:
		j.verdict = doomed
	}
}

func (j *judgement) spare(message string) {
	j.verdict, j.result = spared, kept(j.entry, message)
}

func (j *judgement) leave(seen observed) {
	j.verdict, j.result = leaving, deleted(j.entry)
	if seen.finalizers != "" {
		j.result.Message = "waits for finalizers " + seen.finalizers
	}
}

func (j *judgement) fail(reason Reason, message string, cause error) {
	j.verdict = unclear
	j.result = failed(j.entry.gvk(), j.entry.id(),
		&Error{Reason: reason, Object: j.entry.id(), Message: message, cause: cause})
}

func deleted(e entry) ObjectResult {
	return ObjectResult{GVK: e.gvk(), Namespace: e.Namespace, Name: e.Name, Action: Deleted}
}

// deleteDoomed deletes rank by rank, last rank first, and returns the judgements with what came of it. They must be in
// reverse apply order, and stay in it.
func (p *pass) deleteDoomed(ctx context.Context, judgements []judgement) []judgement {
	judgements = slices.Clone(judgements)
	for _, run := range byRank(p.order, judgements, func(j judgement) ID { return j.entry.id() }) {
		p.each(len(run), func(i int) {
			if run[i].verdict == doomed {
				p.deleteOne(ctx, &run[i])
			}
		})
	}
	return judgements
}

// deleteTries is how often an object that changes at this very moment is judged anew before it is left to the next pass.
const deleteTries = 5

// deleteOne deletes an object exactly as it was judged: after anybody's change the API server refuses, and the object
// is judged again.
func (p *pass) deleteOne(ctx context.Context, j *judgement) {
	err := p.sendDelete(ctx, *j)
	for try := 1; apierrors.IsConflict(err) && try < deleteTries; try++ {
		if *j = p.judge(ctx, j.entry); j.verdict != doomed {
			return
		}
		err = p.sendDelete(ctx, *j)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		j.verdict, j.result = unclear, failed(j.entry.gvk(), j.entry.id(), describe(j.entry.id(), err))
		return
	}
	after, exists, err := p.inspect(ctx, j.entry.id(), j.res)
	if err == nil && (!exists || after.uid != j.seen.uid) {
		j.verdict, j.result = gone, deleted(j.entry)
		return
	}
	j.leave(after)
}

func (p *pass) sendDelete(ctx context.Context, j judgement) error {
	if err := p.contact.lost(ctx); err != nil {
		return err
	}
	id := j.entry.id()
	uid, policy := types.UID(j.seen.uid), metav1.DeletePropagationBackground
	err := p.metadata.Resource(j.res.GroupVersionResource).Namespace(id.Namespace).Delete(ctx, id.Name,
		metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &j.seen.version},
			PropagationPolicy: &policy,
		})
	p.contact.note(err)
	return err
}
