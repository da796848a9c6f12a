package live

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// maxFeeds bounds how many views this replica follows at once, and maxShown how many objects one has.
	maxFeeds = 256
	maxShown = 60_000
	// maxSize bounds the bytes of one view's objects, and maxKept those of all together: an object is some hundred bytes.
	maxSize = 64 << 20
	maxKept = 256 << 20
	// maxBehind bounds what one reader does not know yet.
	maxBehind = 2 * maxShown
)

// subject is what a feed follows: a service of a cluster, or a place in it.
type subject struct {
	cluster, service string
	place
}

func (s subject) request() *tunnelapi.ObjectsRequest {
	if s.service != "" {
		return &tunnelapi.ObjectsRequest{Service: s.service}
	}
	return &tunnelapi.ObjectsRequest{View: &tunnelapi.View{Group: s.group, Version: s.version, Resource: s.resource, Namespace: s.namespace}}
}

// feeds are all that people look at through this replica. What two people look at is followed once.
type feeds struct {
	reach func(ctx context.Context, cluster string) (Agent, error)
	// idle is how long a feed outlives its last reader. settled, which is shorter, is how long a stream must have held for its
	// end to be nothing unusual: agents replace their connections now and then.
	idle, settled time.Duration
	running       chan struct{} // closed when run has begun

	mu    sync.Mutex // guards what follows, and what is said to be guarded by it
	start func(*feed)
	all   map[subject]*feed
	kept  int // bytes of the objects in all feeds
}

// feed is one subject's objects, for as long as somebody looks.
type feed struct {
	subject
	feeds *feeds
	stop  context.CancelFunc
	// readers and leaving are guarded by the feeds' mutex, as is size, which counts the objects' bytes.
	readers int
	leaving *time.Timer
	size    int

	// ready is closed when it is known what there is, ended when it will not be known any more.
	ready, ended chan struct{}

	mu       sync.Mutex // guards what follows
	known    bool       // ready is closed
	err      error
	objects  inventory
	readings map[*reading]bool
}

// reading is what one reader does not know yet. The feed's mutex guards all but wake.
type reading struct {
	wake    chan struct{}
	changed map[string]bool
	slow    bool
}

func newFeeds(reach func(context.Context, string) (Agent, error), idle time.Duration) *feeds {
	return &feeds{reach: reach, idle: idle, settled: idle / 6, running: make(chan struct{}), all: map[subject]*feed{}}
}

func (fs *feeds) run(ctx context.Context) error {
	var following sync.WaitGroup
	fs.mu.Lock()
	fs.start = func(f *feed) {
		ctx, cancel := context.WithCancel(ctx)
		f.stop = cancel
		following.Go(func() { f.run(ctx) })
	}
	fs.mu.Unlock()
	close(fs.running)
	<-ctx.Done()
	fs.mu.Lock()
	fs.start = nil
	fs.mu.Unlock()
	following.Wait()
	return ctx.Err()
}

// open returns the feed of a subject when it is known what there is. It is kept until close is called as often.
func (fs *feeds) open(ctx context.Context, s subject) (*feed, error) {
	select {
	case <-fs.running:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := fs.find(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-f.ready:
		return f, nil
	case <-f.ended:
		err = f.failure()
	case <-ctx.Done():
		err = ctx.Err()
	}
	fs.close(f)
	return nil, err
}

func (fs *feeds) find(s subject) (*feed, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.all[s]
	if f == nil {
		switch {
		case fs.start == nil:
			return nil, &Refusal{Status: http.StatusServiceUnavailable, Message: "the hub is stopping"}
		case len(fs.all) >= maxFeeds && !fs.evict():
			return nil, &Refusal{Status: http.StatusTooManyRequests, Message: "too much is being looked at", Fix: "try again in a minute"}
		}
		f = &feed{
			subject: s, feeds: fs, ready: make(chan struct{}), ended: make(chan struct{}),
			objects: newInventory(), readings: map[*reading]bool{},
		}
		fs.all[s] = f
		fs.start(f)
	}
	f.readers++
	if f.leaving != nil {
		f.leaving.Stop()
		f.leaving = nil
	}
	return f, nil
}

// close lets a feed go that open returned.
func (fs *feeds) close(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.readers--; f.readers > 0 || fs.all[f.subject] != f {
		return
	}
	f.leaving = time.AfterFunc(fs.idle, func() {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		if f.readers == 0 && fs.all[f.subject] == f {
			fs.drop(f)
		}
	})
}

// drop is called with mu held, as is evict.
func (fs *feeds) drop(f *feed) {
	delete(fs.all, f.subject)
	if f.leaving != nil {
		f.leaving.Stop()
	}
	f.stop()
}

// evict drops a feed that nobody looks at.
func (fs *feeds) evict() bool {
	for _, f := range fs.all {
		if f.readers == 0 {
			fs.drop(f)
			return true
		}
	}
	return false
}

// keep counts the bytes of a feed's objects, and says whether there is room for them.
func (fs *feeds) keep(f *feed, size int) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for fs.kept+size-f.size > maxKept {
		if !fs.evictOther(f) {
			return false
		}
	}
	fs.kept += size - f.size
	f.size = size
	return true
}

