package kubeapi

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// quotas hand out places for requests. A place is taken before anything is looked for, so that whoever has too much under
// way costs the clusters nothing.
type quotas struct {
	limits   Limits
	mu       sync.Mutex // guards what follows
	clusters map[string]*clusterQuota
	people   map[string]*personQuota
}

// clusterQuota is kept for good: there are only as many as the fleet has had clusters.
type clusterQuota struct {
	streams, watches, upgrades *semaphore.Weighted
	rate                       *rate.Limiter
}

// personQuota is kept while it is used.
type personQuota struct {
	unary, watches, upgrades *semaphore.Weighted
	users                    int // with those who wait; guarded by quotas.mu
}

func newQuotas(l Limits) *quotas {
	return &quotas{limits: l, clusters: map[string]*clusterQuota{}, people: map[string]*personQuota{}}
}

// place is what one request holds.
type place struct {
	of     *quotas
	person string
	bounds [3]bound
	held   int // so many of bounds
}

func (p *place) release() {
	for _, b := range p.bounds[:p.held] {
		b.slots.Release(1)
	}
	p.of.leave(p.person)
}

// take waits for a place, until ctx ends or the wait is over; bound then is what there was none of. Paced is asked once the place
// is there, so that a request without one costs nothing; and before the cluster's rate, so that it takes nobody's turn in vain.
func (q *quotas) take(
	ctx context.Context, cluster, person string, class tunnelapi.Class, paced func() bool,
) (got *place, bound string) {
	c, p := q.enter(cluster, person)
	if p == nil {
		return nil, "person-queue"
	}
	ctx, cancel := context.WithTimeout(ctx, q.limits.Wait)
	defer cancel()
	got = &place{of: q, person: person, bounds: bounds(c, p, class)}
	switch bound = got.fill(ctx); {
	case bound != "":
	case !paced():
		bound = "person-record"
	case c.rate.Wait(ctx) != nil:
		bound = "cluster-rate"
	default:
		return got, ""
	}
	got.release()
	return nil, bound
}

// fill waits for all of a place, until ctx ends; bound then is what there was none of.
func (p *place) fill(ctx context.Context) (bound string) {
	for _, of := range p.bounds {
		if of.slots == nil {
			break
		}
		if of.slots.Acquire(ctx, 1) != nil {
			return of.name
		}
		p.held++
	}
	return ""
}

type bound struct {
	name  string
	slots *semaphore.Weighted
}

// bounds are in the order in which places are taken: nobody waits for their own while they hold other people's.
func bounds(c *clusterQuota, p *personQuota, class tunnelapi.Class) [3]bound {
	all := bound{"cluster-streams", c.streams}
	switch class {
	case tunnelapi.Class_WATCH:
		return [3]bound{{"person-watches", p.watches}, {"cluster-watches", c.watches}, all}
	case tunnelapi.Class_UPGRADE:
		return [3]bound{{"person-upgrades", p.upgrades}, {"cluster-upgrades", c.upgrades}, all}
	default:
		return [3]bound{{"person-requests", p.unary}, all}
	}
}

// enter finds the quotas; the person's is nil when too many of their requests wait already.
func (q *quotas) enter(cluster, person string) (*clusterQuota, *personQuota) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.clusters[cluster]
	if c == nil {
		c = &clusterQuota{
			slots(q.limits.ClusterStreams), slots(q.limits.ClusterWatches), slots(q.limits.ClusterUpgrades),
			rate.NewLimiter(rate.Limit(q.limits.OpenRate), q.limits.OpenRate),
		}
		q.clusters[cluster] = c
	}
	p := q.people[person]
	if p == nil {
		p = &personQuota{slots(q.limits.PersonUnary), slots(q.limits.PersonWatches), slots(q.limits.PersonUpgrades), 0}
		q.people[person] = p
	}
	if p.users >= 4*(q.limits.PersonUnary+q.limits.PersonWatches+q.limits.PersonUpgrades) {
		return c, nil
	}
	p.users++
	return c, p
}

func (q *quotas) leave(person string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.people[person]
	if p.users--; p.users == 0 {
		delete(q.people, person)
	}
}

func slots(n int) *semaphore.Weighted { return semaphore.NewWeighted(int64(n)) }
