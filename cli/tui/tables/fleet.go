package tables

import (
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// fleet are all deployments: every service on every cluster.
func fleet(c *cells) kind[model.Deployment] {
	return kind[model.Deployment]{
		title: "fleet", noun: "deployments", stream: v1.ChangedDeployments, list: c.Fleet.Deployments,
		pinned: 2, sorted: "health", faults: "-health:healthy",
		subject: deployed,
		leads:   "objects",
		enter:   func(d *model.Deployment) (pane.Open, bool) { return pane.Open{Pane: "tree", About: deployed(d)}, true },
		within: map[pane.Kind]func(*model.Deployment, string) bool{
			pane.KindCluster: func(d *model.Deployment, name string) bool { return d.Cluster == name },
			pane.KindService: func(d *model.Deployment, name string) bool { return d.Service == name },
		},
		term:  map[pane.Kind]string{pane.KindCluster: "cluster", pane.KindService: "service"},
		start: "plural service create NAME --path FOLDER puts a service on clusters",
		columns: []column[model.Deployment]{
			{
				Column: paint.Column{Name: "CLUSTER", Weight: 2, Min: 8, Max: 40}, by: "cluster", key: "c", but: pane.KindCluster,
				cell: func(d *model.Deployment) paint.Cell { return text(d.Cluster) },
			},
			{
				Column: paint.Column{Name: "SERVICE", Weight: 2, Min: 8, Max: 40}, by: "service", key: "s", but: pane.KindService,
				cell: func(d *model.Deployment) paint.Cell { return text(d.Service) },
			},
			{
				Column: paint.Column{Name: "PHASE"}, by: "health", key: "p", down: true,
				cell: func(d *model.Deployment) paint.Cell { return c.phase(d.Phase) },
			},
			{
				Column: paint.Column{Name: "OBJECTS", Right: true, Rank: 2}, by: "ready", key: "r",
				cell: func(d *model.Deployment) paint.Cell { return part(int(d.Ready), int(d.Objects)) },
			},
			{
				Column: paint.Column{Name: "VERSION", Max: 18, Rank: 3}, by: "version", key: "v",
				cell: func(d *model.Deployment) paint.Cell { return text(d.Version) },
			},
			{
				Column: paint.Column{Name: "AGE", Right: true, Spare: spare}, by: "age", key: "a", down: true,
				cell: func(d *model.Deployment) paint.Cell { return c.age(c.Fleet.Age(d), d.Silent) },
			},
			{
				Column: paint.Column{Name: "NAMESPACE", Max: 24, Rank: 5, Hide: 140}, by: "namespace", key: "n",
				cell: func(d *model.Deployment) paint.Cell { return faint(d.Namespace) },
			},
			{
				Column: paint.Column{Name: "SOURCE", Max: 24, Rank: 4, Hide: 160}, by: "source", key: "o",
				cell: func(d *model.Deployment) paint.Cell { return faint(d.Source) },
			},
			{
				Column: paint.Column{Name: "REASON", Weight: 5, Min: 32},
				cell:   func(d *model.Deployment) paint.Cell { return text(reason(d.Message, d.Suspended, int(d.Held))) },
			},
		},
	}
}

func deployed(d *model.Deployment) pane.Subject {
	return pane.Subject{
		Kind: pane.KindDeployment, Cluster: d.Cluster, Service: d.Service, Phase: d.Phase, Suspended: d.Suspended, Token: d.Token,
	}
}
