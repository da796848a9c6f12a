// Package watchcache owns the cache of live objects with our label, filled by watches alone.
//
// It refuses to know what a service should be, and writes nothing to a cluster. Of an object it keeps Facts, never the
// object: what has no status is not even sent whole by the API server, so the values of Secrets are never here.
//
// Follow starts one watch for each kind, over all namespaces, of the objects that carry the service label. What is missing
// there does not exist, or does not carry the label. Answers to own requests may be ahead of the watch; Note and Gone put
// them in, and what the watch still has to say of the time before is not believed any more.
package watchcache

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
)

// Options are what an Observer works with.
type Options struct {
	// Objects and Metadata reach the API server. They must have no overall timeout, which would end every watch.
	Objects  dynamic.Interface
	Metadata metadata.Interface
	// Judge returns the rules of a service, nil for the built-in ones alone. Nil: built-in rules for all.
	Judge func(service string) *health.Judge
	// Ruled says that some service's rules speak of a kind, so that its objects are watched whole although they have no
	// status subresource. Nil: none. It must not block.
	Ruled func(schema.GroupKind) bool
	// Changed is told, from any goroutine, that an object of a service appeared, changed, or went. When the owner changed,
	// both services are told. A change of resourceVersion or generation alone is none, nor is what Note and Gone put in,
	// unless it was another service's. It must not block. Nil: nobody is told.
	Changed func(service string, id object.ID)
	// Log is told of watches that are refused, once. Nil: nobody is told.
	Log *slog.Logger
}

// ErrStopped says that the Observer's Run has ended, or that the kind's watch was given up meanwhile.
var ErrStopped = errors.New("not watched any more")

// Observer keeps the facts. It is safe for concurrent use.
type Observer struct {
	o       Options
	running chan struct{} // closed when Run has begun
	stopped chan struct{} // closed when Run has ended

	mu      sync.Mutex // guards what follows, and the states of the watches
	start   func(*kindWatch)
	watches map[schema.GroupKind]*kindWatch
	owned   map[string]map[object.ID]struct{} // services' objects in the facts of all watches
}

// New watches nothing yet.
func New(o Options) *Observer {
	if o.Judge == nil {
		o.Judge = func(string) *health.Judge { return nil }
	}
	if o.Ruled == nil {
		o.Ruled = func(schema.GroupKind) bool { return false }
	}
	if o.Changed == nil {
		o.Changed = func(string, object.ID) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Observer{
		o: o, running: make(chan struct{}), stopped: make(chan struct{}),
		watches: map[schema.GroupKind]*kindWatch{}, owned: map[string]map[object.ID]struct{}{},
	}
}

// Run lets the watches run until ctx ends, and returns its error. It is called once.
func (o *Observer) Run(ctx context.Context) error {
	defer close(o.stopped)
	var watches sync.WaitGroup
	o.mu.Lock()
	o.start = func(k *kindWatch) {
		ctx, cancel := context.WithCancel(ctx)
		k.stop = cancel
		watches.Go(func() { k.run(ctx) })
	}
	o.mu.Unlock()
	close(o.running)
	<-ctx.Done()
	o.mu.Lock()
	o.start = nil
	o.mu.Unlock()
	watches.Wait()
	return ctx.Err()
}

// Follow returns when the objects of the wanted kinds are known, and have been kept up since; it starts the watches that
// are not there yet, and waits for Run. Of kinds where that cannot be had now, it returns why: an *kubewatch.Error when the
// API server said so, else the error of ctx, or ErrStopped. Their watches try on.
func (o *Observer) Follow(ctx context.Context, wanted map[schema.GroupKind]kinds.Resource) (failed map[schema.GroupKind]error) {
	failed = map[schema.GroupKind]error{}
	select {
	case <-o.running:
		o.begin(wanted)
	case <-ctx.Done():
	}
	for gk := range wanted {
		if err := o.await(ctx, gk); err != nil {
			failed[gk] = err
		}
	}
	return failed
}

// begin starts, or wakes, the watches of the wanted kinds.
func (o *Observer) begin(wanted map[schema.GroupKind]kinds.Resource) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.start == nil {
		return
	}
	for gk, res := range wanted {
		k := o.watches[gk]
		switch {
		case k == nil || k.whole != o.whole(gk, res):
			o.replace(gk, res)
		case k.err != nil && k.res.GroupVersionResource != res.GroupVersionResource:
			o.replace(gk, res) // a version that is served no longer
		case k.err != nil && time.Since(k.failed) >= retryPause:
			k.retry()
		}
	}
}

// whole says whether a kind's objects are watched with all that they hold. Secrets never are.
func (o *Observer) whole(gk schema.GroupKind, res kinds.Resource) bool {
	return (res.Status || o.o.Ruled(gk)) && !(object.ID{Group: gk.Group, Kind: gk.Kind}).IsSecret()
}

