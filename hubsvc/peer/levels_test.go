package peer

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pluralsh/plural/hubsvc/cache"
)

// replica is a bundle cache that other replicas can ask.
func replica(t *testing.T, o cache.Options) (*cache.Cache, Options) {
	t.Helper()
	o.Dir, o.Log = t.TempDir(), slog.New(slog.DiscardHandler)
	c, err := cache.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, Options{Repo: nothing, Bundle: func(ctx context.Context, key string) (io.ReadSeekCloser, string, error) {
		bundle, err := c.OpenHere(ctx, key)
		if err != nil {
			return nil, "", err
		}
		return bundle.ReadSeekCloser, bundle.Digest, nil
	}}
}

func TestOwnerPacksABundleOnceForAllReplicas(t *testing.T) {
	key, missing := "b1-"+strings.Repeat("a", 64), "b1-"+strings.Repeat("b", 64)
	var packs atomic.Int32
	_, served := replica(t, cache.Options{Pack: func(_ context.Context, k string, w io.Writer) error {
		if k != key {
			return fs.ErrNotExist
		}
		packs.Add(1)
		_, err := io.WriteString(w, strings.Repeat("bundle", 100_000))
		return err
	}})
	replicas := newAuthority(t)
	addr := serveAt(t, served, replicas.replica(), nil)
	var wg sync.WaitGroup
	for range 3 {
		client := newClient(t, replicas.replica())
		follower, _ := replica(t, cache.Options{
			Peer: func(ctx context.Context, key string) (io.ReadCloser, error) { return client.Bundle(ctx, addr, key) },
			Pack: func(_ context.Context, k string, w io.Writer) error {
				_, err := io.WriteString(w, "packed here: "+k)
				return err
			},
		})
		for range 4 {
			wg.Go(func() {
				if got := read(t, follower, key); got != strings.Repeat("bundle", 100_000) {
					t.Errorf("read %.80q", got)
				}
				if got := read(t, follower, missing); got != "packed here: "+missing {
					t.Errorf("read %.80q", got)
				}
			})
		}
	}
	wg.Wait()
	if n := packs.Load(); n != 1 {
		t.Errorf("the owner packed %d times", n)
	}
}

func read(t *testing.T, c *cache.Cache, key string) string {
	t.Helper()
	bundle, err := c.Open(t.Context(), key)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer bundle.Close()
	data, err := io.ReadAll(bundle)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}
