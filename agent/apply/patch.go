package apply

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pluralsh/plural/agent/health"
)

// outcome is an object's result, and its uid when it was applied.
type outcome struct {
	id     ID
	result ObjectResult
	uid    string
}

// apply writes the union to the inventory, then every object to the cluster, rank by rank. The uids of what was applied
// are noted in the inventory, for the caller to save.
func (p *pass) apply(ctx context.Context) ([]ObjectResult, error) {
	p.observeAll(ctx)
	for _, it := range p.items {
		p.inv.claim(it.id, it.gvk.Version)
	}
	if err := p.store.save(ctx, p.inv); err != nil {
		return p.rejected, err
	}
	p.ensureOwnNamespace(ctx)
	var results []ObjectResult
	for _, items := range byRank(p.order, p.items, func(it item) ID { return it.id }) {
		outcomes := p.applyRank(ctx, items)
		p.closeBarrier(ctx, outcomes)
		for _, o := range outcomes {
			if o.uid != "" {
				p.inv.confirm(o.id, o.uid)
			}
			results = append(results, o.result)
		}
	}
	results = append(results, p.rejected...)
	if err := p.contact.closing(ctx); err != nil {
		return results, fmt.Errorf("apply service %q: %w", p.service, err)
	}
	return results, nil
}

func (p *pass) applyRank(ctx context.Context, items []item) []outcome {
	outcomes := make([]outcome, len(items))
	p.each(len(items), func(i int) { outcomes[i] = p.applyOne(ctx, items[i]) })
	return outcomes
}

func (p *pass) applyOne(ctx context.Context, it item) outcome {
	if err := p.obstacle(ctx, it); err != nil {
		return outcome{id: it.id, result: failed(it.gvk, it.id, err)}
	}
	before, mine := p.live[it.id]
	if !mine {
		defer p.claims.hold(it.id)()
		var err *Error
		if before, err = p.available(ctx, it); err != nil {
			return outcome{id: it.id, result: failed(it.gvk, it.id, err)}
		}
	}
	live, err := p.send(ctx, it)
	if err != nil {
		return outcome{id: it.id, result: failed(it.gvk, it.id, describe(it.id, err))}
	}
	after := observe(live)
	return outcome{it.id, ObjectResult{
		GVK: it.gvk, Namespace: it.id.Namespace, Name: it.id.Name,
		Action: before.action(after), Health: health.Of(live),
	}, after.uid}
}

// send applies one object. An apply is the same however often it arrives, so a request that got no answer is sent again
// while the API server answers others.
func (p *pass) send(ctx context.Context, it item) (live *unstructured.Unstructured, err error) {
	obj := outgoing(it.obj, it.id.Namespace, p.service)
	client := p.objects.Resource(it.res.GroupVersionResource).Namespace(it.id.Namespace)
	patience := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 4}
	_ = wait.ExponentialBackoffWithContext(ctx, patience, func(ctx context.Context) (bool, error) {
		live, err = client.Apply(ctx, it.id.Name, obj, metav1.ApplyOptions{FieldManager: Manager, Force: true})
		p.contact.note(err)
		return err == nil || answered(err) || p.contact.lost(ctx) != nil, nil
	}) // err says more than running out of tries
	if live == nil && err == nil {
		err = context.Cause(ctx) // it ended before the first try
	}
	return live, err
}

// obstacle returns why an object is not even tried.
func (p *pass) obstacle(ctx context.Context, it item) *Error {
	if err := p.contact.lost(ctx); err != nil {
		return &Error{Reason: Unavailable, Object: it.id, Message: fmt.Sprintf("not tried: %v", err), cause: err}
	}
	for _, barrier := range []ID{{Kind: "Namespace", Name: it.id.Namespace}, it.definition} {
		if cause := p.blocked[barrier]; cause != nil {
			return &Error{Reason: Blocked, Object: it.id, Message: "it waits for " + cause.Error(), cause: cause}
		}
	}
	return nil
}

// available looks at an object that does not carry the service's label: it may be new, or nobody's, or taken.
func (p *pass) available(ctx context.Context, it item) (observed, *Error) {
	seen, _, err := p.inspect(ctx, it.id, it.res)
	if err != nil {
		return observed{}, describe(it.id, err)
	}
	if seen.owner != "" && seen.owner != p.service {
		return observed{}, &Error{
			Reason: Conflict, Object: it.id,
			Message: fmt.Sprintf("it belongs to service %q", seen.owner),
			Fix:     fmt.Sprintf("remove it from service %q or from service %q", seen.owner, p.service),
		}
	}
	return seen, nil
}

// claims makes looking at an object and taking it one step: of two services that want the same new object at the same
// moment, the second sees the first one's label. Ids share locks, so one goroutine holds one claim at a time.
type claims struct {
	seed  maphash.Seed
	locks [64]sync.Mutex
}

func newClaims() *claims { return &claims{seed: maphash.MakeSeed()} }

// hold waits for the claim, and returns what releases it.
func (c *claims) hold(id ID) func() {
	lock := &c.locks[maphash.Comparable(c.seed, id)%uint64(len(c.locks))]
	lock.Lock()
	return lock.Unlock
}
