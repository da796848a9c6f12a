package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
)

// record is what the engine remembers of one service between two calls. Who works on the service holds turn.
type record struct {
	turn chan struct{}
	// inv is the inventory as it stands in the cluster; nil when it is to be read again.
	inv *inventory.Inventory
	// damaged is why the stored inventory cannot be read; one is to be made from what is in the cluster.
	damaged error
	// state is the request that the attempts were made for.
	state string
	// agreed is what a person let go, while it goes turn by turn.
	agreed agreement
	// stored says that there is an inventory in the cluster, readable or not.
	stored atomic.Bool
	// kinds are those of the service's objects, which are watched for it; nil before its first pass. The Engine's mutex guards them.
	kinds map[schema.GroupKind]bool

	mu sync.Mutex // guards what follows
	// attempts are the objects that could not be applied.
	attempts map[object.ID]attempt
	failing  atomic.Bool
	// ended is the last that was seen of hooks that are gone.
	ended map[object.ID]watchcache.Facts
	// left are objects that nothing is done about, until they are seen as something else.
	left map[object.ID]leftover
}

// leftover is an object that nothing is done about.
type leftover struct {
	seen    string // its signature
	message string
}

// agreement is the deletions that a token stands for.
type agreement struct {
	token string
	names map[string]bool
}

// attempt is an object's failure, and when it is to be tried again.
type attempt struct {
	failures int
	digest   string
	next     time.Time
	err      *Error
}

// hold waits for the service's turn.
func (r *record) hold(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *record) release() { <-r.turn }

// inventoryCache reads every inventory once, so that a thousand services are one request.
type inventoryCache struct {
	mu   sync.Mutex
	done bool
}

// begin waits for the service's turn, and returns what is remembered of it, with its inventory. Whoever gets it ends the turn.
func (e *Engine) begin(ctx context.Context, service string) (*record, error) {
	for {
		r, err := e.record(ctx, service)
		if err != nil {
			return nil, err
		}
		if err := r.hold(ctx); err != nil {
			return nil, err
		}
		if !e.remembers(service, r) { // it was removed meanwhile
			r.release()
			continue
		}
		if err := e.load(ctx, service, r); err != nil {
			r.release()
			return nil, err
		}
		return r, nil
	}
}

func (e *Engine) remembers(service string, r *record) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.services[service] == r
}

// record returns what is remembered of a service.
func (e *Engine) record(ctx context.Context, service string) (*record, error) {
	if err := e.recallAll(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.services[service]
	if r == nil {
		r = newRecord()
		e.services[service] = r
	}
	return r, nil
}

func newRecord() *record {
	return &record{turn: make(chan struct{}, 1), attempts: make(map[object.ID]attempt), left: make(map[object.ID]leftover)}
}

func (e *Engine) recallAll(ctx context.Context) error {
	e.recall.mu.Lock()
	defer e.recall.mu.Unlock()
	if e.recall.done {
		return nil
	}
	found, damaged, err := e.inventory.LoadAll(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for service, inv := range found {
		r := newRecord()
		r.inv = inv
		r.stored.Store(true)
		e.services[service] = r
		e.claims.set(service, owned(inv), e.news.add)
	}
	for service, why := range damaged {
		r := newRecord()
		r.damaged = why
		r.stored.Store(true)
		e.services[service] = r
	}
	e.recall.done = true
	return nil
}

// owned are the objects that the service wants, as far as its inventory says.
func owned(inv *inventory.Inventory) map[object.ID]bool {
	ids := make(map[object.ID]bool, len(inv.Entries))
	for id, entry := range inv.Entries {
		if !entry.Left {
			ids[id] = true
		}
	}
	return ids
}

// load makes sure that the record has an inventory. The caller holds the record's turn.
func (e *Engine) load(ctx context.Context, service string, r *record) error {
	if r.inv != nil {
		return nil
	}
	if r.damaged == nil {
		inv, err := e.inventory.Load(ctx, service)
		var broken *inventory.Error
		if err != nil && !errors.As(err, &broken) {
			return err
		}
		r.inv = inv
		r.stored.Store(broken != nil || inv.Stored())
		if broken != nil {
			r.inv, r.damaged = nil, broken
		}
	}
	if r.damaged != nil {
		return e.rebuild(ctx, service, r)
	}
	return nil
}

// save writes the inventory, and has it read again when somebody else wrote it meanwhile.
func (p *pass) save(ctx context.Context) error {
	err := p.inventory.Save(ctx, p.inv)
	if err != nil {
		p.record.inv = nil
		return err
	}
	p.record.stored.Store(p.inv.Stored())
	return nil
}

// mostTurns bounds how often a pass is begun anew since another engine wrote the inventory meanwhile.
const mostTurns = 4

// onTop does a pass anew while another engine writes the inventory in the middle of it: what that one wrote is read, and counts.
// The caller holds the record's turn.
func (e *Engine) onTop(ctx context.Context, service string, r *record, pass func() (*Result, error)) (*Result, error) {
	result, err := pass()
	for turns := 1; turns < mostTurns && errors.Is(err, ErrContended) && ctx.Err() == nil; turns++ {
		if unread := e.load(ctx, service, r); unread != nil {
			return result, unread
		}
		before := result
		result, err = pass()
		result.include(before)
	}
	return result, err
}

// Times between two tries of an object.
const (
	firstRetry = 500 * time.Millisecond
	// lastRetry is for what time may mend, lastRefusal for what only a person or a policy can.
	lastRetry   = 30 * time.Second
	lastRefusal = 2 * time.Minute
)

// failed notes that an object could not be applied, and returns when to try again.
func (r *record) failed(id object.ID, digest string, err *Error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.attempts[id]
	if a.digest != digest {
		a.failures = 0
	}
	most := lastRetry
	if err.Reason.lasting() {
		most = lastRefusal
	}
	pause := min(firstRetry<<min(a.failures, 10), most)
	if seconds, asked := apierrors.SuggestsClientDelay(err.cause); asked {
		pause = max(pause, min(time.Duration(seconds)*time.Second, most))
	}
	r.attempts[id] = attempt{a.failures + 1, digest, time.Now().Add(pause), err}
	r.failing.Store(true)
	return pause
}

// heldBack notes that an object could not even be tried, and returns when to look again. It is tried before that, if it may be.
func (r *record) heldBack(id object.ID) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.attempts[id]
	a.failures++
	r.attempts[id] = a
	r.failing.Store(true)
	return min(heldBack<<min(a.failures-1, 10), lastRetry)
}

// recent is why the object is not to be tried now, and for how long; nil when it may be.
func (r *record) recent(id object.ID, digest string) (*Error, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.attempts[id]
	if !ok || a.digest != digest {
		return nil, 0
	}
	if left := time.Until(a.next); left > 0 {
		return a.err, left
	}
	return nil, 0
}

// hasFailed says whether the object could not be applied the last time.
func (r *record) hasFailed(id object.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[id].err != nil
}

// succeeded forgets an object's failures.
func (r *record) succeeded(id object.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, id)
	r.failing.Store(len(r.attempts) > 0)
}

