package tables

import (
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

func events(c *cells) kind[v1.Event] {
	return kind[v1.Event]{
		title: "events", noun: "events", stream: v1.Happened, list: c.Fleet.Events,
		pinned: 1, faults: "warning:true",
		subject: c.concerned, repeats: true,
		leads: "what it is about",
		enter: func(row *v1.Event) (pane.Open, bool) {
			s := c.concerned(row)
			switch s.Kind {
			case pane.KindDeployment:
				return pane.Open{Pane: "tree", About: s}, true
			case pane.KindCluster, pane.KindService:
				return pane.Open{Pane: "fleet", About: s}, true
			}
			return pane.Open{}, false
		},
		within: map[pane.Kind]func(*v1.Event, string) bool{
			pane.KindCluster: func(row *v1.Event, name string) bool { return row.Cluster == name },
			pane.KindService: func(row *v1.Event, name string) bool { return row.Service == name },
		},
		term:  map[pane.Kind]string{pane.KindCluster: "cluster", pane.KindService: "service"},
		start: "the hub tells what it sees from its start on: the next commit, say",
		columns: []column[v1.Event]{
			{
				Column: paint.Column{Name: "TIME", Rank: 2}, by: "newest", key: "t",
				cell: func(row *v1.Event) paint.Cell { return c.clock(row.Time) },
			},
			{
				Column: paint.Column{Name: "AGE", Right: true, Rank: 1},
				cell:   func(row *v1.Event) paint.Cell { return c.since(&row.Time) },
			},
			{
				Column: paint.Column{Name: "CLUSTER", Weight: 2, Min: 8, Max: 40}, but: pane.KindCluster,
				cell: func(row *v1.Event) paint.Cell { return text(row.Cluster) },
			},
			{
				Column: paint.Column{Name: "SERVICE", Weight: 2, Min: 8, Max: 40}, but: pane.KindService,
				cell: func(row *v1.Event) paint.Cell { return text(row.Service) },
			},
			{
				Column: paint.Column{Name: "REASON", Max: 24},
				cell: func(row *v1.Event) paint.Cell {
					if row.Warning {
						glyph, style := c.Look.Phase(v1.Degraded)
						return paint.Cell{Glyph: glyph, Text: row.Reason, Style: style}
					}
					return paint.Cell{Glyph: " ", Text: row.Reason}
				},
			},
			{
				Column: paint.Column{Name: "MESSAGE", Weight: 5, Min: 16},
				cell:   func(row *v1.Event) paint.Cell { return text(row.Message) },
			},
		},
	}
}

// concerned is what an event is about, so that it can be opened, and acted on, from the event.
func (c *cells) concerned(row *v1.Event) pane.Subject {
	switch {
	case row.Cluster != "" && row.Service != "":
		if d := c.Fleet.Deployments.Get(row.Cluster + "/" + row.Service); d != nil {
			return deployed(d)
		}
		return pane.Subject{Kind: pane.KindDeployment, Cluster: row.Cluster, Service: row.Service}
	case row.Cluster != "":
		if of := c.Fleet.Clusters.Get(row.Cluster); of != nil {
			return cluster(of)
		}
		return pane.Subject{Kind: pane.KindCluster, Name: row.Cluster, Cluster: row.Cluster}
	case row.Service != "":
		if of := c.Fleet.Services.Get(row.Service); of != nil {
			return service(of)
		}
		return pane.Subject{Kind: pane.KindService, Name: row.Service, Service: row.Service}
	}
	return pane.Subject{Kind: pane.KindEvent, Name: row.Reason}
}
