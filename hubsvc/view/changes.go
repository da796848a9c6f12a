package view

import (
	"crypto/rand"
	"encoding/base32"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
)

const (
	// keptChanges is how many changes back a reader may be.
	keptChanges = 32 << 10
	// maxStep is how many changes one step of a reader looks at, maxData how much JSON one kind of it may be, in bytes.
	maxStep = 4096
	maxData = 64_000
)

// change says that something is different now, not how: who follows reads its newest state, however often it changed since.
type change struct {
	kind             v1.ChangeKind
	cluster, service string // what the kind is named by; service is a source's name too
	event            uint64
	// moved says that what a filter takes for fixed has changed.
	moved bool
}

// changes are the newest, in a ring.
type changes struct {
	// epoch tells this process's numbers from those of another.
	epoch string
	ring  []change
	// last is the number of the newest change; they count from 1.
	last, published uint64
	// touched are services of which a row changed since the last publish; counted says that any row or cluster did.
	touched map[string]struct{}
	counted bool
	// wake is closed when there is more to read.
	wake chan struct{}
	// sources and upgrades are what was seen of them last.
	sources  map[string]string
	upgrades map[string]v1.Upgrade
}

func newChanges() changes {
	raw := make([]byte, 5)
	_, _ = rand.Read(raw) // never fails
	return changes{
		epoch: base32.StdEncoding.EncodeToString(raw), touched: map[string]struct{}{}, wake: make(chan struct{}),
	}
}

func (c *changes) add(ch change) {
	c.last++
	c.counted = c.counted || ch.kind == v1.ChangedDeployments || ch.kind == v1.ChangedClusters
	if len(c.ring) < keptChanges {
		c.ring = append(c.ring, ch)
		return
	}
	c.ring[(c.last-1)%keptChanges] = ch
}

func (c *changes) touch(service string) { c.touched[service] = struct{}{} }

// publish lets readers see what was added.
func (c *changes) publish() {
	for _, service := range slices.Sorted(maps.Keys(c.touched)) {
		c.add(change{kind: v1.ChangedServices, service: service})
	}
	clear(c.touched)
	if c.counted {
		c.add(change{kind: v1.ChangedSummary})
	}
	c.counted = false
	if c.last == c.published {
		return
	}
	c.published = c.last
	close(c.wake)
	c.wake = make(chan struct{})
}

// token names the moment after a change.
func (c *changes) token(number uint64) string { return c.epoch + "-" + strconv.FormatUint(number, 10) }

