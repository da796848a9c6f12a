// Package notify owns notifications to sinks outside the hub.
//
// It knows neither where events come from nor what the repository calls a sink: it is given events, with a table that says
// who wants to hear of which. What is told is gathered for a moment, so that the same trouble on fourteen clusters is one
// message; told once, it is not told again before the route's pause is over; and no sink hears more than it can read. A sink
// that does not answer loses its oldest messages, and holds up nobody.
package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Event is something that happened.
type Event struct {
	Time    time.Time `json:"time"`
	Cluster string    `json:"cluster,omitempty"`
	Service string    `json:"service,omitempty"`
	// Reason is one word, such as Failed or TestFailed.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Key is the deployment that it is about.
	Key string `json:"key,omitempty"`
	// Warning is set for what somebody should look at.
	Warning bool `json:"warning"`
}

// Kind is how a sink is spoken to.
type Kind int

// The kinds of sinks.
const (
	Webhook Kind = iota + 1
	Slack
	File
	Syslog
)

// Sink is who is told.
type Sink struct {
	Name string
	Kind Kind
	// Target is the URL, or the file's path. That of Slack is a secret.
	Target string
	// Secret signs what a webhook gets; empty: nothing signs it.
	Secret []byte
	// Audit says that it gets the audit log, by Deliver, and nothing else.
	Audit bool
}

// Route says what a sink hears of.
type Route struct {
	Name string
	// Sink is the name of one.
	Sink string
	// Wants says whether an event is to be told.
	Wants func(*Event) bool
	// Every is how long the same is not told again; zero means DefaultEvery.
	Every time.Duration
}

// Table is who hears of what. It is immutable.
type Table struct {
	Sinks  map[string]Sink
	Routes []Route
}

// DefaultEvery is how long the same is not told again.
const DefaultEvery = 5 * time.Minute

const (
	// gathering is how long the same on several clusters is put together.
	gathering = 5 * time.Second
	// maxPending bounds the events that are being gathered, maxPendingOf those of one cluster, and maxKnown what is remembered of
	// those that were told.
	maxPending   = 10_000
	maxPendingOf = 1000
	maxKnown     = 50_000
)

