package tunnel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agenttunnel "github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/tunnel"
)

// several says that there are so many replicas, which are not joined.
func several(n int) func(*settings) {
	return func(s *settings) { s.Replicas = func() int { return n } }
}

// said is what an agent says of itself, changed.
func said(change func(*tunnelapi.Hello)) func(*agenttunnel.Options) {
	return func(o *agenttunnel.Options) {
		before := o.Hello
		o.Hello = func() *tunnelapi.Hello {
			hello := before()
			change(hello)
			return hello
		}
	}
}

func TestAnAgentThatSaysAnotherClusterIsRefused(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	f.register("prod")
	a := f.agent(t, "edge", []*replica{hub}, said(func(h *tunnelapi.Hello) { h.Cluster = "prod" }))
	eventually(t, "the agent knows why", func() bool {
		return a.log.says("hub refused the agent") && a.log.says("its credential is cluster")
	})
	for _, cluster := range []string{"edge", "prod"} {
		if _, err := hub.Reach(t.Context(), cluster); !errors.Is(err, tunnel.ErrAbsent) {
			t.Errorf("Reach(%s): %v", cluster, err)
		}
	}
}

func TestARevokedClusterLosesItsConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0")
	for name, change := range map[string]func(string){"the key is gone": f.revoke, "the key is another": f.register} {
		t.Run(name, func(t *testing.T) {
			other := f.agent(t, "other", []*replica{hub})
			defer other.stop()
			a := f.agent(t, "edge", []*replica{hub})
			defer a.stop()
			hub.connected(2)
			stream, err := hub.reach("edge").Logs(t.Context(), &tunnelapi.LogsRequest{Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			change("edge")
			hub.Recheck()
			if _, err := stream.Recv(); status.Code(err) == codes.OK {
				t.Error("the stream goes on")
			}
			hub.connected(1)
			hub.answers("other", other)
			if _, err := hub.Reach(t.Context(), "edge"); !errors.Is(err, tunnel.ErrAbsent) {
				t.Errorf("Reach: %v", err)
			}
			eventually(t, "the agent is told", func() bool { return a.log.says("answered 401") })
			other.stop()
			hub.connected(0)
		})
	}
}

func TestHubAndAgentSpeakTheNewestVersionThatBothKnow(t *testing.T) {
	for name, test := range map[string]struct {
		hub, agent tunnelapi.Versions
		refused    string
	}{
		"the same":                     {tunnelapi.Versions{Min: 1, Max: 1}, tunnelapi.Versions{Min: 1, Max: 1}, ""},
		"an agent two versions behind": {tunnelapi.Versions{Min: 1, Max: 3}, tunnelapi.Versions{Min: 1, Max: 1}, ""},
		"an agent two versions ahead":  {tunnelapi.Versions{Min: 1, Max: 1}, tunnelapi.Versions{Min: 1, Max: 3}, ""},
		"both have left the first":     {tunnelapi.Versions{Min: 2, Max: 4}, tunnelapi.Versions{Min: 1, Max: 3}, ""},
		"an agent too old":             {tunnelapi.Versions{Min: 2, Max: 4}, tunnelapi.Versions{Min: 1, Max: 1}, "version 1 of the channel, the hub 2 to 4: upgrade the agent"},
		"an agent too new":             {tunnelapi.Versions{Min: 1, Max: 1}, tunnelapi.Versions{Min: 2, Max: 4}, "version 2 to 4 of the channel, the hub 1: upgrade the hub"},
		"an agent that says nonsense":  {tunnelapi.Versions{Min: 1, Max: 1}, tunnelapi.Versions{Min: 5, Max: -1}, "upgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet()
			hub := f.hub(t, "hub-0", func(s *settings) { s.Versions = test.hub })
			a := f.agent(t, "edge", []*replica{hub}, said(func(h *tunnelapi.Hello) {
				h.MinProtocol, h.MaxProtocol = test.agent.Min, test.agent.Max
			}))
			if test.refused == "" {
				hub.connected(1)
				hub.answers("edge", a)
				return
			}
			eventually(t, "both logs say "+test.refused, func() bool { return a.log.says(test.refused) && hub.log.says(test.refused) })
		})
	}
}

