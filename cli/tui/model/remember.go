package model

import (
	"iter"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/fleetcache"
)

// Remember gives what writes what is known into a store, for another goroutine; nil: there is nothing new to write, or not all is
// known. It costs next to nothing by itself.
func (f *Fleet) Remember(store *fleetcache.Store) func() error {
	seen := f.Deployments.Generation() + f.Clusters.Generation() + f.Services.Generation()
	if link := f.State.Link; link != Live && link != Broken {
		return nil
	}
	if !f.Deployments.Whole() || !f.Clusters.Whole() || !f.Services.Whole() || seen == f.remembered {
		return nil
	}
	f.remembered = seen
	head := fleetcache.Head{At: f.AsOf(), Summary: f.Summary}
	services := f.Services.share()
	for i := range services.order {
		head.Services = append(head.Services, *services.at(i))
	}
	rows, clusters := f.Deployments.share(), f.Clusters.share()
	return func() error { return store.Save(head, joined(clusters, rows)) }
}

// joined goes through clusters with their rows: both are in the order of clusters' names.
func joined(clusters sight[v1.Cluster], rows sight[Deployment]) iter.Seq[fleetcache.Cluster] {
	return func(yield func(fleetcache.Cluster) bool) {
		next := 0
		var room []fleetcache.Row
		for i := range clusters.order {
			c := clusters.at(i)
			room = room[:0]
			for ; next < len(rows.order) && rows.at(next).Cluster <= c.Name; next++ {
				if d := rows.at(next); d.Cluster == c.Name {
					room = append(room, fleetcache.Row{
						Service: d.Service, Phase: d.Phase, Version: d.Version, Message: d.Message, Ready: d.Ready, Objects: d.Objects,
						Held: d.Held, Suspended: d.Suspended, Applied: d.applied,
					})
				}
			}
			if !yield(fleetcache.Cluster{Cluster: *c, Rows: room}) {
				return
			}
		}
	}
}
