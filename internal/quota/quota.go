// Package quota owns a limit on each person's open requests to the hub.
//
// It knows neither what is asked nor of whom. A place is taken before anything is looked for, and given back at the end.
package quota

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pluralsh/plural/internal/principal"
)

// How many requests, requests that read a lot of disk, and streams one person may have open, and all together.
const (
	maxRequests, maxAllRequests = 32, 512
	maxScans, maxAllScans       = 4, 16
	maxStreams, maxAllStreams   = 16, 2048
)

// patience is how long a request waits for a place, as those to clusters do: jobs that share a user begin together.
const patience = 2 * time.Second

// waiting is how many of one person's may be open or wait for a place, times what may be open.
const waiting = 4

// Quota counts what each person has open.
type Quota struct {
	each     int64
	patience time.Duration
	all      *semaphore.Weighted

	mu     sync.Mutex // guards people, and the users of each
	people map[string]*places
}

// places are kept while they are used.
type places struct {
	open  *semaphore.Weighted
	users int64 // with those who wait
}

// Requests is a quota of requests, which wait for a place for a while.
func Requests() *Quota { return newQuota(maxRequests, maxAllRequests, patience) }

// Scans is a quota of requests that read a lot of disk, which wait as others do.
func Scans() *Quota { return newQuota(maxScans, maxAllScans, patience) }

// Streams is a quota of streams. They last, so nobody waits for a place.
func Streams() *Quota { return newQuota(maxStreams, maxAllStreams, 0) }

func newQuota(each, all int64, patience time.Duration) *Quota {
	return &Quota{each: each, patience: patience, all: semaphore.NewWeighted(all), people: map[string]*places{}}
}

// Take takes a place for a person, and says whether there was one in time; done gives it back, and may be called twice.
func (q *Quota) Take(ctx context.Context, p principal.Person) (done func(), ok bool) {
	name := p.Key()
	mine := q.enter(name)
	if mine == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, q.patience)
	defer cancel()
	if !take(ctx, mine.open) { // first: nobody waits for their own while they hold other people's
		q.leave(name)
		return nil, false
	}
	if !take(ctx, q.all) {
		mine.open.Release(1)
		q.leave(name)
		return nil, false
	}
	return sync.OnceFunc(func() {
		q.all.Release(1)
		mine.open.Release(1)
		q.leave(name)
	}), true
}

func take(ctx context.Context, from *semaphore.Weighted) bool {
	return from.TryAcquire(1) || from.Acquire(ctx, 1) == nil
}

// enter finds somebody's places; nil when too many wait for them already.
func (q *Quota) enter(name string) *places {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.people[name]
	if p == nil {
		p = &places{open: semaphore.NewWeighted(q.each)}
		q.people[name] = p
	}
	if p.users >= waiting*q.each {
		return nil
	}
	p.users++
	return p
}

func (q *Quota) leave(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.people[name]
	if p.users--; p.users == 0 {
		delete(q.people, name)
	}
}
