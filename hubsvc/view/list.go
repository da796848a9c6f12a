package view

import (
	"iter"
	"slices"
	"strconv"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace/fleet"
)

// listing is how one kind of items is listed.
type listing[T any] struct {
	table  paging.Table[T]
	schema filter.Schema[T]
	// phase is an item's, to be counted; nil: items have none.
	phase func(T) v1.Phase
}

// page is one page of items as they were at since, in the words that show gives them.
func page[T, R any](l listing[T], q paging.Query, since string, items iter.Seq[T], show func(T) R) (*v1.List[R], error) {
	picks, err := filter.Parse(q.Filter, l.schema)
	if err != nil {
		return nil, err
	}
	p, err := l.table.Start(q)
	if err != nil {
		return nil, err
	}
	out := &v1.List[R]{Since: since}
	var phases counts
	for item := range items {
		if !picks.Match(item) {
			continue
		}
		out.Total++
		if l.phase != nil {
			phases.add(l.phase(item), 1)
		}
		p.Add(item)
	}
	if l.phase != nil {
		out.Counts = phases.counts()
	}
	kept, next := p.Items(func(item T) int { return size(show(item)) })
	out.Items, out.Next = make([]R, len(kept)), next
	for i, item := range kept {
		out.Items[i] = show(item)
	}
	return out, nil
}

func itself[T any](item T) T { return item }

// sight is the fleet at one moment, which a list may take its time over.
func (v *View) sight() (entries []*entry, since string, now time.Time) {
	now = v.settled()
	defer v.mu.Unlock()
	return v.index.all(), v.changes.token(v.changes.last), now
}

// Deployments lists services on clusters, by cluster. Errors of this and of the other lists are those of packages filter and
// paging.
func (v *View) Deployments(q paging.Query) (*v1.List[v1.Deployment], error) {
	entries, since, _ := v.sight()
	rows := func(yield func(cell) bool) {
		for _, e := range entries {
			for r := range e.inOrder() {
				if !yield(cell{e, r}) {
					return
				}
			}
		}
	}
	l := listing[cell]{cellTable(), cellSchema(), func(c cell) v1.Phase { return c.row.phase }}
	return page(l, q, since, rows, cell.brief)
}

// Clusters lists clusters by name.
func (v *View) Clusters(q paging.Query) (*v1.List[v1.Cluster], error) {
	entries, since, now := v.sight()
	at := &moment{v, now}
	clusters := func(yield func(line) bool) {
		for _, e := range entries {
			if !yield(line{e, at}) {
				return
			}
		}
	}
	l := listing[line]{clusterTable(), clusterSchema(), func(l line) v1.Phase { return l.entry.phase }}
	return page(l, q, since, clusters, line.cluster)
}

// line is a cluster in one line, most of which is made when it is asked for.
type line struct {
	entry *entry
	at    *moment
}

type moment struct {
	view *View
	now  time.Time
}

func (l line) cluster() v1.Cluster { return l.at.view.cluster(l.entry, l.at.now) }

func (l line) versions() (kubernetes, agent string) {
	if l.entry.said == nil {
		return "", ""
	}
	return l.entry.said.kubernetesVersion.Value(), l.entry.said.agentVersion.Value()
}

// Services lists services by name.
func (v *View) Services(q paging.Query) (*v1.List[v1.Service], error) {
	v.settled()
	services := make([]v1.Service, 0, len(v.index.names))
	for _, name := range v.index.names {
		services = append(services, v.index.services[name].service())
	}
	since := v.changes.token(v.changes.last)
	v.mu.Unlock()
	l := listing[v1.Service]{serviceTable(), serviceSchema(), func(s v1.Service) v1.Phase { return s.Phase }}
	return page(l, q, since, slices.Values(services), itself)
}

// ListSources lists upstreams by name.
func (v *View) ListSources(q paging.Query) (*v1.List[v1.Source], error) {
	_, since, _ := v.sight()
	return page(listing[v1.Source]{table: sourceTable(), schema: sourceSchema()}, q, since, slices.Values(v.Sources()), itself)
}

// ListUpgrades lists installations with where they stand, by name.
func (v *View) ListUpgrades(q paging.Query) (*v1.List[v1.Upgrade], error) {
	_, since, _ := v.sight()
	return page(listing[v1.Upgrade]{table: upgradeTable(), schema: upgradeSchema()}, q, since, slices.Values(v.Upgrades()), itself)
}

// numberedEvent is an event with its number.
type numberedEvent struct {
	v1.Event
	number uint64
}

// Events lists what happened lately, the newest first.
func (v *View) Events(q paging.Query) (*v1.List[v1.Event], error) {
	v.settled()
	kept := make([]numberedEvent, 0, len(v.events.ring))
	for number := v.events.next - uint64(len(v.events.ring)); number < v.events.next; number++ {
		event, _ := v.events.at(number)
		kept = append(kept, numberedEvent{event, number})
	}
	since := v.changes.token(v.changes.last)
	v.mu.Unlock()
	l := listing[numberedEvent]{
		table: paging.Table[numberedEvent]{
			Columns: map[string]paging.Column[numberedEvent]{"newest": {Number: func(h numberedEvent) int64 { return -int64(h.number) }}},
			ID:      []string{"newest"},
		},
		schema: of(eventSchema(), func(h numberedEvent) v1.Event { return h.Event }),
	}
	return page(l, q, since, slices.Values(kept), func(h numberedEvent) v1.Event { return h.Event })
}

