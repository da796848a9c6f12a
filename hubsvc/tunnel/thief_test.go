package tunnel_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/tunnel"
)

// last is a boot that is greater than any.
const last = "zzzzzzzzzzzz"

// bindingOf names the TLS connection that a test has opened.
func bindingOf(tb testing.TB, conn any) []byte {
	tb.Helper()
	state := conn.(*tls.Conn).ConnectionState()
	binding := token.Binding(&state)
	if len(binding) == 0 {
		tb.Fatal("the connection has no binding")
	}
	return binding
}

// warned waits for an event of the reason.
func (r *replica) warned(reason string) *tunnelapi.Event {
	r.tb.Helper()
	for {
		select {
		case e := <-r.events:
			if e.GetReason() == reason && e.GetWarning() {
				return e
			}
		case <-time.After(patience):
			r.tb.Fatalf("nobody is warned of %s", reason)
		}
	}
}

// A3: a token was read from a log, and it is not even bound, as those of agents behind a proxy that ends TLS are not.
func TestAStolenTokenAloneOpensNoConnection(t *testing.T) {
	t.Parallel()
	hello := &tunnelapi.Hello{Cluster: "edge", Host: "thief", Boot: last, MinProtocol: 1, MaxProtocol: 1, AgentVersion: "0.9.0"}
	for name, test := range map[string]struct {
		// first is what the thief says on a connection with a binding, being asked to sign a nonce. It may see what the agent
		// signs elsewhere, but not the key.
		first func(h *hostile, agent *token.Signer, binding []byte) func(nonce []byte) *tunnelapi.AgentMessage
		want  string
	}{
		"who says who it is, as agents once did": {
			func(h *hostile, _ *token.Signer, _ []byte) func([]byte) *tunnelapi.AgentMessage {
				return func([]byte) *tunnelapi.AgentMessage { return &tunnelapi.AgentMessage{Hello: h.hello} }
			}, `"0.9.0", does not prove that it holds the cluster's key: upgrade it`,
		},
		"who signs nothing": {
			func(h *hostile, agent *token.Signer, _ []byte) func([]byte) *tunnelapi.AgentMessage {
				return func(nonce []byte) *tunnelapi.AgentMessage {
					m := h.proves(agent, nil)(nonce)
					m.Proven.Signature = nil
					return m
				}
			}, "is not one for this connection",
		},
		"who signs with another key": {
			func(h *hostile, _ *token.Signer, binding []byte) func([]byte) *tunnelapi.AgentMessage {
				_, key, err := ed25519.GenerateKey(nil)
				if err != nil {
					panic(err)
				}
				return h.proves(token.NewSigner(key, "edge", hubURL, time.Now), binding)
			}, "is not one for this connection",
		},
		"who shows what was signed for another nonce": {
			func(h *hostile, agent *token.Signer, binding []byte) func([]byte) *tunnelapi.AgentMessage {
				return func([]byte) *tunnelapi.AgentMessage { return h.proves(agent, binding)(token.NewNonce()) }
			}, "is not one for this connection",
		},
		"who passes the nonce on to an agent that has connected to the thief": {
			func(h *hostile, agent *token.Signer, binding []byte) func([]byte) *tunnelapi.AgentMessage {
				return h.proves(agent, bytes.Repeat([]byte{7}, len(binding)))
			}, "but on another TLS connection",
		},
		"who takes the other connection's name away": {
			func(h *hostile, agent *token.Signer, binding []byte) func([]byte) *tunnelapi.AgentMessage {
				return func(nonce []byte) *tunnelapi.AgentMessage {
					m := h.proves(agent, bytes.Repeat([]byte{7}, len(binding)))(nonce)
					m.Proven.Binding = nil
					return m
				}
			}, "is not one for this connection",
		},
		"who says something else than was signed": {
			func(h *hostile, agent *token.Signer, binding []byte) func([]byte) *tunnelapi.AgentMessage {
				return func(nonce []byte) *tunnelapi.AgentMessage {
					m := h.proves(agent, binding)(nonce)
					other := proto.CloneOf(h.hello)
					other.Host = "another"
					m.Proven.Hello, _ = proto.Marshal(other)
					return m
				}
			}, "is not one for this connection",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet()
			hub := f.hub(t, "hub-0")
			a := f.agent(t, "edge", []*replica{hub})
			hub.connected(1)
			conn := hub.open(f, "edge")
			h := &hostile{hello: hello, gone: make(chan struct{}, 1)}
			h.first = test.first(h, f.signer("edge"), bindingOf(t, conn))
			h.serve(t, conn)
			if e := hub.warned("AgentUnproven"); !strings.Contains(e.GetMessage(), test.want) ||
				!strings.Contains(e.GetMessage(), conn.LocalAddr().String()) {
				t.Errorf("event %q, want %q", e.GetMessage(), test.want)
			}
			h.shed(t)
			hub.answers("edge", a)
			if arrived := hub.arrived.Load(); arrived != 1 {
				t.Errorf("%d connections were taken", arrived)
			}
		})
	}
}

