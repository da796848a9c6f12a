package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/observe"
	"github.com/pluralsh/plural/internal/budget"
)

// Apply makes the cluster hold what the request says, as far as it can in one pass, and returns what became of every
// object. It waits for nothing to become healthy: the result says what it waits for, and Changed when to call again. What
// is wrong with one object is in its result. An error means that the pass could not be carried through: the render failed,
// the API server did not answer, somebody else applies this service, or ctx ended. Nothing was deleted then, and the next
// call picks up from wherever this one stopped. The result is never nil, and holds what is known.
func (e *Engine) Apply(ctx context.Context, req Request) (*Result, error) {
	limit, err := req.check()
	if err != nil {
		return &Result{}, err
	}
	r, err := e.record(ctx, req.Service)
	if err != nil {
		return &Result{}, err
	}
	if err := r.hold(ctx); err != nil {
		return &Result{}, err
	}
	defer r.release()
	if err := e.load(ctx, req.Service, r); err != nil {
		return &Result{}, err
	}
	p, err := e.newPass(ctx, req, r)
	if err != nil {
		return &Result{}, err
	}
	if p.current() {
		return p.result, nil
	}
	objects, err := req.Objects(ctx)
	if err != nil {
		return p.result, err
	}
	if err := p.render(ctx, objects); err != nil {
		return p.result, err
	}
	return p.carryOut(ctx, limit)
}

func (req *Request) check() (budget.Budget, error) {
	if err := checkService(req.Service); err != nil {
		return budget.Budget{}, err
	}
	limit, err := budget.Parse(req.Budget)
	if err == nil {
		err = req.Policies.check()
	}
	if err != nil {
		return budget.Budget{}, fmt.Errorf("service %q: %w", req.Service, err)
	}
	return limit.AtLeast(budget.ObjectFloor), nil
}

// carryOut does a pass whose objects are known.
func (p *pass) carryOut(ctx context.Context, limit budget.Budget) (*Result, error) {
	empty := len(p.rendered) == 0 && len(p.inv.Entries) > 0
	if !empty {
		p.claims.set(p.req.Service, p.rendered, p.news.add)
	}
	p.record.keep(func(id object.ID) bool { return p.rendered[id] || p.hooks[id] })
	if err := p.intend(ctx); err != nil {
		return p.result, err
	}
	p.ensureOwnNamespace(ctx)
	p.stages(ctx)
	p.result.Objects = append(p.result.Objects, p.rejected...)
	if err := p.contact.closing(ctx); err != nil {
		return p.result, p.salvage(ctx, fmt.Errorf("apply service %q: %w", p.req.Service, err))
	}
	gone := p.prune(ctx, limit, empty)
	slices.Sort(p.notes)
	p.result.Notes = slices.Compact(p.notes)
	if gone && p.result.Complete() && p.result.Held == nil && p.result.Waiting == "" {
		p.result.Done = true
		p.inv.Key, p.inv.Revision, p.inv.Failed = p.req.Key, p.revision(), ""
		p.inv.Settled, p.inv.Rebuilt = len(p.inv.Entries), false
		p.forgetHooks()
	}
	p.inv.Orphan, p.inv.Account = p.req.Orphan, p.req.Account
	return p.result, p.save(ctx)
}

// salvage writes down what was learnt before the pass broke off, if that can still be done, and returns why it did.
func (p *pass) salvage(ctx context.Context, why error) error {
	if ctx.Err() == nil {
		_ = p.save(ctx) // why says more
	}
	return why
}

// intend writes to the inventory what is about to be created.
func (p *pass) intend(ctx context.Context) error {
	fresh := false
	for i := range p.items {
		it := &p.items[i]
		if it.turn.Hook {
			continue
		}
		known, ok := p.inv.Entries[it.id]
		fresh = fresh || !ok
		known.ID, known.Version, known.Turn = it.id, it.gvk.Version, inventory.Marks(it.turn)
		p.inv.Entries[it.id] = known
	}
	if !fresh {
		return nil
	}
	return p.save(ctx)
}

// current reports whether the cluster is as the last pass left it, and the render is the one that it applied completely.
// The result is filled in then.
func (p *pass) current() bool {
	inv := p.inv
	if inv.Key != p.req.Key || inv.Rebuilt || p.record.failing.Load() || inv.Orphan != p.req.Orphan || inv.Account != p.req.Account {
		return false
	}
	var objects, leftovers []ObjectResult
	for _, entry := range inv.Sorted() {
		facts, there := p.seen.Get(entry.ID)
		result := ObjectResult{
			GVK: gvkOf(entry), Namespace: entry.Namespace, Name: entry.Name, Action: Unchanged, Health: facts.Health,
		}
		switch was, left := p.record.leftAs(entry.ID); {
		case left && was == signature(facts, there):
			leftovers = append(leftovers, kept(entry, "the render no longer holds it"))
			continue
		case left, p.req.Heal && !asLeft(entry, facts, there, p.req.Service):
			return false
		}
		objects = append(objects, result)
	}
	slices.Reverse(leftovers)
	p.result.Objects, p.result.Done = append(objects, leftovers...), true
	return true
}

// asLeft says whether a live object is as the last apply left it.
func asLeft(e inventory.Entry, facts observe.Facts, there bool, service string) bool {
	return there && !facts.Deleting && facts.Owner == service && e.Trace != "" && facts.Trace == e.Trace
}

// signature tells when to look again at an object that must not be deleted.
func signature(facts observe.Facts, there bool) string {
	return fmt.Sprintf("%t %s %s %t %t %s", there, facts.UID, facts.Owner, facts.Allowed, facts.Deleting, facts.Trace)
}

func (r *record) leftAs(id object.ID) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, ok := r.left[id]
	return was, ok
}

// leave notes as what an object was seen that must not be deleted.
func (r *record) leave(id object.ID, as string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[id] = as
}

// unleave forgets that.
func (r *record) unleave(id object.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.left, id)
}
