package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/fleetcache"
)

// Deployment is one service on one cluster: a row of the fleet, of which there may be hundreds of thousands.
type Deployment struct {
	*Place
	*Work
	Phase   v1.Phase
	Version string
	Message string
	// Token names what is Held. Unchecked: it is agreed to only where the cluster is named.
	Token          string
	Ready, Objects int32
	// Held counts deletions that wait for a person.
	Held                 int32
	Unchecked, Suspended bool

	applied fleetcache.Fingerprint
}

// Place is what rows of one cluster share. It does not change: a cluster that changes has another.
type Place struct {
	Cluster string
	Tags    map[string]string
	// Reported is when its agent last reported, as far as is known; zero: never.
	Reported time.Time
	// Silent says that what is known of it is as old as Reported.
	Silent bool

	number int
}

// Work is what rows of one service share. It does not change either.
type Work struct {
	Service, Namespace, Source string

	number int
}

// ID is CLUSTER/SERVICE.
func (d *Deployment) ID() string { return d.Cluster + "/" + d.Service }

// grid finds deployments, and what they share.
type grid struct {
	rows   *List[Deployment]
	places map[string]*located
	// works are what services have, bare what is left over of them: it has no settings any more. They are numbered together.
	works, bare map[string]*Work
	words       words
}

// located is a cluster with the slots of its rows, by service.
type located struct {
	*Place
	slots []int32
}

func newGrid() *grid {
	g := &grid{places: map[string]*located{}, works: map[string]*Work{}, bare: map[string]*Work{}}
	g.rows = newList(deploymentTable(), ids[Deployment](g))
	return g
}

func (g *grid) slot(id string) int32 {
	cluster, service, _ := strings.Cut(id, "/")
	return g.find(g.places[cluster], service)
}

func (g *grid) find(at *located, service string) int32 {
	if at == nil {
		return -1
	}
	i, ok := g.position(at, service)
	if !ok {
		return -1
	}
	return at.slots[i]
}

func (g *grid) position(at *located, service string) (int, bool) {
	return slices.BinarySearchFunc(at.slots, service, func(slot int32, name string) int {
		return strings.Compare(g.rows.at(slot).Service, name)
	})
}

func (g *grid) took(slot int32, d *Deployment) {
	at := g.places[d.Cluster]
	i, _ := g.position(at, d.Service)
	at.slots = slices.Insert(at.slots, i, slot)
}

func (g *grid) left(_ int32, d *Deployment) {
	at := g.places[d.Cluster]
	if i, ok := g.position(at, d.Service); ok {
		at.slots = slices.Delete(at.slots, i, i+1)
	}
}

// row takes in how a deployment is.
func (g *grid) row(d *v1.Deployment) {
	at := g.places[d.Cluster]
	if at == nil {
		at = g.place(&Place{Cluster: d.Cluster})
	}
	works := g.works
	if d.Leftover {
		works = g.bare
	}
	work := works[d.Service]
	if work == nil {
		work = g.work(works, Work{Service: d.Service})
	}
	slot := g.find(at, work.Service)
	if slot < 0 && g.rows.Len() >= maxRows {
		return
	}
	row := Deployment{
		Place: at.Place, Work: work, Phase: v1.Phase(g.words.one(string(d.Phase))), Version: g.words.one(d.Version),
		Message: g.words.one(d.Message), Ready: int32(d.Ready), Objects: int32(d.Objects), Suspended: d.Suspended, applied: fleetcache.FingerprintOf(d.AppliedKey),
	}
	if d.Held != nil {
		row.Held, row.Token, row.Unchecked = int32(d.Held.Count), d.Held.Token, d.Held.Unchecked
	}
	if slot >= 0 && *g.rows.at(slot) == row {
		g.rows.seen(slot)
		return
	}
	g.rows.put(slot, row)
}

func (g *grid) place(p *Place) *located {
	p.number = len(g.places)
	at := &located{Place: p}
	g.places[p.Cluster] = at
	return at
}

// cluster takes in what rows share of a cluster.
func (g *grid) cluster(c *v1.Cluster) {
	c.Tags = g.words.tags(c.Tags)
	at, reported := g.places[c.Name], reportOf(c)
	if at == nil {
		g.place(&Place{Cluster: c.Name, Tags: c.Tags, Reported: reported, Silent: silent(c)})
		return
	}
	if maps.Equal(at.Tags, c.Tags) && at.Reported.Equal(reported) && at.Silent == silent(c) {
		return
	}
	at.Place = &Place{Cluster: at.Cluster, Tags: c.Tags, Reported: reported, Silent: silent(c), number: at.number}
	for _, slot := range at.slots {
		g.rows.edit(slot).Place = at.Place
		g.rows.changed(slot)
	}
}

func (g *grid) work(among map[string]*Work, w Work) *Work {
	if before := among[w.Service]; before != nil {
		w.number = before.number
	} else {
		w.number = len(g.works) + len(g.bare)
	}
	among[w.Service] = &w
	return &w
}

// service takes in what rows share of a service.
func (g *grid) service(s *v1.Service) {
	before := g.works[s.Name]
	if before != nil && before.Namespace == s.Namespace && before.Source == s.Source {
		return
	}
	work := g.work(g.works, Work{Service: s.Name, Namespace: s.Namespace, Source: s.Source})
	if before == nil {
		return
	}
	for slot, mark := range g.rows.marks {
		if mark != 0 && g.rows.at(int32(slot)).Work == before {
			g.rows.edit(int32(slot)).Work = work
			g.rows.changed(int32(slot))
		}
	}
}

// Bounds of what is kept once for all rows.
const (
	maxWords = 8192
	maxWord  = 96
)

// words keep texts that many rows have once.
type words struct {
	texts map[string]string
	sets  map[string]map[string]string
}

func (w *words) one(text string) string {
	if text == "" || len(text) > maxWord {
		return text
	}
	if known, ok := w.texts[text]; ok {
		return known
	}
	if w.texts == nil || len(w.texts) >= maxWords {
		w.texts = map[string]string{}
	}
	w.texts[text] = text
	return text
}

// tags are a cluster's, as one map for all that have the same.
func (w *words) tags(tags map[string]string) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		key.WriteString(strconv.Quote(name) + strconv.Quote(tags[name]))
	}
	if known, ok := w.sets[key.String()]; ok {
		return known
	}
	if w.sets == nil || len(w.sets) >= maxWords {
		w.sets = map[string]map[string]string{}
	}
	w.sets[key.String()] = tags
	return tags
}
