package view

import (
	"container/heap"
	"context"
	"reflect"
	"sync"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/fleet"
)

// news is what the view has still to take in. It is guarded by a lock of its own, which nobody holds for long: whoever brings
// news waits for no answer that is being made.
type news struct {
	wake chan struct{} // has a value when there is something

	mu sync.Mutex // guards what follows
	// reported are clusters with something new to say.
	reported map[string]struct{}
	// silent are clusters of which any word is news.
	silent map[string]struct{}
}

func newNews() news {
	return news{wake: make(chan struct{}, 1), reported: map[string]struct{}{}, silent: map[string]struct{}{}}
}

func (n *news) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *news) take() map[string]struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.reported
	if len(taken) == 0 {
		return nil // not the map itself: others go on writing to it
	}
	n.reported = map[string]struct{}{}
	return taken
}

func (n *news) setSilent(cluster string, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if silent {
		n.silent[cluster] = struct{}{}
	} else {
		delete(n.silent, cluster)
	}
}

// Reported says that a cluster's report came, or went; repeated, that it says what the last one did. It waits for nothing.
func (v *View) Reported(cluster string, repeated bool) {
	v.news.mu.Lock()
	if _, silent := v.news.silent[cluster]; repeated && !silent {
		v.news.mu.Unlock()
		return
	}
	v.news.reported[cluster] = struct{}{}
	v.news.mu.Unlock()
	v.news.signal()
}

// Planned says that Desired gives something else than before. It waits for nothing.
func (v *View) Planned() { v.news.signal() }

// lookAgain is how often Run looks at what nobody tells of.
const lookAgain = time.Second

// Run takes in what is new when it comes, for those who follow, until ctx ends.
func (v *View) Run(ctx context.Context) error {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	v.lookAtSources()
	v.lookAtUpgrades()
	for {
		v.settled()
		v.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-v.news.wake:
		case <-again.C:
			v.lookAtSources()
			v.lookAtUpgrades()
		}
	}
}

// settled takes in what is new, and gives the moment at which it was. The caller unlocks v.mu.
func (v *View) settled() time.Time {
	v.mu.Lock()
	now := v.Now()
	if desired := v.Desired(); desired != v.index.desired {
		v.plan(desired, now)
	}
	for cluster := range v.news.take() {
		if p := v.index.byName[cluster]; p != nil {
			v.place(p, v.read(cluster), now)
		}
	}
	for len(v.index.deadlines) > 0 && !v.index.deadlines[0].at.After(now) {
		p := heap.Pop(&v.index.deadlines).(deadline).place
		p.waits = false
		if v.index.byName[p.entry.name()] == p {
			v.place(p, v.heard(p.entry), now)
		}
	}
	v.changes.publish()
	return now
}

func (v *View) read(cluster string) *reportSummary {
	report, ok := v.Report(cluster)
	if !ok {
		return nil
	}
	return v.reader.read(report)
}

// heard is what an entry's cluster said, as of when it was heard from last.
func (v *View) heard(e *entry) *reportSummary {
	if e.said == nil {
		return nil
	}
	if received, ok := v.Received(e.name()); ok && received != e.said.received {
		newer := *e.said
		newer.received = received
		return &newer
	}
	return e.said
}

// place puts what a cluster said in its place.
func (v *View) place(p *place, s *reportSummary, now time.Time) {
	next := v.joined(p, p.entry.cluster, s, now)
	v.count(p, p.entry, -1)
	v.differ(p.entry, next, now)
	p.entry = next
	v.count(p, next, 1)
	v.index.entries = nil
}

// joined is what will stand in a place, until its deadline at the latest.
func (v *View) joined(p *place, cluster *fleet.Cluster, s *reportSummary, now time.Time) *entry {
	stale, next := false, time.Time{}
	if s != nil {
		stale, next = age(s.received, now, v.StaleAfter)
	}
	name := cluster.Metadata.Name
	if stale || p.entry.stale {
		v.news.setSilent(name, stale)
	}
	if !next.IsZero() && !p.waits {
		p.waits = true
		heap.Push(&v.index.deadlines, deadline{next, p})
	}
	e := join(cluster, v.index.desired.Deployments[name], s, stale)
	if v.Connected != nil {
		e.connected = v.Connected(name)
	}
	return e
}

