package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

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
	if err := errors.Join(first.SavePoll(`"r1-x"`, poll), first.SaveGood(poll.GetDeployments()[0]), first.SaveBundle("b1-a", []byte("bytes"))); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir)
	got, etag, err := second.Poll()
	if err != nil || etag != `"r1-x"` || !proto.Equal(got, poll) {
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
	if poll, etag, err := s.Poll(); poll != nil || etag != "" || err != nil {
		t.Errorf("Poll = %v, %q, %v", poll, etag, err)
	}
	if _, err := s.Bundle("b1-a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Bundle: %v", err)
	}
	if err := s.DropGood("web"); err != nil {
		t.Errorf("DropGood of an unknown service: %v", err)
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

func TestNamesCannotLeaveTheStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "inside"))
	if err := s.SaveGood(&api.Deployment{Service: "../../../escaped"}); err == nil {
		t.Error("a service's name led out of the store")
	}
	if _, err := os.Stat(filepath.Join(dir, "escaped")); err == nil {
		t.Error("a file was written outside")
	}
}
