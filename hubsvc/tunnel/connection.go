package tunnel

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/netconn"
)

const (
	// step is how long an agent may take to say who it is.
	step = 10 * time.Second
	// ping is how often a silent connection is tried, and pong how long the answer may take. Load balancers end what is
	// silent for a minute.
	ping = 20 * time.Second
	pong = 10 * time.Second
	// maxHeaderList bounds the metadata of one answer, in bytes.
	maxHeaderList = 64 << 10
	// eventRate and eventBurst bound what is taken of one cluster's events, a second and at once.
	eventRate  = 10
	eventBurst = 100
	// eachArrival and arrivalBurst bound how often agents of one cluster are let in, or refused with a line in the log: the next
	// after so long, and so many at once. An agent that goes on being refused comes to wait 15 seconds on average.
	eachArrival  = 5 * time.Second
	arrivalBurst = 20
	// maxSyncs bounds the requests for passes that an agent has not taken yet.
	maxSyncs = 16
)

// Bounds of what an agent says of itself and of what happened, in bytes.
const (
	maxName    = 253
	maxText    = 4 << 10
	maxCanDo   = 32
	maxVersion = 64
)

// connection is one agent's, from its Hello to its end.
type connection struct {
	caller
	id    string
	hello *tunnelapi.Hello
	since time.Time
	// asked is when the hub made the nonce that the agent has signed.
	asked time.Time
	// bound says that the proof names the TLS connection that ends here: nothing between here and the agent could have used it.
	bound  bool
	client *grpc.ClientConn
	log    *slog.Logger
	events *rate.Limiter // of the cluster
	// end ends it, saying why.
	end context.CancelCauseFunc

	// Guarded by the hub's mutex: when the agent's process proved itself here first, the routes over it, whether there are to be no
	// more and why, whether it was ended to make room, and what ends it if the routes do not.
	began   time.Time
	routes  int
	leaving bool
	why     error
	crowded bool
	last    *time.Timer

	outbox outbox
}

// Why connections end.
var (
	errSlow     = errors.New("the agent did not say who it is in time")
	errLost     = errors.New("the connection was lost")
	errRevoked  = errors.New("the cluster's key is gone, or another")
	errReplaced = errors.New("the agent has another connection")
	errCrowded  = errors.New("the cluster has too many connections")
	errEnding   = errors.New("this replica of the hub ends")
	errOld      = errors.New("its agent has not replaced it in time")
	errOften    = errors.New("the cluster's agents connect too often: wait, and see whether another one has the cluster's key")
)

// serve keeps a connection from when it was made until it ends.
func (h *Hub) serve(conn *netconn.Conn, who caller) {
	defer func() { _ = conn.Close() }()
	heard := sync.OnceFunc(func() { h.unexpect(who.cluster) })
	defer heard()
	client, err := grpc.NewClient("passthrough:///agent", dialOptions(conn)...)
	if err != nil {
		h.Log.Error("agent's connection cannot be used", "cluster", who.cluster, "error", err)
		return
	}
	defer func() { _ = client.Close() }()
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	h.mu.Lock()
	h.ends[conn] = end
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.ends, conn)
		h.mu.Unlock()
	}()
	c, control, err := h.greet(ctx, end, client, who)
	if err != nil {
		why, level := "hello", slog.LevelWarn
		unproven := new(unprovenError)
		switch {
		case errors.As(err, &unproven):
			why = "proof"
			if !h.doubt(who, err) { // a fleet of older agents goes on trying
				level = slog.LevelDebug
			}
		default:
			if errors.Is(err, errOften) {
				why = "too often"
			}
			if !h.paceOf(who.cluster).refusals.AllowN(h.Now(), 1) {
				level = slog.LevelDebug
			}
		}
		h.metrics.refused.WithLabelValues(why).Inc()
		h.Log.Log(context.Background(), level, "agent's connection is refused", "cluster", who.cluster, "remote", who.remote,
			"transport", who.by, "error", err)
		return
	}
	heard()
	err = h.hold(ctx, c, control)
	in, out := conn.Bytes()
	c.log.Info("agent's connection ended", "why", err, "received", in, "sent", out)
}

