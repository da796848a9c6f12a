package join

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Each address has so many tries at once, and one more each of these. A whole fleet may come from one address, that of its
// gateway, and be rolled out at once.
const (
	burst = 100
	each  = time.Second / 4
	// maxSenders bounds the addresses that are remembered. Those that come beyond share one allowance.
	maxSenders = 4096
)

// limits are how often each address may still try.
type limits struct {
	now func() time.Time

	mu      sync.Mutex // guards what follows
	senders map[string]*rate.Limiter
	others  *rate.Limiter
	// swept is when those were forgotten last that may try as often as anybody.
	swept time.Time
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, senders: map[string]*rate.Limiter{}, others: allowance()}
}

func allowance() *rate.Limiter { return rate.NewLimiter(rate.Every(each), burst) }

func (l *limits) allow(sender string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, name := l.now(), network(sender)
	limiter, known := l.senders[name]
	if !known {
		if len(l.senders) >= maxSenders && now.Sub(l.swept) >= time.Second {
			l.forget(now)
		}
		if limiter = l.others; len(l.senders) < maxSenders {
			limiter = allowance()
			l.senders[name] = limiter
		}
	}
	return limiter.AllowN(now, 1)
}

// forget drops those whose allowance is whole again.
func (l *limits) forget(now time.Time) {
	l.swept = now
	for name, limiter := range l.senders {
		if limiter.TokensAt(now) >= burst {
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
