package view

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Reasons of events that nobody but the hub can know of.
const (
	Silent  = "Silent"
	Back    = "Back"
	Served  = "Served"
	Refused = "Refused"
	// EventsLimited says that a cluster has more events than are kept.
	EventsLimited = "EventsLimited"
	// ReportsLimited tells of a cluster that reports more often than the hub takes.
	ReportsLimited = "ReportsLimited"
	// AgentRefused tells of an agent whose token is not good.
	AgentRefused = "AgentRefused"
)

// differ notes what is different between what stands in a place and what will.
func (v *View) differ(was, is *entry, now time.Time) {
	moved := was.cluster != is.cluster && !maps.Equal(was.cluster.Spec.Tags, is.cluster.Spec.Tags)
	left := make(map[string]*row, len(was.rows))
	for i := range was.rows {
		left[was.rows[i].service()] = &was.rows[i]
	}
	var unasked []v1.Event // what happened to what nothing asks for: the agent names it, and as much of it as it likes
	for i := range is.rows {
		r := &is.rows[i]
		before := left[r.service()]
		delete(left, r.service())
		if before == nil || moved || !before.same(r) {
			v.changed(is, r, moved)
		}
		if before == nil || was.said == nil || was.stale || is.stale {
			continue
		}
		switch event, ok := transition(is, before, r, now); {
		case ok && r.want == nil:
			unasked = append(unasked, event)
		case ok:
			v.note(event)
		}
	}
	for _, r := range left {
		v.changed(is, r, true)
		if r.want == nil && was.said != nil {
			unasked = append(unasked, v1.Event{Time: now, Cluster: is.name(), Service: r.service(), Reason: "Removed"})
		}
	}
	v.noteTogether(unasked)
	if moved || !sameSummary(was, is) {
		v.changes.add(change{kind: v1.ChangedClusters, cluster: is.name()})
	}
	v.silence(was, is, now)
}

// fewTogether is up to how many events of one report, for the same reason, are told one by one.
const fewTogether = 10

// noteTogether tells one event for each reason of which there are many.
func (v *View) noteTogether(all []v1.Event) {
	slices.SortFunc(all, func(a, b v1.Event) int {
		return cmp.Or(strings.Compare(a.Reason, b.Reason), strings.Compare(a.Service, b.Service))
	})
	for len(all) > 0 {
		same := 1
		for same < len(all) && all[same].Reason == all[0].Reason {
			same++
		}
		if same > fewTogether {
			names := make([]string, 0, fewTogether)
			for _, e := range all[:fewTogether] {
				names = append(names, e.Service)
			}
			all[0].Service, all[0].Key = "", ""
			all[0].Message = clip(fmt.Sprintf("%d services that nothing asks for here: %s, ...", same,
				strings.Join(names, ", ")), maxMessage)
			v.note(all[0])
		} else {
			for _, e := range all[:same] {
				v.note(e)
			}
		}
		all = all[same:]
	}
}

// changed notes that a row is another. One that is gone may come back with other tags: that counts as moved.
func (v *View) changed(e *entry, r *row, moved bool) {
	v.changes.add(change{kind: v1.ChangedDeployments, cluster: e.name(), service: r.service(), moved: moved})
	v.changes.touch(r.service())
}

// sameSummary says whether a cluster looks the same in one line, but for when it reported.
func sameSummary(a, b *entry) bool {
	if a.phase != b.phase || a.connected != b.connected || a.asked != b.asked || a.ready != b.ready || (a.said == nil) != (b.said == nil) {
		return false
	}
	return a.said == nil || a.said.agentVersion == b.said.agentVersion &&
		a.said.kubernetesVersion == b.said.kubernetesVersion && sameHeld(a.said.held, b.said.held)
}

// silence tells of clusters that fall silent and come back.
func (v *View) silence(was, is *entry, now time.Time) {
	switch {
	case was.said == nil || was.stale == is.stale:
	case is.stale:
		v.note(v1.Event{Time: now, Cluster: is.name(), Reason: Silent, Warning: true, Message: "its agent does not report any more"})
	default:
		v.note(v1.Event{Time: now, Cluster: is.name(), Reason: Back, Message: "its agent reports again"})
	}
}

// transition is the event of a service that has become well, or something else than well, on one cluster.
func transition(e *entry, was, is *row, now time.Time) (v1.Event, bool) {
	if was.phase == is.phase {
		return v1.Event{}, false
	}
	event := v1.Event{Time: now, Cluster: e.name(), Service: is.service(), Message: clip(is.said(), maxMessage)}
	if is.want != nil {
		event.Key = is.want.Key
	}
	switch is.phase {
	case v1.Healthy:
		if rank(was.phase) < rank(v1.Held) || was.phase == v1.Stale {
			return v1.Event{}, false // it was on its way, or merely not heard of
		}
		event.Reason = "Recovered"
	case v1.Held:
		event.Reason, event.Warning = "Held", true
	case v1.Degraded:
		event.Reason, event.Warning = "Degraded", true
	case v1.Failed:
		event.Reason, event.Warning = "Failed", true
	case v1.Progressing, v1.Pending, v1.Removing, v1.Stale, v1.Unregistered:
		return v1.Event{}, false
	}
	return event, true
}

// announce tells of a commit that is served, or refused.
func (v *View) announce(was, is *Desired, now time.Time) {
	v.changes.add(change{kind: v1.ChangedSummary})
	if was == nil || was.Served.ID == "" {
		return
	}
	if was.Served.ID != is.Served.ID {
		v.note(v1.Event{Time: now, Reason: Served, Message: clip(is.Served.ID+" "+is.Served.Subject, maxMessage)})
	}
	if len(is.Refused) > 0 && (len(was.Refused) == 0 || was.Head.ID != is.Head.ID) {
		v.note(v1.Event{Time: now, Reason: Refused, Warning: true, Message: clip(is.Head.ID+" "+is.Refused[0].Message, maxMessage)})
	}
}

