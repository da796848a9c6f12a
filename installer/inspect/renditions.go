package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/resolve"
)

// rendition is what a service renders to on clusters of one version of Kubernetes.
type rendition struct {
	deployment resolve.Deployment
	clusters   []string
	// minor is the clusters' version; version what charts are told, empty where nobody knows.
	minor   int
	version string
	// differs says which objects are judged; nil: all of them. Served are kinds that the service had before the
	// change, and before its objects.
	differs func(*unstructured.Unstructured) bool
	served  map[schema.GroupVersionKind]bool
	before  map[object.ID]*unstructured.Unstructured
}

// grouping puts together the deployments that render to the same on clusters of one version. The zero value is empty.
type grouping struct {
	inputs preview.Inputs
	known  map[groupKey]*rendition
	list   []*rendition
}

type groupKey struct {
	service, inputs string
	minor           int
}

// add notes what a service is on a cluster, whose version is as inspector.version has it.
func (g *grouping) add(d *resolve.Deployment, cluster string, minor int, version string) {
	k := groupKey{d.Service, g.inputs.Of(d), minor}
	r := g.known[k]
	if r == nil {
		if g.known == nil {
			g.known = map[groupKey]*rendition{}
		}
		r = &rendition{deployment: *d, minor: minor, version: version}
		r.deployment.Cluster = "" // children go on from one cluster's services to those of the next: nothing here is applied to any
		g.known[k], g.list = r, append(g.list, r)
	}
	r.clusters = append(r.clusters, cluster)
}

// renditions puts together what renders to the same, by service.
func (i *inspector) renditions() ([]*rendition, error) {
	var group grouping
	looked := map[string]bool{}
	for _, c := range i.Fleet.Clusters {
		name := c.Metadata.Name
		minor, version := i.version(name)
		told := false
		deployments, err := i.Resolver.For(i.Fleet, name, i.Sources)
		if err != nil {
			return nil, err
		}
		for _, d := range deployments {
			if d.Hold != nil {
				if d.Hold.Source != "" {
					i.report.Unchecked[d.Service] = "source " + d.Hold.Source + " is not on this machine"
				}
				continue
			}
			if !looked[d.Service] {
				looked[d.Service] = true
				i.unread(&d)
			}
			group.add(&d, name, minor, version)
			i.reached[d.Service]++
			told = true
		}
		if told {
			i.report.judges(name, minor, version == "")
		}
	}
	return group.list, nil
}

// render renders a rendition, and judges what can be judged of it alone. The error says that ctx ended.
func (i *inspector) render(ctx context.Context, r *rendition) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	made, err := i.Renderer.On(r.version, nil).Render(ctx, &r.deployment)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		i.failed(r, err)
		return nil
	}
	return i.judgeAll(r, made)
}

// judgeAll judges what a rendition came to.
func (i *inspector) judgeAll(r *rendition, made *preview.Rendition) error {
	i.mu.Lock()
	i.report.Objects += len(made.Objects)
	i.mu.Unlock()
	locate := locator{deployment: &r.deployment}
	locate.service, _ = i.Fleet.Service(r.deployment.Service)
	if r.differs == nil {
		i.claimsOf(r, made, func(*unstructured.Unstructured) bool { return true })
	}
	if len(made.Objects) == 0 {
		i.tell(&i.report.Warnings, Finding{
			Where:   locate.service.Place("spec.source").String(),
			Message: fmt.Sprintf("service %s renders to nothing on %s", r.deployment.Service, listOf(r.clusters)),
			Fix:     "name a folder with manifests in spec.source.path, or set what its templates ask for",
		})
	}
	for n, o := range made.Objects {
		at := place{service: r.deployment.Service, object: o, locate: &locate}
		if n < len(made.Origins) {
			at.origin = made.Origins[n]
		}
		at.silent = func(text string) string { return unseal.Redact(text, made.Sealed) }
		if r.differs != nil && !r.differs(o) {
			i.define(r, &at)
			continue
		}
		if err := i.judge(r, &at); err != nil {
			return err
		}
		if before := r.before[object.Of(o)]; before != nil {
			i.judgeImmutable(r, &at, before)
		}
	}
	return nil
}

// failed tells what does not render from what this machine cannot render.
func (i *inspector) failed(r *rendition, err error) {
	var locked *sealer.LockedError
	var plugin *preview.PluginError
	i.mu.Lock()
	defer i.mu.Unlock()
	if errors.As(err, &locked) || errors.As(err, &plugin) {
		i.report.Unchecked[r.deployment.Service] = err.Error()
		return
	}
	for n := range i.report.Failed {
		if f := &i.report.Failed[n]; f.Service == r.deployment.Service && f.Err.Error() == err.Error() {
			f.Clusters = append(f.Clusters, r.clusters...)
			return
		}
	}
	i.report.Failed = append(i.report.Failed, Failure{Service: r.deployment.Service, Clusters: slices.Clone(r.clusters), Err: err})
}
