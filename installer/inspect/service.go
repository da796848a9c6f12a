package inspect

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// maxVariants bounds how often one service is rendered, each time with parameters that differ: somebody waits for it.
const maxVariants = 24

// variant is a service before and after a change, on clusters where it is the same. Before is nil where it does not run yet.
type variant struct {
	before, after *resolve.Deployment
	version       string
	clusters      []string
}

// OfService judges what a change makes of one service of the fleet: what it changes alone, and of very many variants the first.
// Before is the fleet before it; nil where that made no sense.
func OfService(ctx context.Context, what Inspection, name string, before *fleet.Fleet) (*Report, error) {
	c, err := NewChanges(what)
	if err != nil {
		return nil, err
	}
	c.subject = name
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, v := range c.variants(name, before) {
		group.Go(func() error { return c.judgeVariant(ctx, v) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if s, ok := c.Fleet.Service(name); ok {
		c.nowhere(s)
	}
	c.misspelt(name)
	report, err := c.Report(ctx)
	c.countFailed()
	return report, err
}

// variants are those of a service that a change makes others.
func (c *Changes) variants(name string, before *fleet.Fleet) []*variant {
	var inputs preview.Inputs
	var list []*variant
	known := map[string]*variant{}
	for i := range c.Fleet.Clusters {
		cluster := c.Fleet.Clusters[i].Metadata.Name
		after, runs := c.Resolver.One(c.Fleet, name, cluster, c.Sources)
		if !runs {
			continue
		}
		c.reached[name]++
		var was *resolve.Deployment
		if before != nil {
			was, _ = c.Resolver.One(before, name, cluster, c.Sources)
		}
		if was != nil && was.Hold != nil && after.Hold != nil && was.Hold.Message == after.Hold.Message ||
			was != nil && was.Hold == nil && after.Hold == nil && was.Key == after.Key {
			continue // nothing new
		}
		if after.Hold != nil {
			c.held(after, cluster)
			continue
		}
		minor, version := c.version(cluster)
		key := fmt.Sprint(inputs.Of(after), minor)
		if was != nil && was.Hold != nil {
			was = nil
		}
		if was != nil {
			key += inputs.Of(was)
		}
		v := known[key]
		if v == nil {
			if len(list) == maxVariants {
				continue
			}
			after.Cluster = "" // as in renditions
			v = &variant{before: was, after: after, version: version}
			known[key], list = v, append(list, v)
		}
		v.clusters = append(v.clusters, cluster)
	}
	return list
}

// held tells of a deployment that cannot be rendered, by what is wrong with it or because its files are elsewhere.
func (c *Changes) held(d *resolve.Deployment, cluster string) {
	if d.Hold.Source != "" {
		c.report.Unchecked[d.Service] = "source " + d.Hold.Source + " is not on this machine"
		return
	}
	c.failed(&rendition{deployment: *d, clusters: []string{cluster}}, d.Hold)
}

// judgeVariant renders a service before and after a change. What did not render before for the same reason is no news.
func (c *Changes) judgeVariant(ctx context.Context, v *variant) error {
	renderer := c.Renderer.On(v.version, nil)
	after, err := renderer.Render(ctx, v.after)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var before *preview.Rendition
	var errBefore error
	if v.before != nil {
		v.before.Cluster = ""
		if before, errBefore = renderer.Render(ctx, v.before); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	switch {
	case err == nil:
		return c.Judge(&Change{
			Deployment: v.after, Was: v.before, Clusters: v.clusters, Before: before, After: after, Differs: differsFrom(before),
		})
	case !errors.As(err, new(*render.Error)): // not the files are to blame, but what this machine can read
		c.mu.Lock()
		defer c.mu.Unlock()
		c.report.Unchecked[v.after.Service] = err.Error()
	case errBefore == nil || errBefore.Error() != err.Error():
		c.failed(&rendition{deployment: *v.after, clusters: v.clusters}, err)
	}
	return nil
}

// differsFrom says which objects are others than they were.
func differsFrom(before *preview.Rendition) func(*unstructured.Unstructured) bool {
	was := map[object.ID]*unstructured.Unstructured{}
	if before != nil {
		for _, o := range before.Objects {
			was[object.Of(o)] = o
		}
	}
	return func(o *unstructured.Unstructured) bool {
		old := was[object.Of(o)]
		return old == nil || !reflect.DeepEqual(old.Object, o.Object)
	}
}

// countFailed says of failures whether they are on all clusters of their service.
func (i *inspector) countFailed() {
	for n := range i.report.Failed {
		f := &i.report.Failed[n]
		f.Everywhere = len(f.Clusters) == i.reached[f.Service]
		slices.Sort(f.Clusters)
	}
}
