package tunnel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// maxConnections bounds one cluster's: two, twice while they are replaced, and as many that were lost without a word.
	maxConnections = 8
	// overlap is how long two agent processes may say that they are one cluster's: as long as it takes to replace one.
	overlap = 30 * time.Second
	// sweep is how often that is looked at.
	sweep = 10 * time.Second
	// maxStagger bounds the time over which agents are asked to connect elsewhere.
	maxStagger = 3 * time.Second
	// defaultDrain is what agents are told when nobody set a deadline.
	defaultDrain = 30 * time.Second
)

// held are the connections of one cluster, the oldest first.
type held struct {
	list []*connection
	// told is whether there is one to be used, as Held was told.
	told bool
	// subscription answers other replicas; nil while there is nothing to be found here.
	subscription *nats.Subscription
	// warned is the boot of the agent about which somebody was warned.
	warned string
}

// best is the one that a new route leads over: of those of the process that proved itself last the least loaded, the oldest of
// equals; nil when there is none.
func (l *held) best() (best *connection) {
	if l == nil {
		return nil
	}
	for _, c := range l.list {
		if c.leaving {
			continue
		}
		if best == nil || cmp.Or(best.began.Compare(c.began), cmp.Compare(c.routes, best.routes)) < 0 {
			best = c
		}
	}
	return best
}

// expect makes room for a connection whose agent has not said anything yet.
func (h *Hub) expect(cluster string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unheard[cluster] >= maxUnheard {
		return false
	}
	h.unheard[cluster]++
	return true
}

func (h *Hub) unexpect(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unheard[cluster]--; h.unheard[cluster] == 0 {
		delete(h.unheard, cluster)
	}
}

// add registers a connection.
func (h *Hub) add(c *connection) error {
	if !h.holds(c) {
		return errRevoked
	}
	var warning func()
	defer func() { say(warning) }() // who is warned may ask for Connections
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return errEnding
	}
	l := h.clusters[c.cluster]
	if l == nil {
		l = new(held)
		h.clusters[c.cluster] = l
	}
	c.began = l.began(c)
	l.makeRoom()
	l.list = append(l.list, c)
	h.metrics.attached.WithLabelValues(c.by).Inc()
	h.announce(c.cluster, l)
	// By what they say of themselves, this one is not the other's successor.
	after := func(other *connection) bool { return other.hello.GetBoot() > c.hello.GetBoot() }
	if at := slices.IndexFunc(l.list, after); at >= 0 {
		warning = h.warn(l, l.list[at], c)
	}
	return nil
}

// began is when the process that a connection is of proved first that it holds the key. What a process says of itself decides
// nothing: who comes later has proven it later, by the hub's own clock, and who has a connection replaced is no newer for that.
func (l *held) began(c *connection) time.Time {
	for _, other := range l.list {
		if other.hello.GetBoot() == c.hello.GetBoot() {
			return other.began
		}
	}
	return c.asked
}

func say(f func()) {
	if f != nil {
		f()
	}
}

// makeRoom ends a connection if there are as many as there may be. Those that were ended so before are on their way: none of them
// is ended in the place of another.
func (l *held) makeRoom() {
	if len(l.list) < maxConnections {
		return
	}
	stay := slices.DeleteFunc(slices.Clone(l.list), func(c *connection) bool { return c.crowded })
	if len(stay) < maxConnections {
		return
	}
	least := victim(stay)
	least.crowded, least.leaving, least.why = true, true, errCrowded
	least.end(errCrowded)
}

// victim is the connection that is missed least.
func victim(list []*connection) *connection {
	return slices.MinFunc(list, func(a, b *connection) int {
		switch {
		case a.leaving != b.leaving && a.leaving:
			return -1
		case a.leaving != b.leaving:
			return 1
		}
		return cmp.Or(a.began.Compare(b.began), a.since.Compare(b.since))
	})
}

// remove forgets a connection that has ended.
func (h *Hub) remove(c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.last != nil {
		c.last.Stop()
	}
	l := h.clusters[c.cluster]
	l.list = slices.DeleteFunc(l.list, func(other *connection) bool { return other == c })
	h.announce(c.cluster, l)
	if len(l.list) == 0 {
		delete(h.clusters, c.cluster)
	}
	select {
	case h.removed <- struct{}{}:
	default:
	}
}

// retire has no new routes lead over a connection, which ends with the last of those that do, and says why it did.
func (h *Hub) retire(c *connection, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.leaving {
		return
	}
	c.leaving, c.why = true, why
	if l := h.clusters[c.cluster]; l != nil {
		h.announce(c.cluster, l)
	}
	if c.routes == 0 {
		c.end(why)
		return
	}
	c.last = time.AfterFunc(h.maxAge(), func() { c.end(why) })
}

// local is a route over a connection of this replica; nil when there is none.
func (h *Hub) local(cluster string) *Route {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clusters[cluster].best()
	if c == nil {
		return nil
	}
	c.routes++
	h.metrics.routes.WithLabelValues("here").Inc()
	return &Route{
		ClusterClient: tunnelapi.NewClusterClient(c.client), Hello: c.hello, Connection: c.id, Replica: h.Self,
		over: c.client, release: sync.OnceFunc(func() { h.release(c) }),
	}
}

func (h *Hub) release(c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.routes--; c.routes == 0 && c.leaving {
		c.end(c.why)
	}
}

// Recheck ends the connections of clusters whose key is gone, or another.
func (h *Hub) Recheck() {
	for _, c := range h.all() {
		if !h.holds(c) {
			c.end(errRevoked)
		}
	}
}

// holds says whether the key that a connection was opened with is still the cluster's.
func (h *Hub) holds(c *connection) bool {
	key := h.Key(c.cluster)
	return key != nil && key.Equal(c.key)
}