// Options of a Notifier. All are set but Gather.
type Options struct {
	// Self names this replica in messages.
	Self string
	// Workspace names the fleet in messages.
	Workspace func() string
	// Table is the one in force.
	Table func() *Table
	// NoLoopback refuses sinks on this machine.
	NoLoopback bool
	// Gather is how long the same is put together; zero means five seconds.
	Gather  time.Duration
	Now     func() time.Time
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Notifier tells. It is safe for concurrent use.
type Notifier struct {
	Options
	courier *sender
	counts  counters
	wake    chan struct{}

	mu sync.Mutex // guards what follows
	// pending are what is being gathered, by what makes them the same, in the order in which they came.
	pending map[sameness]*Message
	order   []sameness
	// begun counts those of pending by the cluster that was the first.
	begun map[string]int
	// told says when the same may be told again of a cluster that was named; of others it is news.
	told   map[named]silence
	queues map[string]*queue // by sink
}

// sameness is what makes two events one for a sink.
type sameness struct{ sink, service, reason, key, message string }

// named is what a message told, for each cluster that it names: the words of one keep nothing back that another says.
type named struct {
	sameness
	cluster string
}

// silence is for how long the same is not told again.
type silence struct {
	until time.Time
	kept  int
}

// Message is what a sink gets: the same event, once or on several clusters.
type Message struct {
	// ID is another one for each message, and the same for each attempt at telling it.
	ID        string `json:"id"`
	Workspace string `json:"workspace"`
	Event
	// Clusters are those on which it happened, at most 50; Count is how many times it did.
	Clusters []string `json:"clusters,omitempty"`
	Count    int      `json:"count"`
	// Repeated is how many times it happened since it was told last.
	Repeated int `json:"repeated,omitempty"`
	// Dropped is how many messages before this one were lost.
	Dropped int `json:"dropped,omitempty"`

	due   time.Time
	every time.Duration
	begun string
	sink  string
}

// maxClusters bounds the names in a message.
const maxClusters = 50

// New returns a Notifier. Run must be running for anything to be told.
func New(o Options) *Notifier {
	if o.Gather == 0 {
		o.Gather = gathering
	}
	return &Notifier{
		Options: o, courier: newCourier(o.Self, o.NoLoopback), counts: newCounters(o.Metrics), wake: make(chan struct{}, 1),
		pending: make(map[sameness]*Message), begun: make(map[string]int), told: make(map[named]silence), queues: make(map[string]*queue),
	}
}

// Note takes an event in, for each sink by the first route that wants it. It waits for nothing.
func (n *Notifier) Note(e Event) {
	table, now := n.Table(), n.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	heard := make(map[string]bool, 1)
	for i := range table.Routes {
		if route := &table.Routes[i]; !heard[route.Sink] && route.Wants(&e) {
			heard[route.Sink] = true
			n.note(route, &e, now)
		}
	}
}

func (n *Notifier) note(route *Route, e *Event, now time.Time) {
	same := sameness{route.Sink, e.Service, e.Reason, e.Key, e.Message}
	if m, ok := n.pending[same]; ok {
		n.add(m, same, e, now)
		return
	}
	of := named{same, e.Cluster}
	if s, ok := n.told[of]; ok && now.Before(s.until) {
		s.kept++
		n.told[of] = s
		n.counts.kept.Inc()
		return
	}
	if len(n.pending) >= maxPending || n.begun[e.Cluster] >= maxPendingOf {
		n.counts.dropped.Inc()
		return
	}
	m := &Message{
		ID: rand.Text(), Workspace: n.Workspace(), Event: *e,
		due: now.Add(n.Gather), every: cmp.Or(route.Every, DefaultEvery), begun: e.Cluster, sink: route.Sink,
	}
	m.Cluster = ""
	n.add(m, same, e, now)
	n.begun[e.Cluster]++
	n.pending[same] = m
	n.order = append(n.order, same)
	signal(n.wake)
}

// add counts an event in a message, and names its cluster while there is room.
func (n *Notifier) add(m *Message, same sameness, e *Event, now time.Time) {
	m.Count++
	if len(m.Clusters) >= maxClusters || slices.Contains(m.Clusters, e.Cluster) {
		return
	}
	if e.Cluster != "" {
		m.Clusters = append(m.Clusters, e.Cluster)
	}
	of := named{same, e.Cluster}
	m.Repeated += n.told[of].kept
	n.remember(of, silence{until: now.Add(m.every)}, now)
}

// remember keeps when the same may be told again. When there is too much to remember, what is over goes first, then all: the
// worst is that something is told twice.
func (n *Notifier) remember(of named, s silence, now time.Time) {
	if len(n.told) >= maxKnown {
		for key, s := range n.told {
			if !now.Before(s.until) {
				delete(n.told, key)
			}
		}
	}
	if len(n.told) >= maxKnown {
		clear(n.told)
	}
	n.told[of] = s
}

// Run tells until ctx ends. What has not been told by then is lost.
func (n *Notifier) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		n.gather(ctx, group)
		return nil
	})
	return group.Wait()
}

// gather hands messages to their sinks' queues once they are due, and starts a queue that is new.
func (n *Notifier) gather(ctx context.Context, group *errgroup.Group) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for _, q := range n.release() {
			group.Go(func() error {
				q.run(ctx)
				return nil
			})
		}
		timer.Reset(n.next())
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		case <-timer.C:
		}
	}
}

// next is how long nothing is due.
func (n *Notifier) next() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.order) == 0 {
		return time.Hour
	}
	return max(n.pending[n.order[0]].due.Sub(n.Now()), time.Millisecond)
}

// release queues what is due, and returns the queues that are new.
func (n *Notifier) release() (fresh []*queue) {
	now, table := n.Now(), n.Table()
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.order) > 0 {
		same := n.order[0]
		m := n.pending[same]
		if m.due.After(now) {
			return fresh
		}
		n.order = n.order[1:]
		delete(n.pending, same)
		if n.begun[m.begun]--; n.begun[m.begun] == 0 {
			delete(n.begun, m.begun)
		}
		if _, ok := table.Sinks[m.sink]; !ok {
			continue // it went while this was gathered
		}
		q := n.queues[m.sink]
		if q == nil {
			q = newQueue(n, m.sink)
			n.queues[m.sink] = q
			fresh = append(fresh, q)
		}
		q.put(m)
	}
	return fresh
}

// signal makes sure that there is a value in c, which holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
