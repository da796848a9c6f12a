package inspect

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Change is a deployment of the fleet that somebody else renders before and after a change.
type Change struct {
	Deployment *resolve.Deployment
	// Was is the deployment before the change; nil where Before is.
	Was *resolve.Deployment
	// Clusters are those that get it.
	Clusters []string
	// Before is nil where the change brings the service to these clusters.
	Before, After *preview.Rendition
	// Differs says which objects of After are judged.
	Differs func(*unstructured.Unstructured) bool
}

// Changes is an inspection of what a change of the fleet touches, and of nothing else. It is safe for concurrent use.
type Changes struct{ *inspector }

// NewChanges is one that has judged nothing yet.
func NewChanges(what Inspection) (*Changes, error) {
	i, err := newInspector(what)
	if err != nil {
		return nil, err
	}
	return &Changes{i}, nil
}

// Judge judges one change.
func (c *Changes) Judge(of *Change) error {
	c.claimNew(of)
	served, before := map[schema.GroupVersionKind]bool{}, map[object.ID]*unstructured.Unstructured{}
	if of.Before != nil {
		for _, o := range of.Before.Objects {
			served[o.GroupVersionKind()], before[object.Of(o)] = true, o
		}
	}
	byMinor := map[int]*rendition{}
	for _, cluster := range of.Clusters {
		minor, version := c.version(cluster)
		if byMinor[minor] == nil {
			byMinor[minor] = &rendition{
				deployment: *of.Deployment, minor: minor, version: version, differs: of.Differs, served: served, before: before,
			}
		}
		byMinor[minor].clusters = append(byMinor[minor].clusters, cluster)
	}
	for _, r := range byMinor {
		if err := c.judgeAll(r, of.After); err != nil {
			return err
		}
	}
	return nil
}

// Report is what was found. The error says that ctx ended, or that the inspection itself failed.
func (c *Changes) Report(ctx context.Context) (*Report, error) {
	if err := c.judgeOverlaps(ctx); err != nil {
		return nil, err
	}
	if err := c.findDefinitions(ctx); err != nil {
		return nil, err
	}
	c.judgeCustom()
	c.report.sort()
	return &c.report, nil
}

// findDefinitions looks for the definitions of kinds that are new to their services among all services of the first cluster that
// gets them. To render the whole fleet for them would be the price of an inspection of everything.
func (c *Changes) findDefinitions(ctx context.Context) error {
	looked := map[string]bool{}
	for n := range c.custom {
		o := &c.custom[n]
		if o.served[o.kind] {
			continue
		}
		first := o.clusters[0]
		o.only = []string{first}
		if looked[first] {
			continue
		}
		looked[first] = true
		if err := c.defineOf(ctx, first); err != nil {
			return err
		}
	}
	return nil
}

// defineOf notes what the services of one cluster define. One that cannot be looked into may define anything.
func (c *Changes) defineOf(ctx context.Context, cluster string) error {
	minor, version := c.version(cluster)
	deployments, err := c.Resolver.For(c.Fleet, cluster, c.Sources)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for n := range deployments {
		d := deployments[n]
		d.Cluster = "" // as in renditions
		group.Go(func() error {
			var made *preview.Rendition
			why := "it is held"
			if d.Hold == nil {
				var err error
				if made, err = c.Renderer.On(version, nil).Render(ctx, &d); ctx.Err() != nil {
					return context.Cause(ctx)
				} else if err != nil {
					made, why = nil, err.Error()
				}
			}
			if made == nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.report.Unchecked[d.Service] = why
				return nil
			}
			nothing := func(*unstructured.Unstructured) bool { return false }
			return c.judgeAll(&rendition{
				deployment: d, clusters: []string{cluster}, minor: minor, version: version, differs: nothing,
			}, made)
		})
	}
	return group.Wait()
}