// count takes an entry's rows into all figures, or, with -1, out.
func (v *View) count(p *place, e *entry, n int) {
	x := &v.index
	x.clusters.add(e.phase, n)
	for i := range e.rows {
		r := &e.rows[i]
		x.deployments.add(r.phase, n)
		if r.rests() {
			x.resting += n
		}
		if t := x.services[r.service()]; t != nil {
			t.add(r, n)
			if n > 0 {
				t.at(p)
			}
		}
	}
}

// plan takes in another desired state. What agents said stays as it was taken in.
func (v *View) plan(desired *Desired, now time.Time) {
	x := &v.index
	before := x.desired
	x.desired = desired
	v.announce(before, desired, now)
	if before != nil && sameFleet(before, desired) {
		return
	}
	old, tallies := x.byName, x.services
	x.places, x.byName = make([]*place, 0, len(desired.Fleet.Clusters)), make(map[string]*place, len(desired.Fleet.Clusters))
	x.clusters, x.deployments, x.resting, x.held, x.entries = counts{}, counts{}, 0, holds(desired), nil
	x.tallies(desired)
	for i := range desired.Fleet.Clusters {
		v.settle(old[desired.Fleet.Clusters[i].Metadata.Name], &desired.Fleet.Clusters[i], now)
	}
	for name, p := range old {
		if x.byName[name] == nil {
			v.leave(p)
		}
	}
	for name, t := range x.services {
		if was := tallies[name]; was == nil || !reflect.DeepEqual(was.info, t.info) {
			v.changes.touch(name)
		}
	}
	for name := range tallies {
		if x.services[name] == nil {
			v.changes.touch(name)
		}
	}
}

// settle gives a cluster of a new plan its place: the one that it had, or a new one.
func (v *View) settle(p *place, cluster *fleet.Cluster, now time.Time) {
	name := cluster.Metadata.Name
	var next *entry
	if p == nil {
		p = &place{entry: &entry{cluster: cluster}}
		next = v.joined(p, cluster, v.read(name), now)
	} else {
		next = v.joined(p, cluster, v.heard(p.entry), now)
	}
	v.differ(p.entry, next, now)
	p.entry = next
	v.index.places, v.index.byName[name] = append(v.index.places, p), p
	v.count(p, next, 1)
}

// leave says that a cluster is gone, with all that was on it.
func (v *View) leave(p *place) {
	name := p.entry.name()
	v.news.setSilent(name, false)
	v.changes.add(change{kind: v1.ChangedClusters, cluster: name})
	for i := range p.entry.rows {
		v.changed(p.entry, &p.entry.rows[i], true)
	}
}

// sameFleet says that two desired states differ in nothing that rows are made of.
func sameFleet(a, b *Desired) bool {
	p := reflect.ValueOf(a.Deployments).Pointer()
	return p != 0 && p == reflect.ValueOf(b.Deployments).Pointer() && a.Served.ID == b.Served.ID
}

// tallies begins to count a desired state's services.
func (x *index) tallies(desired *Desired) {
	x.services, x.names = make(map[string]*serviceTotals, len(desired.Fleet.Services)), nil
	for i := range desired.Fleet.Services {
		s := &desired.Fleet.Services[i]
		x.services[s.Metadata.Name] = &serviceTotals{name: s.Metadata.Name, info: describe(s), choosy: !s.Spec.Clusters.None()}
		x.names = append(x.names, s.Metadata.Name)
	}
	for i := range desired.Fleet.Clusters {
		for _, d := range desired.Deployments[desired.Fleet.Clusters[i].Metadata.Name] {
			if t := x.services[d.Service]; t != nil {
				t.found(d)
			}
		}
	}
}

// deadline is when a place has to be looked at again although nobody reported.
type deadline struct {
	at    time.Time
	place *place
}

// deadlines are a heap, the first on top.
type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }

// Push implements heap.Interface.
func (d *deadlines) Push(x any) { *d = append(*d, x.(deadline)) }

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
