package cache

import (
	"bytes"
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

	"github.com/google/go-cmp/cmp"
)

func key(n int) string { return fmt.Sprintf("b1-%064x", n) }

func echo(_ context.Context, key string, w io.Writer) error {
	_, err := io.WriteString(w, "bundle "+key)
	return err
}

var errPack = errors.New("no such commit")

func never(context.Context, string, io.Writer) error { return errPack }

func open(t *testing.T, dir string, pack Packer) *Cache {
	t.Helper()
	c, err := New(Options{Dir: dir, Pack: pack, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func read(t *testing.T, c *Cache, key string) {
	t.Helper()
	obj, err := c.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Close()
	data, err := io.ReadAll(obj)
	if err != nil || string(data) != "bundle "+key || obj.Size != int64(len(data)) || obj.ModTime.IsZero() {
		t.Fatalf("read %q, %v; %d bytes of %v", data, err, obj.Size, obj.ModTime)
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
	c := open(t, dir, echo)
	read(t, c, key(1))
	read(t, c, key(1))
	want := Stats{Hits: 1, Misses: 1, Packs: 1, Files: 1, Bytes: int64(len("bundle " + key(1)))}
	if diff := cmp.Diff(want, c.Stats()); diff != "" {
		t.Error(diff)
	}
	read(t, open(t, dir, never), key(1))
}

func TestAllWhoWaitShareOnePack(t *testing.T) {
	var packs atomic.Int32
	release := make(chan struct{})
	c := open(t, t.TempDir(), func(ctx context.Context, key string, w io.Writer) error {
		packs.Add(1)
		<-release
		return echo(ctx, key, w)
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			obj, err := c.Open(t.Context(), key(1))
			if err != nil {
				t.Error(err)
				return
			}
			_ = obj.Close()
		})
	}
	for c.Stats().Misses < 8 {
		runtime.Gosched()
	}
	close(release)
	wg.Wait()
	if n := packs.Load(); n != 1 {
		t.Errorf("%d packs", n)
	}
}

func TestCallerWhoLeavesDoesNotStopThePackForOthers(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	c := open(t, t.TempDir(), func(ctx context.Context, key string, w io.Writer) error {
		close(started)
		<-release
		return errors.Join(ctx.Err(), echo(ctx, key, w))
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := c.Open(ctx, key(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	close(release)
	read(t, c, key(1))
}

func TestFailedPackLeavesNothingAndIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	fail := true
	c := open(t, dir, func(ctx context.Context, key string, w io.Writer) error {
		err := echo(ctx, key, w)
		if fail {
			return errPack
		}
		return err
	})
	if _, err := c.Open(t.Context(), key(1)); !errors.Is(err, errPack) {
		t.Errorf("Open: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("folder holds %v", entries)
	}
	fail = false
	read(t, c, key(1))
}

func TestDamagedFileIsPackedAgain(t *testing.T) {
	for name, harm := range map[string]func(file string) error{
		"flipped": func(file string) error {
			return os.WriteFile(file, []byte(strings.Repeat("x", len("bundle "+key(1)))), 0o600)
		},
		"truncated": func(file string) error { return os.Truncate(file, 3) },
		"deleted":   os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, dir, echo)
			read(t, c, key(1))
			if err := harm(only(t, dir)); err != nil {
				t.Fatal(err)
			}
			read(t, c, key(1))
			if err := harm(only(t, dir)); err != nil {
				t.Fatal(err)
			}
			read(t, open(t, dir, echo), key(1))
		})
	}
}

func TestLeftoversOfAKilledProcessAreRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, tempPrefix+"half"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir, echo)
	read(t, c, key(1))
	if name := only(t, dir); !strings.Contains(name, key(1)) {
		t.Errorf("folder holds %s", name)
	}
}

func TestLeastRecentlyUsedGoesFirstAndOpenFilesStayReadable(t *testing.T) {
	dir := t.TempDir()
	size := int64(len("bundle " + key(0)))
	c, err := New(Options{Dir: dir, Pack: echo, MaxBytes: 3 * size})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for n := range 3 {
		read(t, c, key(n))
	}
	held, err := c.Open(t.Context(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	read(t, c, key(0))
	read(t, c, key(2))
	read(t, c, key(3))
	if s := c.Stats(); s.Evicted != 1 || s.Files != 3 || s.Bytes != 3*size {
		t.Errorf("stats = %+v", s)
	}
	if data, err := io.ReadAll(held); err != nil || !bytes.Contains(data, []byte(key(1))) {
		t.Errorf("evicted while open: %q, %v", data, err)
	}
	before := c.Stats().Packs
	read(t, c, key(0))
	if c.Stats().Packs != before {
		t.Error("a recently used bundle was evicted")
	}
	if s := open(t, dir, never).Stats(); s.Files != 3 {
		t.Errorf("after a restart: %+v", s)
	}
}

func TestOnlyKeysAreOpened(t *testing.T) {
	c := open(t, t.TempDir(), echo)
	for _, bad := range []string{"", "../../etc/passwd", "b1-" + strings.Repeat("g", 64), key(1) + "/..", strings.ToUpper(key(0xabc)), key(1) + "\n"} {
		if _, err := c.Open(t.Context(), bad); !errors.Is(err, ErrKey) {
			t.Errorf("Open(%q): %v", bad, err)
		}
	}
}

func TestCloseStopsAPackAndWaits(t *testing.T) {
	started := make(chan struct{})
	c := open(t, t.TempDir(), func(ctx context.Context, _ string, _ io.Writer) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
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
