// Package presence owns the record of which clusters are connected to which replica.
//
// It refuses to know what a connection is, and what is done over it. A replica says what it holds itself; every change goes to
// the others in one message, and so does, from time to time, a checksum over all that it holds. Who finds that it knows
// something else asks for all of it: a message that was lost, or a replica that came later, costs one more. A replica that
// falls silent holds nothing any more. Nothing is kept on disk, and nothing that reaches clusters stands on it.
package presence

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	subject = "plural_presence"
	// defaultBeat is how often a replica says that it is there.
	defaultBeat = 5 * time.Second
	// silence is how many beats a replica may be silent.
	silence = 4
	// perMessage is how many clusters one message names: it stays below what a message may hold.
	perMessage = 8192
	// leaveTime bounds how long taking leave may take.
	leaveTime = time.Second
)

// Options are what the knowledge is made from.
type Options struct {
	// Self names this replica, and Conn joins it with the others; nil when it is alone.
	Self string
	Conn *nats.Conn
	// Changed is told of each cluster that is connected now and was not, or the other way round. It must not block.
	Changed func(cluster string)
	// Beat is how often this replica says that it is there; zero means some seconds.
	Beat time.Duration
	Log  *slog.Logger
}

// Presence is what one replica knows. It is safe for concurrent use.
type Presence struct {
	Options
	wake chan struct{} // has a value when there is something to say

	mu sync.Mutex // guards what follows
	// replicas are what each is known to hold, this one included; holders are how many hold a cluster.
	replicas map[string]*known
	holders  map[string]int
	// news are changes of this replica's own that the others have not been told of; asks are replicas to be asked for all that
	// they hold, and asked says that this one was.
	news  map[string]struct{}
	asks  map[string]struct{}
	asked bool
}

// known is what one replica holds, as far as others know.
type known struct {
	clusters map[string]struct{}
	sum      uint64
	heard    time.Time
	// whole gathers a telling of all that takes several messages; nil between them.
	whole map[string]struct{}
}

// announcement is what one replica says to the others.
type announcement struct {
	Replica string `json:"replica"`
	// Opened and Closed are changes.
	Opened []string `json:"opened,omitempty"`
	Closed []string `json:"closed,omitempty"`
	// All is a part of everything, from First to Last.
	All   []string `json:"all,omitempty"`
	First bool     `json:"first,omitempty"`
	Last  bool     `json:"last,omitempty"`
	// Count and Sum are of all that the replica holds after this word; a Count of unfinished says nothing.
	Count int    `json:"count"`
	Sum   uint64 `json:"sum,string"`
	// Ask asks another replica for everything. Gone takes leave.
	Ask  string `json:"ask,omitempty"`
	Gone bool   `json:"gone,omitempty"`
}

// New returns the knowledge of nothing. Run has to run for replicas to hear of each other.
func New(o Options) *Presence {
	if o.Beat == 0 {
		o.Beat = defaultBeat
	}
	return &Presence{
		Options: o, wake: make(chan struct{}, 1), replicas: map[string]*known{}, holders: map[string]int{},
		news: map[string]struct{}{}, asks: map[string]struct{}{},
	}
}

// Connected says whether some replica holds a connection of the cluster.
func (p *Presence) Connected(cluster string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holders[cluster] > 0
}

// Set says whether this replica holds a connection of the cluster. It waits for nothing.
func (p *Presence) Set(cluster string, held bool) {
	p.mu.Lock()
	var changed []string
	if p.put(p.of(p.Self), cluster, held, &changed); p.Conn != nil {
		p.news[cluster] = struct{}{}
	}
	p.mu.Unlock()
	p.tell(changed)
	p.signal()
}

func (p *Presence) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Presence) tell(changed []string) {
	for _, cluster := range changed {
		p.Changed(cluster)
	}
}

// of is what a replica holds. The caller holds the mutex.
func (p *Presence) of(replica string) *known {
	k := p.replicas[replica]
	if k == nil {
		k = &known{clusters: map[string]struct{}{}}
		p.replicas[replica] = k
	}
	return k
}

// put takes in whether a replica holds a cluster, and adds it to changed if that makes the difference. The caller holds the
// mutex.
func (p *Presence) put(k *known, cluster string, held bool, changed *[]string) {
	if _, holds := k.clusters[cluster]; holds == held {
		return
	}
	k.sum ^= sumOf(cluster)
	if held {
		k.clusters[cluster] = struct{}{}
		if p.holders[cluster]++; p.holders[cluster] == 1 {
			*changed = append(*changed, cluster)
		}
		return
	}
	delete(k.clusters, cluster)
	if p.holders[cluster]--; p.holders[cluster] == 0 {
		delete(p.holders, cluster)
		*changed = append(*changed, cluster)
	}
}

func sumOf(cluster string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(cluster)) // it never fails
	return h.Sum64()
}

