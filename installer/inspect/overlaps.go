package inspect

import (
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/installer/preview"
)

// claimNew notes the objects that a change has a service make on clusters where it did not make them, and those clusters.
func (c *Changes) claimNew(of *Change) {
	had := map[object.ID]bool{}
	if of.Before != nil {
		old := &rendition{deployment: *of.Was}
		for _, o := range of.Before.Objects {
			if applied(o) {
				had[c.identify(old, o)] = true
			}
		}
	}
	r := &rendition{deployment: *of.Deployment, clusters: of.Clusters}
	isNew := func(o *unstructured.Unstructured) bool { return !had[c.identify(r, o)] }
	if c.claimsOf(r, of.After, isNew) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overlapping = append(c.overlapping, of.Clusters...)
}

// claimsOf notes those objects of a rendition that are wanted, and says how many they are.
func (i *inspector) claimsOf(r *rendition, made *preview.Rendition, wanted func(*unstructured.Unstructured) bool) int {
	var objects []*unstructured.Unstructured
	var origins []render.Origin
	for n, o := range made.Objects {
		if !wanted(o) {
			continue
		}
		var origin render.Origin
		if n < len(made.Origins) {
			origin = made.Origins[n]
		}
		objects, origins = append(objects, o), append(origins, origin)
	}
	locate := locator{deployment: &r.deployment}
	i.claims(r, objects, func(n int) string {
		where, _ := locate.where(origins[n], nil, nil)
		return where
	}, made.Sealed)
	return len(objects)
}

// judgeOverlaps tells of the objects that are new to a service, and that another service makes on the same cluster. The others are
// rendered for it on the clusters in question alone; one that does not render is no matter of this change.
func (c *Changes) judgeOverlaps(ctx context.Context) error {
	others, err := c.othersOn(c.overlapping, c.subject)
	if err != nil {
		return err
	}
	contested := map[object.ID]bool{}
	for id := range c.claimed {
		contested[id] = true
	}
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, r := range others {
		group.Go(func() error {
			made, err := c.Renderer.On(r.version, nil).Render(ctx, &r.deployment)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err == nil {
				c.claimsOf(r, made, func(o *unstructured.Unstructured) bool { return contested[c.identify(r, o)] })
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	c.judgeOwners(c.subject)
	return nil
}

// othersOn are the renditions of all services but one, if that is named, on some clusters.
func (c *Changes) othersOn(clusters []string, service string) ([]*rendition, error) {
	var group grouping
	for _, cluster := range slices.Compact(slices.Sorted(slices.Values(clusters))) {
		deployments, err := c.Resolver.For(c.Fleet, cluster, c.Sources)
		if err != nil {
			return nil, err
		}
		minor, version := c.version(cluster)
		for _, d := range deployments {
			if d.Service != service && d.Hold == nil {
				group.add(&d, cluster, minor, version)
			}
		}
	}
	return group.list, nil
}
