package kubeapi

import (
	"context"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// register takes an exchange in; false when there are to be no new ones.
func (p *Proxy) register(x *exchange) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return false
	}
	p.exchanges[x] = struct{}{}
	p.expire(x)
	return true
}

// expire has the exchange looked at again when its credential expires. p.mu is held.
func (p *Proxy) expire(x *exchange) {
	if x.expiry != nil {
		x.expiry.Stop()
		x.expiry = nil
	}
	if until := x.who.Expires; !until.IsZero() {
		x.expiry = time.AfterFunc(max(until.Sub(p.Now()), minExpiry), func() {
			if p.check(x) {
				p.again(x)
			}
		})
	}
}

// minExpiry is how soon an expiry is looked at again which the timer was too early for: it runs by another clock.
const minExpiry = 50 * time.Millisecond

func (p *Proxy) again(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, under := p.exchanges[x]; under {
		p.expire(x)
	}
}

func (p *Proxy) deregister(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.exchanges, x)
	if x.expiry != nil {
		x.expiry.Stop()
	}
	if len(p.exchanges) == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// check says whether an exchange may go on, and ends it if not.
func (p *Proxy) check(x *exchange) bool {
	if p.holds(x) {
		return true
	}
	x.cancel(errWithdrawn)
	return false
}

// holds asks everything again that the exchange began with.
func (p *Proxy) holds(x *exchange) bool {
	p.mu.Lock()
	was := x.who
	p.mu.Unlock()
	is := was
	if p.Again != nil {
		var err error
		if is, err = p.Again(was); err != nil || shrunk(was, is) {
			return false
		}
	}
	if !is.Expires.IsZero() && !p.Now().Before(is.Expires) {
		return false
	}
	if !p.Sees(is, x.cluster) || p.Allow(is, x.cluster, x.query) != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, under := p.exchanges[x]; under && !is.Expires.Equal(x.who.Expires) {
		x.who.Expires = is.Expires
		p.expire(x)
	}
	return true
}

// Recheck ends the requests of people who have gone, or may no more do what they do. It is to be called whenever that may
// have changed.
func (p *Proxy) Recheck() {
	for _, x := range p.underway() {
		p.check(x)
	}
}

// Streams is how many requests are under way.
func (p *Proxy) Streams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.exchanges)
}

func (p *Proxy) underway() []*exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*exchange, 0, len(p.exchanges))
	for x := range p.exchanges {
		all = append(all, x)
	}
	return all
}

// Drain takes no more requests, ends watches so that their clients go on elsewhere, and waits for the rest until ctx ends.
// What is still there then is cut off. Nothing is under way when it returns.
func (p *Proxy) Drain(ctx context.Context) {
	idle := p.leave()
	for _, x := range p.underway() {
		if x.class == tunnelapi.Class_WATCH {
			x.cancel(errDraining)
		}
	}
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	for _, x := range p.underway() {
		x.cancel(errDraining)
	}
	<-idle
}

// leave takes no more exchanges; the channel is closed when there are none.
func (p *Proxy) leave() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	if len(p.exchanges) == 0 {
		close(idle)
		p.idle = nil
	}
	return idle
}