// position is the number that a token names, unless it is too old, or another process's.
func (c *changes) position(token string) (number uint64, ok bool) {
	epoch, text, _ := strings.Cut(token, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, err == nil && epoch == c.epoch && number <= c.last && c.holds(number)
}

// holds says whether all changes after a number are there.
func (c *changes) holds(number uint64) bool { return c.last-number <= uint64(len(c.ring)) }

// Follower reads what changes, at its own pace: it holds a place among the changes and nothing else. One goroutine at a time may
// use it.
type Follower struct {
	view  *View
	at    uint64
	lost  bool
	kinds map[v1.ChangeKind]bool
	// only are the rows of which changes are told, by cluster and service; a row that has one name has it as its service, a cluster too.
	// Nil: of all.
	only map[rowID]struct{}

	deployments filter.Filter[cell]
	clusters    filter.Filter[line]
	services    filter.Filter[v1.Service]
	sources     filter.Filter[v1.Source]
	upgrades    filter.Filter[v1.Upgrade]
	events      filter.Filter[v1.Event]
}

// Follow starts after since, the token of a list or of an earlier step; empty is now. No kinds are all. filters gives the filter
// of each kind that has one. The error is that of a filter.
func (v *View) Follow(since string, kinds []v1.ChangeKind, filters func(v1.ChangeKind) string) (*Follower, error) {
	f := &Follower{view: v, kinds: map[v1.ChangeKind]bool{}}
	for _, kind := range kinds {
		f.kinds[kind] = true
	}
	if err := f.parse(filters); err != nil {
		return nil, err
	}
	v.settled()
	defer v.mu.Unlock()
	f.at = v.changes.last
	if since != "" {
		at, ok := v.changes.position(since)
		if ok {
			f.at = at
		}
		f.lost = !ok
	}
	return f, nil
}

// rowID names a row: a deployment by both.
type rowID struct{ cluster, service string }

// Only has a follower be told of changes of these rows alone, from its next step on: CLUSTER/SERVICE of deployments, and the names of
// others. Figures and events are told as before. Whatever else changes costs it a look into a map.
func (f *Follower) Only(items []string) {
	f.only = make(map[rowID]struct{}, len(items))
	for _, item := range items {
		id := rowID{service: item}
		if cluster, service, both := strings.Cut(item, "/"); both {
			id = rowID{cluster, service}
		}
		f.only[id] = struct{}{}
	}
}

func (f *Follower) wants(kind v1.ChangeKind) bool { return len(f.kinds) == 0 || f.kinds[kind] }

// picks says whether a change is of a row that is followed. It computes nothing of the row.
func (f *Follower) picks(ch *change) bool {
	if f.only == nil {
		return true
	}
	var id rowID
	switch ch.kind {
	case v1.ChangedDeployments:
		id = rowID{ch.cluster, ch.service}
	case v1.ChangedClusters:
		id = rowID{service: ch.cluster}
	case v1.ChangedServices, v1.ChangedSources, v1.ChangedUpgrades:
		id = rowID{service: ch.service}
	case v1.ChangedSummary, v1.Happened, v1.Reset:
		return true
	}
	_, ok := f.only[id]
	return ok
}

func (f *Follower) parse(filters func(v1.ChangeKind) string) (err error) {
	read := func(kind v1.ChangeKind, into func(string) error) {
		if err == nil && f.wants(kind) {
			err = into(filters(kind))
		}
	}
	read(v1.ChangedDeployments, func(s string) (err error) { f.deployments, err = filter.Parse(s, cellSchema()); return })
	read(v1.ChangedClusters, func(s string) (err error) { f.clusters, err = filter.Parse(s, clusterSchema()); return })
	read(v1.ChangedServices, func(s string) (err error) { f.services, err = filter.Parse(s, serviceSchema()); return })
	read(v1.ChangedSources, func(s string) (err error) { f.sources, err = filter.Parse(s, sourceSchema()); return })
	read(v1.ChangedUpgrades, func(s string) (err error) { f.upgrades, err = filter.Parse(s, upgradeSchema()); return })
	read(v1.Happened, func(s string) (err error) { f.events, err = filter.Parse(s, eventSchema()); return })
	return err
}

// Wait is closed when there is more than the last step looked at.
func (f *Follower) Wait() <-chan struct{} {
	f.view.mu.Lock()
	defer f.view.mu.Unlock()
	if f.at < f.view.changes.published || f.lost {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return f.view.changes.wake
}

// Next is the next step: at most one part of each kind, and the token after it. A reader that is too far behind is told so by
// a Reset, and goes on from now.
func (f *Follower) Next() (parts []v1.StreamEvent, token string) {
	now := f.view.settled()
	x, c := &f.view.index, &f.view.changes
	if f.lost || !c.holds(f.at) {
		f.lost, f.at = false, c.last
		f.view.mu.Unlock()
		told := v1.Error{Message: "changes were missed: what is shown has to be listed again"}
		return []v1.StreamEvent{{Kind: v1.Reset, Data: encode(told)}}, c.token(f.at)
	}
	s := step{follower: f}
	end := min(c.last, f.at+maxStep)
	seen := make(map[change]bool)
	for number := f.at + 1; number <= end; number++ {
		ch := &c.ring[(number-1)%keptChanges]
		if f.wants(ch.kind) && f.picks(ch) && !seen[*ch] {
			seen[*ch] = true
			s.todo = append(s.todo, f.view.current(number, *ch, now))
		}
	}
	if seen[change{kind: v1.ChangedSummary}] {
		s.figures = x.summary()
	}
	f.view.mu.Unlock()
	f.at = s.run(end)
	return s.parts(), c.token(f.at)
}