func TestTwoConnectionsLeadToTwoReplicas(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hubs := []*replica{f.hub(t, "hub-0", several(3)), f.hub(t, "hub-1", several(3)), f.hub(t, "hub-2", several(3))}
	count := func() (held []int) {
		for _, hub := range hubs {
			held = append(held, len(hub.Connections()))
		}
		slices.Sort(held)
		return held
	}
	f.agent(t, "edge", hubs)
	eventually(t, "two replicas hold one connection each", func() bool { return slices.Equal(count(), []int{0, 1, 1}) })
	for _, hub := range hubs {
		if len(hub.Connections()) == 1 {
			hub.stop() // without a word
			break
		}
	}
	eventually(t, "the third has taken over", func() bool {
		up := 0
		for _, hub := range hubs {
			up += min(1, len(hub.Connections()))
		}
		return up == 2
	})
}

func TestAnAgentOfOneReplicaKeepsOneConnection(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	a := f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	hub.answers("edge", a)
	if n := hub.arrived.Load(); n != 1 {
		t.Errorf("%d connections were made", n)
	}
}

// steadily calls the cluster's agent again and again, over whichever replica is there, until stop, which says how often.
func steadily(t *testing.T, cluster string, hubs ...*replica) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	calls, ended := 0, make(chan struct{})
	call := func() (err error) {
		for _, hub := range hubs { // as a load balancer whose replica is not ready any more would
			var route *tunnel.Route
			if route, err = hub.Reach(ctx, cluster); err == nil {
				defer route.Release()
				_, err = asks(ctx, route)
				return err
			}
		}
		return err
	}
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := call(); err != nil && ctx.Err() == nil {
				t.Errorf("call %d: %v", calls, err)
				return
			}
			calls++
		}
	}()
	return func() int {
		cancel()
		<-ended
		return calls
	}
}

func TestDrainLosesNoCall(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hubs := []*replica{f.hub(t, "hub-0", several(2)), f.hub(t, "hub-1", several(2)), f.hub(t, "hub-2", several(2))}
	a := f.agent(t, "edge", hubs)
	eventually(t, "two replicas hold one connection each", func() bool {
		held := []int{len(hubs[0].Connections()), len(hubs[1].Connections()), len(hubs[2].Connections())}
		slices.Sort(held)
		return slices.Equal(held, []int{0, 1, 1})
	})
	i := slices.IndexFunc(hubs, func(r *replica) bool { return len(r.Connections()) == 1 })
	leaving, others := hubs[i], slices.Delete(slices.Clone(hubs), i, i+1)
	route := leaving.reach("edge")
	slow := make(chan error, 1)
	go func() {
		_, err := route.Diff(t.Context(), &tunnelapi.DiffRequest{Service: "slow"})
		slow <- err
	}()
	eventually(t, "the call is under way", func() bool { return a.diffs.Load() > 0 })
	stop := steadily(t, "edge", append([]*replica{leaving}, others...)...)
	drained := make(chan struct{})
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		leaving.unready.Store(true)
		leaving.Drain(ctx)
		close(drained)
	}()
	eventually(t, "the others hold both connections", func() bool {
		return len(others[0].Connections()) == 1 && len(others[1].Connections()) == 1
	})
	eventually(t, "the one that leaves gets no new routes", func() bool {
		held := leaving.Connections()
		return len(held) == 1 && held[0].Leaving
	})
	select {
	case <-drained:
		t.Error("it has not waited for the call")
	default:
	}
	close(a.release)
	if err := <-slow; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	route.Release()
	<-drained
	leaving.stop()
	if calls := stop(); calls == 0 {
		t.Error("there were no calls")
	}
}

