package cache

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// packOnce waits for the one pack of a key that is under way, or starts it.
func (c *Cache) packOnce(ctx context.Context, key string) error {
	done := c.flight.DoChan(key, func() (any, error) {
		if !c.begin() {
			return nil, ErrClosed
		}
		defer c.packing.Done()
		packing, cancel := context.WithTimeout(c.life, c.options.PackTimeout)
		defer cancel()
		return nil, c.pack(packing, key)
	})
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case result := <-done:
		return result.Err
	}
}

// begin makes Close wait for one more pack, unless it waits already.
func (c *Cache) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.packing.Add(1)
	}
	return !c.closed
}

// pack writes a bundle under a temporary name and gives it its own when it is whole and on disk.
func (c *Cache) pack(ctx context.Context, key string) (err error) {
	c.mu.Lock()
	_, there := c.index.use(key) // packed by the one before, between this caller's look and now
	c.mu.Unlock()
	if there {
		return nil
	}
	c.count(func(s *Stats) { s.Packs++ })
	temp := tempPrefix + rand.Text()
	out, err := c.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.root.Remove(temp))
		}
	}()
	sum := sha256.New()
	if err := c.options.Pack(ctx, key, io.MultiWriter(out, sum)); err != nil {
		return errors.Join(err, out.Close())
	}
	info, statErr := out.Stat()
	if err := errors.Join(statErr, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	f := &file{key: key, digest: hex.EncodeToString(sum.Sum(nil)), size: info.Size(), modTime: info.ModTime(), seen: info.ModTime()}
	if err := c.root.Rename(temp, f.name()); err != nil {
		return fmt.Errorf("keep bundle: %w", err)
	}
	c.keep(f)
	return nil
}

func (c *Cache) keep(f *file) {
	c.mu.Lock()
	if replaced := c.index.add(f); replaced != nil {
		c.unlink(replaced)
	}
	c.mu.Unlock()
	c.evict()
}
