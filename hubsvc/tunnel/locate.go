package tunnel

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// subject is followed by the cluster's name in hexadecimal: whoever holds a connection of it listens there.
	subject = "plural_tunnel."
	// locateTime bounds the wait for an answer. Where nobody listens NATS says so at once.
	locateTime = 250 * time.Millisecond
	// maxAsked bounds the questions that wait to be answered; more are dropped, and asked again.
	maxAsked = 4096
	// maxHops is how many replicas are tried for one route: the agent has two connections.
	maxHops = 2
)

func subjectOf(cluster string) string { return subject + hex.EncodeToString([]byte(cluster)) }

// question is what one replica asks those that hold a cluster's connection.
type question struct {
	// Except are replicas that cannot be reached.
	Except []string `json:"except,omitempty"`
	// Sync asks for a pass over Services.
	Sync     bool     `json:"sync,omitempty"`
	Services []string `json:"services,omitempty"`
}

// place is where a cluster's connection is. It is a hint: the replica there looks for itself.
type place struct {
	Replica string `json:"replica"`
	// Address is where the replica serves others; empty: as is known of it.
	Address    string `json:"address,omitempty"`
	Connection string `json:"connection"`
	Hello      []byte `json:"hello"`
	// Error is why a pass was not asked for.
	Error string `json:"error,omitempty"`
}

// announce has this replica listen for questions about a cluster while it holds a connection, and tells of it. The caller holds
// the hub's mutex.
func (h *Hub) announce(cluster string, l *held) {
	here := l.best() != nil
	if h.Held != nil && here != l.told {
		l.told = here
		h.Held(cluster, here)
	}
	switch {
	case h.Conn == nil || here == (l.subscription != nil):
	case here:
		var err error
		// All clusters share one channel: each other form of subscription costs a goroutine.
		if l.subscription, err = h.Conn.ChanSubscribe(subjectOf(cluster), h.asked); err != nil {
			l.subscription = nil
			h.Log.Error("other replicas cannot find this cluster's connection", "cluster", cluster, "error", err)
		}
	default:
		_ = l.subscription.Unsubscribe() // fails once the connection to NATS has gone, which ends it too
		l.subscription = nil
	}
}

// answer answers another replica's question, if there is something to say.
func (h *Hub) answer(m *nats.Msg) {
	var q question
	name, err := hex.DecodeString(m.Subject[min(len(subject), len(m.Subject)):])
	if err != nil || json.Unmarshal(m.Data, &q) != nil || slices.Contains(q.Except, h.Self) {
		return
	}
	cluster := string(name)
	h.mu.Lock()
	c := h.clusters[cluster].best()
	h.mu.Unlock()
	if c == nil {
		return
	}
	found := place{Replica: h.Self, Address: h.Address, Connection: c.id}
	if q.Sync {
		if err := h.syncHere(cluster, q.Services); err != nil {
			found.Error = err.Error()
		}
	} else if found.Hello, err = proto.Marshal(c.hello); err != nil {
		return
	}
	data, err := json.Marshal(found)
	if err != nil {
		return
	}
	if err := m.Respond(data); err != nil {
		h.Log.Debug("another replica gets no answer", "cluster", cluster, "error", err)
	}
}

// ask puts a question to the replicas that hold the cluster's connections, and takes the first answer.
func (h *Hub) ask(ctx context.Context, cluster string, q question) (*place, error) {
	if h.Conn == nil {
		return nil, ErrAbsent
	}
	data, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("find connection of cluster %q: %w", cluster, err)
	}
	limited, cancel := context.WithTimeout(ctx, locateTime)
	defer cancel()
	began := time.Now()
	m, err := h.Conn.RequestWithContext(limited, subjectOf(cluster), data)
	h.metrics.locate.Observe(time.Since(began).Seconds())
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, ErrAbsent
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w; or the replica that knows does not answer: %w", ErrAbsent, err)
	}
	found := new(place)
	if err := json.Unmarshal(m.Data, found); err != nil || found.Replica == "" {
		return nil, fmt.Errorf("find connection of cluster %q: the answer is not understood", cluster)
	}
	return found, nil
}

// Route is the way to one cluster.
type Route struct {
	tunnelapi.ClusterClient
	// Hello is what the agent said of itself.
	Hello *tunnelapi.Hello
	// Connection names the connection, and Replica the one that holds it.
	Connection, Replica string

	over    grpc.ClientConnInterface
	release func()
}

// Release lets go of the route, which must not be used any more. It may be called twice.
func (r *Route) Release() { r.release() }

// Reach is a way to the cluster, for as long as Release is not called. The error is ErrAbsent, at once, when there is none.
// Where two replicas hold connections, and one cannot be reached, the way leads over the other.
func (h *Hub) Reach(ctx context.Context, cluster string) (*Route, error) {
	var failed error
	q := question{}
	for range maxHops {
		if r := h.local(cluster); r != nil {
			return r, nil
		}
		found, err := h.ask(ctx, cluster, q)
		if err != nil {
			return nil, cmp.Or(failed, err)
		}
		if found.Replica == h.Self { // it has come since
			continue
		}
		r, err := h.away(ctx, cluster, found)
		if err == nil {
			return r, nil
		}
		failed = fmt.Errorf("reach cluster %q over replica %q: %w", cluster, found.Replica, err)
		h.Log.Warn("replica that holds a cluster's connection cannot be reached", "cluster", cluster, "replica", found.Replica, "error", err)
		q.Except = append(q.Except, found.Replica)
	}
	return nil, cmp.Or(failed, ErrAbsent)
}

// away is a route over another replica.
func (h *Hub) away(ctx context.Context, cluster string, found *place) (*Route, error) {
	hello := new(tunnelapi.Hello)
	if err := proto.Unmarshal(found.Hello, hello); err != nil {
		return nil, fmt.Errorf("read what it says of the agent: %w", err)
	}
	address := found.Address
	if known, ok := h.Peer(found.Replica); ok {
		address = known
	}
	if address == "" {
		return nil, errors.New("its address is not known")
	}
	client, err := h.peers.ready(ctx, found.Replica, address)
	if err != nil {
		return nil, err
	}
	h.metrics.routes.WithLabelValues("away").Inc()
	over := &hop{client, cluster}
	return &Route{
		ClusterClient: tunnelapi.NewClusterClient(over), Hello: hello, Connection: found.Connection, Replica: found.Replica,
		over: over, release: sync.OnceFunc(func() {}),
	}, nil
}

// Sync asks the cluster's agent for a pass over services now; none named means all.
func (h *Hub) Sync(ctx context.Context, cluster string, services []string) error {
	if err := h.syncHere(cluster, services); !errors.Is(err, ErrAbsent) {
		return err
	}
	found, err := h.ask(ctx, cluster, question{Sync: true, Services: services})
	if err == nil && found.Error != "" {
		err = errors.New(found.Error)
	}
	return err
}