// dialOptions make a client of the one connection that there is. What it costs while nothing happens is what matters: ten
// thousand are held.
func dialOptions(conn *netconn.Conn) []grpc.DialOption {
	var taken atomic.Bool
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // what is below has TLS
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if taken.Swap(true) {
				return nil, errLost
			}
			return conn, nil
		}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(),
		grpc.WithIdleTimeout(0),
		grpc.WithStaticStreamWindowSize(tunnelapi.StreamWindow), grpc.WithStaticConnWindowSize(tunnelapi.ConnWindow),
		grpc.WithReadBufferSize(0), // what is below has a buffer to read from
		grpc.WithMaxHeaderListSize(maxHeaderList),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(tunnelapi.MaxMessage), grpc.MaxCallSendMsgSize(tunnelapi.MaxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: ping, Timeout: pong, PermitWithoutStream: true}),
	}
}

// greet hears who the agent says it is, and answers.
func (h *Hub) greet(
	ctx context.Context, end context.CancelCauseFunc, client *grpc.ClientConn, who caller,
) (*connection, tunnelapi.Cluster_ControlClient, error) {
	timer := time.AfterFunc(step, func() { end(errSlow) })
	defer timer.Stop()
	nonce, asked := token.NewNonce(), h.Now()
	control, err := tunnelapi.NewClusterClient(client).Control(
		metadata.AppendToOutgoingContext(ctx, tunnelapi.NonceKey, string(nonce)), grpc.WaitForReady(true))
	if err != nil {
		return nil, nil, cause(ctx, err)
	}
	first, err := control.Recv()
	if err != nil {
		return nil, nil, cause(ctx, err)
	}
	hello, err := h.prove(first, nonce, who)
	var version int32
	if err == nil {
		version, err = h.judge(hello, who)
	}
	// Only who holds the key counts: a token alone keeps no agent out.
	if err == nil && !h.paceOf(who.cluster).arrivals.AllowN(h.Now(), 1) {
		err = errOften
	}
	if err != nil {
		_ = control.Send(&tunnelapi.HubMessage{Refused: &tunnelapi.Refused{Reason: err.Error()}})
		_ = control.CloseSend()
		_, _ = control.Recv() // the agent ends it once it has read why; or the timer does
		return nil, nil, err
	}
	clip(hello)
	c := &connection{
		caller: who, id: h.Self + "-" + random(), hello: hello, since: h.Now(), asked: asked,
		bound: len(first.GetProven().GetBinding()) > 0, client: client,
		events: h.paceOf(who.cluster).events, end: end,
	}
	c.log = h.Log.With("cluster", who.cluster, "connection", c.id)
	c.outbox.send = control.Send
	err = control.Send(&tunnelapi.HubMessage{Welcome: &tunnelapi.Welcome{
		Hub: h.Self, Connection: c.id, Protocol: version, Replicas: int32(h.replicas()), MaxAgeMs: h.maxAge().Milliseconds(),
	}})
	if err != nil {
		return nil, nil, cause(ctx, err)
	}
	return c, control, nil
}

// cause is why the connection was ended, if it was here.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

// unprovenError says why nobody knows that the agent holds the cluster's key: a token shows that somebody did, not long ago.
type unprovenError struct{ reason string }

func (e *unprovenError) Error() string { return e.reason }

// prove returns what an agent says of itself, if it has signed that for this connection with the cluster's key.
func (h *Hub) prove(first *tunnelapi.AgentMessage, nonce []byte, who caller) (*tunnelapi.Hello, error) {
	proven := first.GetProven()
	if proven == nil {
		if first.GetHello() == nil {
			return nil, errors.New("the first message is not a hello")
		}
		return nil, &unprovenError{fmt.Sprintf("the agent, which says that it is of version %.64q, does not prove that it holds the "+
			"cluster's key: upgrade it; until then it polls, but nobody reaches the cluster over it", first.GetHello().GetAgentVersion())}
	}
	proof := token.Proof{Nonce: nonce, Binding: proven.GetBinding(), Said: proven.GetHello()}
	if !proof.SignedBy(who.key, h.URL(), proven.GetSignature()) {
		return nil, &unprovenError{"the agent's proof that it holds the cluster's key is not one for this connection"}
	}
	if len(proof.Binding) > 0 && !bytes.Equal(proof.Binding, who.binding) {
		return nil, &unprovenError{"the agent proves that it holds the cluster's key, but on another TLS connection: " +
			"something between it and the hub ends TLS"}
	}
	hello := new(tunnelapi.Hello)
	if err := proto.Unmarshal(proof.Said, hello); err != nil {
		return nil, fmt.Errorf("read the agent's hello: %w", err)
	}
	return hello, nil
}