// of is a schema for what holds an item of another.
func of[T, U any](s filter.Schema[U], get func(T) U) filter.Schema[T] {
	out := filter.Schema[T]{Fields: map[string]filter.Field[T]{}, At: s.At}
	for key, field := range s.Fields {
		out.Fields[key] = filter.Field[T]{Get: func(t T) string { return field.Get(get(t)) }, Words: field.Words, Fixed: field.Fixed}
	}
	for _, name := range s.Names {
		out.Names = append(out.Names, func(t T) string { return name(get(t)) })
	}
	return out
}

func cellTable() paging.Table[cell] {
	return paging.Table[cell]{
		Columns: map[string]paging.Column[cell]{
			"cluster":   {Text: func(c cell) string { return c.entry.name() }},
			"service":   {Text: func(c cell) string { return c.row.service() }},
			"health":    {Number: func(c cell) int64 { return int64(rank(c.row.phase)) }},
			"phase":     {Number: func(c cell) int64 { return int64(rank(c.row.phase)) }},
			"namespace": {Text: func(c cell) string { return c.row.namespace() }},
			"source":    {Text: func(c cell) string { return c.row.source() }},
			"version":   {Text: func(c cell) string { return c.row.version() }},
			"objects":   {Number: func(c cell) int64 { objects, _ := c.row.objects(); return objects }},
			"ready":     {Number: func(c cell) int64 { _, ready := c.row.objects(); return ready }},
		},
		ID: []string{"cluster", "service"}, Ordered: true,
	}
}

func cellSchema() filter.Schema[cell] {
	cluster, service := func(c cell) string { return c.entry.name() }, func(c cell) string { return c.row.service() }
	health := filter.Field[cell]{Get: func(c cell) string { return string(c.row.phase) }, Words: v1.Phase("").Words()}
	return filter.Schema[cell]{
		Fields: map[string]filter.Field[cell]{
			"cluster": {Get: cluster, Fixed: true}, "service": {Get: service, Fixed: true},
			"health": health, "phase": health,
			"namespace": {Get: func(c cell) string { return c.row.namespace() }},
			"source":    {Get: func(c cell) string { return c.row.source() }},
			"version":   {Get: func(c cell) string { return c.row.version() }},
			"suspended": {
				Get:   func(c cell) string { return strconv.FormatBool(c.row.want != nil && c.row.want.Suspended) },
				Words: []string{"true", "false"},
			},
			"message": {Get: func(c cell) string { return c.row.said() }},
		},
		Names: []func(cell) string{service, cluster}, At: "cluster",
		Tag: func(c cell, name string) string { return c.entry.cluster.Spec.Tags[name] },
	}
}

func clusterTable() paging.Table[line] {
	return paging.Table[line]{
		Columns: map[string]paging.Column[line]{
			"name":       {Text: func(l line) string { return l.entry.name() }},
			"health":     {Number: func(l line) int64 { return int64(rank(l.entry.phase)) }},
			"phase":      {Number: func(l line) int64 { return int64(rank(l.entry.phase)) }},
			"services":   {Number: func(l line) int64 { return int64(l.entry.asked) }},
			"ready":      {Number: func(l line) int64 { return int64(l.entry.ready) }},
			"kubernetes": {Text: func(l line) string { kubernetes, _ := l.versions(); return kubernetes }},
			"agent":      {Text: func(l line) string { _, agent := l.versions(); return agent }},
			"reported":   {Number: func(l line) int64 { return l.at.view.receivedOf(l.entry) }},
		},
		ID: []string{"name"}, Ordered: true,
	}
}

func clusterSchema() filter.Schema[line] {
	name := func(l line) string { return l.entry.name() }
	health := filter.Field[line]{Get: func(l line) string { return string(l.entry.phase) }, Words: v1.Phase("").Words()}
	return filter.Schema[line]{
		Fields: map[string]filter.Field[line]{
			"name": {Get: name, Fixed: true}, "cluster": {Get: name, Fixed: true}, "health": health, "phase": health,
			"kubernetes": {Get: func(l line) string { kubernetes, _ := l.versions(); return kubernetes }},
			"agent":      {Get: func(l line) string { _, agent := l.versions(); return agent }},
			"message":    {Get: func(l line) string { return l.cluster().Message }},
		},
		Names: []func(line) string{name}, At: "cluster",
		Tag: func(l line, name string) string { return l.entry.cluster.Spec.Tags[name] },
	}
}

