package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func key(n int) string { return fmt.Sprintf("b1-%064x", n) }

// content is a bundle that is too large to be kept in memory.
func content(key string) string { return strings.Repeat("bundle "+key+"\n", 3600) }

// space is what it takes on disk.
const space = 66 * block

func echo(_ context.Context, key string, w io.Writer) error {
	_, err := io.WriteString(w, content(key))
	return err
}

var errPack = errors.New("no such commit")

func never(context.Context, string, io.Writer) error { return errPack }

// watched is a cache with its figures.
type watched struct {
	*Cache
	figures *prometheus.Registry
}

func open(t *testing.T, o Options) watched {
	t.Helper()
	w := watched{figures: prometheus.NewRegistry()}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.Log, o.Metrics = slog.New(slog.DiscardHandler), w.figures
	var err error
	if w.Cache, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// figure gives a metric without its prefix; labels are values that its series must have.
func (w watched) figure(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := w.figures.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "plural_hub_bundle_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			if matches(m.GetLabel(), labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func matches(have []*dto.LabelPair, want []string) bool {
	left := len(want)
	for _, pair := range have {
		for _, value := range want {
			if pair.GetValue() == value {
				left--
			}
		}
	}
	return left == 0
}

// expect compares figures: "opens_total peer hit": 1.
func (w watched) expect(t *testing.T, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		fields := strings.Fields(name)
		if got := w.figure(t, fields[0], fields[1:]...); got != value {
			t.Errorf("%s is %v, want %v", name, got, value)
		}
	}
}

func (w watched) read(t *testing.T, key string) {
	t.Helper()
	obj, err := w.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Close()
	data, err := io.ReadAll(obj)
	if err != nil || string(data) != content(key) || obj.Size != int64(len(data)) || len(obj.Digest) != 64 {
		t.Fatalf("read %.80q, %v; %d bytes with digest %q", data, err, obj.Size, obj.Digest)
	}
}

// only gives the one file in the cache's folder.
func only(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("folder holds %v, %v; want one file", entries, err)
	}
	return filepath.Join(dir, entries[0].Name())
}

func TestBundleIsPackedOnceAndThenServedFromDisk(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Options{Dir: dir, Pack: echo})
	c.read(t, key(1))
	c.read(t, key(1))
	c.expect(t, map[string]float64{
		"opens_total disk hit": 1, "opens_total disk miss": 1, "opens_total pack hit": 1, "pack_seconds": 1,
		"files": 1, "bytes disk": space, "opened_bytes_total disk": float64(len(content(key(1)))),
	})
	again := open(t, Options{Dir: dir, Pack: never})
	again.read(t, key(1))
	again.expect(t, map[string]float64{"opens_total disk hit": 1, "opens_total disk miss": 0})
}

func TestAllWhoWaitShareOneWalk(t *testing.T) {
	var peers, packs atomic.Int32
	release := make(chan struct{})
	c := open(t, Options{
		Peer: func(context.Context, string) (io.ReadCloser, error) {
			peers.Add(1)
			<-release
			return nil, errPack
		},
		Pack: func(ctx context.Context, key string, w io.Writer) error {
			packs.Add(1)
			return echo(ctx, key, w)
		},
	})
	var asked atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			asked.Add(1)
			obj, err := c.Open(t.Context(), key(1))
			if err != nil {
				t.Error(err)
				return
			}
			_ = obj.Close()
		})
	}
	for asked.Load() < 8 {
		runtime.Gosched()
	}
	close(release)
	wg.Wait()
	if peers.Load() != 1 || packs.Load() != 1 {
		t.Errorf("%d calls of the peer, %d packs", peers.Load(), packs.Load())
	}
}

