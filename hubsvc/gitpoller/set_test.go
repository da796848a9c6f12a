package gitpoller

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
)

func newSet(t *testing.T, dir string) *Set {
	t.Helper()
	s, err := NewSet(SetOptions{Dir: dir, Interval: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at is one repository of a set.
type at struct {
	set *Set
	id  string
}

func (a at) Snapshot(ref string) (*snapshot.Snapshot, error) { return a.set.Snapshot(a.id, ref) }

// want follows a repository by the name of its URL.
func want(url string, refs ...string) Want { return each(url, 0, refs...) }

// each follows a repository at an interval of its own.
func each(url string, interval time.Duration, refs ...string) Want {
	return Want{ID: ID(url), Name: "origin", Version: "1", Interval: interval, Refs: refs, Open: open(url)}
}

func TestSetHasOneAgentForEachUpstream(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	o.git("tag", "v1")
	dir := t.TempDir()
	s := newSet(t, dir)
	run(t, s.Run)
	s.Ensure([]Want{want(o.url(), "main"), each(o.url(), time.Hour, "v1")})
	repo := at{s, ID(o.url())}
	until(t, "both refs are there", s.Changed(), func() bool { return has(repo, "main", "1")() && has(repo, "v1", "1")() })
	if dirs, _ := os.ReadDir(dir); len(dirs) != 1 {
		t.Errorf("%d mirrors", len(dirs))
	}
	o.commit("2")
	until(t, "the shorter interval counts", s.Changed(), has(repo, "main", "2"))
}

func TestSetStartsAndStopsAgentsAsSourcesComeAndGo(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := newOrigin(t)
	o.commit("1")
	s := newSet(t, t.TempDir())
	s.Ensure([]Want{want(o.url(), "main")})
	if _, ok := s.Get(ID(o.url())); !ok {
		t.Error("no agent right after Ensure")
	}
	stop := run(t, s.Run)
	until(t, "the commit is there", s.Changed(), has(at{s, ID(o.url())}, "main", "1"))
	s.Ensure(nil)
	if _, err := s.Snapshot(ID(o.url()), "main"); !errors.Is(err, snapshot.ErrNotFetched) {
		t.Errorf("Snapshot of what is not wanted: %v", err)
	}
	until(t, "the agent is gone", nil, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.agents) == 0
	})
	s.Ensure([]Want{want(o.url(), "main")})
	if !has(at{s, ID(o.url())}, "main", "1")() {
		t.Error("the mirror did not outlive the agent")
	}
	o.commit("2")
	until(t, "it is followed again", s.Changed(), has(at{s, ID(o.url())}, "main", "2"))
	stop()
}

func TestIntervalsChangeWhileAgentsRun(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	s := newSet(t, t.TempDir())
	run(t, s.Run)
	s.Ensure([]Want{each(o.url(), time.Hour, "main")})
	until(t, "the commit is there", s.Changed(), has(at{s, ID(o.url())}, "main", "1"))
	o.commit("2")
	s.Ensure([]Want{each(o.url(), 50*time.Millisecond, "main")})
	until(t, "the next fetch comes at the new interval", s.Changed(), has(at{s, ID(o.url())}, "main", "2"))
	o.commit("3")
	until(t, "and so does the one after", s.Changed(), has(at{s, ID(o.url())}, "main", "3"))
}

func TestBadURLHoldsUpNoOther(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	s := newSet(t, t.TempDir())
	run(t, s.Run)
	bad := "ftp://example.org/x"
	s.Ensure([]Want{want(bad, ""), want(o.url(), "")})
	until(t, "the good one is there", s.Changed(), has(at{s, ID(o.url())}, "", "1"))
	until(t, "the bad one says why", s.Changed(), func() bool { return strings.Contains(s.Status(ID(bad)).LastError, "unsupported scheme") })
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

func TestFollowersServeWhatTheOwnerHas(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	owner := newSet(t, t.TempDir())
	run(t, owner.Run)
	owner.Ensure([]Want{want(o.url(), "main")})
	id := ID(o.url())
	until(t, "the owner has the commit", owner.Changed(), has(at{owner, id}, "main", "1"))
	agent, _ := owner.Get(id)
	role := make(chan Role, 1)
	current := Follow
	follower, err := NewSet(SetOptions{
		Dir: t.TempDir(), Interval: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Role: func(string) (Role, string) {
			select {
			case current = <-role:
			default:
			}
			return current, ""
		},
		Owner: func(string) mirror.Upstream { return owned{agent} }, Warm: func(string) mirror.Upstream { return owned{agent} },
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, follower.Run)
	nobody := Want{ID: id, Name: "origin", Version: "1", Refs: []string{"main"}, Open: func() (mirror.Upstream, error) {
		return nil, errors.New("a follower asked the upstream itself")
	}}
	follower.Ensure([]Want{nobody})
	until(t, "the follower has it", follower.Changed(), has(at{follower, id}, "main", "1"))
	if s := follower.Status(id); s.Role != Follow || s.LastError != "" {
		t.Errorf("the follower says %+v", s)
	}
	role <- Idle
	follower.Rebalance()
	until(t, "it rests", follower.Changed(), func() bool { return follower.Status(id).Role == Idle })
	o.commit("2")
	until(t, "the owner has the next", owner.Changed(), has(at{owner, id}, "main", "2"))
	follower.Wake(id)
	if !has(at{follower, id}, "main", "1")() {
		t.Error("a resting agent has fetched")
	}
	able := want(o.url(), "main")
	able.Version = "2"
	follower.Ensure([]Want{able})
	role <- Own
	follower.Rebalance()
	until(t, "it has taken over", follower.Changed(), has(at{follower, id}, "main", "2"))
}

// owned hands one agent's mirror to another, as replicas do over the network.
type owned struct{ agent *Agent }

func (o owned) Traffic() mirror.Traffic { return mirror.Traffic{} }

func (o owned) Fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	m := o.agent.Mirror()
	answer := mirror.Answer{Tips: map[string]mirror.Tip{}, Fetched: m.Fetched()}
	for _, pack := range m.Manifest().Packs {
		file, err := m.OpenPack(pack.Name)
		if err != nil {
			return answer, err
		}
		err = errors.Join(into.Pack(ctx, file), file.Close())
		if err != nil {
			return answer, err
		}
	}
	for _, ref := range refs {
		answer.Tips[ref] = m.Tips()[ref]
	}
	return answer, nil
}

// stuck is an upstream that says when it is asked, and answers when the test is over.
type stuck struct{ asked chan<- string }

func (s stuck) Traffic() mirror.Traffic { return mirror.Traffic{} }

func (s stuck) Fetch(ctx context.Context, _ []string, _ mirror.Receiver) (mirror.Answer, error) {
	s.asked <- "stuck"
	<-ctx.Done()
	return mirror.Answer{}, ctx.Err()
}

func TestSlowUpstreamsKeepNoOthersWaiting(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const slow = 2 * (parallel + parallelSlow)
	connected := make(chan net.Conn, 2*slow)
	accepting := make(chan struct{})
	go func() { // it takes every call, and never says a word
		defer close(accepting)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected <- conn
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-accepting
		close(connected)
		for conn := range connected {
			_ = conn.Close()
		}
	})
	s, err := NewSet(SetOptions{
		Dir: t.TempDir(), Interval: 50 * time.Millisecond, Timeout: time.Hour, Patience: 2 * time.Second,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	var wants []Want
	for i := range slow {
		wants = append(wants, want("http://"+listener.Addr().String()+"/"+strconv.Itoa(i), "main"))
	}
	s.Ensure(wants)
	stop := run(t, s.Run)
	var held []net.Conn
	for range parallel + parallelSlow {
		held = append(held, <-connected)
	}
	o := newOrigin(t)
	o.commit("1")
	good := want(o.url(), "main")
	s.Ensure(append(wants, good))
	until(t, "the quick one is there", s.Changed(), has(at{s, good.ID}, "main", "1"))
	o.commit("2")
	until(t, "and stays up to date", s.Changed(), has(at{s, good.ID}, "main", "2"))
	until(t, "a slow one is told that it waits", s.Changed(), func() bool {
		return slices.ContainsFunc(wants, func(w Want) bool {
			a, ok := s.Get(w.ID)
			return ok && strings.Contains(a.Status().LastError, errSlow.Error())
		})
	})
	stop()
	for _, conn := range held {
		_ = conn.Close()
	}
	if len(s.slots.quick) > 0 || len(s.slots.slow) > 0 {
		t.Errorf("%d and %d slots are not given back", len(s.slots.quick), len(s.slots.slow))
	}
}

func TestAnUpstreamThatIsQuickAgainIsFetchedAmongTheQuick(t *testing.T) {
	s := newSlots(time.Millisecond)
	limited, leave, err := s.enter(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it has left the quick ones", nil, func() bool { return len(s.quick) == 0 })
	if limited.Err() != nil || len(s.slow) != 1 || !leave() || len(s.slow) != 0 {
		t.Errorf("it was slow, and %d are: %v", len(s.slow), limited.Err())
	}
	s = newSlots(time.Hour)
	_, leave, err = s.enter(t.Context(), true)
	if err != nil || len(s.slow) != 1 {
		t.Fatalf("%d slow ones, %v", len(s.slow), err)
	}
	if leave() || len(s.slow) != 0 {
		t.Error("it was quick")
	}
}

func TestManyUpstreamsAreFetchedAFewAtATimeAndTheFirstOneNeverWaits(t *testing.T) {
	asked := make(chan string, 2*parallel)
	s := newSet(t, t.TempDir())
	var wants []Want
	for i := range 2 * parallel {
		id := ID(strconv.Itoa(i))
		wants = append(wants, Want{
			ID: id, Name: id, Version: "1", Refs: []string{""},
			Open: func() (mirror.Upstream, error) { return stuck{asked}, nil },
		})
	}
	s.Ensure(wants)
	stop := run(t, s.Run)
	for range parallel {
		<-asked
	}
	o := newOrigin(t)
	o.commit("1")
	first := want(o.url(), "main")
	first.First = true
	s.Ensure(append(wants, first))
	until(t, "the first one is there", s.Changed(), has(at{s, first.ID}, "main", "1"))
	if len(asked) > 0 {
		t.Errorf("more than %d upstreams were asked at a time", parallel)
	}
	stop()
}

// Whichever came first would decide for the others by which credentials, host keys and signatures all of them are read.
func TestWantsOfOneMirrorThatOpenItOtherwiseAreNotFetched(t *testing.T) {
	o := newOrigin(t)
	o.commit("1")
	s := newSet(t, t.TempDir())
	run(t, s.Run)
	id, other := ID(o.url()), want(o.url(), "main")
	other.Version = "2"
	s.Ensure([]Want{want(o.url(), "main"), other})
	until(t, "it is said", s.Changed(), func() bool { return strings.Contains(s.Status(id).LastError, "say the same in each of them") })
	if has(at{s, id}, "main", "1")() {
		t.Error("it is fetched")
	}
	other.Version, other.Open = "3", open("ftp://example.org/x")
	s.Ensure([]Want{want(o.url(), "main"), other})
	until(t, "what one of them lacks is said first", s.Changed(), func() bool { return strings.Contains(s.Status(id).LastError, "unsupported scheme") })
	s.Ensure([]Want{want(o.url(), "main")})
	until(t, "it is fetched once they agree", s.Changed(), has(at{s, id}, "main", "1"))
}

// counted is an upstream that tells when it is asked, and says what it is told to.
type counted struct {
	asked chan<- time.Time
	err   error
}

func (c counted) Traffic() mirror.Traffic { return mirror.Traffic{} }

func (c counted) Fetch(context.Context, []string, mirror.Receiver) (mirror.Answer, error) {
	c.asked <- time.Now()
	return mirror.Answer{}, c.err
}

// A follower asks its owner far more often than anybody may a git host.
func TestAFollowerOfAnotherTrustAsksTheUpstreamAsOftenAsItsOwnerWould(t *testing.T) {
	const lasts, interval, woken = 20 * time.Minute, 4 * time.Minute, 17 * time.Minute
	for name, test := range map[string]struct {
		err         error
		least, most int
	}{
		"an upstream that answers":      {nil, 5, 8},
		"an upstream that is not there": {errors.New("connection refused"), 8, 12}, // soon, and then less and less often
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				start, asked := time.Now(), make(chan time.Time, 1000)
				s, err := NewSet(SetOptions{
					Dir: dir, Log: slog.New(slog.DiscardHandler), Role: func(string) (Role, string) { return Follow, "" },
					Owner: func(string) mirror.Upstream { return counted{make(chan time.Time, 1000), ErrOtherTrust} },
					Warm:  func(string) mirror.Upstream { return nil },
				})
				if err != nil {
					t.Fatal(err)
				}
				s.Ensure([]Want{{
					ID: "id", Version: "1", Interval: interval, Refs: []string{"main"}, Trust: "keys", First: true,
					Open: func() (mirror.Upstream, error) { return counted{asked, test.err}, nil },
				}})
				ctx, cancel := context.WithTimeout(t.Context(), lasts)
				defer cancel()
				time.AfterFunc(woken, func() { s.Wake("id") })
				_ = s.Run(ctx)
				close(asked)
				var at []time.Duration
				for when := range asked {
					at = append(at, when.Sub(start).Round(time.Second))
				}
				if len(at) < test.least || len(at) > test.most {
					t.Errorf("it is asked after %v, want %d to %d times", at, test.least, test.most)
				}
				if test.err == nil && !slices.Contains(at, woken) {
					t.Errorf("it is asked after %v, not when the owner has news after %v", at, woken)
				}
			})
		})
	}
}