// A proof that somebody recorded, with the token of the same agent, is good on no other connection.
func TestARecordedProofOpensNoOtherConnection(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0")
	h := &hostile{hello: &tunnelapi.Hello{Cluster: "edge", Boot: "1", MinProtocol: 1, MaxProtocol: 1}}
	var mu sync.Mutex
	var recorded *tunnelapi.AgentMessage
	first := hub.open(f, "edge")
	sign := h.proves(f.signer("edge"), bindingOf(t, first))
	h.first = func(nonce []byte) *tunnelapi.AgentMessage {
		mu.Lock()
		defer mu.Unlock()
		recorded = sign(nonce)
		return recorded
	}
	h.serve(t, first)
	hub.connected(1)
	thief := &hostile{hello: h.hello, gone: make(chan struct{}, 1), first: func([]byte) *tunnelapi.AgentMessage {
		mu.Lock()
		defer mu.Unlock()
		return recorded
	}}
	for n := range 2 {
		thief.serve(t, hub.open(f, "edge"))
		thief.shed(t)
		eventually(t, "the log says so", func() bool { return strings.Count(hub.log.String(), "agent's connection is refused") == n+1 })
	}
	if n := strings.Count(hub.log.String(), "level=WARN"); n != 1 {
		t.Errorf("the log warns %d times", n)
	}
	hub.warned("AgentUnproven")
	select {
	case e := <-hub.events:
		t.Errorf("it is said again: %v", e)
	default:
	}
	hub.connected(1)
}

func TestATokenThatIsBoundOpensNoOtherConnection(t *testing.T) {
	f := newFleet()
	shown := make(chan string, 10)
	hub := f.hub(t, "hub-0", func(s *settings) {
		s.before = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				shown <- r.Header.Get("Authorization")
				next.ServeHTTP(w, r)
			})
		}
	})
	f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	_, response := hub.knock(http.Header{"Authorization": {<-shown}})
	if response.StatusCode != http.StatusUnauthorized || response.Header.Get(token.Elsewhere) == "" {
		t.Errorf("answered %s", response.Status)
	}
	hub.connected(1)
}

// What an agent says of when it started wins nothing, even for who holds the key.
func TestTheGreatestBootWinsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0")
	h := &hostile{hello: &tunnelapi.Hello{Cluster: "edge", Boot: last, MinProtocol: 1, MaxProtocol: 1}}
	h.first = h.proves(f.signer("edge"), nil)
	for n := range 8 { // as many as a cluster may have
		h.serve(t, hub.open(f, "edge"))
		hub.connected(n + 1)
	}
	a := f.agent(t, "edge", []*replica{hub})
	eventually(t, "the agent that came last answers", func() bool {
		return hub.arrived.Load() == 9 && hub.leads("edge") == a.boot
	})
	hub.warned("AgentsCompete")
	h.serve(t, hub.open(f, "edge")) // one more of the same process
	eventually(t, "it is there", func() bool { return hub.arrived.Load() == 10 })
	hub.answers("edge", a)
}

// leads is the boot of the agent that the next route leads to.
func (r *replica) leads(cluster string) string {
	r.tb.Helper()
	route, err := r.Reach(r.tb.Context(), cluster)
	if err != nil {
		r.tb.Fatal(err)
	}
	defer route.Release()
	return route.Hello.GetBoot()
}

