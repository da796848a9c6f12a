package gitpoller

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/gitsource"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// origin is a real repository driven by the git program.
type origin struct {
	t   *testing.T
	dir string
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	needs.Program(t, "git", "git")
	t.Setenv("HOME", t.TempDir())
	o := &origin{t, filepath.Join(t.TempDir(), "origin")}
	if err := os.Mkdir(o.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o.git("init", "-q", "-b", "main")
	return o
}

func (o *origin) git(args ...string) string {
	o.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Dir = o.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (o *origin) commit(content string) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, "a"), []byte(content), 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.git("add", "-A")
	o.git("commit", "-q", "-m", content)
}

func (o *origin) move(to string) {
	o.t.Helper()
	if err := os.Rename(o.dir, to); err != nil {
		o.t.Fatal(err)
	}
}

func (o *origin) url() string { return "file://" + o.dir }

// watched is an agent whose changes a test waits for.
type watched struct {
	*Agent
	news chan struct{}
}

func (w *watched) Changed() <-chan struct{} { return w.news }

func newAgent(t *testing.T, o Options, url string) *watched {
	t.Helper()
	o.Name, o.Log = "origin", slog.New(slog.DiscardHandler)
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{a, make(chan struct{}, 1)}
	a.changed = func() { signal(w.news) }
	a.Use("1", open(url))
	return w
}

// open makes the upstream of a URL.
func open(url string) func() (mirror.Upstream, error) {
	return func() (mirror.Upstream, error) {
		return gitsource.New(gitsource.Options{URL: url, AllowFile: true})
	}
}

// run starts something that ends with the test, or when stop is called.
func run(t *testing.T, what func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- what(ctx) }()
	stop = func() {
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run = %v", err)
			}
			done <- err
		case <-time.After(time.Minute):
			t.Error("Run did not stop")
		}
	}
	t.Cleanup(stop)
	return stop
}

// until waits for a condition, looking again whenever something changed.
func until(t *testing.T, what string, changed <-chan struct{}, condition func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

type source interface {
	Snapshot(ref string) (*snapshot.Snapshot, error)
}

func has(s source, ref, content string) func() bool {
	return func() bool {
		snap, err := s.Snapshot(ref)
		if err != nil {
			return false
		}
		data, err := fs.ReadFile(snap.FS(), "a")
		return err == nil && string(data) == content
	}
}

func TestHintBringsANewCommitLongBeforeTheInterval(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	a := newAgent(t, Options{Dir: t.TempDir(), Interval: time.Hour}, o.url())
	a.Follow("main")
	run(t, a.Run)
	until(t, "the first commit is there", a.Changed(), has(a, "main", "1"))
	o.commit("2")
	a.Hint()
	until(t, "the second commit is there", a.Changed(), has(a, "main", "2"))
	o.git("branch", "side", "HEAD~1")
	a.Follow("side")
	until(t, "the new ref is there", a.Changed(), has(a, "side", "1"))
	s := a.Status()
	if s.Attempts < 3 || s.Failures != 0 || s.Changes != 3 || s.LastFetch.IsZero() || s.Age > time.Minute || s.Tips["main"].Commit != o.git("rev-parse", "main") {
		t.Errorf("status = %+v", s)
	}
}

func TestDeletedBranchKeepsItsLastGoodCommitAndShows(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	o.git("branch", "side")
	a := newAgent(t, Options{Dir: t.TempDir(), Interval: 50 * time.Millisecond}, o.url())
	a.Follow("side")
	a.Follow("main")
	run(t, a.Run)
	until(t, "the branch is there", a.Changed(), has(a, "side", "1"))
	o.git("branch", "-D", "side")
	until(t, "the error is visible", a.Changed(), func() bool { return strings.Contains(a.Status().LastError, `"side"`) })
	o.commit("2")
	until(t, "the other branch goes on", a.Changed(), has(a, "main", "2"))
	if !has(a, "side", "1")() {
		t.Error("the deleted branch has lost its last good commit")
	}
}

func TestRestartServesTheLastGoodCommitWhileOriginIsAway(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	dir := t.TempDir()
	a := newAgent(t, Options{Dir: dir, Interval: 50 * time.Millisecond}, o.url())
	a.Follow("main")
	stop := run(t, a.Run)
	until(t, "the commit is there", a.Changed(), has(a, "main", "1"))
	stop()
	away := o.dir + "-away"
	o.move(away)
	a = newAgent(t, Options{Dir: dir, Interval: 50 * time.Millisecond}, o.url())
	a.Follow("main")
	if !has(a, "main", "1")() || a.Status().LastFetch.IsZero() {
		t.Errorf("nothing to serve after a restart: %+v", a.Status())
	}
	run(t, a.Run)
	until(t, "the failure is visible", a.Changed(), func() bool { return a.Status().LastError != "" })
	if !has(a, "main", "1")() {
		t.Error("the last good commit is gone")
	}
	if err := os.Rename(away, o.dir); err != nil {
		t.Fatal(err)
	}
	o.commit("2")
	until(t, "origin is followed again", a.Changed(), has(a, "main", "2"))
	until(t, "the failure is over", a.Changed(), func() bool { return a.Status().LastError == "" })
}

func TestSnapshotSaysWhyThereIsNone(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	a := newAgent(t, Options{Dir: t.TempDir(), Interval: time.Hour}, o.url())
	a.Follow("typo")
	run(t, a.Run)
	until(t, "the first fetch is over", a.Changed(), func() bool { return a.Status().LastError != "" })
	_, err := a.Snapshot("typo")
	if !errors.Is(err, snapshot.ErrNotFetched) || !strings.Contains(err.Error(), "no such branch or tag") {
		t.Errorf("Snapshot: %v", err)
	}
}

func TestSilentRemoteIsGivenUpAtTheTimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	a := newAgent(t, Options{Dir: t.TempDir(), Timeout: 50 * time.Millisecond}, "http://"+listener.Addr().String()+"/x")
	a.Follow("main")
	run(t, a.Run)
	until(t, "the attempt has failed", a.Changed(), func() bool { return a.Status().Failures > 0 })
	if s := a.Status(); !strings.Contains(s.LastError, "deadline") {
		t.Errorf("status = %+v", s)
	}
}
