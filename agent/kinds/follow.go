package kinds

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/pluralsh/plural/internal/kubewatch"
)

const (
	// quiet is how long definitions must have been left alone before discovery is asked, and hurry how long at most
	// that is waited for: an operator brings dozens at once.
	quiet = 200 * time.Millisecond
	hurry = 2 * time.Second
	// secondLook follows the first, since discovery is some moments behind the definitions.
	secondLook = 2 * time.Second
	// patience is how long discovery may take, and how long it is left alone after a failure.
	patience = 10 * time.Second
)

// definitions are the resources that add kinds to a cluster.
func definitions() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	}
}

// Follow keeps the catalog up to date, by watches on what defines kinds, until ctx ends, whose error it returns. Each time
// that the catalog's Versions differ from before, it calls changed, which must not block. Where the watches are refused,
// With still finds new kinds. The client must have no overall timeout.
func (k *Kinds) Follow(ctx context.Context, client metadata.Interface, changed func()) error {
	rung := make(chan struct{}, 1)
	var watches sync.WaitGroup
	defer watches.Wait()
	for _, res := range definitions() {
		watch := kubewatch.Watch[struct{}]{
			Source: kubewatch.Metadata(client, res, metav1.NamespaceAll),
			Reduce: func(metav1.Object) struct{} { return struct{}{} },
			Sink:   &changeNotifier{rung: rung, versions: map[string]string{}},
		}
		watches.Go(func() { watch.Run(ctx) })
	}
	told := versionsOf(k.newest())
	var later <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rung:
			awaitQuiet(ctx, rung)
			later = time.After(secondLook)
		case <-later:
			later = nil
		}
		if told == nil {
			told = versionsOf(k.newest())
		}
		now, err := k.look(ctx)
		switch {
		case err != nil:
			later = time.After(patience)
		case told != nil && !slices.Equal(told, now):
			told = now
			changed()
		default:
			told = now
		}
	}
}

func versionsOf(c *Catalog) []string {
	if c == nil {
		return nil
	}
	return c.Versions()
}

func (k *Kinds) newest() *Catalog {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// look asks discovery. If that fails, the next With asks again.
func (k *Kinds) look(ctx context.Context) ([]string, error) {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	fresh, err := k.Refresh(ctx)
	if err != nil {
		k.Forget()
		return nil, err
	}
	return fresh.Versions(), nil
}

func awaitQuiet(ctx context.Context, rung <-chan struct{}) {
	still, limit := time.NewTimer(quiet), time.NewTimer(hurry)
	defer still.Stop()
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-still.C:
			return
		case <-limit.C:
			return
		case <-rung:
			still.Reset(quiet)
		}
	}
}

// changeNotifier rings when a definition came, changed or went. A watch that starts anew and finds all as it was does not ring it.
type changeNotifier struct {
	rung     chan<- struct{}
	heard    bool
	versions map[string]string // by name
}

func (b *changeNotifier) Replace(items []kubewatch.Item[struct{}], _ string) {
	now := make(map[string]string, len(items))
	for _, item := range items {
		now[item.Name] = item.Version
	}
	if !b.heard || !maps.Equal(b.versions, now) {
		b.ring()
	}
	b.heard, b.versions = true, now
}

func (b *changeNotifier) Put(item kubewatch.Item[struct{}]) {
	b.versions[item.Name] = item.Version
	b.ring()
}

func (b *changeNotifier) Delete(item kubewatch.Item[struct{}]) {
	delete(b.versions, item.Name)
	b.ring()
}

func (b *changeNotifier) ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}
