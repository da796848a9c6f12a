package view

import (
	"encoding/json"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// current is the newest state of what a change is about; where it is there no more, gone is set.
type current struct {
	number uint64
	change
	gone    bool
	cell    cell
	cluster line
	service v1.Service
	source  v1.Source
	upgrade v1.Upgrade
	event   v1.Event
}

func (v *View) current(number uint64, ch change, now time.Time) current {
	c := current{number: number, change: ch}
	switch place := v.index.byName[ch.cluster]; ch.kind {
	case v1.ChangedDeployments:
		c.gone = true
		if place != nil {
			c.cell = cell{place.entry, place.entry.row(ch.service)}
			c.gone = c.cell.row == nil
		}
	case v1.ChangedClusters:
		if c.gone = place == nil; place != nil {
			c.cluster = line{place.entry, &moment{v, now}}
		}
	case v1.ChangedServices:
		t := v.index.services[ch.service]
		if c.gone = t == nil; t != nil {
			c.service = t.service()
		}
	case v1.ChangedSources:
		c.gone = true
		for _, s := range v.Sources() {
			if s.Name == ch.service {
				c.source, c.gone = s, false
			}
		}
	case v1.ChangedUpgrades:
		upgrade, ok := v.changes.upgrades[ch.service]
		c.upgrade, c.gone = upgrade, !ok
	case v1.Happened:
		event, ok := v.events.at(ch.event)
		c.event, c.gone = event, !ok
	case v1.ChangedSummary, v1.Reset:
	}
	return c
}

// step is what one look at the changes gives.
type step struct {
	follower *Follower
	todo     []current
	figures  *v1.Summary

	deployments, clusters, services, sources, upgrades, events gathered
}

// gathered is what there is to say of one kind.
type gathered struct {
	v1.Changes[json.RawMessage]
	bytes int
}

func (g *gathered) item(value any) {
	raw := encode(value)
	g.Items, g.bytes = append(g.Items, raw), g.bytes+len(raw)+1
}

func (g *gathered) gone(name string) {
	g.Gone, g.bytes = append(g.Gone, name), g.bytes+len(name)+3
}

// run gathers changes until one kind is full, and gives the number of the last that it gathered, which is end when all are.
func (s *step) run(end uint64) uint64 {
	for i := range s.todo {
		c := &s.todo[i]
		if g := s.of(c.kind); g != nil && g.bytes > maxData {
			return c.number - 1
		}
		s.add(c)
	}
	return end
}

func (s *step) of(kind v1.ChangeKind) *gathered {
	switch kind {
	case v1.ChangedDeployments:
		return &s.deployments
	case v1.ChangedClusters:
		return &s.clusters
	case v1.ChangedServices:
		return &s.services
	case v1.ChangedSources:
		return &s.sources
	case v1.ChangedUpgrades:
		return &s.upgrades
	case v1.Happened:
		return &s.events
	case v1.ChangedSummary, v1.Reset:
	}
	return nil
}

// add says of what a filter picks how it is, and of what it picks no more that it is gone. What it never picked is not spoken of.
func (s *step) add(c *current) {
	f := s.follower
	switch c.kind {
	case v1.ChangedDeployments:
		name := c.change.cluster + "/" + c.change.service
		switch {
		case c.gone:
			s.deployments.gone(name)
		case f.deployments.Match(c.cell):
			s.deployments.item(c.cell.brief())
		case c.moved || f.deployments.MatchFixed(c.cell):
			s.deployments.gone(name)
		}
	case v1.ChangedClusters:
		if c.gone || !f.clusters.Match(c.cluster) {
			s.clusters.gone(c.change.cluster)
		} else {
			s.clusters.item(c.cluster.cluster())
		}
	case v1.ChangedServices:
		gather(&s.services, c.change.service, c.gone || !f.services.Match(c.service), c.service)
	case v1.ChangedSources:
		gather(&s.sources, c.change.service, c.gone || !f.sources.Match(c.source), c.source)
	case v1.ChangedUpgrades:
		gather(&s.upgrades, c.change.service, c.gone || !f.upgrades.Match(c.upgrade), c.upgrade)
	case v1.Happened:
		if !c.gone && f.events.Match(c.event) {
			s.events.item(c.event)
		}
	case v1.ChangedSummary, v1.Reset:
	}
}

func gather(into *gathered, name string, gone bool, value any) {
	if gone {
		into.gone(name)
		return
	}
	into.item(value)
}

func (s *step) parts() []v1.StreamEvent {
	var parts []v1.StreamEvent
	for _, kind := range [...]v1.ChangeKind{
		v1.ChangedDeployments, v1.ChangedClusters, v1.ChangedServices, v1.ChangedSources, v1.ChangedUpgrades, v1.Happened,
	} {
		if g := s.of(kind); g.bytes > 0 {
			parts = append(parts, v1.StreamEvent{Kind: kind, Data: encode(g.Changes)})
		}
	}
	if s.figures != nil {
		parts = append(parts, v1.StreamEvent{Kind: v1.ChangedSummary, Data: encode(s.figures)})
	}
	return parts
}

// encode is a value's JSON.
func encode(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil { // these types always encode
		return json.RawMessage("null")
	}
	return raw
}
