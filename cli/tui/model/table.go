package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/workspace/fleet"
)

// table is what there is to know of one kind of rows. The words are those of the hub's lists.
type table[T any] struct {
	id func(*T) string
	// order is that of ids.
	order   func(a, b *T) int
	columns map[string]value[T]
	schema  filter.Schema[*T]
	faulty  func(*T) bool
	// matcher makes a function of a filter; nil: it picks all.
	matcher func(l *List[T], text string) (func(*T) bool, error)
}

// value is what rows can be sorted by: exactly one of the two is set.
type value[T any] struct {
	Text   func(*T) string
	Number func(*T) int64
}

func (v value[T]) compare(a, b *T) int {
	if v.Text != nil {
		return strings.Compare(v.Text(a), v.Text(b))
	}
	return cmp.Compare(v.Number(a), v.Number(b))
}

// rankOf is how bad a phase is; what is not known comes first.
func rankOf(p v1.Phase) int64 { return int64(slices.Index(phases, p)) }

//nolint:gochecknoglobals // asked for each row that is sorted, and never changed
var phases = v1.Phases()

func truths() []string { return []string{"true", "false"} }

// freshest sorts before all that is older.
const freshest = 0

// reportedAge sorts by the age of what is known without looking at a clock: what is not silent is as old as all that is shown.
func reportedAge(silent bool, reported time.Time) int64 {
	if !silent {
		return freshest
	}
	return 1<<62 - reported.Unix()
}

func deploymentTable() *table[Deployment] {
	cluster, service := func(d *Deployment) string { return d.Cluster }, func(d *Deployment) string { return d.Service }
	health := filter.Field[*Deployment]{Get: func(d *Deployment) string { return string(d.Phase) }, Words: v1.Phase("").Words()}
	return &table[Deployment]{
		id: (*Deployment).ID,
		order: func(a, b *Deployment) int {
			if a.Place != b.Place {
				if c := strings.Compare(a.Cluster, b.Cluster); c != 0 {
					return c
				}
			}
			return strings.Compare(a.Service, b.Service)
		},
		columns: map[string]value[Deployment]{
			"cluster":   {Text: cluster},
			"service":   {Text: service},
			"health":    {Number: func(d *Deployment) int64 { return rankOf(d.Phase) }},
			"phase":     {Number: func(d *Deployment) int64 { return rankOf(d.Phase) }},
			"namespace": {Text: func(d *Deployment) string { return d.Namespace }},
			"source":    {Text: func(d *Deployment) string { return d.Source }},
			"version":   {Text: func(d *Deployment) string { return d.Version }},
			"objects":   {Number: func(d *Deployment) int64 { return int64(d.Objects) }},
			"ready":     {Number: func(d *Deployment) int64 { return int64(d.Ready) }},
			"age":       {Number: func(d *Deployment) int64 { return reportedAge(d.Silent, d.Reported) }},
		},
		schema: filter.Schema[*Deployment]{
			Fields: map[string]filter.Field[*Deployment]{
				"cluster": {Get: cluster, Fixed: true}, "service": {Get: service, Fixed: true},
				"health": health, "phase": health,
				"namespace": {Get: func(d *Deployment) string { return d.Namespace }},
				"source":    {Get: func(d *Deployment) string { return d.Source }},
				"version":   {Get: func(d *Deployment) string { return d.Version }},
				"suspended": {Get: func(d *Deployment) string { return strconv.FormatBool(d.Suspended) }, Words: truths()},
				"message":   {Get: func(d *Deployment) string { return d.Message }},
			},
			Names: []func(*Deployment) string{service, cluster}, At: "cluster",
			Tag: func(d *Deployment, name string) string { return d.Tags[name] },
		},
		faulty:  func(d *Deployment) bool { return d.Phase != v1.Healthy },
		matcher: matchDeployments,
	}
}