// all are the connections that there are now, by cluster and age.
func (h *Hub) all() []*connection {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*connection
	for _, l := range h.clusters {
		list = append(list, l.list...)
	}
	slices.SortFunc(list, func(a, b *connection) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), a.since.Compare(b.since), cmp.Compare(a.id, b.id))
	})
	return list
}

// process names the agent's process to people. What the process itself says is for the hub alone: two that hold the cluster's key,
// and say the same, are one to it.
func (c *connection) process() string {
	digest := sha256.Sum256([]byte(c.hello.GetBoot()))
	return hex.EncodeToString(digest[:8])
}

// Connections are those of this replica, by cluster and age.
func (h *Hub) Connections() []Connection {
	all := h.all()
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]Connection, len(all))
	for i, c := range all {
		list[i] = Connection{
			ID: c.id, Cluster: c.cluster, Hub: h.Self, Host: c.hello.GetHost(), Boot: c.process(), Remote: c.remote,
			Transport: c.by, Bound: c.bound, Since: c.since, AgentVersion: c.hello.GetAgentVersion(),
			KubernetesVersion: c.hello.GetKubernetesVersion(), Capabilities: c.hello.GetCapabilities(), Streams: c.routes, Leaving: c.leaving,
		}
	}
	return list
}

// watchBoots warns of clusters whose key two agent processes hold, for longer than it takes to replace one.
func (h *Hub) watchBoots() {
	var warnings []func()
	defer func() {
		for _, warning := range warnings {
			say(warning)
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.clusters {
		if len(l.list) < 2 {
			continue
		}
		oldest := slices.MinFunc(l.list, byBeginning)
		newest := slices.MaxFunc(l.list, byBeginning)
		if oldest.hello.GetBoot() != newest.hello.GetBoot() && !oldest.leaving && h.Now().Sub(newest.since) >= overlap {
			warnings = append(warnings, h.warn(l, oldest, newest))
		}
	}
}

func byBeginning(a, b *connection) int { return a.began.Compare(b.began) }

// warn is how to say, once for each newer process, that two hold one cluster's key; nil when that was said. The caller holds
// the hub's mutex.
func (h *Hub) warn(l *held, older, newer *connection) func() {
	if l.warned == newer.hello.GetBoot() {
		return nil
	}
	l.warned = newer.hello.GetBoot()
	return func() {
		newer.log.Warn("two agents prove that they hold this cluster's key; requests go to the one that came later",
			"host", newer.hello.GetHost(), "remote", newer.remote, "other_host", older.hello.GetHost(), "other_remote", older.remote)
		if h.Found == nil {
			return
		}
		h.Found(newer.cluster, &tunnelapi.Event{
			Reason: "AgentsCompete", Warning: true, UnixMs: h.Now().UnixMilli(),
			Message: fmt.Sprintf("two agents prove that they hold the key of cluster %s: %q at %s, and %q at %s; requests go to "+
				"the first, which came later. If one of them is not yours, its key is known to somebody: register the cluster anew",
				newer.cluster, newer.hello.GetHost(), newer.remote, older.hello.GetHost(), older.remote),
		})
	}
}

// Changed tells clusters' agents (nil: all) that an edition is served in which they should look for something new.
func (h *Hub) Changed(edition string, clusters []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A tenth of a millisecond for each cluster: ten thousand agents ask within a second.
	spread := int64(len(h.clusters) / 10)
	hint := func(l *held) {
		if c := l.best(); c != nil {
			c.hint(&tunnelapi.Changed{Edition: edition, SpreadMs: spread})
		}
	}
	if clusters == nil {
		for _, l := range h.clusters {
			hint(l)
		}
		return
	}
	for _, cluster := range clusters {
		hint(h.clusters[cluster])
	}
}

var errBusy = errors.New("the agent has not taken what it was asked for before")

// syncHere asks an agent that is connected to this replica for a pass.
func (h *Hub) syncHere(cluster string, services []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch c := h.clusters[cluster].best(); {
	case c == nil:
		return ErrAbsent
	case !c.askSync(services):
		return errBusy
	}
	return nil
}

// Drain has agents connect elsewhere, and waits until nothing goes over the connections here, or ctx ends. Connections that
// are left are ended. A replica that is alone has no elsewhere: it only waits.
func (h *Hub) Drain(ctx context.Context) {
	h.mu.Lock()
	if !h.draining {
		h.draining = true
		close(h.leaving)
	}
	h.mu.Unlock()
	h.metrics.drains.Inc()
	all := h.all()
	if h.replicas() > 1 {
		h.askAll(ctx, all)
	} else {
		for _, c := range all {
			h.retire(c, errEnding)
		}
	}
	for len(h.all()) > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-h.removed:
		}
	}
	for _, c := range h.all() {
		c.end(errEnding)
	}
}

// askAll asks agents to connect elsewhere, not all at once.
func (h *Hub) askAll(ctx context.Context, all []*connection) {
	remaining := defaultDrain
	if deadline, ok := ctx.Deadline(); ok {
		remaining = time.Until(deadline)
	}
	stagger := min(maxStagger, remaining/4, time.Duration(len(all))*time.Millisecond)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	began := time.Now()
	for i, c := range all {
		due := time.NewTimer(time.Until(began.Add(stagger * time.Duration(i) / time.Duration(len(all)))))
		select {
		case <-ctx.Done():
			due.Stop()
			return
		case <-due.C:
		}
		c.askDrain(remaining)
	}
}

// group are goroutines that are waited for. None is started once that has begun.
type group struct {
	mu      sync.Mutex // guards closed, and that nothing is added after it
	closed  bool
	running sync.WaitGroup
}

func (g *group) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
}