// forgetting is how long after somebody was told of an agent that proved nothing they are told again.
const forgetting = time.Hour

// doubt tells people of an agent that proved nothing, and says false when that was done not long ago.
func (h *Hub) doubt(who caller, err error) bool {
	h.mu.Lock()
	_, told := h.doubted[who.cluster]
	if !told {
		h.doubted[who.cluster] = h.Now()
	}
	h.mu.Unlock()
	if told || h.Found == nil {
		return !told
	}
	h.Found(who.cluster, &tunnelapi.Event{
		Reason: "AgentUnproven", Warning: true, UnixMs: h.Now().UnixMilli(),
		Message: fmt.Sprintf("an agent of cluster %s at %s is not let onto the channel: %v. If it is not yours, somebody has read one of "+
			"its tokens, which are good for minutes", who.cluster, who.remote, err),
	})
	return true
}

func (h *Hub) forgetDoubts() {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.doubted, func(_ string, at time.Time) bool { return h.Now().Sub(at) >= forgetting })
}

// judge says which version is spoken with an agent, or why none.
func (h *Hub) judge(hello *tunnelapi.Hello, who caller) (int32, error) {
	if hello.GetCluster() != who.cluster {
		return 0, fmt.Errorf("the agent says that it is cluster %.100q's; its credential is cluster %q's", hello.GetCluster(), who.cluster)
	}
	ours, theirs := h.versions(), tunnelapi.Versions{Min: hello.GetMinProtocol(), Max: hello.GetMaxProtocol()}
	version, ok := ours.Agree(theirs)
	switch {
	case ok:
		return version, nil
	case theirs.Max < ours.Min:
		return 0, fmt.Errorf("the agent speaks version %v of the channel, the hub %v: upgrade the agent", theirs, ours)
	default:
		return 0, fmt.Errorf("the agent speaks version %v of the channel, the hub %v: upgrade the hub", theirs, ours)
	}
}

// clip bounds what is kept of a hello.
func clip(hello *tunnelapi.Hello) {
	for _, text := range []*string{&hello.Host, &hello.Boot} {
		*text = clipped(*text, maxName)
	}
	for _, text := range []*string{&hello.AgentVersion, &hello.KubernetesVersion, &hello.ClusterUid} {
		*text = clipped(*text, maxVersion)
	}
	hello.Capabilities = hello.Capabilities[:min(len(hello.Capabilities), maxCanDo)]
	for i, name := range hello.Capabilities {
		hello.Capabilities[i] = clipped(name, maxVersion)
	}
	hello.ProtoReflect().SetUnknown(nil)
}

// clipped is the beginning of a text, copied so that it does not keep the rest in memory.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:most], ""))
}

// hold registers a connection, and takes what its agent says until it ends.
func (h *Hub) hold(ctx context.Context, c *connection, control tunnelapi.Cluster_ControlClient) error {
	if err := h.add(c); err != nil {
		return err
	}
	defer c.outbox.close()
	defer h.remove(c)
	if !h.holds(c) { // the key went before Recheck could find the connection
		return errRevoked
	}
	c.log.Info("agent connected", "host", c.hello.GetHost(), "boot", c.process(), "remote", c.remote, "transport", c.by,
		"bound_to_tls", c.bound,
		"version", c.hello.GetAgentVersion(), "kubernetes", c.hello.GetKubernetesVersion())
	if h.Arrived != nil {
		h.Arrived(c.cluster)
	}
	defer time.AfterFunc(h.longest(), func() { h.retire(c, errOld) }).Stop()
	for {
		message, err := control.Recv()
		if err != nil {
			return cause(ctx, fmt.Errorf("%w: %w", errLost, err))
		}
		if message.GetDrained() != nil {
			h.retire(c, errReplaced)
		}
		if event := message.GetEvent(); event != nil {
			h.take(c, event)
		}
	}
}