func clusterTable() *table[v1.Cluster] {
	name := func(c *v1.Cluster) string { return c.Name }
	kubernetes := func(c *v1.Cluster) string { return c.KubernetesVersion }
	agent := func(c *v1.Cluster) string { return c.AgentVersion }
	health := filter.Field[*v1.Cluster]{Get: func(c *v1.Cluster) string { return string(c.Phase) }, Words: v1.Phase("").Words()}
	return &table[v1.Cluster]{
		id:    name,
		order: func(a, b *v1.Cluster) int { return strings.Compare(a.Name, b.Name) },
		columns: map[string]value[v1.Cluster]{
			"name":       {Text: name},
			"health":     {Number: func(c *v1.Cluster) int64 { return rankOf(c.Phase) }},
			"phase":      {Number: func(c *v1.Cluster) int64 { return rankOf(c.Phase) }},
			"services":   {Number: func(c *v1.Cluster) int64 { return int64(c.Services) }},
			"ready":      {Number: func(c *v1.Cluster) int64 { return int64(c.Ready) }},
			"kubernetes": {Text: kubernetes},
			"agent":      {Text: agent},
			"reported": {Number: func(c *v1.Cluster) int64 {
				if Reporting(c) {
					return math.MaxInt64
				}
				return reportOf(c).UnixMilli()
			}},
			"age": {Number: func(c *v1.Cluster) int64 { return reportedAge(silent(c), reportOf(c)) }},
		},
		schema: filter.Schema[*v1.Cluster]{
			Fields: map[string]filter.Field[*v1.Cluster]{
				"name": {Get: name, Fixed: true}, "cluster": {Get: name, Fixed: true}, "health": health, "phase": health,
				"kubernetes": {Get: kubernetes}, "agent": {Get: agent},
				"message": {Get: func(c *v1.Cluster) string { return c.Message }},
			},
			Names: []func(*v1.Cluster) string{name}, At: "cluster",
			Tag: func(c *v1.Cluster, name string) string { return c.Tags[name] },
		},
		faulty:  func(c *v1.Cluster) bool { return c.Phase != v1.Healthy },
		matcher: parsed[v1.Cluster],
	}
}

// silent says that what is known of a cluster is as old as its last report.
func silent(c *v1.Cluster) bool { return c.Phase == v1.Stale }

// Reporting says that a cluster's agent reports as it should, so that the last report is as new as what is shown. The one that
// the row has may be older: a hub does not send a row anew for a report in which nothing is new.
func Reporting(c *v1.Cluster) bool {
	switch c.Phase { //nolint:exhaustive // in all other phases it reports
	case v1.Stale, v1.Unregistered, v1.Pending:
		return false
	}
	return c.LastReport != nil
}

// reportOf is when a cluster's agent last reported; zero: never.
func reportOf(c *v1.Cluster) time.Time {
	if c.LastReport == nil {
		return time.Time{}
	}
	return *c.LastReport
}

func serviceTable() *table[v1.Service] {
	name := func(s *v1.Service) string { return s.Name }
	source, namespace := func(s *v1.Service) string { return s.Source }, func(s *v1.Service) string { return s.Namespace }
	renderer := func(s *v1.Service) string { return s.Renderer }
	health := filter.Field[*v1.Service]{Get: func(s *v1.Service) string { return string(s.Phase) }, Words: v1.Phase("").Words()}
	return &table[v1.Service]{
		id:    name,
		order: func(a, b *v1.Service) int { return strings.Compare(a.Name, b.Name) },
		columns: map[string]value[v1.Service]{
			"name":      {Text: name},
			"health":    {Number: func(s *v1.Service) int64 { return rankOf(s.Phase) }},
			"phase":     {Number: func(s *v1.Service) int64 { return rankOf(s.Phase) }},
			"source":    {Text: source},
			"namespace": {Text: namespace},
			"renderer":  {Text: renderer},
			"clusters":  {Number: func(s *v1.Service) int64 { return int64(s.Clusters) }},
			"ready":     {Number: func(s *v1.Service) int64 { return int64(s.Ready) }},
		},
		schema: filter.Schema[*v1.Service]{
			Fields: map[string]filter.Field[*v1.Service]{
				"name": {Get: name, Fixed: true}, "service": {Get: name, Fixed: true}, "health": health, "phase": health,
				"source": {Get: source}, "ref": {Get: func(s *v1.Service) string { return s.Ref }},
				"namespace": {Get: namespace}, "renderer": {Get: renderer},
				"message": {Get: func(s *v1.Service) string { return s.Message }},
			},
			Names: []func(*v1.Service) string{name},
		},
		faulty:  func(s *v1.Service) bool { return s.Phase != v1.Healthy },
		matcher: parsed[v1.Service],
	}
}

