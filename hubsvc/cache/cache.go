// Package cache owns the bundles on this replica's disk.
//
// [Cache.Open] gives a bundle from disk, or has it packed once for all who wait for it. A bundle is named by its
// content, so nothing here is ever out of date, and the whole folder may be deleted at any time. Each file's name carries
// a digest of its bytes, which are compared before the file is served: what a failing disk has changed is packed again.
//
// The package knows neither git nor what a key means: a [Packer] turns a key into bytes. A file that is on disk is
// opened without asking it.
package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/pluralsh/plural/api/bundle"
)

// Packer writes the bundle of a key. It fails when nobody can say any more what the key stands for.
type Packer func(ctx context.Context, key string, w io.Writer) error

// Options are a cache's folder and bounds.
type Options struct {
	// Dir is the cache's own folder, made when missing.
	Dir string
	// MaxBytes bounds all files together; zero means 4 GiB. The newest file stays even if it alone is larger.
	MaxBytes int64
	// PackTimeout bounds one call of the packer; zero means two minutes.
	PackTimeout time.Duration
	// Pack makes what is not on disk.
	Pack Packer
	// Log gets what somebody should look at; nil means slog.Default.
	Log *slog.Logger
}

// Stats count since the cache was made.
type Stats struct {
	// Hits were served from disk, Misses had to wait for a pack.
	Hits, Misses int64
	// Packs counts calls of the packer, Corrupt the files found damaged, Evicted those that had to make room.
	Packs, Corrupt, Evicted int64
	// Files and Bytes are on disk now.
	Files, Bytes int64
}

// ErrKey refuses what is no bundle key.
var ErrKey = errors.New("not a bundle key")

// ErrClosed is returned once the cache is closed.
var ErrClosed = errors.New("bundle cache is closed")

// Cache is safe for concurrent use by one process per folder.
type Cache struct {
	root    *os.Root
	options Options
	flight  singleflight.Group
	packing sync.WaitGroup
	// life ends with Close. A pack runs under it, because it outlives the request that started it.
	life context.Context //nolint:containedctx // the cache's own lifetime, not a caller's
	stop context.CancelFunc

	// mu guards what follows.
	mu     sync.Mutex
	index  index
	stats  Stats
	closed bool
}

// New opens the folder, takes in what an earlier process left in it, and removes what was half written.
func New(options Options) (*Cache, error) {
	if options.MaxBytes == 0 {
		options.MaxBytes = 4 << 30
	}
	if options.PackTimeout == 0 {
		options.PackTimeout = 2 * time.Minute
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	if err := os.MkdirAll(options.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("open bundle cache: %w", err)
	}
	root, err := os.OpenRoot(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("open bundle cache: %w", err)
	}
	index, err := loadIndex(root)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open bundle cache: %w", err), root.Close())
	}
	c := &Cache{root: root, options: options, index: index}
	c.life, c.stop = context.WithCancel(context.Background())
	c.evict()
	return c, nil
}

// Close stops packs that are under way and waits for them. Files that were opened stay readable.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.packing.Wait()
	return c.root.Close()
}

// Stats gives the counters as they are now.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Files, s.Bytes = int64(len(c.index.files)), c.index.bytes
	return s
}

// Object is an open bundle; the caller closes it. It stays readable when the cache drops the file meanwhile.
type Object struct {
	*os.File
	// Size is in bytes.
	Size int64
	// ModTime is when it was packed here.
	ModTime time.Time
}

// Open gives the bundle of a key. When ctx ends first, Open returns its cause while the pack goes on for whoever asks
// next. A string of another shape than a key's is ErrKey.
func (c *Cache) Open(ctx context.Context, key string) (*Object, error) {
	if !bundle.ValidKey(key) {
		return nil, fmt.Errorf("open bundle %.80q: %w", key, ErrKey)
	}
	if obj, ok := c.fromDisk(key); ok {
		c.count(func(s *Stats) { s.Hits++ })
		return obj, nil
	}
	c.count(func(s *Stats) { s.Misses++ })
	if err := c.packOnce(ctx, key); err != nil {
		return nil, fmt.Errorf("open bundle %s: %w", key, err)
	}
	obj, ok := c.fromDisk(key)
	if !ok {
		return nil, fmt.Errorf("open bundle %s: gone from disk right after it was packed", key)
	}
	return obj, nil
}

func (c *Cache) count(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.stats)
}

// fromDisk opens the file of a key if it is there and sound.
func (c *Cache) fromDisk(key string) (*Object, bool) {
	c.mu.Lock()
	f, ok := c.index.use(key)
	c.mu.Unlock()
	if !ok {
		return nil, false
	}
	obj, verified, err := f.open(c.root)
	if err == nil {
		c.mu.Lock()
		c.index.verified(f, verified)
		c.mu.Unlock()
		return obj, true
	}
	if !errors.Is(err, fs.ErrNotExist) { // people may delete files by hand
		c.options.Log.Error("cached bundle is unusable and is packed again", "key", key, "error", err)
		c.count(func(s *Stats) { s.Corrupt++ })
	}
	c.drop(f)
	return nil, false
}

func (c *Cache) drop(f *file) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.index.remove(f) {
		c.unlink(f)
	}
}

// unlink removes a file that the index no longer has; on Unix those who have it open read on.
func (c *Cache) unlink(f *file) {
	if err := c.root.Remove(f.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.options.Log.Error("cached bundle cannot be removed", "key", f.key, "error", err)
	}
}

// evict makes room; the newest file stays.
func (c *Cache) evict() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.index.bytes > c.options.MaxBytes && len(c.index.files) > 1 {
		oldest := c.index.oldest()
		c.index.remove(oldest)
		c.unlink(oldest)
		c.stats.Evicted++
	}
}