func TestAConnectionEndsAtItsAgeWhateverItsAgentDoes(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0", func(s *settings) { s.MaxAge = 500 * time.Millisecond })
	hello := &tunnelapi.Hello{Cluster: "edge", Boot: "1", MinProtocol: 1, MaxProtocol: 1}
	h := &hostile{hello: hello, gone: make(chan struct{}, 1), logs: func(s tunnelapi.Cluster_LogsServer) error {
		if err := s.Send(&tunnelapi.LogLine{Message: "one"}); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}}
	h.first = h.proves(f.signer("edge"), nil)
	began := time.Now()
	h.serve(t, hub.open(f, "edge"))
	h.shed(t)
	if age := time.Since(began); age < 600*time.Millisecond {
		t.Errorf("it ended after %v, before an agent would have replaced it", age)
	}
	hub.connected(0)
	h.serve(t, hub.open(f, "edge"))
	hub.connected(1)
	stream, err := hub.reach("edge").Logs(t.Context(), &tunnelapi.LogsRequest{Follow: true})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing new goes over it", func() bool {
		route, err := hub.Reach(t.Context(), "edge")
		if err == nil {
			route.Release()
		}
		return errors.Is(err, tunnel.ErrAbsent)
	})
	if len(hub.Connections()) != 1 {
		t.Error("what was under way is cut off at once")
	}
	h.shed(t) // though the stream has no end
	hub.connected(0)
	if !hub.log.says("its agent has not replaced it in time") {
		t.Error("the log does not say why")
	}
}

// What tells one process from another would pass a thief off as the process that it has the key of: nobody is shown it.
func TestWhatAProcessIsKnownByIsShownToNobody(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0")
	a := f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
	shown := hub.Connections()[0]
	if shown.Boot == a.boot || strings.Contains(hub.log.String(), a.boot) {
		t.Fatalf("it is shown: %+v\n%s", shown, hub.log)
	}
	thief := &hostile{hello: &tunnelapi.Hello{Cluster: "edge", Boot: shown.Boot, Host: shown.Host, MinProtocol: 1, MaxProtocol: 1}}
	thief.first = thief.proves(f.signer("edge"), nil)
	thief.serve(t, hub.open(f, "edge"))
	hub.connected(2)
	if list := hub.Connections(); list[0].Boot == list[1].Boot {
		t.Errorf("two processes are shown as one: %+v", list)
	}
}

// Whoever holds a cluster's key may come as a new process again and again; each time has its lines in the log.
func TestWhoConnectsAllTheTimeIsLetInNowAndThen(t *testing.T) {
	t.Parallel()
	f := newFleet()
	var late atomic.Bool
	now := time.Now()
	hub := f.hub(t, "hub-0", func(s *settings) {
		s.Now = func() time.Time {
			if late.Load() {
				return now.Add(5 * time.Second)
			}
			return now
		}
	})
	come := func(n int) {
		h := &hostile{hello: &tunnelapi.Hello{Cluster: "edge", Boot: fmt.Sprint(n), MinProtocol: 1, MaxProtocol: 1}}
		h.first = h.proves(f.signer("edge"), nil)
		h.serve(t, hub.open(f, "edge"))
	}
	lines := func(text string) int { return strings.Count(hub.log.String(), text) }
	for n := range 20 {
		come(n)
		eventually(t, "it is let in", func() bool { return hub.arrived.Load() == int32(n+1) })
	}
	for n := range 25 {
		come(20 + n)
		eventually(t, "it is told why not", func() bool { return lines("connect too often: wait") == n+1 })
	}
	if loud := lines("level=WARN msg=\"agent's connection is refused\""); loud != 20 {
		t.Errorf("the log warns of %d refusals", loud)
	}
	f.agent(t, "other", []*replica{hub})
	eventually(t, "another cluster's agent is let in", func() bool { return hub.arrived.Load() == 21 })
	late.Store(true)
	come(99)
	eventually(t, "one more is let in", func() bool { return hub.arrived.Load() == 22 })
}

// A token is enough to be refused: neither the log nor the agent itself suffers from it.
func TestWhoIsRefusedAllTheTimeFillsNoLogAndKeepsNoAgentOut(t *testing.T) {
	t.Parallel()
	f := newFleet()
	now := time.Now()
	hub := f.hub(t, "hub-0", func(s *settings) { s.Now = func() time.Time { return now } })
	for n := range 30 {
		h := &hostile{hello: &tunnelapi.Hello{Cluster: "edge", Boot: "1", MinProtocol: 99, MaxProtocol: 99}}
		h.first = h.proves(f.signer("edge"), nil)
		h.serve(t, hub.open(f, "edge"))
		eventually(t, "it is refused", func() bool { return strings.Count(hub.log.String(), "connection is refused") == n+1 })
	}
	if n := strings.Count(hub.log.String(), "level=WARN"); n != 20 {
		t.Errorf("the log warns %d times", n)
	}
	f.agent(t, "edge", []*replica{hub})
	hub.connected(1)
}
