package view

import (
	"cmp"
	"slices"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// index is the joined fleet.
type index struct {
	desired *Desired
	// places are the clusters by name.
	places []*place
	byName map[string]*place
	// services are those of the fleet, names in its order.
	services map[string]*serviceTotals
	names    []string
	held     []v1.Problem
	// clusters and deployments count phases, resting those deployments that are held because somebody suspended them.
	clusters, deployments counts
	resting               int
	// entries are those of all places, for readers that take their time; nil after a change.
	entries   []*entry
	deadlines deadlines
}

// place is where a cluster's newest entry stands.
type place struct {
	entry *entry
	// waits says that the place is among the deadlines.
	waits bool
}

// counts are by rank.
type counts [9]int

func (c *counts) add(p v1.Phase, n int) {
	if i := rank(p); i >= 0 {
		c[i] += n
	}
}

func (c *counts) counts() v1.Counts {
	out := v1.Counts{}
	for i, p := range v1.Phases() {
		if c[i] != 0 {
			out[p] = c[i]
		}
	}
	return out
}

// worst is the worst phase of which there is one.
func (c *counts) worst() v1.Phase {
	phases := v1.Phases()
	for i := len(c) - 1; i > 0; i-- {
		if c[i] > 0 {
			return phases[i]
		}
	}
	return phases[0]
}

// serviceTotals is one service over all of its clusters.
type serviceTotals struct {
	name string
	// info is what its file says, with what was found out when it was resolved.
	info v1.Service
	// choosy says that it asks for clusters; one that asks for none is meant to run nowhere.
	choosy       bool
	asked, ready int
	phases       counts
	// places are the clusters that have, or had, a row of it, by name.
	places []*place
	// message is that of the first of its worst rows, if counted is set.
	message string
	counted bool
}

// add takes a row in, or, with -1, out.
func (t *serviceTotals) add(r *row, n int) {
	t.phases.add(r.phase, n)
	t.counted = false
	if r.want == nil {
		return
	}
	t.asked += n
	if r.phase == v1.Healthy {
		t.ready += n
	}
}

// at makes sure that a place is among those of the tally.
func (t *serviceTotals) at(p *place) {
	i, ok := slices.BinarySearchFunc(t.places, p, byName)
	if !ok {
		t.places = slices.Insert(t.places, i, p)
	}
}

func byName(a, b *place) int { return cmp.Compare(a.entry.name(), b.entry.name()) }

// rows are those of the service, by cluster.
func (t *serviceTotals) rows() []cell {
	var cells []cell
	for _, p := range t.places {
		if r := p.entry.row(t.name); r != nil {
			cells = append(cells, cell{p.entry, r})
		}
	}
	return cells
}

// service is the service in one line. Its phase is that of its worst row; among equals the first says why.
func (t *serviceTotals) service() v1.Service {
	out := t.info
	out.Clusters, out.Ready, out.Phase = t.asked, t.ready, t.phases.worst()
	if !t.counted {
		t.message, t.counted = "", true
		for _, p := range t.places {
			if out.Phase == v1.Healthy {
				break
			}
			if r := p.entry.row(t.name); r != nil && r.phase == out.Phase {
				t.message = clip(r.said(), maxMessage)
				break
			}
		}
	}
	out.Message = t.message
	return out
}

// describe is what a service's own file says.
func describe(s *fleet.Service) v1.Service {
	return v1.Service{
		Name: s.Metadata.Name, Source: cmp.Or(s.Spec.Source.Name, "."), Ref: s.Spec.Source.Ref, Path: s.Spec.Source.Path,
		Renderer: s.Spec.Renderer, Namespace: s.Spec.Namespace, Suspended: s.Spec.Suspend, Phase: v1.Healthy,
	}
}

// found adds what a deployment's resolution found out.
func (t *serviceTotals) found(d *resolve.Deployment) {
	t.info.Renderer, t.info.Namespace = cmp.Or(d.Renderer, t.info.Renderer), cmp.Or(d.Namespace, t.info.Namespace)
	t.info.Commit = cmp.Or(d.Commit, t.info.Commit)
}

// summary is the fleet in figures.
func (x *index) summary() *v1.Summary {
	return &v1.Summary{
		Commit: x.desired.Served, Head: x.desired.Head, Refused: len(x.desired.Refused), Held: len(x.held),
		Clusters: x.clusters.counts(), Services: x.serviceCounts(), Deployments: x.deployments.counts(),
	}
}

func (x *index) serviceCounts() v1.Counts {
	var c counts
	for _, t := range x.services {
		c.add(t.phases.worst(), 1)
	}
	return c.counts()
}

// nowhere names the services that ask for clusters of which there are none, in their order. A fleet without clusters waits for its
// first.
func (x *index) nowhere() []string {
	var names []string
	for _, name := range x.names {
		t := x.services[name]
		if len(x.places) > 0 && t.choosy && t.asked == 0 && t.phases.worst() == v1.Healthy { // what is left of it is removed first
			names = append(names, name)
		}
	}
	return names
}

// all are the entries at this moment.
func (x *index) all() []*entry {
	if x.entries == nil {
		x.entries = make([]*entry, len(x.places))
		for i, p := range x.places {
			x.entries[i] = p.entry
		}
	}
	return x.entries
}

// worst are the first rows that are not healthy, the worst first, without those that a person wants as they are.
func (x *index) worst(limit int) []cell {
	page, err := cellTable().Start(paging.Query{Sort: "-health,service,cluster", Limit: limit})
	if err != nil { // the columns are there
		return nil
	}
	for _, e := range x.all() {
		if e.ready == len(e.rows) {
			continue
		}
		for i := range e.rows {
			if r := &e.rows[i]; r.phase != v1.Healthy && !r.rests() {
				page.Add(cell{e, &e.rows[i]})
			}
		}
	}
	worst, _ := page.Items(func(cell) int { return 0 })
	return worst
}

// holds lists why deployments are held, each cause once.
func holds(desired *Desired) []v1.Problem {
	var problems []v1.Problem
	seen := make(map[string]bool)
	for i := range desired.Fleet.Clusters {
		deployments := desired.Deployments[desired.Fleet.Clusters[i].Metadata.Name]
		for j := range deployments {
			hold := deployments[j].Hold
			if hold == nil || seen[hold.Error()] || len(problems) == maxHeld {
				continue
			}
			seen[hold.Error()] = true
			problems = append(problems, Problem(hold))
		}
	}
	return problems
}