// pace bounds what comes of a cluster, over all its connections, also those that it had before: what its agents say happened,
// those that are let in, and those that are refused with a line in the log.
type pace struct{ events, arrivals, refusals *rate.Limiter }

func newPace() *pace {
	return &pace{
		events:   rate.NewLimiter(eventRate, eventBurst),
		arrivals: rate.NewLimiter(rate.Every(eachArrival), arrivalBurst), refusals: rate.NewLimiter(rate.Every(eachArrival), arrivalBurst),
	}
}

// whole says whether nothing of it is used up.
func (p *pace) whole(now time.Time) bool {
	return p.events.Tokens() >= eventBurst && p.arrivals.TokensAt(now) >= arrivalBurst && p.refusals.TokensAt(now) >= arrivalBurst
}

func (h *Hub) paceOf(cluster string) *pace {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := h.paces[cluster]
	if found == nil {
		found = newPace()
		h.paces[cluster] = found
	}
	return found
}

// forgetPaces drops the bounds of clusters that are gone, and have been silent for long enough to begin anew.
func (h *Hub) forgetPaces() {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.paces, func(cluster string, p *pace) bool {
		return h.clusters[cluster] == nil && p.whole(h.Now())
	})
}

// take hands on what an agent says happened, within bounds.
func (h *Hub) take(c *connection, event *tunnelapi.Event) {
	if h.Event == nil {
		return
	}
	if !c.events.Allow() {
		h.metrics.events.WithLabelValues("dropped").Inc()
		return
	}
	h.metrics.events.WithLabelValues("taken").Inc()
	h.Event(c.cluster, &tunnelapi.Event{
		Service: clipped(event.GetService(), maxName), Reason: clipped(event.GetReason(), maxVersion), Warning: event.GetWarning(),
		Message: clipped(event.GetMessage(), maxText), Key: clipped(event.GetKey(), maxName), UnixMs: event.GetUnixMs(),
	})
}

func random() string {
	var bytes [5]byte
	_, _ = rand.Read(bytes[:]) // never fails
	return hex.EncodeToString(bytes[:])
}

// outbox is what the agent is to be told. A goroutine is there only while there is something.
type outbox struct {
	send    func(*tunnelapi.HubMessage) error
	writing sync.WaitGroup

	mu      sync.Mutex // guards what follows
	busy    bool
	closed  bool
	drain   *tunnelapi.Drain
	changed *tunnelapi.Changed // the newest alone
	syncs   []*tunnelapi.Sync
}

// put has change ask for something to be said; false means that the agent does not take what is there already.
func (o *outbox) put(change func() bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || !change() {
		return false
	}
	if !o.busy {
		o.busy = true
		o.writing.Go(o.write)
	}
	return true
}

func (o *outbox) write() {
	for {
		o.mu.Lock()
		message := &tunnelapi.HubMessage{Drain: o.drain, Changed: o.changed}
		o.drain, o.changed = nil, nil
		if len(o.syncs) > 0 {
			message.Sync = o.syncs[0]
			o.syncs = slices.Delete(o.syncs, 0, 1)
		}
		if message.Drain == nil && message.Changed == nil && message.Sync == nil || o.closed {
			o.busy = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		if o.send(message) != nil {
			o.mu.Lock()
			o.closed = true
			o.mu.Unlock()
		}
	}
}

// close waits until nothing is written any more; the connection has ended.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.writing.Wait()
}

func (c *connection) hint(changed *tunnelapi.Changed) bool {
	return c.outbox.put(func() bool { c.outbox.changed = changed; return true })
}

func (c *connection) askDrain(deadline time.Duration) bool {
	return c.outbox.put(func() bool {
		c.outbox.drain = &tunnelapi.Drain{DeadlineMs: deadline.Milliseconds()}
		return true
	})
}

func (c *connection) askSync(services []string) bool {
	return c.outbox.put(func() bool {
		if len(c.outbox.syncs) >= maxSyncs {
			return false
		}
		c.outbox.syncs = append(c.outbox.syncs, &tunnelapi.Sync{Services: services})
		return true
	})
}
