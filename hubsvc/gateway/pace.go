package gateway

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// An agent with much to say reports ten times a second, for as long as services come and go; one that is well, once a beat.
// Each cluster has so many reports at once, and so many more each second: what is more waits, and is overtaken by news.
const (
	reportBurst = 100
	reportRate  = 5
	// reportShare of a report's bytes count as one more report.
	reportShare = 128 << 10
	// calm is how long a cluster must have kept to its pace for another excess to be worth telling.
	calm = 10 * time.Minute
	// sweep is how often those are forgotten that have all of their reports left.
	sweep = time.Minute
)

// pace is how often each cluster may report. Clusters are those that have a key: there are not more than the fleet has had.
type pace struct {
	mu       sync.Mutex // guards what follows
	clusters map[string]*paced
	swept    time.Time
}

type paced struct {
	limiter *rate.Limiter
	refused time.Time // when last
	leapt   time.Time // when a report's number was refused last
}

// take lets one report in, or says how long its agent should wait, and whether that is news.
func (p *pace) take(cluster string, now time.Time) (wait time.Duration, news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clusters == nil || now.Sub(p.swept) >= sweep {
		p.forget(now)
	}
	c := p.clusters[cluster]
	if c == nil {
		c = &paced{limiter: rate.NewLimiter(reportRate, reportBurst)}
		p.clusters[cluster] = c
	}
	place := c.limiter.ReserveN(now, 1)
	if wait = place.DelayFrom(now); wait == 0 {
		return 0, false
	}
	place.CancelAt(now)
	news = now.Sub(c.refused) >= calm
	c.refused = now
	return wait, news
}

// leap notes that a report's number was refused, and says whether that is news.
func (p *pace) leap(cluster string, now time.Time) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clusters[cluster]
	if c == nil {
		return true
	}
	news = now.Sub(c.leapt) >= calm
	c.leapt = now
	return news
}

// charge counts the bytes of a report that was let in.
func (p *pace) charge(cluster string, now time.Time, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clusters[cluster]; c != nil {
		c.limiter.ReserveN(now, min(bytes/reportShare, reportBurst))
	}
}

func (p *pace) forget(now time.Time) {
	if p.clusters == nil {
		p.clusters = map[string]*paced{}
	}
	p.swept = now
	for name, c := range p.clusters {
		if c.limiter.TokensAt(now) >= reportBurst && now.Sub(c.refused) >= calm && now.Sub(c.leapt) >= calm {
			delete(p.clusters, name)
		}
	}
}