func serviceTable() paging.Table[v1.Service] {
	return paging.Table[v1.Service]{
		Columns: map[string]paging.Column[v1.Service]{
			"name":      {Text: func(s v1.Service) string { return s.Name }},
			"health":    {Number: func(s v1.Service) int64 { return int64(rank(s.Phase)) }},
			"phase":     {Number: func(s v1.Service) int64 { return int64(rank(s.Phase)) }},
			"source":    {Text: func(s v1.Service) string { return s.Source }},
			"namespace": {Text: func(s v1.Service) string { return s.Namespace }},
			"renderer":  {Text: func(s v1.Service) string { return s.Renderer }},
			"clusters":  {Number: func(s v1.Service) int64 { return int64(s.Clusters) }},
			"ready":     {Number: func(s v1.Service) int64 { return int64(s.Ready) }},
		},
		ID: []string{"name"},
	}
}

func serviceSchema() filter.Schema[v1.Service] {
	name := func(s v1.Service) string { return s.Name }
	health := filter.Field[v1.Service]{Get: func(s v1.Service) string { return string(s.Phase) }, Words: v1.Phase("").Words()}
	return filter.Schema[v1.Service]{
		Fields: map[string]filter.Field[v1.Service]{
			"name": {Get: name, Fixed: true}, "service": {Get: name, Fixed: true}, "health": health, "phase": health,
			"source":    {Get: func(s v1.Service) string { return s.Source }},
			"ref":       {Get: func(s v1.Service) string { return s.Ref }},
			"namespace": {Get: func(s v1.Service) string { return s.Namespace }},
			"renderer":  {Get: func(s v1.Service) string { return s.Renderer }},
			"message":   {Get: func(s v1.Service) string { return s.Message }},
		},
		Names: []func(v1.Service) string{name},
	}
}

func sourceTable() paging.Table[v1.Source] {
	return paging.Table[v1.Source]{
		Columns: map[string]paging.Column[v1.Source]{
			"name":     {Text: func(s v1.Source) string { return s.Name }},
			"kind":     {Text: func(s v1.Source) string { return s.Kind }},
			"age":      {Number: func(s v1.Source) int64 { return int64(s.Age * 1000) }},
			"failures": {Number: func(s v1.Source) int64 { return s.Failures }},
		},
		ID: []string{"name"},
	}
}

func sourceSchema() filter.Schema[v1.Source] {
	name := func(s v1.Source) string { return s.Name }
	return filter.Schema[v1.Source]{
		Fields: map[string]filter.Field[v1.Source]{
			"name": {Get: name, Fixed: true}, "source": {Get: name, Fixed: true},
			"kind":  {Get: func(s v1.Source) string { return s.Kind }},
			"url":   {Get: func(s v1.Source) string { return s.URL }},
			"ref":   {Get: func(s v1.Source) string { return s.Ref }},
			"owner": {Get: func(s v1.Source) string { return s.Owner }},
			"error": {Get: func(s v1.Source) string { return s.Error }},
		},
		Names: []func(v1.Source) string{name},
	}
}

func upgradeTable() paging.Table[v1.Upgrade] {
	return paging.Table[v1.Upgrade]{
		Columns: map[string]paging.Column[v1.Upgrade]{
			"installation": {Text: func(u v1.Upgrade) string { return u.Installation }},
			"package":      {Text: func(u v1.Upgrade) string { return u.Package }},
			"state":        {Text: func(u v1.Upgrade) string { return string(u.State) }},
		},
		ID: []string{"installation"},
	}
}

func upgradeSchema() filter.Schema[v1.Upgrade] {
	name := func(u v1.Upgrade) string { return u.Installation }
	return filter.Schema[v1.Upgrade]{
		Fields: map[string]filter.Field[v1.Upgrade]{
			"installation": {Get: name, Fixed: true}, "name": {Get: name, Fixed: true},
			"package": {Get: func(u v1.Upgrade) string { return u.Package }},
			"catalog": {Get: func(u v1.Upgrade) string { return u.Catalog }},
			"version": {Get: func(u v1.Upgrade) string { return u.Version }},
			"target":  {Get: func(u v1.Upgrade) string { return u.Target }},
			"policy":  {Get: func(u v1.Upgrade) string { return u.Policy }, Words: []string{fleet.UpgradeManual, fleet.UpgradePatch, fleet.UpgradeMinor}},
			"state":   {Get: func(u v1.Upgrade) string { return string(u.State) }, Words: v1.UpgradeState("").Words()},
			"reason": {Get: func(u v1.Upgrade) string {
				if len(u.Reasons) == 0 {
					return ""
				}
				return string(u.Reasons[0].Code)
			}},
		},
		Names: []func(v1.Upgrade) string{name},
	}
}

func eventSchema() filter.Schema[v1.Event] {
	cluster, service := func(e v1.Event) string { return e.Cluster }, func(e v1.Event) string { return e.Service }
	return filter.Schema[v1.Event]{
		Fields: map[string]filter.Field[v1.Event]{
			"cluster": {Get: cluster, Fixed: true}, "service": {Get: service, Fixed: true},
			"reason": {Get: func(e v1.Event) string { return e.Reason }, Fixed: true},
			"warning": {
				Get: func(e v1.Event) string { return strconv.FormatBool(e.Warning) }, Words: []string{"true", "false"}, Fixed: true,
			},
			"message": {Get: func(e v1.Event) string { return e.Message }, Fixed: true},
		},
		Names: []func(v1.Event) string{service, cluster}, At: "cluster",
	}
}
