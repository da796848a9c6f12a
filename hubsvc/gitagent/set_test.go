package gitagent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pluralsh/plural/workspace/snapshot"
)

func newSet(t *testing.T, dir string) *Set {
	t.Helper()
	s, err := NewSet(SetOptions{Dir: dir, Interval: 50 * time.Millisecond, AllowFile: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at is one repository of a set.
type at struct {
	set *Set
	url string
}

func (a at) Snapshot(ref string) (*snapshot.Snapshot, error) { return a.set.Snapshot(a.url, ref) }

func TestSetHasOneAgentForEachRepositoryHoweverItIsWritten(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	o.git("tag", "v1")
	dir := t.TempDir()
	s := newSet(t, dir)
	run(t, s.Run)
	s.Ensure([]Want{{URL: o.url(), Refs: []string{"main"}}, {URL: o.url() + "/", Interval: time.Hour, Refs: []string{"v1"}}})
	until(t, "both refs are there", s.Changed(), func() bool {
		return has(at{s, o.url()}, "main", "1")() && has(at{s, o.url() + "/"}, "v1", "1")()
	})
	if dirs, _ := os.ReadDir(dir); len(dirs) != 1 {
		t.Errorf("%d mirrors", len(dirs))
	}
	o.commit("2")
	until(t, "the shorter interval counts", s.Changed(), has(at{s, o.url()}, "main", "2"))
}

func TestSetStartsAndStopsAgentsAsSourcesComeAndGo(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := newOrigin(t)
	o.commit("1")
	s := newSet(t, t.TempDir())
	s.Ensure([]Want{{URL: o.url(), Refs: []string{"main"}}})
	if _, ok := s.Get(o.url()); !ok {
		t.Error("no agent right after Ensure")
	}
	stop := run(t, s.Run)
	until(t, "the commit is there", s.Changed(), has(at{s, o.url()}, "main", "1"))
	s.Ensure(nil)
	if _, err := s.Snapshot(o.url(), "main"); !errors.Is(err, snapshot.ErrNotFetched) {
		t.Errorf("Snapshot of what is not wanted: %v", err)
	}
	until(t, "the agent is gone", nil, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.agents) == 0
	})
	s.Ensure([]Want{{URL: o.url(), Refs: []string{"main"}}})
	if !has(at{s, o.url()}, "main", "1")() {
		t.Error("the mirror did not outlive the agent")
	}
	o.commit("2")
	until(t, "it is followed again", s.Changed(), has(at{s, o.url()}, "main", "2"))
	stop()
}

func TestIntervalsChangeWhileAgentsRun(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	s := newSet(t, t.TempDir())
	run(t, s.Run)
	s.Ensure([]Want{{URL: o.url(), Interval: time.Hour, Refs: []string{"main"}}})
	until(t, "the commit is there", s.Changed(), has(at{s, o.url()}, "main", "1"))
	o.commit("2")
	s.Ensure([]Want{{URL: o.url(), Interval: 50 * time.Millisecond, Refs: []string{"main"}}})
	until(t, "the next fetch comes at the new interval", s.Changed(), has(at{s, o.url()}, "main", "2"))
	o.commit("3")
	until(t, "and so does the one after", s.Changed(), has(at{s, o.url()}, "main", "3"))
}

func TestBadURLHoldsUpNoOther(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	s := newSet(t, t.TempDir())
	run(t, s.Run)
	bad := "ftp://user:hunter2@example.org/x"
	s.Ensure([]Want{{URL: bad, Refs: []string{""}}, {URL: o.url(), Refs: []string{""}}})
	until(t, "the good one is there", s.Changed(), has(at{s, o.url()}, "", "1"))
	until(t, "the bad one says why", s.Changed(), func() bool { return strings.Contains(s.Status(bad).LastError, "unsupported scheme") })
	if strings.Contains(s.Status(bad).LastError, "hunter2") {
		t.Errorf("status shows credentials: %+v", s.Status(bad))
	}
}

func TestMirrorsThatNobodyFollowsAreRemovedAfterAMonth(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"old": 31 * 24 * time.Hour, "recent": 24 * time.Hour} {
		state := filepath.Join(dir, name, "state.json")
		when := time.Now().Add(-age)
		if err := errors.Join(os.Mkdir(filepath.Dir(state), 0o755), os.WriteFile(state, nil, 0o600), os.Chtimes(state, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	newSet(t, dir)
	if dirs, _ := os.ReadDir(dir); len(dirs) != 1 || dirs[0].Name() != "recent" {
		t.Errorf("left are %v", dirs)
	}
}

func TestIdentityIgnoresSpellingAndMindsCredentials(t *testing.T) {
	for _, same := range [][2]string{
		{"https://Example.org:443/x/", "https://example.org/x"}, {"ssh://git@example.org:22/x", "SSH://git@example.org/x"},
	} {
		if identity(same[0]) != identity(same[1]) {
			t.Errorf("%q and %q differ", same[0], same[1])
		}
	}
	for _, other := range [][2]string{
		{"https://example.org/x", "https://example.org/y"}, {"https://a:b@example.org/x", "https://example.org/x"}, {"https://example.org/X", "https://example.org/x"},
	} {
		if identity(other[0]) == identity(other[1]) {
			t.Errorf("%q and %q are the same", other[0], other[1])
		}
	}
}