func TestAReplicaThatIsAloneWaitsForWhatIsUnderWay(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	a := f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	route := hub.reach("edge")
	slow := make(chan error, 1)
	go func() {
		_, err := route.Diff(t.Context(), &tunnelapi.DiffRequest{Service: "slow"})
		slow <- err
		route.Release()
	}()
	eventually(t, "the call is under way", func() bool { return a.diffs.Load() > 0 })
	drained := make(chan struct{})
	go func() { hub.Drain(t.Context()); close(drained) }()
	eventually(t, "others are refused", func() bool {
		other, err := hub.Reach(t.Context(), "edge")
		if err == nil {
			other.Release()
		}
		return errors.Is(err, tunnel.ErrAbsent)
	})
	close(a.release)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	<-drained
}

func TestDrainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0", several(2)) // the other one is never there
	f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	stream, err := hub.reach("edge").Logs(t.Context(), &tunnelapi.LogsRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	hub.Drain(ctx)
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	hub.connected(0)
}

func TestAnOldConnectionIsReplacedBeforeItEnds(t *testing.T) {
	t.Parallel()
	f := newFleet()
	// Agents have a tenth of the age, at the least, until the hub ends what is too old: on a busy machine they need a while.
	hub := f.hub(t, "hub-0", func(s *settings) { s.MaxAge = 4 * time.Second })
	f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	stop := steadily(t, "edge", hub)
	eventually(t, "it was replaced twice", func() bool { return hub.arrived.Load() > 2 })
	if calls := stop(); calls == 0 {
		t.Error("there were no calls")
	}
	eventually(t, "old ones have ended", func() bool { return len(hub.Connections()) <= 2 })
}

func TestItIsToldWhichClustersAreConnected(t *testing.T) {
	t.Parallel()
	f := newFleet()
	told := make(chan string, 100)
	hub := f.hub(t, "hub-0", func(s *settings) {
		s.Held = func(cluster string, held bool) { told <- fmt.Sprint(cluster, " ", held) }
	})
	var conns conns
	f.agent(t, "edge", []*replica{hub}, conns.kept)
	want := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("nothing is told; want %q", want)
		}
	}
	want("edge true")
	conns.cut()
	want("edge false")
	want("edge true")
}

func TestALostConnectionComesBack(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0")
	var conns conns
	a := f.agent(t, "edge", []*replica{hub}, conns.kept)
	hub.connected(1)
	stream, err := hub.reach("edge").Logs(t.Context(), &tunnelapi.LogsRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	conns.cut()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a stream that was under way: %v", err)
	}
	eventually(t, "it is back", func() bool { return hub.arrived.Load() == 2 && len(hub.Connections()) == 1 })
	hub.answers("edge", a)
}

func TestOfTwoAgentsTheOneThatProvedItselfLastIsAsked(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0")
	older := f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	newer := f.agent(t, "edge", []*replica{hub}, said(func(h *tunnelapi.Hello) { h.Host = "thief" }), said(func(h *tunnelapi.Hello) { h.Boot = tunnelapi.NewBoot(time.Now().Add(time.Minute)) }))
	hub.connected(2)
	eventually(t, "the newer one answers", func() bool {
		boot, err := asks(t.Context(), hub.reach("edge"))
		return err == nil && boot == newer.boot
	})
	select {
	case e := <-hub.events:
		t.Errorf("an agent that is being replaced is warned of: %v", e)
	default:
	}
	newer.stop()
	hub.connected(1)
	hub.answers("edge", older) // which waited
}

// A3, A10: a key in two places shows.
func TestAnOlderAgentThatComesBackIsWarnedOf(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	f.agent(t, "edge", []*replica{hub}, said(func(h *tunnelapi.Hello) { h.Host = "agent-1" }))
	hub.connected(1)
	back := f.agent(t, "edge", []*replica{hub}, said(func(h *tunnelapi.Hello) { h.Boot, h.Host = tunnelapi.NewBoot(time.Now().Add(-time.Hour)), "agent-0" }))
	hub.connected(2)
	select {
	case e := <-hub.events:
		if e.GetReason() != "AgentsCompete" || !e.GetWarning() || !strings.Contains(e.GetMessage(), `"agent-1"`) || !strings.Contains(e.GetMessage(), `"agent-0"`) {
			t.Errorf("event %v", e)
		}
	case <-time.After(patience):
		t.Fatal("nobody was warned")
	}
	hub.answers("edge", back) // which proved itself last, whatever it says of when it started
}

