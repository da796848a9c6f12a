// Package addrlimit owns a rate limit by address.
//
// It knows nothing of what is tried. Addresses of version 6 count by the network that one party has. Addresses beyond a bound
// share one allowance, so that many of them cost no more memory.
package addrlimit

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxSenders bounds the addresses that are remembered. Those that come beyond share one allowance.
const maxSenders = 4096

// Limits are how often each address may still try. They are safe for concurrent use.
type Limits struct {
	burst int
	each  time.Duration
	now   func() time.Time

	mu      sync.Mutex // guards what follows
	senders map[string]*rate.Limiter
	others  *rate.Limiter
	// swept is when the addresses whose allowance is whole were dropped last.
	swept time.Time
}

// New gives each address burst tries at once, and another one after each.
func New(burst int, each time.Duration, now func() time.Time) *Limits {
	l := &Limits{burst: burst, each: each, now: now, senders: map[string]*rate.Limiter{}}
	l.others = l.allowance()
	return l
}

func (l *Limits) allowance() *rate.Limiter { return rate.NewLimiter(rate.Every(l.each), l.burst) }

// Allow takes one try of the sender's, if there is one left.
func (l *Limits) Allow(sender string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	return l.limiter(sender, now).AllowN(now, 1)
}

// Spent says whether the sender has no try left. It takes none.
func (l *Limits) Spent(sender string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	limiter, known := l.senders[network(sender)]
	if !known && len(l.senders) < maxSenders {
		return false
	}
	if !known {
		limiter = l.others
	}
	return limiter.TokensAt(now) < 1
}

// limiter is that of an address, which is remembered if there is room.
func (l *Limits) limiter(sender string, now time.Time) *rate.Limiter {
	name := network(sender)
	limiter, known := l.senders[name]
	if known {
		return limiter
	}
	if len(l.senders) >= maxSenders && now.Sub(l.swept) >= time.Second {
		l.sweep(now)
	}
	if len(l.senders) >= maxSenders {
		return l.others
	}
	limiter = l.allowance()
	l.senders[name] = limiter
	return limiter
}

// sweep drops the addresses whose allowance is whole again.
func (l *Limits) sweep(now time.Time) {
	l.swept = now
	for name, limiter := range l.senders {
		if limiter.TokensAt(now) >= float64(l.burst) {
			delete(l.senders, name)
		}
	}
}

// network is the part of an address that one party has: all of version 4, the first half of version 6.
func network(sender string) string {
	address, err := netip.ParseAddr(sender)
	if err != nil || address.Unmap().Is4() {
		return sender
	}
	prefix, err := address.Prefix(64)
	if err != nil {
		return sender
	}
	return prefix.String()
}

// Sender is the address that a request came from.
func Sender(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
