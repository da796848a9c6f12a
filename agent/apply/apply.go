package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/reserved"
	"github.com/pluralsh/plural/agent/watchcache"
	"github.com/pluralsh/plural/internal/budget"
)

// Apply makes the cluster hold what the request says, as far as it can in one pass, and returns what became of every
// object. It waits for nothing to become healthy: the result says what it waits for, and Changed when to call again. What
// is wrong with one object is in its result. An error means that the pass could not be carried through: the render failed,
// the API server did not answer, somebody else applies this service (ErrContended), or ctx ended. Nothing was deleted then, and the next
// call picks up from wherever this one stopped. The result is never nil, and holds what is known.
func (e *Engine) Apply(ctx context.Context, req Request) (*Result, error) {
	limit, err := req.check()
	if err != nil {
		return &Result{}, err
	}
	r, err := e.begin(ctx, req.Service)
	if err != nil {
		return &Result{}, unanswered(ctx, err)
	}
	defer r.release()
	result, err := e.onTop(ctx, req.Service, r, func() (*Result, error) { return e.once(ctx, req, r, limit) })
	return result, unanswered(ctx, err)
}

// once is Apply on top of one state of the inventory.
func (e *Engine) once(ctx context.Context, req Request, r *record, limit budget.Budget) (*Result, error) {
	p := e.blankPass(req, r)
	if why := e.outage.why(); why != nil && p.current() { // as far as anybody has seen, which is no longer known
		return p.result, &UnansweredError{why}
	}
	if err := p.open(ctx); err != nil {
		return &Result{}, err
	}
	if p.current() {
		return p.result, nil
	}
	r.forState(p.state)
	objects, err := req.Objects(ctx)
	if err != nil {
		return p.result, err
	}
	if err := p.render(ctx, objects); err != nil {
		return p.result, err
	}
	if err := p.findLost(ctx); err != nil {
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

// origin is by what the service is known that asks.
func (req *Request) origin() reserved.Service {
	return reserved.Service{Name: req.Service, Namespace: req.Namespace, OwnRepository: req.OwnRepository}
}

// state names what the cluster is when all of the request is done: the render, and how it is applied.
func (req *Request) state() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%t %q %q %q", req.Prune, req.Conflicts, req.Fields, req.Namespaces)
	return req.Key + "." + hex.EncodeToString(sum.Sum(nil)[:8])
}

// carryOut does a pass whose objects are known.
func (p *pass) carryOut(ctx context.Context, limit budget.Budget) (*Result, error) {
	empty := len(p.rendered) == 0 && len(p.inv.Entries) > 0
	if !empty {
		p.claims.set(p.req.Service, p.wants(), p.news.add)
	}
	p.record.keep(p.mentions)
	p.endRemoval()
	if err := p.intend(ctx); err != nil {
		return p.result, err
	}
	p.ensureNamespaces(ctx)
	p.stages(ctx)
	p.result.Objects = append(p.result.Objects, p.rejected...)
	if err := p.contact.closing(ctx); err != nil {
		return p.result, p.salvage(ctx, fmt.Errorf("apply service %q: %w", p.req.Service, err))
	}
	gone := p.prune(ctx, limit, empty)
	if gone && p.result.Complete() && p.result.Held == nil && p.result.Waiting == "" {
		if p.endSync(ctx, p.syncHooks(), false); p.result.Waiting == "" {
			p.finish()
		}
	}
	p.tellNotes()
	p.inv.Orphan, p.inv.Account = p.req.Orphan, p.req.Account
	return p.result, p.save(ctx)
}

// wants is what the service claims. What is wrong with an object may hide its place, so a render with such objects gives up
// nothing that the service has.
func (p *pass) wants() map[object.ID]bool {
	wants := maps.Clone(p.rendered)
	if len(p.rejected) > 0 {
		maps.Copy(wants, owned(p.inv))
	}
	return wants
}

// mentions says whether the render or the inventory names the object.
func (p *pass) mentions(id object.ID) bool {
	_, ours := p.inv.Entries[id]
	return ours || p.rendered[id] || p.hooks[id]
}

// finish notes that all of the request is done.
func (p *pass) finish() {
	p.result.Done = true
	p.inv.Key, p.inv.Revision, p.inv.Failed = p.state, p.revision(), ""
	p.inv.Settled, p.inv.Rebuilt = len(p.inv.Entries), false
	p.claims.set(p.req.Service, maps.Clone(p.rendered), p.news.add)
	p.record.agreed = agreement{}
	p.record.keep(func(object.ID) bool { return false })
	p.forgetHooks()
}

// salvage writes down what was learnt before the pass broke off, if that can still be done, and returns why it did.
func (p *pass) salvage(ctx context.Context, why error) error {
	if ctx.Err() == nil {
		_ = p.save(ctx) // why says more
	}
	return why
}

// intend writes to the inventory what is about to be created, and that what is about to be changed is not known to be as it
// was left: two applies within a second leave the same trace, and this process may die between one of them and its record.
func (p *pass) intend(ctx context.Context) error {
	fresh := false
	for i := range p.items {
		it := &p.items[i]
		if it.turn.Hook {
			continue
		}
		known, ok := p.inv.Entries[it.id]
		fresh = fresh || !ok
		if !p.healing() && known.Trace != "" && known.Digest != it.digest {
			known.Trace, fresh = "", true
		}
		known.ID, known.Version, known.Turn, known.Left = it.id, it.gvk.Version, inventory.Marks(it.turn), false
		p.inv.Entries[it.id] = known
	}
	if !fresh {
		return nil
	}
	return p.save(ctx)
}

// current reports whether the cluster is as the last pass left it, and that one did all of the request. The result is filled
// in then.
func (p *pass) current() bool {
	inv := p.inv
	if inv.Key != p.state || inv.Rebuilt || p.record.failing.Load() || inv.Orphan != p.req.Orphan || inv.Account != p.req.Account {
		return false
	}
	var objects, leftovers []ObjectResult
	for _, entry := range inv.Sorted() {
		facts, there := p.seen.Get(entry.ID)
		was, left := p.record.leftAs(entry.ID)
		switch {
		case left && was.seen != signature(facts, there), entry.Left && !left:
			return false
		case entry.Left:
			leftovers = append(leftovers, kept(entry, was.message))
		case left:
			objects = append(objects, kept(entry, was.message))
		case p.req.Heal && !asLeft(entry, facts, there, p.req.Service):
			return false
		default:
			objects = append(objects, unhealed(entry, facts, there))
		}
	}
	slices.Reverse(leftovers)
	p.result.Objects, p.result.Done = append(objects, leftovers...), true
	return true
}

// asLeft says whether a live object is as the last apply left it.
func asLeft(e inventory.Entry, facts watchcache.Facts, there bool, service string) bool {
	return there && !facts.Deleting && facts.Owner == service && e.Trace != "" && facts.Trace == e.Trace
}

// unhealed is what an object is that nothing is done about. Where healing is off, it may not even be there.
func unhealed(e inventory.Entry, facts watchcache.Facts, there bool) ObjectResult {
	verdict := facts.Health
	if !there {
		verdict = health.Status{Phase: health.Degraded, Message: "it is not there, and healing is off for this service"}
	}
	return ObjectResult{GVK: gvkOf(e), Namespace: e.Namespace, Name: e.Name, Action: Unchanged, Health: verdict, UID: facts.UID}
}

// signature tells when to look again at an object that nothing is done about.
func signature(facts watchcache.Facts, there bool) string {
	return fmt.Sprintf("%t %s %s %t %t %s", there, facts.UID, facts.Owner, facts.Allowed, facts.Deleting, facts.Trace)
}

func (r *record) leftAs(id object.ID) (leftover, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, ok := r.left[id]
	return was, ok
}

// leave notes as what an object was seen that nothing is done about, and why.
func (r *record) leave(id object.ID, seen, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[id] = leftover{seen, message}
}

// unleave forgets that.
func (r *record) unleave(id object.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.left, id)
}
