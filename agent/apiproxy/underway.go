package apiproxy

import (
	"context"
	"errors"
	"sync"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
)

var errWithdrawn = errors.New("the cluster's policy has changed")

// underway are the requests that are being answered.
type underway struct {
	mu  sync.Mutex // guards all
	all map[*admitted]struct{}
}

// admitted is one of them.
type admitted struct {
	who *tunnelapi.Identity
	q   kubeaccess.Request
	end context.CancelCauseFunc
}

// enter notes a request until leave is called. Its context ends when Recheck finds that it may not go on.
func (u *underway) enter(ctx context.Context, who *tunnelapi.Identity, q kubeaccess.Request) (_ context.Context, leave func()) {
	ctx, end := context.WithCancelCause(ctx)
	a := &admitted{who, q, end}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[*admitted]struct{}{}
	}
	u.all[a] = struct{}{}
	return ctx, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.all, a)
		end(nil)
	}
}

// Recheck ends what the policy does not let through any more. It is to be called whenever the policy has changed.
func (h *Handler) Recheck() {
	policy := h.policy()
	h.underway.mu.Lock()
	defer h.underway.mu.Unlock()
	for a := range h.underway.all {
		if policy.forbids(a.who, a.q) != "" {
			a.end(errWithdrawn)
		}
	}
}
