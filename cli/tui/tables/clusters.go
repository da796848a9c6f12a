package tables

import (
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

func clusters(c *cells) kind[v1.Cluster] {
	return kind[v1.Cluster]{
		title: "clusters", noun: "clusters", stream: v1.ChangedClusters, list: c.Fleet.Clusters,
		pinned: 1, sorted: "health", faults: "-health:healthy",
		subject: cluster,
		leads:   "its deployments",
		enter:   func(row *v1.Cluster) (pane.Open, bool) { return pane.Open{Pane: "fleet", About: cluster(row)}, true },
		start:   "plural cluster register NAME --context CONTEXT puts an agent into one",
		columns: []column[v1.Cluster]{
			{
				Column: paint.Column{Name: "CLUSTER", Weight: 2, Min: 8, Max: 40}, by: "name", key: "c",
				cell: func(row *v1.Cluster) paint.Cell { return text(row.Name) },
			},
			{
				Column: paint.Column{Name: "PHASE"}, by: "health", key: "p", down: true,
				cell: func(row *v1.Cluster) paint.Cell { return c.phase(row.Phase) },
			},
			{
				Column: paint.Column{Name: "SERVICES", Right: true, Rank: 1}, by: "services", key: "s", down: true,
				cell: func(row *v1.Cluster) paint.Cell { return part(row.Ready, row.Services) },
			},
			{
				Column: paint.Column{Name: "AGE", Right: true, Spare: spare}, by: "age", key: "a", down: true,
				cell: func(row *v1.Cluster) paint.Cell { return c.age(c.Fleet.ClusterAge(row), row.Phase == v1.Stale) },
			},
			{
				Column: paint.Column{Name: "REPORT", Right: true, Rank: 2}, by: "reported", key: "r",
				cell: func(row *v1.Cluster) paint.Cell { return c.report(row) },
			},
			{
				Column: paint.Column{Name: "KUBERNETES", Max: 16, Rank: 3}, by: "kubernetes", key: "k",
				cell: func(row *v1.Cluster) paint.Cell { return text(row.KubernetesVersion) },
			},
			{
				Column: paint.Column{Name: "AGENT", Max: 16, Rank: 4, Hide: 100}, by: "agent", key: "g",
				cell: func(row *v1.Cluster) paint.Cell { return text(row.AgentVersion) },
			},
			{
				Column: paint.Column{Name: "TAGS", Weight: 2, Rank: 5, Min: 12, Hide: 100},
				cell:   func(row *v1.Cluster) paint.Cell { return faint(tags(row.Tags)) },
			},
			{
				Column: paint.Column{Name: "REASON", Weight: 3, Min: 32},
				cell: func(row *v1.Cluster) paint.Cell {
					held := 0
					if row.Held != nil {
						held = row.Held.Count
					}
					return text(reason(row.Message, false, held))
				},
			},
		},
	}
}

func cluster(row *v1.Cluster) pane.Subject {
	s := pane.Subject{Kind: pane.KindCluster, Name: row.Name, Cluster: row.Name, Phase: row.Phase}
	if row.Held != nil {
		s.Token = row.Held.Token
	}
	return s
}