// replace puts a new watch in the place of an older one, whose facts it takes over until it knows better.
func (o *Observer) replace(gk schema.GroupKind, res kinds.Resource) {
	k := newKindWatch(o, gk, res, o.whole(gk, res))
	if old := o.watches[gk]; old != nil {
		k.facts, k.gone, k.version = old.facts, old.gone, old.version
		old.end()
	}
	o.watches[gk] = k
	o.start(k)
}

// await waits until it shows whether a kind is followed.
func (o *Observer) await(ctx context.Context, gk schema.GroupKind) error {
	for {
		o.mu.Lock()
		k := o.watches[gk]
		if k == nil {
			o.mu.Unlock()
			return cmp.Or(ctx.Err(), ErrStopped)
		}
		known := k.known
		o.mu.Unlock()
		select {
		case <-known:
		case <-ctx.Done():
			return ctx.Err()
		case <-o.stopped:
			return ErrStopped
		}
		o.mu.Lock()
		current := o.watches[gk] == k && k.known == known
		err := k.err
		o.mu.Unlock()
		switch {
		case current && err != nil:
			return err
		case current:
			return nil
		}
	}
}

// Keep ends the watches of all other kinds, and forgets their objects, of which nobody is told.
func (o *Observer) Keep(wanted map[schema.GroupKind]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for gk, k := range o.watches {
		if wanted[gk] {
			continue
		}
		delete(o.watches, gk)
		k.end()
		for id, f := range k.facts {
			o.unindex(id, f.Owner)
		}
	}
}

// Rejudge has the objects of some kinds judged anew, because the rules changed. What differs then is told as a change.
func (o *Observer) Rejudge(affected map[schema.GroupKind]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for gk := range affected {
		if k := o.watches[gk]; k != nil && o.start != nil {
			o.replace(gk, k.res)
		}
	}
}

// Get returns the facts of one object. They are those of before when the kind is not followed now.
func (o *Observer) Get(id object.ID) (Facts, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.get(id)
}

func (o *Observer) get(id object.ID) (Facts, bool) {
	k := o.watches[id.GroupKind()]
	if k == nil {
		return Facts{}, false
	}
	f, ok := k.facts[id]
	return f, ok
}

// Owned returns the objects whose label names the service, in a map of the caller's own.
func (o *Observer) Owned(service string) map[object.ID]Facts {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[object.ID]Facts, len(o.owned[service]))
	for id := range o.owned[service] {
		out[id], _ = o.get(id)
	}
	return out
}

// Followed says whether the facts of a kind are known and kept up now.
func (o *Observer) Followed(gk schema.GroupKind) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.watches[gk]
	return k != nil && k.synced && k.err == nil
}

// Note puts in what the answer to an own request said, unless the watch knows something newer. Of a kind that is not
// watched, nothing is kept.
func (o *Observer) Note(id object.ID, f Facts) {
	o.mu.Lock()
	k := o.watches[id.GroupKind()]
	if k == nil || f.Owner == "" || !k.ahead(f.ResourceVersion) {
		o.mu.Unlock()
		return
	}
	if !k.whole {
		f.Health = unjudged(f.Deleting)
	}
	before := k.facts[id].Owner
	k.put(id, f)
	o.mu.Unlock()
	if before != "" && before != f.Owner {
		o.o.Changed(before, id)
	}
}

// expect judges an object anew, by what is known of it, when its verdict was to hold no longer, unless it has changed by then.
func (o *Observer) expect(id object.ID, f Facts) {
	time.AfterFunc(time.Until(time.Unix(f.Health.Until, 0)), func() {
		o.mu.Lock()
		k := o.watches[id.GroupKind()]
		due := k != nil && k.facts[id] == f
		if due {
			f.Health = f.Health.At(time.Unix(f.Health.Until, 0))
			k.put(id, f)
		}
		o.mu.Unlock()
		if due {
			o.o.Changed(f.Owner, id)
		}
	})
}

// Gone takes out an object, known by its uid, that an own request has deleted for good.
func (o *Observer) Gone(id object.ID, uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.watches[id.GroupKind()]
	if k == nil {
		return
	}
	if f, ok := k.facts[id]; ok && f.UID == uid {
		k.remove(id)
		k.gone[id] = uid
	}
}

// index and unindex are called with mu held.
func (o *Observer) index(id object.ID, service string) {
	ids := o.owned[service]
	if ids == nil {
		ids = map[object.ID]struct{}{}
		o.owned[service] = ids
	}
	ids[id] = struct{}{}
}

func (o *Observer) unindex(id object.ID, service string) {
	ids := o.owned[service]
	if delete(ids, id); len(ids) == 0 {
		delete(o.owned, service)
	}
}
