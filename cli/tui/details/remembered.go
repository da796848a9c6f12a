package details

import (
	"cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// remembered is what the console knows of a subject without asking: less, and perhaps old. Nil: nothing.
func remembered(f *model.Fleet, about pane.Subject) *described {
	if f == nil {
		return nil
	}
	d := &described{asOf: f.AsOf()}
	switch about.Kind {
	case pane.KindDeployment, pane.KindEvent:
		row := f.Deployments.Get(about.Cluster + "/" + about.Service)
		if row == nil {
			return nil
		}
		d.deployment = &v1.Deployment{
			Service: row.Service, Cluster: row.Cluster, Phase: row.Phase, Version: row.Version, Message: row.Message,
			Suspended: row.Suspended, Objects: int(row.Objects), Ready: int(row.Ready),
		}
		if row.Held > 0 {
			d.deployment.Held = &v1.Waiting{Token: row.Token, Unchecked: row.Unchecked, Count: int(row.Held)}
		}
	case pane.KindCluster:
		row := f.Clusters.Get(cmp.Or(about.Name, about.Cluster))
		if row == nil {
			return nil
		}
		d.cluster = &v1.ClusterDetail{Cluster: *row}
		if model.Reporting(row) && !d.asOf.IsZero() {
			d.cluster.LastReport = &d.asOf
		}
	case pane.KindService:
		row := f.Services.Get(cmp.Or(about.Name, about.Service))
		if row == nil {
			return nil
		}
		d.service = new(*row)
	case pane.KindSource:
		row := f.Sources.Get(about.Name)
		if row == nil {
			return nil
		}
		d.source = new(*row)
	case pane.KindPackage:
		row := f.Upgrades.Get(about.Name)
		if row == nil {
			return nil
		}
		d.upgrade = new(*row)
	default:
		return nil
	}
	return d
}
