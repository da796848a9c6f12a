package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/api"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestEverythingSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	poll := &api.Poll{Cluster: "edge-1", Deployments: []*api.Deployment{{Service: "web", Key: "d1-a\n"}}}
	if err := errors.Join(first.SavePoll(`"r1-x"`, "s-7", poll), first.SaveGood(poll.GetDeployments()[0]), first.SaveBundle("b1-a", []byte("bytes"))); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir)
	got, etag, edition, err := second.Poll()
	if err != nil || etag != `"r1-x"` || edition != "s-7" || !proto.Equal(got, poll) {
		t.Errorf("Poll = %v, %q, %v", got, etag, err)
	}
	good, err := second.Good()
	if err != nil || !proto.Equal(good["web"], poll.GetDeployments()[0]) {
		t.Errorf("Good = %v, %v", good, err)
	}
	if archive, err := second.Bundle("b1-a"); err != nil || string(archive) != "bytes" {
		t.Errorf("Bundle = %q, %v", archive, err)
	}
}

func TestNothingIsThereAtFirst(t *testing.T) {
	s := open(t, t.TempDir())
	if poll, etag, _, err := s.Poll(); poll != nil || etag != "" || err != nil {
		t.Errorf("Poll = %v, %q, %v", poll, etag, err)
	}
	if _, err := s.Bundle("b1-a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Bundle: %v", err)
	}
	if err := s.Forget("web"); err != nil {
		t.Errorf("Forget of an unknown service: %v", err)
	}
}

func TestADamagedDeploymentIsSaidAndLeftOut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.SaveGood(&api.Deployment{Service: "web"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "good", "broken"), []byte{0xff}, 0o600); err != nil {
		t.Fatal(err)
	}
	good, err := s.Good()
	if err == nil || len(good) != 1 || good["web"] == nil {
		t.Errorf("Good = %v, %v", good, err)
	}
}

func TestADamagedPollIsAnErrorAndNoOrder(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"emptied":   func([]byte) []byte { return nil },
		"cut short": func(b []byte) []byte { return b[:len(b)-1] },
		"changed":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			if err := s.SavePoll(`"r1-x"`, "s-7", &api.Poll{Deployments: []*api.Deployment{{Service: "web"}, {Service: "db"}}}); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "root")
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			if poll, etag, _, err := s.Poll(); poll != nil || etag != "" || err == nil {
				t.Errorf("Poll = %v, %q, %v", poll, etag, err)
			}
		})
	}
}

func TestAFolderThatCannotBeWrittenStillReads(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"good", "bundles"} { // files in the way of folders: also root cannot write below them
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir)
	if err := s.SaveBundle("b1-a", nil); err == nil {
		t.Error("SaveBundle succeeded")
	}
	if poll, _, _, err := s.Poll(); poll != nil || err != nil {
		t.Errorf("Poll = %v, %v", poll, err)
	}
}

func TestTwoWritersOfOneBundleDoNotMix(t *testing.T) {
	s := open(t, t.TempDir())
	archive := bytes.Repeat([]byte("x"), 1<<16)
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			for range 20 {
				if err := s.SaveBundle("b1-a", archive); err != nil {
					return err
				}
				if got, err := s.Bundle("b1-a"); err != nil || !bytes.Equal(got, archive) {
					return fmt.Errorf("read %d bytes, %w", len(got), err)
				}
				if err := s.KeepBundles(map[string]bool{"b1-a": true}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestOpenSweepsWhatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	before := open(t, dir)
	if err := before.SaveBundle("b1-a", nil); err != nil {
		t.Fatal(err)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "bundles", "b1-b.123.tmp")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestKeepBundlesDeletesTheOthers(t *testing.T) {
	s := open(t, t.TempDir())
	for _, key := range []string{"b1-a", "b1-b"} {
		if err := s.SaveBundle(key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.KeepBundles(map[string]bool{"b1-b": true}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Bundle("b1-a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("b1-a is still there: %v", err)
	}
	if _, err := s.Bundle("b1-b"); err != nil {
		t.Errorf("b1-b: %v", err)
	}
}

func TestNamesCannotLeaveTheirFolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "inside"))
	if err := s.SavePoll("etag", "", &api.Poll{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../../../escaped", "../root", "..", ".", "", "a/b", `a\b`} {
		if err := s.SaveGood(&api.Deployment{Service: name}); err == nil {
			t.Errorf("SaveGood took %q", name)
		}
		if err := s.Forget(name); err == nil {
			t.Errorf("Forget took %q", name)
		}
		if _, err := s.Bundle(name); err == nil {
			t.Errorf("Bundle took %q", name)
		}
	}
	if poll, _, _, err := s.Poll(); poll == nil || err != nil {
		t.Errorf("the poll is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "escaped")); err == nil {
		t.Error("a file was written outside")
	}
}

// While an agent takes the place of another, both have the folder: the one that goes may not know yet what the new one needs.
func TestOfTwoStoresOfAFolderTheFirstAloneDeletes(t *testing.T) {
	dir := t.TempDir()
	first, second := open(t, dir), open(t, dir)
	has := func(key string) bool {
		_, err := second.Bundle(key)
		return err == nil
	}
	for _, key := range []string{"b1-a", "b1-b"} {
		if err := first.SaveBundle(key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := second.KeepBundles(map[string]bool{"b1-a": true}); err != nil || !has("b1-b") {
		t.Errorf("the second store deleted what the first may want: %v", err)
	}
	if err := first.KeepBundles(map[string]bool{"b1-b": true}); err != nil || has("b1-a") {
		t.Errorf("the first store deletes nothing: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.KeepBundles(nil); err != nil || has("b1-b") {
		t.Errorf("nobody deletes once the first is closed: %v", err)
	}
}

func TestWhatAnotherFleetsAgentKeptIsForgotten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill := func() {
		err := errors.Join(s.SavePoll("r", "", &api.Poll{}), s.SaveGood(&api.Deployment{Service: "web"}), s.SaveBundle("b1-a", nil),
			s.SaveMemory("web", store.Memory{Begun: "d1-a"}))
		if err != nil {
			t.Fatal(err)
		}
	}
	holds := func() bool {
		poll, _, _, _ := s.Poll()
		good, _ := s.Good()
		memories, _ := s.Memories()
		_, none := s.Bundle("b1-a")
		if all := poll != nil && len(good) == 1 && len(memories) == 1 && none == nil; all {
			return true
		}
		if poll != nil || len(good) > 0 || len(memories) > 0 || none == nil {
			t.Error("a part is left")
		}
		return false
	}
	fill()
	for _, step := range []struct {
		owner  string
		forgot bool
	}{{"a", false}, {"a", false}, {"b", true}, {"b", false}} {
		if forgot, err := s.Own(step.owner); err != nil || forgot != step.forgot {
			t.Errorf("owned by %s: forgot %v, %v", step.owner, forgot, err)
		}
		if holds() == step.forgot {
			t.Errorf("owned by %s: it holds what was kept: %v", step.owner, !step.forgot)
		}
		fill()
	}
}
