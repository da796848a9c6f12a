// Package sim owns simulated agents without clusters: thousands in one process, for load tests of a hub.
//
// It refuses to know where the hub comes from, what is committed to its repository, and what a good figure is.
//
// A Swarm runs each agent as one goroutine with the client, the credential and the connection that a real agent has
// (agent.go). What a real agent would render and apply, it downloads, verifies and reports as healthy, until its health is
// told to change. Some of them keep the reverse channel open besides (channel.go). Its connections can be cut, stalled and
// slowed down (network.go); what it saw is counted until somebody asks (figures.go), and who did what since a moment is
// followed in a Round.
package sim

import (
	"context"
	"crypto/ed25519"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pluralsh/plural/agent/link"
	"github.com/pluralsh/plural/api/token"
)

// Options say who the agents are and whom they ask.
type Options struct {
	// URL and CA are the hub's, as for link.Options.
	URL string
	CA  []byte
	// Agents are the clusters' agents.
	Agents []Identity
	// Ramp is the time over which the agents start, evenly. Zero starts all at once.
	Ramp time.Duration
	// Interval is the wait between two polls until the hub says another.
	Interval time.Duration
	// Channels is how many of the agents, from the first, keep the reverse channel open.
	Channels int
	// Seed makes the agents' jitter the same in every run.
	Seed uint64
	// Version is what the agents say that they are.
	Version string
}

// Identity is one cluster's agent.
type Identity struct {
	Cluster string
	Key     ed25519.PrivateKey
}

// Swarm is many agents. Its methods are safe for concurrent use.
type Swarm struct {
	options Options
	agents  []*agent
	proven  proofs
	counted counters

	mu     sync.Mutex // guards rounds
	rounds map[*Round]struct{}
}

// New makes the agents; Run starts them. The error is about the hub's address or certificate.
func New(o Options) (*Swarm, error) {
	s := &Swarm{options: o, rounds: make(map[*Round]struct{})}
	for i, who := range o.Agents {
		a := &agent{
			swarm: s, index: i, cluster: who.Cluster, wake: make(chan struct{}, 1), interval: o.Interval,
			change: make(chan struct{}, maxChanges), random: rand.New(rand.NewPCG(o.Seed, uint64(i))), has: make(map[string]struct{}),
		}
		a.line.opened = &s.counted.connections
		a.boot = who.Cluster + "-1"
		a.signer = token.NewSigner(who.Key, who.Cluster, o.URL, time.Now)
		var err error
		a.hub, err = link.New(link.Options{URL: o.URL, CA: o.CA, UserAgent: s.userAgent(), Dial: a.line.dial, Token: a.signer.Token})
		if err != nil {
			return nil, err
		}
		s.agents = append(s.agents, a)
	}
	return s, nil
}

// Size is how many agents there are.
func (s *Swarm) Size() int { return len(s.agents) }

// Run lets the agents work until ctx ends.
func (s *Swarm) Run(ctx context.Context) {
	var all sync.WaitGroup
	began := time.Now()
	for i, a := range s.agents {
		first := began.Add(s.options.Ramp * time.Duration(i) / time.Duration(len(s.agents)))
		all.Go(func() { a.run(ctx, first) })
		if i < s.options.Channels {
			all.Go(func() { a.listen(ctx, first) })
		}
	}
	all.Wait()
}

func (s *Swarm) userAgent() string { return "plural-sim/" + s.options.Version }

// Wake lets every agent poll now.
func (s *Swarm) Wake() {
	for _, a := range s.agents {
		a.hurry()
	}
}

const (
	// changeStep is how often Change looks how many changes are due.
	changeStep = 10 * time.Millisecond
	// maxChanges may wait for an agent that does not keep up; more are left out.
	maxChanges = 8
)

// Change lets so many services a second fall ill or recover, each on the next cluster, until ctx ends. Their agents report
// it at once.
func (s *Swarm) Change(ctx context.Context, perSecond int) {
	tick := time.NewTicker(changeStep)
	defer tick.Stop()
	began, done := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(perSecond)); done < due; done++ {
			select {
			case s.agents[done%len(s.agents)].change <- struct{}{}:
			default: // it has not said yet what changed before
			}
		}
	}
}

// Cut breaks every connection that there is; the agents notice by themselves.
func (s *Swarm) Cut() {
	for _, a := range s.agents {
		a.line.cut()
	}
}

// Stall lets nothing pass between the first n agents and the hub any more, though connections stay, until Resume.
func (s *Swarm) Stall(n int) {
	for _, a := range s.agents[:min(n, len(s.agents))] {
		a.line.stall()
	}
}

// Resume lets everything pass again.
func (s *Swarm) Resume() {
	for _, a := range s.agents {
		a.line.resume()
	}
}

// Slow lets the first n agents read no more than so many bytes a second; zero means as many as there are. It holds for
// connections that are opened from now on.
func (s *Swarm) Slow(n int, bytesPerSecond int) {
	for _, a := range s.agents[:min(n, len(s.agents))] {
		a.line.rate.Store(int64(bytesPerSecond))
	}
}

// Event is something that happens to an agent.
type Event int

// Events.
const (
	// Polled is a poll that was answered.
	Polled Event = iota
	// Updated is a change that was taken in: every bundle of it downloaded and verified.
	Updated
)

// Round follows which agents an event happened to since it was begun.
type Round struct {
	event Event
	want  int
	since time.Time

	mu   sync.Mutex // guards what follows
	seen []bool
	left int
	last time.Time
	done chan struct{}
}

// Begin starts a round over all agents: it is over once the event has happened to want of them.
func (s *Swarm) Begin(event Event, want int) *Round {
	r := &Round{event: event, want: want, left: want, seen: make([]bool, len(s.agents)), since: time.Now(), done: make(chan struct{})}
	if want == 0 {
		close(r.done)
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds[r] = struct{}{}
	return r
}

// Wait returns how long after the round began the event happened to the last agent, and how many it had not happened to
// when ctx ended.
func (s *Swarm) Wait(ctx context.Context, r *Round) (last time.Duration, missing int) {
	select {
	case <-ctx.Done():
	case <-r.done:
	}
	s.mu.Lock()
	delete(s.rounds, r)
	s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.IsZero() {
		return 0, r.left
	}
	return r.last.Sub(r.since), r.left
}

// Since is when the round began.
func (r *Round) Since() time.Time { return r.since }

// happened tells the rounds under way. asked is when the agent set out.
func (s *Swarm) happened(index int, event Event, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.rounds {
		if r.event == event && !asked.Before(r.since) {
			r.note(index)
		}
	}
}

func (r *Round) note(index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[index] || r.left == 0 {
		return
	}
	r.seen[index], r.last = true, time.Now()
	if r.left--; r.left == 0 {
		close(r.done)
	}
}