// lookAtSources notes which sources changed in more than their figures.
func (v *View) lookAtSources() {
	now := map[string]string{}
	for _, s := range v.Sources() {
		now[s.Name] = strings.Join([]string{s.URL, s.Ref, s.Commit, s.Error, s.Owner}, "\x00")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.changes.sources
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if before != nil && before[name] != now[name] {
			v.changes.add(change{kind: v1.ChangedSources, service: name})
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			v.changes.add(change{kind: v1.ChangedSources, service: name})
		}
	}
	v.changes.sources = now
}

// lookAtUpgrades notes which installations stand otherwise than before.
func (v *View) lookAtUpgrades() {
	now := map[string]v1.Upgrade{}
	for _, u := range v.Upgrades() {
		now[u.Installation] = u
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.changes.upgrades
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if !reflect.DeepEqual(before[name], now[name]) {
			v.changes.add(change{kind: v1.ChangedUpgrades, service: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := now[name]; !ok {
			v.changes.add(change{kind: v1.ChangedUpgrades, service: name})
		}
	}
	v.changes.upgrades = now
}

// Events that are alike within sameFor are told once; keptEvents are the newest that are kept.
const (
	sameFor    = 10 * time.Second
	keptEvents = 2048
	// eventsAtOnce and eventsEach bound those of one cluster: it is not to push those of all others out.
	eventsAtOnce = 300
	eventsEach   = 10 * time.Second
)

// HubsOwn says whether only the hub can know what has this reason: what an agent says of it is nothing.
func HubsOwn(reason string) bool {
	switch reason {
	case Silent, Back, Served, Refused, EventsLimited, ReportsLimited, "AgentsCompete", "AgentUnproven", AgentRefused:
		return true
	}
	return strings.HasPrefix(reason, "Upgrade")
}

// events are the newest, in a ring.
type events struct {
	ring []v1.Event
	// next is the number of the next event; they count from 0.
	next uint64
	// paces are those of clusters that had some, at lastSweep without those that have all their events left.
	paces     map[pacedBy]*pace
	lastSweep time.Time
}

// pacedBy is whose events a pace counts: those that an agent tells, or the hub of it. Neither keeps the others back.
type pacedBy struct {
	cluster string
	hub     bool
}

// pace is how often a cluster may have an event. Limited says that it was told that some are left out.
type pace struct {
	*rate.Limiter
	limited bool
}

// admits says whether an event has a place within the bounds of its cluster. That it is silent, or back, has.
func (v *View) admits(e *v1.Event) bool {
	if e.Cluster == "" || e.Reason == Silent || e.Reason == Back || e.Reason == EventsLimited {
		return true
	}
	by := pacedBy{e.Cluster, HubsOwn(e.Reason)}
	now := v.Now()
	v.events.sweep(now)
	p := v.events.paces[by]
	if p == nil {
		p = &pace{Limiter: rate.NewLimiter(rate.Every(eventsEach), eventsAtOnce)}
		v.events.paces[by] = p
	}
	if p.TokensAt(now) >= eventsAtOnce/2 {
		p.limited = false
	}
	if p.AllowN(now, 1) {
		return true
	}
	if !p.limited {
		p.limited = true
		v.note(v1.Event{
			Time: now, Cluster: e.Cluster, Reason: EventsLimited, Warning: true,
			Message: "more happens on it than is told: what is shown of its services is right, and events are left out",
		})
	}
	return false
}

// sweep drops the paces of clusters that have been quiet, or have left the fleet: a new pace lets as much through.
func (e *events) sweep(now time.Time) {
	if now.Sub(e.lastSweep) < eventsAtOnce*eventsEach {
		return
	}
	e.lastSweep = now
	maps.DeleteFunc(e.paces, func(_ pacedBy, p *pace) bool { return p.TokensAt(now) >= eventsAtOnce })
}

func (e *events) at(number uint64) (v1.Event, bool) {
	if number >= e.next || e.next-number > uint64(len(e.ring)) {
		return v1.Event{}, false
	}
	return e.ring[number%keptEvents], true
}

// Note takes in something that happened, such as what an agent tells, and says whether it is news.
func (v *View) Note(e v1.Event) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := v.Now(); e.Time.IsZero() || e.Time.After(now) { // agents' clocks may be wrong
		e.Time = now
	}
	e.Message = clip(e.Message, maxMessage)
	news := v.keep(e)
	v.changes.publish()
	return news
}

// note is Note of what the view itself noticed.
func (v *View) note(e v1.Event) {
	if v.keep(e) {
		v.Event(e)
	}
}

// keep says whether an event is news.
func (v *View) keep(e v1.Event) bool {
	e.Time = e.Time.UTC()
	for back := uint64(1); back <= 64; back++ { // both the agent and the view may tell of the same
		before, ok := v.events.at(v.events.next - min(back, v.events.next))
		if !ok || back > v.events.next || e.Time.Sub(before.Time).Abs() > sameFor {
			break
		}
		if before.Cluster == e.Cluster && before.Service == e.Service && before.Reason == e.Reason && before.Key == e.Key {
			return false
		}
	}
	if !v.admits(&e) {
		return false
	}
	if len(v.events.ring) < keptEvents {
		v.events.ring = append(v.events.ring, e)
	} else {
		v.events.ring[v.events.next%keptEvents] = e
	}
	v.changes.add(change{kind: v1.Happened, event: v.events.next})
	v.events.next++
	return true
}