// Run talks with the other replicas until ctx ends.
func (p *Presence) Run(ctx context.Context) error {
	if p.Conn == nil {
		<-ctx.Done()
		return nil
	}
	subscription, err := p.Conn.Subscribe(subject, p.hear)
	if err != nil {
		return fmt.Errorf("listen for what other replicas hold: %w", err)
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails once the connection has gone, which ends it too
	beat := time.NewTicker(p.Beat)
	defer beat.Stop()
	p.say(true)
	for {
		select {
		case <-ctx.Done():
			p.send(announcement{Replica: p.Self, Gone: true})
			_ = p.Conn.FlushTimeout(leaveTime) // whoever does not hear it waits for the silence
			return nil
		case <-p.wake:
			p.say(false)
		case now := <-beat.C:
			p.forget(now)
			p.say(true)
		}
	}
}

// say tells the others what is new; and if it is time to, that this replica is there.
func (p *Presence) say(beat bool) {
	p.mu.Lock()
	mine := p.of(p.Self)
	ending := announcement{Replica: p.Self, Count: len(mine.clusters), Sum: mine.sum}
	var words []announcement
	switch {
	case p.asked:
		for part := range slices.Chunk(slices.Collect(maps.Keys(mine.clusters)), perMessage) {
			words = append(words, announcement{Replica: p.Self, All: part, Count: unfinished})
		}
		if len(words) == 0 {
			words = []announcement{ending}
		}
		words[0].First, words[len(words)-1].Last = true, true
	case len(p.news) > 0:
		for part := range slices.Chunk(slices.Collect(maps.Keys(p.news)), perMessage) {
			w := announcement{Replica: p.Self, Count: unfinished}
			for _, cluster := range part {
				if _, held := mine.clusters[cluster]; held {
					w.Opened = append(w.Opened, cluster)
				} else {
					w.Closed = append(w.Closed, cluster)
				}
			}
			words = append(words, w)
		}
	case beat:
		words = []announcement{ending}
	}
	p.asked = false
	clear(p.news)
	if len(words) > 0 {
		last := &words[len(words)-1]
		last.Count, last.Sum = ending.Count, ending.Sum
	}
	for replica := range p.asks {
		ask := ending
		ask.Ask = replica
		words = append(words, ask)
	}
	clear(p.asks)
	p.mu.Unlock()
	for _, w := range words {
		p.send(w)
	}
}

// unfinished stands in the place of a count in all but the last of several words.
const unfinished = -1

func (p *Presence) send(w announcement) {
	text, err := json.Marshal(w)
	if err == nil {
		err = p.Conn.Publish(subject, text)
	}
	if err != nil {
		p.Log.Debug("other replicas are not told what this one holds", "error", err)
	}
}

// hear takes in what a replica says.
func (p *Presence) hear(m *nats.Msg) {
	var w announcement
	if json.Unmarshal(m.Data, &w) != nil || w.Replica == "" || w.Replica == p.Self {
		return
	}
	p.mu.Lock()
	changed := p.take(&w)
	due := p.asked || len(p.asks) > 0
	p.mu.Unlock()
	p.tell(changed)
	if due {
		p.signal()
	}
}

// take takes in one word. The caller holds the mutex.
func (p *Presence) take(w *announcement) (changed []string) {
	if w.Gone {
		return p.drop(w.Replica)
	}
	_, before := p.replicas[w.Replica]
	p.asked = p.asked || w.Ask == p.Self || !before // who has come knows nothing
	k := p.of(w.Replica)
	k.heard = time.Now()
	for _, cluster := range w.Opened {
		p.put(k, cluster, true, &changed)
	}
	for _, cluster := range w.Closed {
		p.put(k, cluster, false, &changed)
	}
	if w.First {
		k.whole = map[string]struct{}{}
	}
	if k.whole != nil {
		for _, cluster := range w.All {
			k.whole[cluster] = struct{}{}
			p.put(k, cluster, true, &changed)
		}
	}
	if w.Last && k.whole != nil {
		for cluster := range k.clusters {
			if _, held := k.whole[cluster]; !held {
				p.put(k, cluster, false, &changed)
			}
		}
		k.whole = nil
	}
	if w.Count != unfinished && (w.Count != len(k.clusters) || w.Sum != k.sum) {
		p.asks[w.Replica] = struct{}{}
	}
	return changed
}

// drop forgets a replica. The caller holds the mutex.
func (p *Presence) drop(replica string) (changed []string) {
	k := p.replicas[replica]
	if k == nil {
		return nil
	}
	for cluster := range k.clusters {
		p.put(k, cluster, false, &changed)
	}
	delete(p.replicas, replica)
	return changed
}

// forget drops replicas that have fallen silent.
func (p *Presence) forget(now time.Time) {
	p.mu.Lock()
	var changed []string
	for name, k := range p.replicas {
		if name != p.Self && now.Sub(k.heard) > silence*p.Beat {
			changed = append(changed, p.drop(name)...)
		}
	}
	p.mu.Unlock()
	p.tell(changed)
}