// keep forgets the failures of all objects but these.
func (r *record) keep(ids func(object.ID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.attempts, func(id object.ID, _ attempt) bool { return !ids(id) })
	r.failing.Store(len(r.attempts) > 0)
}

// forState forgets the failures of another render, or of the same one under other policies.
func (r *record) forState(state string) {
	if r.state != state {
		r.keep(func(object.ID) bool { return false })
	}
	r.state = state
}

// findLost looks whether a service with no inventory had one: then there are objects that it applied. They are found again, with
// those of kinds that the render does not hold any more, and marked, so that nothing is deleted on the word of labels alone.
func (p *pass) findLost(ctx context.Context) error {
	if p.inv.Stored() || p.inv.Rebuilt {
		return nil
	}
	for id, facts := range p.seen.Owned(p.req.Service) {
		if facts.Trace != "" && facts.Run == "" && !p.hooks[id] {
			err := p.rebuild(ctx, p.req.Service, p.record)
			p.inv = cmp.Or(p.record.inv, p.inv)
			return err
		}
	}
	return nil
}

// rebuild makes an inventory of what carries the service's label, when the stored one cannot be read. It is marked, so that
// nothing is deleted on its word alone.
func (e *Engine) rebuild(ctx context.Context, service string, r *record) error {
	catalog, err := e.kinds.With(ctx, nil)
	if err != nil {
		return fmt.Errorf("rebuild inventory of service %q: %w", service, err)
	}
	entries, err := e.scan(ctx, service, catalog)
	if err != nil {
		return fmt.Errorf("rebuild inventory of service %q: %w", service, err)
	}
	e.options.Log.Warn("inventory is lost or unreadable, and was made anew from labels; nothing is deleted by it unasked",
		"service", service, "objects", len(entries), "error", r.damaged)
	var damage *inventory.Error
	errors.As(r.damaged, &damage)
	r.inv, r.damaged = inventory.Rebuild(service, entries, damage), nil
	return nil
}

// watches notes which kinds are watched for a service, before they are.
func (e *Engine) watches(r *record, kinds map[schema.GroupKind]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.kinds = kinds
}

// unwatch ends the watches of kinds that no service has objects of. No service comes to need one in the middle of it.
func (e *Engine) unwatch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	wanted := make(map[schema.GroupKind]bool)
	for _, r := range e.services {
		if r.kinds == nil {
			return // one that has had no pass yet
		}
		maps.Copy(wanted, r.kinds)
	}
	e.seen.Keep(wanted)
}
