package cache

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sync/singleflight"
)

// source writes one bundle; it may be called again.
type source func(w io.Writer) error

// work runs do under the cache's life, unless that is over.
func (c *Cache) work(key string, do func(ctx context.Context, key string) (level, error)) (level, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return "", ErrClosed
	}
	c.working.Add(1)
	c.mu.Unlock()
	defer c.working.Done()
	return do(c.life, key)
}

// walk brings a bundle to this disk from the first level that has it.
func (c *Cache) walk(ctx context.Context, key string) (level, error) {
	if at := c.here(key); at != "" {
		return at, nil
	}
	if c.options.Peer != nil && c.fromPeer(ctx, key) {
		return levelPeer, nil
	}
	return wait(ctx, c.startPack(key))
}

// here says whether the bundle is on disk, or at least in memory, once that has been looked at.
func (c *Cache) here(key string) level {
	if c.disk.check(key) {
		return levelDisk
	}
	blob := c.memory.peek(key)
	if blob == nil {
		return ""
	}
	if c.disk.write(key, blob.copyTo) == nil { // the disk takes bundles again
		c.memory.drop(blob)
		return levelDisk
	}
	c.memory.prolong(blob)
	return levelMemory
}

// fromPeer says whether the peer had the bundle. Whatever is wrong with a peer, there is one more level.
func (c *Cache) fromPeer(ctx context.Context, key string) bool {
	if !c.peerSlots.take(ctx) {
		return false
	}
	defer c.peerSlots.give()
	ctx, cancel := context.WithTimeout(ctx, c.options.PeerTimeout)
	defer cancel()
	size, err := c.keep(ctx, key, func(w io.Writer) error {
		body, err := c.options.Peer(ctx, key)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, body)
		return errors.Join(err, body.Close())
	})
	switch {
	case err == nil:
		c.metrics.hit(levelPeer, size)
	case errors.Is(err, fs.ErrNotExist):
		c.metrics.miss(levelPeer)
	default:
		c.metrics.fail(levelPeer)
		c.options.Log.Debug("peer did not give the bundle, it is packed here", "key", key, "error", err)
	}
	return err == nil
}

// startPack waits for the one pack of a key that is under way, or starts it.
func (c *Cache) startPack(key string) <-chan singleflight.Result {
	return c.packs.DoChan(key, func() (any, error) { return c.work(key, c.pack) })
}

func (c *Cache) pack(ctx context.Context, key string) (level, error) {
	if at := c.here(key); at != "" { // packed by the one before, between this caller's look and now
		return at, nil
	}
	if !c.packerSlots.take(ctx) {
		return "", context.Cause(ctx)
	}
	defer c.packerSlots.give()
	ctx, cancel := context.WithTimeout(ctx, c.options.PackTimeout)
	defer cancel()
	began := time.Now()
	size, err := c.keep(ctx, key, func(w io.Writer) error { return c.options.Pack(ctx, key, w) })
	switch {
	case err == nil:
		c.metrics.hit(levelPack, size)
		c.metrics.packSeconds.Observe(time.Since(began).Seconds())
	case errors.Is(err, fs.ErrNotExist):
		c.metrics.miss(levelPack)
	default:
		c.metrics.fail(levelPack)
	}
	return levelPack, err
}

// keep puts what a source writes on disk, or into memory when the disk does not take it. It returns the size.
func (c *Cache) keep(ctx context.Context, key string, from source) (int64, error) {
	counted := &counter{}
	err := c.disk.write(key, func(w io.Writer) error {
		*counted = counter{w: w}
		return from(counted)
	})
	if trouble := new(diskError); errors.As(err, &trouble) {
		return c.keepAside(ctx, key, from, trouble)
	}
	return counted.n, err
}

// keepAside serves what the disk does not take: read into memory, so that its size is known, it goes to disk after all
// when evicting as much has made room.
func (c *Cache) keepAside(ctx context.Context, key string, from source, trouble *diskError) (int64, error) {
	if !c.memory.filling.take(ctx) {
		return 0, context.Cause(ctx)
	}
	defer c.memory.filling.give()
	blob, err := newBlob(key, from)
	if err != nil {
		return 0, err
	}
	size := int64(len(blob.data))
	if trouble.full() && c.disk.makeRoom(size) && c.disk.write(key, blob.copyTo) == nil {
		return size, nil
	}
	return size, c.memory.put(blob)
}

// counter counts the bytes on their way to w.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
