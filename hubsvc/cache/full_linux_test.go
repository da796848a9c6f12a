package cache

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
)

func TestDiskThatIsSmallerThanTheCapEvictsToMakeRoom(t *testing.T) {
	dir := filepath.Join(needs.SmallDisk(t, "size=1m"), "bundles")
	c := open(t, Options{Dir: dir, Pack: echo})
	for n := range 30 {
		c.read(t, key(n))
		c.read(t, key(n))
	}
	if evicted := c.figure(t, "evictions_total"); evicted < 15 {
		t.Errorf("%v evictions", evicted)
	}
	c.expect(t, map[string]float64{"bytes memory": 0, "opens_total memory hit": 0})
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestFileSystemWithoutInodesEvictsToMakeRoom(t *testing.T) {
	c := open(t, Options{Dir: filepath.Join(needs.SmallDisk(t, "size=8m,nr_inodes=8"), "bundles"), Pack: echo})
	for n := range 30 {
		c.read(t, key(n))
		c.read(t, key(n))
	}
	c.expect(t, map[string]float64{"bytes memory": 0, "opens_total disk hit": 30})
}

func TestDiskThatOthersFilledIsServedFromMemoryUntilThereIsRoomAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := needs.SmallDisk(t, "size=1m")
		c := open(t, Options{Dir: filepath.Join(at, "bundles"), Pack: echo})
		free := needs.FillDisk(t, at)
		for range 3 {
			c.read(t, key(1))
		}
		c.expect(t, map[string]float64{
			"opens_total pack hit": 1, "opens_total memory hit": 2, "bytes memory": float64(len(content(key(1)))), "files": 0,
		})
		<-time.After(memoryTime + time.Second)
		c.read(t, key(1)) // still full
		c.expect(t, map[string]float64{"opens_total pack hit": 1, "files": 0})
		free()
		<-time.After(memoryTime + time.Second)
		c.read(t, key(1))
		c.expect(t, map[string]float64{"opens_total pack hit": 1, "bytes memory": 0, "files": 1})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestReadOnlyDiskServesWhatIsThereAndTheRestFromMemory(t *testing.T) {
	at := needs.SmallDisk(t, "size=1m")
	dir := filepath.Join(at, "bundles")
	first := open(t, Options{Dir: dir, Pack: echo})
	first.read(t, key(1))
	if err := os.WriteFile(filepath.Join(dir, tempPrefix+"half"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", at, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []watched{first, open(t, Options{Dir: dir, Pack: echo})} {
		c.read(t, key(1))
		c.read(t, key(2))
		c.read(t, key(2))
		c.expect(t, map[string]float64{"opens_total disk hit": 1, "opens_total memory hit": 1, "files": 1})
	}
	if err := syscall.Mount("", at, "", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	first.read(t, key(3))
	first.expect(t, map[string]float64{"files": 2, "opens_total disk hit": 1})
}

func TestMemoryForAFailingDiskIsBounded(t *testing.T) {
	at := needs.SmallDisk(t, "size=1m")
	c := open(t, Options{Dir: filepath.Join(at, "bundles"), Pack: func(_ context.Context, _ string, w io.Writer) error {
		_, err := w.Write(make([]byte, 30<<20))
		return err
	}})
	needs.FillDisk(t, at)
	var held []*Object
	for n := range 2 {
		obj, err := c.Open(t.Context(), key(n))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, obj)
	}
	if _, err := c.Open(t.Context(), key(2)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a third large bundle while two are read: %v", err)
	}
	for _, obj := range held {
		_ = obj.Close()
	}
	if _, err := c.Open(t.Context(), key(2)); err != nil {
		t.Errorf("after the readers have gone: %v", err)
	}
	if bytes := c.figure(t, "bytes", "memory"); bytes > memoryBytes {
		t.Errorf("%v bytes in memory", bytes)
	}
}
