package cache

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

type peer = func(context.Context, string) (io.ReadCloser, error)

func peerHas(_ context.Context, key string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(content(key))), nil
}

func TestPeerSparesAPack(t *testing.T) {
	c := open(t, Options{Peer: peerHas, Pack: never})
	c.read(t, key(1))
	c.read(t, key(1))
	c.expect(t, map[string]float64{"opens_total peer hit": 1, "opens_total disk hit": 1, "queue peer running": 0})
}

func TestWhatAPeerCannotGiveIsPackedHere(t *testing.T) {
	for name, test := range map[string]struct {
		peer    peer
		outcome string
	}{
		"unknown": {func(context.Context, string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }, "miss"},
		"gone": {func(context.Context, string) (io.ReadCloser, error) {
			return nil, errors.New("connection refused")
		}, "error"},
		"cut off": {func(context.Context, string) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("bun"), iotest.ErrReader(io.ErrUnexpectedEOF))), nil
		}, "error"},
		"stuck": {func(ctx context.Context, _ string) (io.ReadCloser, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, Options{Dir: dir, Peer: test.peer, PeerTimeout: 10 * time.Millisecond, Pack: echo})
			c.read(t, key(1))
			c.expect(t, map[string]float64{"opens_total peer " + test.outcome: 1, "opens_total pack hit": 1})
			if file := only(t, dir); !strings.Contains(file, key(1)) {
				t.Errorf("folder holds %s", file)
			}
		})
	}
}

func TestAPeerThatAsksIsNotSentOn(t *testing.T) {
	c := open(t, Options{Pack: echo, Peer: func(context.Context, string) (io.ReadCloser, error) {
		t.Error("another peer was asked")
		return nil, errPack
	}})
	obj, err := c.OpenHere(t.Context(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	_ = obj.Close()
}

func TestReplicasThatTakeEachOtherForTheOwnerDoNotWaitForEachOther(t *testing.T) {
	var left, right watched
	asks := func(other *watched) peer {
		return func(ctx context.Context, key string) (io.ReadCloser, error) { return other.OpenHere(ctx, key) }
	}
	left = open(t, Options{Peer: asks(&right), Pack: echo})
	right = open(t, Options{Peer: asks(&left), Pack: echo})
	done := make(chan struct{})
	go func() {
		defer close(done)
		left.read(t, key(1))
	}()
	right.read(t, key(1))
	<-done
	for _, c := range []watched{left, right} {
		if packs := c.figure(t, "opens_total", "pack", "hit"); packs > 1 {
			t.Errorf("%v packs on one replica", packs)
		}
	}
}

func TestReadingWaitsForNoOtherKey(t *testing.T) {
	stuck, release := make(chan struct{}), make(chan struct{})
	hang := func(ctx context.Context, k string) {
		if k == key(2) {
			close(stuck)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
	}
	for name, o := range map[string]Options{
		"packing": {Pack: func(ctx context.Context, k string, w io.Writer) error {
			hang(ctx, k)
			return echo(ctx, k, w)
		}},
		"fetching": {Pack: echo, Peer: func(ctx context.Context, k string) (io.ReadCloser, error) {
			hang(ctx, k)
			return peerHas(ctx, k)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			stuck, release = make(chan struct{}), make(chan struct{})
			c := open(t, o)
			c.read(t, key(1))
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.read(t, key(2))
			}()
			<-stuck
			c.read(t, key(1))
			c.expect(t, map[string]float64{"opens_total disk hit": 1})
			close(release)
			<-done
		})
	}
}

func TestPeersFilesAreAsDurableAsOwnPacks(t *testing.T) {
	dir := t.TempDir()
	open(t, Options{Dir: dir, Peer: peerHas, Pack: never}).read(t, key(1))
	if err := os.Truncate(only(t, dir), 3); err != nil {
		t.Fatal(err)
	}
	again := open(t, Options{Dir: dir, Peer: peerHas, Pack: never})
	again.read(t, key(1))
	again.expect(t, map[string]float64{"opens_total disk damaged": 1, "opens_total peer hit": 1})
}
