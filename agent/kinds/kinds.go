package kinds

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// askAgain is how long a kind that was not there is not looked for again: a render that waits for a kind that nobody
// defines would have the API server describe itself over and over.
const askAgain = 10 * time.Second

// Kinds caches discovery. It is safe for concurrent use.
type Kinds struct {
	client  *discovery.DiscoveryClient
	current atomic.Pointer[Catalog]

	mu sync.Mutex // held while the API server is asked; guards what follows
	// last is the newest catalog, also when current was forgotten.
	last *Catalog
	// asked is when each missing kind was last looked for in vain.
	asked map[schema.GroupVersionKind]time.Time
}

// New asks nobody yet.
func New(client *discovery.DiscoveryClient) *Kinds {
	return &Kinds{client: client, asked: map[schema.GroupVersionKind]time.Time{}}
}

// With returns a catalog that, if the cluster serves them, holds all wanted kinds. For the same missing kind the API
// server is asked at most every 10 s, unless Forget was called.
func (k *Kinds) With(ctx context.Context, wanted []schema.GroupVersionKind) (*Catalog, error) {
	if known := k.current.Load(); known != nil && len(missing(known, wanted)) == 0 {
		return known, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.current.Load() // somebody may have asked meanwhile
	if known != nil && k.lookedFor(missing(known, wanted)) {
		return known, nil
	}
	fresh, err := k.refresh(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, gvk := range missing(fresh, wanted) {
		k.asked[gvk] = now
	}
	return fresh, nil
}

func missing(c *Catalog, wanted []schema.GroupVersionKind) []schema.GroupVersionKind {
	return slices.Collect(func(yield func(schema.GroupVersionKind) bool) {
		for _, gvk := range wanted {
			if !c.Serves(gvk) && !yield(gvk) {
				return
			}
		}
	})
}

// lookedFor says that each of the kinds was looked for a moment ago.
func (k *Kinds) lookedFor(kinds []schema.GroupVersionKind) bool {
	for gvk, at := range k.asked {
		if time.Since(at) >= askAgain {
			delete(k.asked, gvk)
		}
	}
	return !slices.ContainsFunc(kinds, func(gvk schema.GroupVersionKind) bool {
		_, ok := k.asked[gvk]
		return !ok
	})
}

// Refresh asks the API server. Groups that do not answer keep what was known of them.
func (k *Kinds) Refresh(ctx context.Context) (*Catalog, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refresh(ctx)
}

func (k *Kinds) refresh(ctx context.Context) (*Catalog, error) {
	groups, lists, err := k.client.ServerGroupsAndResourcesWithContext(ctx)
	broken, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	fresh := newCatalog(groups, lists)
	for gv := range broken {
		fresh.silent[gv.Group] = true
		if k.last != nil {
			fresh.inherit(k.last, gv)
		}
	}
	k.last = fresh
	k.current.Store(fresh)
	return fresh, nil
}

// Forget makes the next With ask again.
func (k *Kinds) Forget() { k.current.Store(nil) }
