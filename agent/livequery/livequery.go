// Package livequery owns live queries of people: objects, trees and events of a cluster, for as long as somebody watches.
//
// It refuses to know who looks, and whether they may: whoever asks has made sure of that. Of an object it keeps what a line
// about it shows, never what a Secret or a ConfigMap holds.
//
// What is looked at is a table (table.go): one watch on one resource, in one namespace or in all, that is there while somebody
// looks and for a minute after that. A view of a kind is one table. A view of a service (service.go) is what the apply engine
// sees of it anyway, with all that hangs below that by owner references, found in the tables of the namespaces in question.
// Whoever looks gets what there is, then what becomes of it: several times a second at the most, and of each object the newest.
package livequery

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// MaxObjects is how many objects a view may have.
	MaxObjects = 50_000
	// maxTables is how many tables there may be at once.
	maxTables = 64
	// idle is how long a table outlives its last reader.
	idle = time.Minute
)

// Services is what is known of services without looking.
type Services interface {
	// Owned returns the live objects that carry the service's label, in a map of the caller's own.
	Owned(service string) map[object.ID]watchcache.Facts
	// Listen calls changed, which must not block, when objects of the service changed, until stop is called.
	Listen(service string, changed func()) (stop func())
	// Judge returns how a service's objects are judged; nil stands for the built-in rules.
	Judge(service string) *health.Judge
}

// Options are what Views work with.
type Options struct {
	// Objects and Metadata reach the API server as the agent itself. They must have no overall timeout, which would end every
	// watch.
	Objects  dynamic.Interface
	Metadata metadata.Interface
	Kinds    *kinds.Kinds
	Services Services
	// Said is what the cluster says of an object of a service that is not well, or of one below it; nil: nobody knows.
	Said func(service, uid string) []string
	// Mask is a text about an object of a service as people may see it; nil: as it is. Without a service it is about an object that
	// may be below one of any: what a controller makes has no label.
	Mask func(service, text string) string
	// Idle is how long a view is kept up for the next reader; a minute when zero.
	Idle time.Duration
	// Log is told of what services' views lack. Nil: nobody is told.
	Log *slog.Logger
}

// Views are all that is looked at. They are safe for concurrent use.
type Views struct {
	o       Options
	running chan struct{} // closed when Run has begun
	stopped chan struct{} // closed when Run has ended

	mu     sync.Mutex // guards what follows, and the readers of the tables
	start  func(*table)
	tables map[place]*table
}

// place is what a table shows.
type place struct {
	schema.GroupVersionResource
	namespace string // empty: all
}

// New looks at nothing yet.
func New(o Options) *Views {
	if o.Idle == 0 {
		o.Idle = idle
	}
	if o.Said == nil {
		o.Said = func(string, string) []string { return nil }
	}
	if o.Mask == nil {
		o.Mask = func(_, text string) string { return text }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Views{o: o, running: make(chan struct{}), stopped: make(chan struct{}), tables: make(map[place]*table)}
}

// Run lets people look until ctx ends, whose error it returns. It is called once.
func (v *Views) Run(ctx context.Context) error {
	defer close(v.stopped)
	var watches sync.WaitGroup
	v.mu.Lock()
	v.start = func(t *table) {
		ctx, cancel := context.WithCancel(ctx)
		t.stop = cancel
		watches.Go(func() { t.run(ctx) })
	}
	v.mu.Unlock()
	close(v.running)
	<-ctx.Done()
	v.mu.Lock()
	v.start = nil
	for at, t := range v.tables {
		delete(v.tables, at)
		if t.leaving != nil {
			t.leaving.Stop()
		}
		t.fail(&Error{Code: codes.Unavailable, Message: "the agent is stopping"})
	}
	v.mu.Unlock()
	watches.Wait()
	return ctx.Err()
}

// Objects sends what the request names: first all that there is, the last of it with Snapshot set, then what changes. It
// returns when ctx ends or send fails, with that error, or an *Error when there is nothing to look at. send is called by one
// goroutine; while it blocks, changes of one object become one.
func (v *Views) Objects(ctx context.Context, req *tunnelapi.ObjectsRequest, send func(*tunnelapi.ObjectsEvent) error) error {
	select {
	case <-v.running:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case (req.GetService() != "") == (req.GetView() != nil):
		return &Error{Code: codes.InvalidArgument, Message: "want either a service or a kind to look at"}
	case req.GetView() != nil:
		return v.kind(ctx, req.GetView(), send)
	}
	return v.service(ctx, req.GetService(), send)
}

// open returns the table of a place, which is kept until close is called for it as often.
func (v *Views) open(at place, gvk schema.GroupVersionKind, res kinds.Resource) (*table, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.tables[at]
	if t == nil {
		if v.start == nil {
			return nil, &Error{Code: codes.Unavailable, Message: "the agent is stopping"}
		}
		if len(v.tables) >= maxTables && !v.evict() {
			return nil, &Error{
				Code: codes.ResourceExhausted, Message: fmt.Sprintf("%d kinds are being looked at in this cluster already", maxTables),
				Fix: "close other views, or try again in a minute",
			}
		}
		t = newTable(v, at, gvk, res)
		v.tables[at] = t
		v.start(t)
	}
	t.readers++
	if t.leaving != nil {
		t.leaving.Stop()
		t.leaving = nil
	}
	return t, nil
}

// close lets a table go that open returned: at once when it has failed, else when nobody opens it for a while.
func (v *Views) close(t *table) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t.readers--
	switch {
	case t.readers > 0 || v.tables[t.at] != t:
	case t.failure() != nil:
		v.drop(t)
	default:
		t.leaving = time.AfterFunc(v.o.Idle, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			if t.readers == 0 && v.tables[t.at] == t {
				v.drop(t)
			}
		})
	}
}

// drop is called with mu held.
func (v *Views) drop(t *table) {
	delete(v.tables, t.at)
	if t.leaving != nil {
		t.leaving.Stop()
	}
	t.stop()
}

// evict drops a table that nobody looks at. It is called with mu held.
func (v *Views) evict() bool {
	for _, t := range v.tables {
		if t.readers == 0 {
			v.drop(t)
			return true
		}
	}
	return false
}

// failed makes the next reader of the place get a new table.
func (v *Views) failed(t *table) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tables[t.at] == t {
		v.drop(t)
	}
}

// Tables is how many tables are kept up now.
func (v *Views) Tables() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.tables)
}
