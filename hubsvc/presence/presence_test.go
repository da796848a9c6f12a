package presence

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/pluralsh/plural/hubsvc/natsd"
)

// hub is replicas that talk by a real NATS server.
type hub struct {
	*testing.T
	conn *nats.Conn
}

func newHub(t *testing.T) *hub {
	t.Helper()
	server, err := natsd.Start(t.Context(), natsd.Options{Dir: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &hub{t, server.Conn()}
}

// replica is one, with what it was told to have changed.
type replica struct {
	*Presence
	stop func()

	mu      sync.Mutex // guards what follows
	changed map[string]int
}

// never is a beat that does not come while a test runs: what is known then is known without.
const never = time.Hour

func (h *hub) start(name string, beat time.Duration) *replica {
	h.Helper()
	r := &replica{changed: map[string]int{}}
	r.Presence = New(Options{Self: name, Conn: h.conn, Beat: beat, Log: slog.New(slog.DiscardHandler), Changed: func(cluster string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changed[cluster]++
	}})
	ctx, cancel := context.WithCancel(h.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.Error(err)
		}
	})
	h.Cleanup(r.stop)
	return r
}

func (h *hub) eventually(what string, right func() bool) {
	h.Helper()
	deadline := time.After(time.Minute)
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !right() {
		select {
		case <-deadline:
			h.Fatalf("waited in vain until %s", what)
		case <-look.C:
		}
	}
}

func TestEveryReplicaKnowsWhatAnyHolds(t *testing.T) {
	h := newHub(t)
	a, b := h.start("a", never), h.start("b", never)
	a.Set("edge-1", true)
	a.Set("edge-2", true)
	b.Set("edge-2", true)
	c := h.start("c", never) // which comes later
	for _, r := range []*replica{a, b, c} {
		h.eventually("all know of both", func() bool {
			r.Presence.mu.Lock()
			defer r.Presence.mu.Unlock()
			return r.holders["edge-1"] == 1 && r.holders["edge-2"] == 2
		})
		if r.Connected("edge-3") {
			t.Error("a cluster is connected that is not")
		}
	}
	a.Set("edge-1", false)
	a.Set("edge-2", false) // b holds it, too
	for _, r := range []*replica{a, b, c} {
		h.eventually("nobody takes the cluster for connected", func() bool { return !r.Connected("edge-1") })
		if !r.Connected("edge-2") {
			t.Error("a connection is forgotten")
		}
	}
	b.stop()
	for _, r := range []*replica{a, c} {
		h.eventually("what the replica held that left is not connected", func() bool { return !r.Connected("edge-2") })
	}
	told := map[string]int{}
	h.eventually("both are told to have come and gone", func() bool { // which is told after it is known
		a.mu.Lock()
		defer a.mu.Unlock()
		told = maps.Clone(a.changed)
		return told["edge-1"] >= 2 && told["edge-2"] >= 2
	})
	if diff := cmp.Diff(map[string]int{"edge-1": 2, "edge-2": 2}, told); diff != "" {
		t.Errorf("changes told: %s", diff)
	}
}

func TestAReplicaThatComesLaterLearnsOfMoreThanOneMessageHolds(t *testing.T) {
	h := newHub(t)
	a := h.start("a", never)
	const many = 2*perMessage + 1
	for i := range many {
		a.Set(fmt.Sprint("edge-", i), true)
	}
	b := h.start("b", never)
	all := func() bool {
		for i := range many {
			if !b.Connected(fmt.Sprint("edge-", i)) {
				return false
			}
		}
		return true
	}
	h.eventually("the other replica knows of all", all)
}

// say publishes as a replica of which nothing else is there.
func (h *hub) say(w announcement) {
	h.Helper()
	text, err := json.Marshal(w)
	if err == nil {
		err = h.conn.Publish(subject, text)
	}
	if err != nil {
		h.Fatal(err)
	}
}

func TestALostMessageIsMadeUpFor(t *testing.T) {
	h := newHub(t)
	a, b := h.start("a", never), h.start("b", never)
	a.Set("edge-1", true)
	h.eventually("the other knows", func() bool { return b.Connected("edge-1") })
	// As if what b heard of a was something else.
	h.say(announcement{Replica: "a", Opened: []string{"edge-2"}, Closed: []string{"edge-1"}, Count: 1, Sum: sumOf("edge-2")})
	h.eventually("the other was led astray", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.changed["edge-2"] > 0 })
	a.Set("edge-3", true)
	h.eventually("the other knows again", func() bool { return b.Connected("edge-1") && !b.Connected("edge-2") })
}

func TestAReplicaThatFallsSilentHoldsNothing(t *testing.T) {
	h := newHub(t)
	a := h.start("a", 50*time.Millisecond)
	h.eventually("it was heard", func() bool {
		h.say(announcement{Replica: "ghost", Opened: []string{"edge-1"}, Count: 1, Sum: sumOf("edge-1")}) // nobody may listen yet
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.changed["edge-1"] > 0
	})
	h.eventually("it is forgotten", func() bool { return !a.Connected("edge-1") })
}

func TestAReplicaThatIsAloneKnowsWhatItHolds(t *testing.T) {
	p := New(Options{Self: "hub", Changed: func(string) {}})
	p.Set("edge-1", true)
	p.Set("edge-1", true)
	if !p.Connected("edge-1") {
		t.Error("it is not connected")
	}
	p.Set("edge-1", false)
	if p.Connected("edge-1") {
		t.Error("it is still connected")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil {
		t.Error(err)
	}
}

// A replica of another version may say anything.
func FuzzWhatIsHeardDoesNoHarm(f *testing.F) {
	for _, w := range []announcement{
		{Replica: "b", Opened: []string{"x"}, Closed: []string{"x"}, Count: 1},
		{Replica: "b", All: []string{"x", "y"}, First: true, Last: true, Count: 2},
		{Replica: "b", Gone: true},
		{Replica: "b", Ask: "a"},
		{Replica: "a", Opened: []string{"x"}},
	} {
		text, err := json.Marshal(w)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p := New(Options{Self: "a", Changed: func(string) {}})
		p.Set("mine", true)
		p.hear(&nats.Msg{Data: text})
		p.hear(&nats.Msg{Data: text})
		if !p.Connected("mine") {
			t.Error("what others say changes what is held here")
		}
		for cluster, holders := range p.holders {
			if holders < 1 || holders > 2 {
				t.Errorf("%q has %d holders", cluster, holders)
			}
		}
	})
}