func sourceTable() *table[v1.Source] {
	name := func(s *v1.Source) string { return s.Name }
	kind := func(s *v1.Source) string { return s.Kind }
	return &table[v1.Source]{
		id:    name,
		order: func(a, b *v1.Source) int { return strings.Compare(a.Name, b.Name) },
		columns: map[string]value[v1.Source]{
			"name":     {Text: name},
			"kind":     {Text: kind},
			"age":      {Number: func(s *v1.Source) int64 { return int64(s.Age * 1000) }},
			"failures": {Number: func(s *v1.Source) int64 { return s.Failures }},
		},
		schema: filter.Schema[*v1.Source]{
			Fields: map[string]filter.Field[*v1.Source]{
				"name": {Get: name, Fixed: true}, "source": {Get: name, Fixed: true}, "kind": {Get: kind},
				"url":   {Get: func(s *v1.Source) string { return s.URL }},
				"ref":   {Get: func(s *v1.Source) string { return s.Ref }},
				"owner": {Get: func(s *v1.Source) string { return s.Owner }},
				"error": {Get: func(s *v1.Source) string { return s.Error }},
			},
			Names: []func(*v1.Source) string{name},
		},
		faulty:  func(s *v1.Source) bool { return s.Error != "" },
		matcher: parsed[v1.Source],
	}
}

func upgradeTable() *table[v1.Upgrade] {
	name := func(u *v1.Upgrade) string { return u.Installation }
	pack, state := func(u *v1.Upgrade) string { return u.Package }, func(u *v1.Upgrade) string { return string(u.State) }
	return &table[v1.Upgrade]{
		id:      name,
		order:   func(a, b *v1.Upgrade) int { return strings.Compare(a.Installation, b.Installation) },
		columns: map[string]value[v1.Upgrade]{"installation": {Text: name}, "package": {Text: pack}, "state": {Text: state}},
		schema: filter.Schema[*v1.Upgrade]{
			Fields: map[string]filter.Field[*v1.Upgrade]{
				"installation": {Get: name, Fixed: true}, "name": {Get: name, Fixed: true}, "package": {Get: pack},
				"catalog": {Get: func(u *v1.Upgrade) string { return u.Catalog }},
				"version": {Get: func(u *v1.Upgrade) string { return u.Version }},
				"target":  {Get: func(u *v1.Upgrade) string { return u.Target }},
				"policy": {
					Get:   func(u *v1.Upgrade) string { return u.Policy },
					Words: []string{fleet.UpgradeManual, fleet.UpgradePatch, fleet.UpgradeMinor},
				},
				"state": {Get: state, Words: v1.UpgradeState("").Words()},
				"reason": {Get: func(u *v1.Upgrade) string {
					if len(u.Reasons) == 0 {
						return ""
					}
					return string(u.Reasons[0].Code)
				}},
			},
			Names: []func(*v1.Upgrade) string{name},
		},
		faulty:  func(u *v1.Upgrade) bool { return u.State == v1.UpgradeBlocked || u.State == v1.UpgradeReverted },
		matcher: parsed[v1.Upgrade],
	}
}

func eventTable() *table[v1.Event] {
	cluster, service := func(e *v1.Event) string { return e.Cluster }, func(e *v1.Event) string { return e.Service }
	newest := value[v1.Event]{Number: func(e *v1.Event) int64 { return -e.Time.UnixNano() }}
	return &table[v1.Event]{
		id: eventID,
		order: func(a, b *v1.Event) int {
			return cmp.Or(newest.compare(a, b), strings.Compare(eventID(a), eventID(b)))
		},
		columns: map[string]value[v1.Event]{"newest": newest, "age": newest},
		schema: filter.Schema[*v1.Event]{
			Fields: map[string]filter.Field[*v1.Event]{
				"cluster": {Get: cluster, Fixed: true}, "service": {Get: service, Fixed: true},
				"reason": {Get: func(e *v1.Event) string { return e.Reason }, Fixed: true},
				"warning": {
					Get: func(e *v1.Event) string { return strconv.FormatBool(e.Warning) }, Words: truths(), Fixed: true,
				},
				"message": {Get: func(e *v1.Event) string { return e.Message }, Fixed: true},
			},
			Names: []func(*v1.Event) string{service, cluster}, At: "cluster",
		},
		faulty:  func(e *v1.Event) bool { return e.Warning },
		matcher: parsed[v1.Event],
	}
}

// eventID tells events apart: hubs do not number them.
func eventID(e *v1.Event) string {
	return strings.Join([]string{strconv.FormatInt(e.Time.UnixNano(), 36), e.Cluster, e.Service, e.Reason, e.Key}, "/")
}