func TestCallerWhoLeavesDoesNotStopThePackForOthers(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	c := open(t, Options{Pack: func(ctx context.Context, key string, w io.Writer) error {
		close(started)
		<-release
		return errors.Join(ctx.Err(), echo(ctx, key, w))
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := c.Open(ctx, key(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	close(release)
	c.read(t, key(1))
}

func TestFailedPackLeavesNothingAndIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	fail := true
	c := open(t, Options{Dir: dir, Pack: func(ctx context.Context, key string, w io.Writer) error {
		err := echo(ctx, key, w)
		if fail {
			return errPack
		}
		return err
	}})
	if _, err := c.Open(t.Context(), key(1)); !errors.Is(err, errPack) {
		t.Errorf("Open: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("folder holds %v", entries)
	}
	fail = false
	c.read(t, key(1))
	c.expect(t, map[string]float64{"opens_total pack error": 1, "opens_total pack hit": 1, "queue pack running": 0})
}

func TestNoMorePacksRunThanThereAreProcessors(t *testing.T) {
	var running, most atomic.Int32
	c := open(t, Options{Pack: func(ctx context.Context, key string, w io.Writer) error {
		now := running.Add(1)
		defer running.Add(-1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		runtime.Gosched()
		return echo(ctx, key, w)
	}})
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() { c.read(t, key(n)) })
	}
	wg.Wait()
	if got := int(most.Load()); got > runtime.GOMAXPROCS(0) {
		t.Errorf("%d packs ran at a time", got)
	}
}

func TestLeftoversOfAKilledProcessAreRemoved(t *testing.T) {
	dir := t.TempDir()
	first := open(t, Options{Dir: dir, Pack: echo})
	first.read(t, key(1))
	whole := only(t, dir)
	digest := strings.Split(filepath.Base(whole), ".")[1]
	for _, name := range []string{tempPrefix + "half", key(1) + "." + digest + ".TWICE"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content(key(1))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, Options{Dir: dir, Pack: never})
	c.read(t, key(1))
	if name := only(t, dir); !strings.Contains(name, key(1)) {
		t.Errorf("folder holds %s", name)
	}
	c.expect(t, map[string]float64{"bytes disk": space})
}

func TestLeastRecentlyUsedGoesFirstAndOpenFilesStayReadable(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Options{Dir: dir, Pack: echo, MaxBytes: 3 * space})
	for n := range 3 {
		c.read(t, key(n))
	}
	held, err := c.Open(t.Context(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	c.read(t, key(0))
	c.read(t, key(2))
	c.read(t, key(3))
	c.expect(t, map[string]float64{"evictions_total": 1, "files": 3, "bytes disk": 3 * space})
	if data, err := io.ReadAll(held); err != nil || string(data) != content(key(1)) {
		t.Errorf("evicted while open: %.80q, %v", data, err)
	}
	c.read(t, key(0))
	c.expect(t, map[string]float64{"opens_total pack hit": 4}) // the recently used is still there
	open(t, Options{Dir: dir, Pack: never}).expect(t, map[string]float64{"files": 3})
}

func TestManyReadersOfMoreThanFits(t *testing.T) {
	c := open(t, Options{Pack: echo, MaxBytes: 4 * space})
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 40 {
				obj, err := c.Open(t.Context(), key((n+i)%12))
				if errors.Is(err, ErrNoRoom) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				data, err := io.ReadAll(obj)
				if err != nil || string(data) != content(key((n+i)%12)) {
					t.Errorf("read %.80q, %v", data, err)
				}
				_ = obj.Close()
			}
		})
	}
	wg.Wait()
	if bytes := c.figure(t, "bytes", "disk"); bytes > 4*space {
		t.Errorf("%v bytes on disk", bytes)
	}
}

func TestSmallBundlesAreServedFromMemoryWhileTheyAreAskedFor(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Options{Dir: dir, Pack: func(_ context.Context, key string, w io.Writer) error {
		_, err := io.WriteString(w, "bundle "+key+strings.Repeat(".", hotFile-200))
		return err
	}})
	const many = 3 * hotBytes / hotFile
	for n := range many {
		for range 2 {
			obj, err := c.Open(t.Context(), key(n))
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(obj)
			if err != nil || !strings.HasPrefix(string(data), "bundle "+key(n)+".") || obj.Size != int64(len(data)) {
				t.Fatalf("read %.80q, %v", data, err)
			}
			if err := obj.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	c.expect(t, map[string]float64{"opens_total memory hit": many, "opens_total pack hit": many, "files": many})
	if bytes := c.figure(t, "bytes", "memory"); bytes > 2*hotBytes {
		t.Errorf("%v bytes in memory", bytes)
	}
}

func TestOnlyKeysAreOpened(t *testing.T) {
	c := open(t, Options{Pack: echo})
	for _, bad := range []string{
		"", "../../etc/passwd", "b1-" + strings.Repeat("g", 64), key(1) + "/..", strings.ToUpper(key(0xabc)), key(1) + "\n",
	} {
		if _, err := c.Open(t.Context(), bad); !errors.Is(err, ErrKey) {
			t.Errorf("Open(%q): %v", bad, err)
		}
	}
}

func TestCloseStopsAPackAndWaits(t *testing.T) {
	started := make(chan struct{})
	c := open(t, Options{Pack: func(ctx context.Context, _ string, _ io.Writer) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}})
	done := make(chan error, 1)
	go func() {
		_, err := c.Open(t.Context(), key(1))
		done <- err
	}()
	<-started
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	if _, err := c.Open(t.Context(), key(2)); !errors.Is(err, ErrClosed) {
		t.Errorf("Open after Close: %v", err)
	}
}
