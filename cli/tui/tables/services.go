package tables

import (
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

func services(c *cells) kind[v1.Service] {
	return kind[v1.Service]{
		title: "services", noun: "services", stream: v1.ChangedServices, list: c.Fleet.Services,
		pinned: 1, sorted: "health", faults: "-health:healthy",
		subject: service,
		leads:   "its deployments",
		enter:   func(row *v1.Service) (pane.Open, bool) { return pane.Open{Pane: "fleet", About: service(row)}, true },
		within: map[pane.Kind]func(*v1.Service, string) bool{
			pane.KindSource: func(row *v1.Service, name string) bool { return row.Source == name },
		},
		term:  map[pane.Kind]string{pane.KindSource: "source"},
		start: "plural service create NAME --path FOLDER makes one of a folder of the repo",
		columns: []column[v1.Service]{
			{
				Column: paint.Column{Name: "SERVICE", Weight: 2, Min: 8, Max: 40}, by: "name", key: "s",
				cell: func(row *v1.Service) paint.Cell { return text(row.Name) },
			},
			{
				Column: paint.Column{Name: "PHASE"}, by: "health", key: "p", down: true,
				cell: func(row *v1.Service) paint.Cell { return c.phase(row.Phase) },
			},
			{
				Column: paint.Column{Name: "CLUSTERS", Right: true}, by: "clusters", key: "c", down: true,
				cell: func(row *v1.Service) paint.Cell { return part(row.Ready, row.Clusters) },
			},
			{
				Column: paint.Column{Name: "AGE", Right: true, Rank: 1},
				cell:   func(*v1.Service) paint.Cell { return c.shown() },
			},
			{
				Column: paint.Column{Name: "SOURCE", Max: 24, Rank: 2}, by: "source", key: "o", but: pane.KindSource,
				cell: func(row *v1.Service) paint.Cell { return text(row.Source) },
			},
			{
				Column: paint.Column{Name: "REF", Max: 16, Rank: 3},
				cell:   func(row *v1.Service) paint.Cell { return text(row.Ref) },
			},
			{
				Column: paint.Column{Name: "COMMIT", Rank: 6, Hide: 100},
				cell:   func(row *v1.Service) paint.Cell { return faint(short(row.Commit)) },
			},
			{
				Column: paint.Column{Name: "NAMESPACE", Max: 24, Rank: 4, Hide: 100}, by: "namespace", key: "n",
				cell: func(row *v1.Service) paint.Cell { return faint(row.Namespace) },
			},
			{
				Column: paint.Column{Name: "RENDERER", Rank: 5, Hide: 140}, by: "renderer", key: "r",
				cell: func(row *v1.Service) paint.Cell { return faint(row.Renderer) },
			},
			{
				Column: paint.Column{Name: "REASON", Weight: 5, Min: 32},
				cell:   func(row *v1.Service) paint.Cell { return text(reason(row.Message, row.Suspended, 0)) },
			},
		},
	}
}

func service(row *v1.Service) pane.Subject {
	return pane.Subject{Kind: pane.KindService, Name: row.Name, Service: row.Name, Phase: row.Phase, Suspended: row.Suspended}
}