func TestTwoAgentsForLongAreWarnedOf(t *testing.T) {
	t.Parallel()
	f := newFleet()
	var mu sync.Mutex
	ahead := time.Duration(0)
	hub := f.hub(t, "hub-0", func(s *settings) {
		s.Now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		}
	})
	f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	f.agent(t, "edge", []*replica{hub})
	hub.connected(2)
	mu.Lock()
	ahead = time.Minute
	mu.Unlock()
	select {
	case e := <-hub.events:
		if e.GetReason() != "AgentsCompete" {
			t.Errorf("event %v", e)
		}
	case <-time.After(patience):
		t.Fatal("nobody was warned")
	}
}

func TestAClusterHoldsNoMoreThanItsShareOfConnections(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	var agents []*agent
	for range 12 {
		agents = append(agents, f.agent(t, "edge", []*replica{hub}))
		eventually(t, "it is connected", func() bool { return int(hub.arrived.Load()) >= len(agents) })
	}
	eventually(t, "the share is kept", func() bool { return len(hub.Connections()) <= 8 })
	eventually(t, "the newest agent answers", func() bool { // those that had to leave come back, and others leave for them
		route, err := hub.Reach(t.Context(), "edge")
		if err != nil {
			return false
		}
		defer route.Release()
		boot, err := asks(t.Context(), route)
		return err == nil && boot == agents[11].boot
	})
}

func TestHintsReachEveryClusterOnceItIsDue(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	a, b := f.agent(t, "a", []*replica{hub}), f.agent(t, "b", []*replica{hub})
	hub.connected(2)
	hub.Changed("1-1", nil)
	for _, agent := range []*agent{a, b} {
		if got := <-agent.changed; got != "1-1" {
			t.Errorf("edition %q", got)
		}
	}
	hub.Changed("1-2", []string{"b", "who is not there"})
	if got := <-b.changed; got != "1-2" {
		t.Errorf("edition %q", got)
	}
	for i := range 1000 { // an agent that does not keep up hears of the newest
		hub.Changed(fmt.Sprintf("2-%d", i), []string{"a"})
	}
	for got := ""; got != "2-999"; got = <-a.changed {
		if got == "1-2" {
			t.Error("a was told what was for b")
		}
	}
}

func TestSyncAsksTheAgentForAPass(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	if err := hub.Sync(t.Context(), "edge", nil); !errors.Is(err, tunnel.ErrAbsent) {
		t.Errorf("Sync of nobody: %v", err)
	}
	a := f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	if err := hub.Sync(t.Context(), "edge", []string{"web", "db"}); err != nil {
		t.Fatal(err)
	}
	if got := <-a.synced; !slices.Equal(got, []string{"web", "db"}) {
		t.Errorf("services %q", got)
	}
}

// A8, A9: what an agent says is bounded in size and number.
func TestEventsOfAnAgentAreBounded(t *testing.T) {
	f := newFleet()
	hub := f.hub(t, "hub-0")
	a := f.agent(t, "edge", []*replica{hub})
	long := strings.Repeat("ä", 100_000)
	a.events <- &tunnelapi.Event{Service: long, Reason: long, Message: long, Key: long, Warning: true, UnixMs: 7}
	got := <-hub.events
	if !got.GetWarning() || len(got.GetMessage()) > 4096 || len(got.GetService()) > 253 || len(got.GetReason()) > 64 || got.GetUnixMs() != 7 ||
		!strings.HasPrefix(long, got.GetMessage()) || got.GetMessage() == "" {
		t.Errorf("event with a message of %d bytes", len(got.GetMessage()))
	}
	for range 500 {
		a.events <- &tunnelapi.Event{Reason: "Applied"}
	}
	route := hub.reach("edge")
	if _, err := asks(t.Context(), route); err != nil {
		t.Fatal(err)
	}
	if n := len(hub.events); n > 300 {
		t.Errorf("%d events of a flood were taken", n)
	}
}
