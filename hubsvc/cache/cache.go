// Package cache owns the bundles that this replica can serve at once.
//
// [Cache.Open] goes through the levels: this replica's disk, the replica that owns the bundle's upstream
// ([Options.Peer]), a pack of its own ([Options.Pack]). All who miss one key wait for one walk through them, and nobody
// who finds a file waits for anybody. A bundle is named by its content, so nothing here is ever out of date, and the
// whole folder may be deleted at any time. Each file's name carries a digest of its bytes, taken when they were
// written; it is compared before the file is first served, whenever the file has another size or time than it had, and
// again once an hour while it is read. What a failing disk has changed is fetched again. What the disk cannot take is
// served from memory.
//
// The package knows neither git nor what a key means, nor who a peer is: both are functions from a key to bytes.
package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/pluralsh/plural/api/bundle"
)

// Packer writes the bundle of a key. It fails when nobody can say any more what the key stands for.
type Packer func(ctx context.Context, key string, w io.Writer) error

// Options are a cache's folder, bounds and levels.
type Options struct {
	// Dir is the cache's own folder, made when missing.
	Dir string
	// MaxBytes bounds what all files take on disk together; zero means 4 GiB. The newest stays even if it alone is
	// larger.
	MaxBytes int64
	// Peer gets a bundle from the replica that is most likely to have it; nil, and any error from it or from reading
	// what it gives, means that the bundle is packed here. It must verify what it gives until the end.
	Peer func(ctx context.Context, key string) (io.ReadCloser, error)
	// PeerTimeout bounds one call of Peer with the transfer; zero means twenty seconds.
	PeerTimeout time.Duration
	// Pack makes what is nowhere else. As many run at a time as there are processors.
	Pack Packer
	// PackTimeout bounds one call of Pack; zero means two minutes.
	PackTimeout time.Duration
	// Log gets what somebody should look at; nil means slog.Default.
	Log *slog.Logger
	// Metrics takes the cache's figures; nil means that nobody looks at them.
	Metrics prometheus.Registerer
}

// peerTransfers bounds those under way; they wait for the network and for the peer's processors.
const peerTransfers = 16

var (
	// ErrKey refuses what is no bundle key.
	ErrKey = errors.New("not a bundle key")
	// ErrClosed is returned once the cache is closed.
	ErrClosed = errors.New("bundle cache is closed")
	// ErrNoRoom says that neither the disk nor the memory set aside for its failure can take a bundle now.
	ErrNoRoom = errors.New("no room for the bundle, neither on disk nor in memory")
)

// Cache is safe for concurrent use by one process per folder.
type Cache struct {
	options Options
	disk    *disk
	memory  *memory
	metrics *metrics
	// walks go through all levels, packs through the last one alone: a pack never waits for a peer, so two replicas
	// that take each other for the owner do not wait for each other.
	walks, packs           singleflight.Group
	peerSlots, packerSlots *slots
	// life ends with Close. A walk runs under it, because it outlives the request that started it.
	life context.Context //nolint:containedctx // the cache's own lifetime, not a caller's
	stop context.CancelFunc

	working sync.WaitGroup
	mu      sync.Mutex // guards closed, and working against Close
	closed  bool
}

// New opens the folder, takes in what an earlier process left in it, and removes what was half written.
func New(options Options) (*Cache, error) {
	if options.MaxBytes == 0 {
		options.MaxBytes = 4 << 30
	}
	if options.PeerTimeout == 0 {
		options.PeerTimeout = 20 * time.Second
	}
	if options.PackTimeout == 0 {
		options.PackTimeout = 2 * time.Minute
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	m := newMetrics()
	disk, err := openDisk(options.Dir, options.MaxBytes, options.Log, m)
	if err != nil {
		return nil, fmt.Errorf("open bundle cache: %w", err)
	}
	c := &Cache{
		options: options, disk: disk, metrics: m,
		memory:      newMemory(),
		peerSlots:   newSlots(peerTransfers, m.queue, levelPeer),
		packerSlots: newSlots(runtime.GOMAXPROCS(0), m.queue, levelPack),
	}
	c.life, c.stop = context.WithCancel(context.Background())
	if options.Metrics != nil {
		m.register(options.Metrics, c)
	}
	return c, nil
}

// Close stops what is under way and waits for it. Bundles that were opened stay readable.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.working.Wait()
	return c.disk.close()
}

// Object is an open bundle; the caller closes it. It stays readable when the cache drops it meanwhile.
type Object struct {
	// ReadSeekCloser is an *os.File, but for what the disk could not take.
	io.ReadSeekCloser
	// Size is in bytes.
	Size int64
	// Digest is the SHA-256 of the bytes in hex.
	Digest string
}

// Open gives the bundle of a key, from whatever level has it first. When ctx ends before, Open returns its cause while
// the walk goes on for whoever asks next. A string of another shape than a key's is ErrKey.
func (c *Cache) Open(ctx context.Context, key string) (*Object, error) {
	return c.get(ctx, key, func() <-chan singleflight.Result {
		return c.walks.DoChan(key, func() (any, error) { return c.work(key, c.walk) })
	})
}

// OpenHere is Open for a peer that asks: this replica asks no other one.
func (c *Cache) OpenHere(ctx context.Context, key string) (*Object, error) {
	return c.get(ctx, key, func() <-chan singleflight.Result { return c.startPack(key) })
}

// get opens what is here, or waits for start to bring it. What came may have had to make room again before all who
// waited could open it; then it is brought again.
func (c *Cache) get(ctx context.Context, key string, start func() <-chan singleflight.Result) (*Object, error) {
	if !bundle.ValidKey(key) {
		return nil, fmt.Errorf("open bundle %.80q: %w", key, ErrKey)
	}
	if obj, at := c.open(key); obj != nil {
		c.metrics.served(at, obj.Size)
		return obj, nil
	}
	for range 3 {
		at, err := wait(ctx, start())
		if err != nil {
			c.metrics.miss(levelDisk)
			return nil, fmt.Errorf("open bundle %s: %w", key, err)
		}
		obj, _ := c.open(key)
		if obj == nil {
			continue
		}
		c.metrics.served(at, obj.Size)
		return obj, nil
	}
	return nil, fmt.Errorf("open bundle %s: had to make room again before it could be opened: %w", key, ErrNoRoom)
}

// open gives what needs no work before it is served; nil when there is nothing.
func (c *Cache) open(key string) (*Object, level) {
	if obj, at := c.disk.open(key); obj != nil {
		return obj, at
	}
	return c.memory.open(key), levelMemory
}

// wait gives the level that a bundle came from.
func wait(ctx context.Context, done <-chan singleflight.Result) (level, error) {
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case result := <-done:
		at, _ := result.Val.(level)
		return at, result.Err
	}
}