// evictOther is evict, but for one feed, and counts at once what becomes free. It is called with mu held.
func (fs *feeds) evictOther(than *feed) bool {
	for _, f := range fs.all {
		if f.readers == 0 && f != than {
			fs.kept -= f.size
			f.size = 0
			fs.drop(f)
			return true
		}
	}
	return false
}

// count is how many feeds there are.
func (fs *feeds) count() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.all)
}

// run follows until ctx ends or the agent cannot be followed. A stream that ends after a while is begun again once: what it shows
// then takes the place of what is known, and readers see what differs.
func (f *feed) run(ctx context.Context) {
	for {
		began := time.Now()
		err := f.follow(ctx)
		if ctx.Err() == nil && f.isKnown() && time.Since(began) >= f.feeds.settled {
			continue
		}
		f.end(err)
		return
	}
}

func (f *feed) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	agent, err := f.feeds.reach(ctx, f.cluster)
	if err != nil {
		return err
	}
	defer agent.Release()
	stream, err := agent.Objects(ctx, f.request())
	if err != nil {
		return err
	}
	fresh := newInventory()
	for whole := false; ; {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		if whole {
			err = f.change(event)
		} else if whole, err = f.gather(&fresh, event); whole {
			fresh = inventory{}
		}
		if err != nil {
			return err
		}
	}
}

// gather puts together what there is, and shows it when it is whole.
func (f *feed) gather(fresh *inventory, event *tunnelapi.ObjectsEvent) (whole bool, err error) {
	for _, o := range event.GetChanged() {
		fresh.put(clipped(o))
	}
	for _, uid := range event.GetDeleted() {
		fresh.delete(uid)
	}
	if err := f.fits(len(fresh.byUID), fresh.size); err != nil || !event.GetSnapshot() {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid := range f.objects.byUID {
		if fresh.byUID[uid] == nil {
			f.tell(uid)
		}
	}
	for uid, o := range fresh.byUID {
		if old := f.objects.byUID[uid]; old == nil || !same(old, o) {
			f.tell(uid)
		}
	}
	f.objects = *fresh
	if !f.known {
		f.known = true
		close(f.ready)
	}
	return true, nil
}

func same(a, b *tunnelapi.Object) bool {
	return a.GetResourceVersion() == b.GetResourceVersion() && a.GetHealth() == b.GetHealth() && a.GetMessage() == b.GetMessage() &&
		a.GetOwner() == b.GetOwner() && a.GetApplied() == b.GetApplied()
}

func (f *feed) change(event *tunnelapi.ObjectsEvent) error {
	f.mu.Lock()
	for _, o := range event.GetChanged() {
		o = clipped(o)
		f.objects.put(o)
		f.tell(o.GetUid())
	}
	for _, uid := range event.GetDeleted() {
		if f.objects.delete(uid) { // of what was never there nobody has to be told, and nothing bounds how much that is
			f.tell(uid)
		}
	}
	count, size := len(f.objects.byUID), f.objects.size
	f.mu.Unlock()
	return f.fits(count, size)
}

// fits returns an error when there are more objects than there is room for, or larger ones.
func (f *feed) fits(count, size int) error {
	if count > maxShown || size > maxSize || !f.feeds.keep(f, size) {
		return &Refusal{
			Status: http.StatusTooManyRequests, Message: fmt.Sprintf("there are too many objects to show (%d here)", count),
			Fix: "look at one namespace",
		}
	}
	return nil
}

// tell has the readers look at an object again. It is called with mu held.
func (f *feed) tell(uid string) {
	for r := range f.readings {
		if !r.slow {
			r.changed[uid] = true
			r.slow = len(r.changed) > maxBehind
		}
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// end lets the readers go.
func (f *feed) end(why error) {
	f.feeds.mu.Lock()
	f.feeds.kept -= f.size
	f.size = 0
	if f.feeds.all[f.subject] == f {
		f.feeds.drop(f)
	}
	f.feeds.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = why
	close(f.ended)
}

func (f *feed) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *feed) isKnown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known
}

// shown are all objects. The objects are read only, the slice is the caller's.
func (f *feed) shown() []*tunnelapi.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*tunnelapi.Object, 0, len(f.objects.byUID))
	for _, o := range f.objects.byUID {
		all = append(all, o)
	}
	return all
}

// read makes a reader for whom all objects are news.
func (f *feed) read() *reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &reading{wake: make(chan struct{}, 1), changed: make(map[string]bool, len(f.objects.byUID))}
	for uid := range f.objects.byUID {
		r.changed[uid] = true
	}
	r.wake <- struct{}{}
	f.readings[r] = true
	return r
}

func (f *feed) forget(r *reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readings, r)
}

// take returns what a reader does not know, which it knows then.
func (f *feed) take(r *reading) (changed []*tunnelapi.Object, deleted []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.slow {
		return nil, nil, &Refusal{Status: http.StatusTooManyRequests, Message: "changes were read too slowly"}
	}
	for uid := range r.changed {
		if o := f.objects.byUID[uid]; o != nil {
			changed = append(changed, o)
		} else {
			deleted = append(deleted, uid)
		}
	}
	clear(r.changed)
	return changed, deleted, nil
}
